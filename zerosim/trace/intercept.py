"""Intercepts every call of a PyTorch collective, and every wait for one.

A kernel for each `c10d` operator is registered at the dispatch key BackendSelect, which every call
passes below autograd: plain, `no_grad`, `inference_mode` (whose tensors carry no autograd keys),
`autograd.Function`, DDP's C++ reducer, and functional collectives, which end in the same operators.
The kernel notes the call and passes it on. Operators of other namespaces are untouched, so a
training step pays only for its collectives.

Waits are intercepted in two places: in `Work.wait`, for calls from Python, and in `wait_tensor` of
functional collectives, which DTensor calls with a tensor instead of a work. A wait inside PyTorch's
C++ (DDP's reducer) is not seen.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch._C import DispatchKey

from zerosim.base.errors import first_line
from zerosim.trace import faulty
from zerosim.trace.calls import Calls
from zerosim.trace.eager import uncompiled
from zerosim.trace.faulty import MetFault
from zerosim.trace.gate import PATIENCE, gate
from zerosim.trace.guard import guarded
from zerosim.trace.operators import Reading, c10d_operators, operator_of, read_call

_KEY = "BackendSelect"


class Interception:
    """Passes calls and waits to the recorder, from `install` to `remove`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._libraries: list[torch.library.Library] = []
        self._wait: Any = None
        self._below = torch._C._dispatch_keyset_full_after(DispatchKey.BackendSelect)

    def install(self) -> None:
        """Begin to intercept."""
        assert not self._libraries, "already installed"
        library = torch.library.Library("c10d", "IMPL")
        self._libraries.append(library)
        for name in c10d_operators():
            base, _, overload = name.removeprefix("c10d::").partition(".")
            target = getattr(getattr(torch.ops.c10d, base), overload or "default")
            reading = operator_of(name, target)
            if reading is not None:
                library.impl(target, self._kernel(target, reading), _KEY, with_keyset=True)
        waits = torch.library.Library("_c10d_functional", "IMPL")
        self._libraries.append(waits)
        waits.impl("wait_tensor", self._wait_kernel(), _KEY, with_keyset=True)
        self._wait = dist.Work.wait
        dist.Work.wait = self._waiting(self._wait)  # type: ignore[method-assign]

    def remove(self) -> None:
        """Stop intercepting; calls and waits then take the path they took before `install`."""
        for library in self._libraries:
            library._destroy()
        self._libraries.clear()
        if self._wait is not None:
            dist.Work.wait = self._wait  # type: ignore[method-assign]
            self._wait = None

    def _kernel(self, target: Any, reading: Reading) -> Callable[..., Any]:
        calls, below = self._calls, self._below
        # what the operator's own `redispatch` calls with the same arguments
        redispatch = target._handle.redispatch_boxed

        @guarded
        def issued(*args: Any) -> int | MetFault | None:
            return calls.issued(read_call(reading, args))

        @guarded
        def performed(token: int, result: Any) -> None:
            calls.performed(token, _work(result))

        @guarded
        def refused(token: int, error: BaseException) -> None:
            calls.refused(token, error)

        def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
            token = issued(*args)
            if isinstance(token, MetFault):
                sends = functools.partial(redispatch, keys & below)
                return faulty.go_wrong(token, target, args, functools.partial(kernel, keys), sends)
            try:
                result = redispatch(keys & below, *args, **kwargs)
            except BaseException as error:
                if token is not None:
                    refused(token, error)
                raise
            if token is not None:
                performed(token, result)
            return result

        return uncompiled(kernel)

    def _waiting(self, original: Any) -> Any:
        begins, ends = guarded(self._calls.waits), guarded(self._calls.waited)

        looks, got = self._calls.looks_at_results, guarded(self._calls.got)

        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            if gate.is_closed and not args and not kwargs and _is_message(work):
                args = (PATIENCE,)
            result = _passed(begins, ends, work, lambda: original(work, *args, **kwargs))
            if looks:
                got(work)
            return result

        return uncompiled(wait)

    def _wait_kernel(self) -> Callable[..., Any]:
        begins, ends = guarded(self._calls.waits_for_tensor), guarded(self._calls.waited)
        below = self._below
        operator = torch.ops._c10d_functional.wait_tensor.default

        def wait_tensor(keys: Any, tensor: torch.Tensor) -> Any:
            go_on = functools.partial(operator.redispatch, keys & below, tensor)
            return _passed(begins, ends, tensor, go_on)

        return wait_tensor


def _passed(begins: Any, ends: Any, awaited: Any, go_on: Any) -> Any:
    """Wait with `go_on`, and report the duration."""
    token = begins(awaited)
    error = ""
    try:
        return go_on()
    except BaseException as raised:
        error = first_line(raised)
        raise
    finally:
        if token is not None:
            ends(token, error)


def _is_message(work: Any) -> bool:
    """Whether it is a Gloo message, which keeps the timeout with which it was posted."""
    try:
        work.get_future()
    except RuntimeError:
        return True
    return False


def _work(result: Any) -> Any:
    """The Work among an operator's results; None if it returns none."""
    last = result[-1] if isinstance(result, tuple) and result else result
    return dist.Work.unbox(last) if isinstance(last, torch.ScriptObject) else None
