"""What is asked of each system that a program may divide its training with."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import nn

from zerosim.schema.strategies import Parameter, Strategy
from zerosim.trace.autolabel.rules import Rule
from zerosim.trace.autolabel.units import clean


class Observed(Protocol):
    """One system: what its functions communicate for, and what it says of itself."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Its functions, for the table of `rules`."""
        ...

    def meet(self, thing: Any) -> None:
        """Look for the system in a model, or an optimizer, that is used for the first time."""
        ...

    def settings(self) -> Hashable:
        """What may change from one step to the next; asked often, so it must be cheap."""
        ...

    def describe(self) -> Iterator[Strategy]:
        """What was met, as it is now; positions are filled in by the caller."""
        ...


def parameters_of(named: Iterable[tuple[str, torch.Tensor]]) -> tuple[Parameter, ...]:
    """Parameters as a strategy lists them; of one that is divided, the whole shape."""
    return tuple(
        Parameter(
            name=clean(name),
            shape=tuple(tensor.shape),
            dtype=dtype_name(tensor.dtype),
            trainable=tensor.requires_grad,
        )
        for name, tensor in named
    )


def undivided(model: nn.Module, divided: Collection[str]) -> dict[str, object]:
    """Elements of all other parameters, by dtype, in a strategy: of those that train, and frozen.

    Args:
        divided: names of those that the system divides.
    """
    found: dict[str, dict[str, int]] = {"undivided": {}, "undivided_frozen": {}}
    for name, parameter in model.named_parameters():
        if clean(name) not in divided and not hasattr(parameter, "_local_tensor"):
            of_kind = found["undivided" if parameter.requires_grad else "undivided_frozen"]
            dtype = dtype_name(parameter.dtype)
            of_kind[dtype] = of_kind.get(dtype, 0) + parameter.numel()
    return dict(found)


def named_parameters(root: nn.Module) -> dict[int, str]:
    """The names of a model's parameters, by their identity."""
    return {id(parameter): clean(name) for name, parameter in root.named_parameters()}


def ranks_of(group: dist.ProcessGroup | None) -> tuple[int, ...]:
    """The global ranks of a group."""
    return tuple(dist.get_process_group_ranks(group or dist.group.WORLD))


def ranks_in_use(ranks: Iterable[int], passes: tuple[int, int]) -> tuple[int, ...]:
    """The ranks that a strategy spans; this one alone in a micro-step that its model sits out."""
    return tuple(sorted(ranks)) if any(passes) else (dist.get_rank(),)


def options_of(passes: tuple[int, int]) -> dict[str, object]:
    """How often a model computes and is gone back through in a micro-step, in a strategy."""
    forwards, backwards = passes
    return {"forwards": forwards, "backwards": backwards}


def dtype_name(dtype: torch.dtype) -> str:
    """A dtype as events name it."""
    return str(dtype).removeprefix("torch.")
