"""How a system is found in a program: what is asked of it, and what all of them share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from zerosim.schema.events import Phase, Purpose
from zerosim.schema.strategies import Parameter, Strategy
from zerosim.systems.registry import systems
from zerosim.trace.autolabel.rules import Rule
from zerosim.trace.autolabel.units import Units, clean
from zerosim.trace.looking import Content
from zerosim.trace.operators import OperatorCall


@dataclass(frozen=True, slots=True)
class CarriedMessage:
    """What a message between two ranks carries.

    Attributes:
        unit: what of this rank sends or receives it, such as its stage of a pipeline.
        micro_batch: counted from 0.
    """

    purpose: Purpose
    phase: Phase
    unit: str
    micro_batch: int


@dataclass(frozen=True, slots=True)
class Reduction:
    """What an all-reduce from within autograd is for."""

    purpose: Purpose
    unit: str
    tensors: tuple[str, ...] = ()


class Observer:
    """One system, as it is found in a program.

    A system's `observe.observer(units)` makes one. It answers what it knows; what it does not
    override says that nothing is known. Nothing of the program may be changed, and an exception
    ends the labels, never the program.

    Attributes:
        rules: its functions that call collectives, for the table of `rules`.
        is_piped: a schedule of micro-batches decides when modules compute.
    """

    rules: tuple[Rule, ...] = ()
    is_piped: bool = False

    def install(self) -> None:
        """Tracing begins."""

    def remove(self) -> None:
        """Tracing ends: leave everything as it was."""

    def meet(self, thing: Any) -> None:
        """Look for the system in a model, or an optimizer, that is used for the first time."""

    def settings(self) -> Hashable:
        """What may change from one step to the next; asked often, so it must be cheap."""
        return None

    def describe(self) -> Iterator[Strategy]:
        """What was met, as it is now; positions are filled in by the caller."""
        yield from ()

    # the moments of an iteration

    def micro_step_begins(self) -> None:
        """A forward or a backward begins another micro-step."""

    def forward_begins(self, root: nn.Module, *, is_first: bool) -> None:
        """A model computes with gradients; `is_first` in its micro-step."""

    def backward_begins(self) -> None:
        """Autograd begins."""

    def backward_over(self, gone_back: Callable[[nn.Module], bool]) -> None:
        """A backward that adds to gradients is over; `gone_back` tells through which models."""

    def update_begins(self) -> None:
        """The first step of an optimizer after a backward begins, and none within it."""

    def settle(self) -> None:
        """A backward or a micro-step is over."""

    # what a call is for

    def hooks(self) -> Iterator[tuple[CodeType, Rule]]:
        """The program's own functions that communicate for the system."""
        yield from ()

    def message(self, tensors: list[torch.Tensor]) -> CarriedMessage | None:
        """What a message carries; None if it is not known to be the system's."""
        return None

    def reduction(self, call: OperatorCall) -> Reduction | None:
        """What a call from within autograd reduces; None if the system does not make it."""
        return None

    def purpose_of_activations(self, phase: Phase | None, call: OperatorCall) -> Purpose | None:
        """What tensors are made to fit for; None if the system does not do that."""
        return None

    # what a call settles

    def agrees_anew(self) -> bool:
        """Its ranks agree in forward on what communicates together; whether the system does."""
        return False

    def look_anew(self) -> None:
        """What it agreed on in an earlier forward can be asked for now."""

    def is_asked_ahead(self) -> bool:
        """Whether the program itself gathers parameters, for the next forward."""
        return False

    def forward_is_prepared(self) -> None:
        """It has done so."""

    # what modules hold, and when they compute

    def shards(self, module: nn.Module) -> Iterator[Shard]:
        """What is kept of a module's divided parameters."""
        yield from ()

    def kept(self, *, wholly: bool) -> Iterator[Content]:
        """What it keeps to itself beside parameters and their gradients: its buffers, each with a
        name as its unit, and gradients of another place than `grad`.

        Args:
            wholly: tell all, at a phase border; else, often, only what is told cheaply.
        """
        yield from ()

    def gathers_within(self, module: nn.Module, unit: str) -> bool:
        """Whether a module gathers this unit's parameters, if it must, from within its call."""
        return False

    def is_preparing(self) -> bool:
        """Whether modules compute only to learn what shapes they will exchange."""
        return False

    def is_evaluating(self) -> bool:
        """Whether a micro-batch is computed that no backward will follow."""
        return False

    def micro_batch(self, phase: Phase) -> int | None:
        """The micro-batch whose forward or backward runs; None if none does."""
        return None


@dataclass(frozen=True, slots=True)
class Shard:
    """What a rank keeps of a divided parameter.

    Attributes:
        whole: the parameter that is whole for now; None if it is not.
        is_parameter: whether the shard itself gets the gradient.
    """

    kept: torch.Tensor
    whole: torch.Tensor | None
    is_parameter: bool = True


def observers(units: Units) -> tuple[Observer, ...]:
    """One of each installed system that says how it is found in a program."""
    parts = (system.part("observe") for system in systems().values())
    return tuple(part.observer(units) for part in parts if part is not None)


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


Written = tuple[int, int] | None
"""Which gradient, and how often it was written; None if there is none."""


def written(gradient: torch.Tensor | None) -> Written:
    """What tells whether a backward has given a gradient: another one, or written anew."""
    if gradient is None:
        return None
    return id(gradient), getattr(gradient, "_local_tensor", gradient)._version


class GivenGradients:
    """Which trained parameters have no gradient when an update begins, and which never had one.

    Attributes:
        without, never: those; what stands for a parameter the caller decides.
    """

    def __init__(self) -> None:
        self.without: tuple[Hashable, ...] = ()
        self.never: tuple[Hashable, ...] = ()
        self._had: set[Hashable] = set()

    def see(self, gradients: Iterable[tuple[Hashable, torch.Tensor | None]]) -> None:
        """A backward is over, or an update begins.

        Where an optimizer takes each gradient at once, none is known to have had one.
        """
        found = list(gradients)
        has = {parameter for parameter, gradient in found if gradient is not None}
        self._had |= has
        self.without = tuple(one for one, _ in found if one not in has)
        if self._had:
            self.never = tuple(one for one, _ in found if one not in self._had)

    def settings(self) -> Hashable:
        """What tells whether they are as before."""
        return self.without, self.never, bool(self._had)

    def options(self, name_of: Callable[[Any], str] = str) -> dict[str, object]:
        """As a strategy has them."""
        return {
            "no_gradient": [name_of(one) for one in self.without],
            "no_states": [name_of(one) for one in self.never],
            "used_at_once": bool(self.without) and not self._had,
        }


def dtype_name(dtype: torch.dtype) -> str:
    """A dtype as events name it."""
    return str(dtype).removeprefix("torch.")
