"""Operators in a dry run: no tensor changes, and their work is counted.

PyTorch's `FakeTensorMode` gives each operator results of the right shapes on storages of the right
sizes, with no memory behind them. On top of it there is a mode that

    passes collectives by it     they reach the tracer as usual, on their original device
    answers queries of values    0, and equal to any other: no number of a dry run is meaningful
    keeps known values           of a user's program (`known`)
    counts                       FLOPs and bytes of each operator (`work`)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils._python_dispatch import TorchDispatchMode

from zerosim.predict.simulate.fake import Fake
from zerosim.predict.simulate.known import Known, for_real, no_shape, zero_of
from zerosim.predict.simulate.work import WorkCounter
from zerosim.trace.holdings import PLAIN

_FAKE = torch._C._TorchDispatchModeKey.FAKE
_DEVICE_OF = torch.ops.prim.device.default


_VALUE = torch.ops.aten._local_scalar_dense.default
_WAIT = torch.ops._c10d_functional.wait_tensor.default
_OF_GROUPS = ("c10d", "_c10d_functional")
_ANSWERS: dict[Any, Callable[..., Any]] = {
    _VALUE: zero_of,
    torch.ops.aten.equal.default: lambda *_: True,
}
"""Operators that query values."""


class _Dry(TorchDispatchMode):
    """Intercepts each operator of this thread before the fake tensors do."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # nothing is compiled; to keep the compiler out, PyTorch would import it
        return False

    def __init__(self, fake: FakeTensorMode, work: WorkCounter, known: Known | None) -> None:
        cast("Any", super()).__init__()
        self._fake, self._work, self._known = fake, work, known

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is _DEVICE_OF and type(args[0]) is FakeTensor:
            return args[0].fake_device  # called very often
        kwargs = kwargs or {}
        if torch._C._get_dispatch_mode(_FAKE) is not self._fake:
            return func(*args, **kwargs)  # a DTensor queries shapes in a mode of its own
        if any(kind not in PLAIN for kind in types):
            return NotImplemented  # a DTensor: the operators that it calls are seen
        operator: Any = func
        if operator.namespace in _OF_GROUPS:
            return self._communicate(operator, args, kwargs)
        if func in _ANSWERS and self._known is None:
            return _ANSWERS[func](*args)
        return self._compute(func, args, kwargs)

    def _compute(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        known = self._known
        out = func(*args, **kwargs) if known is None else self._done_with(known, func, args, kwargs)
        if len(self._fake.enter_stack) == 1:
            self._work.add(func, args, kwargs, out)  # else a DTensor queries the global shape
        return out

    def _communicate(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a collective continues as if there were no mode.

        The parts of a functional collective, a copy and the call of another operator, come back
        here.
        """
        if operator.namespace == "c10d" or operator is _WAIT:
            return for_real(operator, args, kwargs)
        with self:
            return operator._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, *args, **kwargs)

    def _done_with(
        self, known: Known, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """An operator of a program with some known values."""
        is_known, out = known.call(func, args, kwargs)
        if is_known:
            return out
        if func is _VALUE:
            return known.value_of(args[0])
        if func in _ANSWERS:
            return _ANSWERS[func](*args)
        try:
            return known.wrote(func, args, kwargs, func(*args, **kwargs))
        except (DynamicOutputShapeException, DataDependentOutputException) as error:
            raise no_shape(error.func) from None


@contextmanager
def without_memory(work: WorkCounter, known: Known | None = None) -> Iterator[None]:
    """Tensors that are made inside have shapes and storages, and no memory.

    Args:
        work: counts the work of each operator.
        known: keeps known values; None if there are none.
    """
    # an existing constant, such as a table of a module, becomes a fake one
    fake = Fake(allow_non_fake_inputs=True)
    with warnings.catch_warnings(), fake, _Dry(fake, work, known):
        # a flat parameter's addresses are compared: all are equal, as for a shared storage
        warnings.filterwarnings("ignore", message="Accessing the data pointer of FakeTensor")
        yield
