"""What Python itself takes of a call that is looked at: below that no tracer in Python comes.

Each is the least over some turns of a thing done with an empty function beside it, less the same
thing without one, in microseconds of CPU time of the thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch._C import DispatchKey

TURNS = 5
CALLS = 2000
Added = Callable[[], Any]
"""Puts an empty function beside something, as a context."""


def floor() -> dict[str, float]:
    """By what is empty: a kernel at the dispatcher, hooks of a module, a hook of autograd."""
    tensor, module = torch.zeros(1), nn.Identity()
    leaf = torch.zeros(1, requires_grad=True)
    with torch.no_grad():
        found = {
            "a kernel at the dispatcher": _added_us(lambda: torch.neg(tensor), _kernel),
            "two hooks of a module": _added_us(lambda: module(tensor), lambda: _hooks(module)),
        }
    return found | {
        "a hook of autograd": _added_us(lambda: leaf.neg().backward(), lambda: _hook(leaf))
    }


def _added_us(call: Callable[[], object], added: Added) -> float:
    without = min(_us(call) for _ in range(TURNS))
    with added():
        return min(_us(call) for _ in range(TURNS)) - without


def _us(call: Callable[[], object]) -> float:
    begin = time.thread_time()
    for _ in range(CALLS):
        call()
    return (time.thread_time() - begin) / CALLS * 1e6


@contextmanager
def _kernel() -> Iterator[None]:
    library = torch.library.Library("aten", "IMPL")
    target = torch.ops.aten.neg.default
    below = torch._C._dispatch_keyset_full_after(DispatchKey.BackendSelect)

    def kernel(keys: Any, tensor: torch.Tensor) -> Any:
        return target.redispatch(keys & below, tensor)

    library.impl(target, kernel, "BackendSelect", with_keyset=True)
    try:
        yield
    finally:
        library._destroy()


@contextmanager
def _hooks(module: nn.Module) -> Iterator[None]:
    hooks = (
        module.register_forward_pre_hook(lambda *_: None),
        module.register_forward_hook(lambda *_: None),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _hook(leaf: torch.Tensor) -> Iterator[None]:
    hook = leaf.register_hook(lambda _: None)
    try:
        yield
    finally:
        hook.remove()
