"""The interface that finds a system in a program, and helpers shared by all systems."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from zerosim.schema.events import Phase, Purpose
from zerosim.schema.strategies import Parameter, Strategy
from zerosim.systems.registry import systems
from zerosim.trace.autolabel.optimizers import Optimizers
from zerosim.trace.autolabel.rules import Rule
from zerosim.trace.autolabel.units import Units, clean
from zerosim.trace.looking import Content
from zerosim.trace.operators import OperatorCall


@dataclass(frozen=True, slots=True)
class CarriedMessage:
    """The contents of a message between two ranks.

    Attributes:
        unit: its sender or receiver on this rank, such as a stage of a pipeline.
        micro_batch: counted from 0.
    """

    purpose: Purpose
    phase: Phase
    unit: str
    micro_batch: int


@dataclass(frozen=True, slots=True)
class Reduction:
    """The purpose of an all-reduce from within autograd."""

    purpose: Purpose
    unit: str
    tensors: tuple[str, ...] = ()


class Observer:
    """One system, as it is found in a program.

    Created by a system's `observe.observer(units)`. It overrides the methods that it can answer;
    the default of every method means unknown. It must not change the program, and an exception ends
    the labels, never the program.

    Attributes:
        rules: its functions that call collectives, for the table of `rules`.
        is_piped: a schedule of micro-batches decides when modules compute.
    """

    rules: tuple[Rule, ...] = ()
    is_piped: bool = False

    def install(self) -> None:
        """Tracing begins."""

    def remove(self) -> None:
        """Tracing ends: restore everything that `install` changed."""

    def meet(self, thing: Any) -> None:
        """Look for the system in a model, or an optimizer, that is used for the first time."""

    def settings(self) -> Hashable:
        """The state that may change between steps; queried often, so it must be cheap."""
        return None

    def describe(self) -> Iterator[Strategy]:
        """The current strategies; the caller fills in positions."""
        yield from ()

    # moments of an iteration

    def micro_step_begins(self) -> None:
        """A forward or a backward begins another micro-step."""

    def forward_begins(self, root: nn.Module, *, is_first: bool) -> None:
        """A model computes with gradients; `is_first` in its micro-step."""

    def backward_begins(self) -> None:
        """Autograd begins."""

    def backward_over(self, gone_back: Callable[[nn.Module], bool]) -> None:
        """A backward that accumulated gradients ended; `gone_back` shows the models it reached."""

    def update_begins(self) -> None:
        """The first step of an optimizer after a backward begins, and none within it."""

    def settle(self) -> None:
        """A backward or a micro-step has ended."""

    # purposes of calls

    def hooks(self) -> Iterator[tuple[CodeType, Rule]]:
        """The program's own functions that communicate for the system."""
        yield from ()

    def message(self, tensors: list[torch.Tensor]) -> CarriedMessage | None:
        """The contents of a message; None if it is not known to belong to the system."""
        return None

    def reduction(self, call: OperatorCall) -> Reduction | None:
        """The target of a reduction from within autograd; None if the system does not make it."""
        return None

    def purpose_of_activations(self, phase: Phase | None, call: OperatorCall) -> Purpose | None:
        """The purpose of padded tensors; None if the system does not pad."""
        return None

    # effects of calls

    def agrees_anew(self) -> bool:
        """Its ranks agree on buckets in forward; returns whether the system does this."""
        return False

    def look_anew(self) -> None:
        """The buckets agreed on in an earlier forward are available."""

    def is_asked_ahead(self) -> bool:
        """Whether the program itself gathers parameters for the next forward."""
        return False

    def forward_is_prepared(self) -> None:
        """The program has gathered parameters for the next forward."""

    # contents and computation of modules

    def shards(self, module: nn.Module) -> Iterator[Shard]:
        """The shards of a module's partitioned parameters."""
        yield from ()

    def kept(self, *, wholly: bool) -> Iterator[Content]:
        """Its own buffers, each with a name as its unit, and gradients that are not in `grad`.

        Args:
            wholly: return everything, at a phase border; otherwise, as this is called often, only
                what is cheap to find.
        """
        yield from ()

    def gathers_within(self, module: nn.Module, unit: str) -> bool:
        """Whether a module gathers this unit's parameters, if needed, within its call."""
        return False

    def is_preparing(self) -> bool:
        """Whether modules compute only to determine shapes for communication."""
        return False

    def is_evaluating(self) -> bool:
        """Whether the current micro-batch has no backward."""
        return False

    def micro_batch(self, phase: Phase) -> int | None:
        """The micro-batch of the current forward or backward; None if there is none."""
        return None


@dataclass(frozen=True, slots=True)
class Shard:
    """The shard of a partitioned parameter on a rank.

    Attributes:
        whole: the parameter that is whole for now; None if it is not.
        is_parameter: whether the shard itself gets the gradient.
    """

    kept: torch.Tensor
    whole: torch.Tensor | None
    is_parameter: bool = True


class Answers:
    """For the name of each method of `Observer`, the methods of the systems that override it.

    Most systems keep most defaults, and a training step makes hundreds of these calls.
    """

    def __init__(self, systems: Iterable[Observer]) -> None:
        self._systems = tuple(systems)

    def __getattr__(self, name: str) -> tuple[Callable[..., Any], ...]:
        default = getattr(Observer, name)
        own = [one for one in self._systems if getattr(type(one), name) is not default]
        found = tuple(getattr(one, name) for one in own)
        setattr(self, name, found)
        return found


def observers(units: Units) -> tuple[Observer, ...]:
    """One observer of each installed system that has one."""
    parts = (system.part("observe") for system in systems().values())
    return tuple(part.observer(units) for part in parts if part is not None)


def parameters_of(named: Iterable[tuple[str, torch.Tensor]]) -> tuple[Parameter, ...]:
    """Parameters as a strategy lists them; a divided one has its full shape."""
    return tuple(
        Parameter(
            name=clean(name),
            shape=tuple(tensor.shape),
            dtype=dtype_name(tensor.dtype),
            trainable=tensor.requires_grad,
        )
        for name, tensor in named
    )


def undivided(
    model: nn.Module, divided: Collection[str], optimizers: Optimizers
) -> dict[str, object]:
    """Elements of all other parameters in a strategy, by dtype: trainable and frozen; and of the
    trainable ones by dtype and names of their states.

    Args:
        divided: names of those that the system divides.
    """
    found: dict[str, dict[str, int]] = {"undivided": {}, "undivided_frozen": {}}
    states: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        if clean(name) not in divided and not hasattr(parameter, "_local_tensor"):
            of_kind = found["undivided" if parameter.requires_grad else "undivided_frozen"]
            dtype = dtype_name(parameter.dtype)
            of_kind[dtype] = of_kind.get(dtype, 0) + parameter.numel()
            names = optimizers.states(parameter) if parameter.requires_grad else None
            if names is not None:
                key = " ".join((dtype, *names))
                states[key] = states.get(key, 0) + parameter.numel()
    return {**found, "undivided_states": states}


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
    """Number of forwards and backwards of a model in a micro-step, in a strategy."""
    forwards, backwards = passes
    return {"forwards": forwards, "backwards": backwards}


Written = tuple[int, int] | None
"""Identity and version of a gradient; None if there is none."""


def written(gradient: torch.Tensor | None) -> Written:
    """Identifies whether a backward wrote a gradient: a new tensor, or a new version."""
    if gradient is None:
        return None
    local = gradient
    if gradient.__class__ is not torch.Tensor:  # most are, and have no shard
        local = getattr(gradient, "_local_tensor", gradient)
    return id(gradient), local._version


class GivenGradients:
    """Trained parameters without a gradient when an update begins, and the states of all of them.

    Attributes:
        without, never: parameters of these two kinds; the caller chooses how to represent a
            parameter.
        states: parameters that an optimizer has updated, by the names of their states.
        version: counts their changes.
    """

    def __init__(self) -> None:
        self.without: tuple[Hashable, ...] = ()
        self.never: tuple[Hashable, ...] = ()
        self.states: dict[tuple[str, ...], tuple[Hashable, ...]] = {}
        self.version = 0
        self._had: set[Hashable] = set()
        self._seen: object = None

    def see(
        self,
        gradients: Iterable[tuple[Hashable, torch.Tensor | None]],
        states: Iterable[tuple[Hashable, tuple[str, ...] | None]],
        counts: Hashable,
    ) -> None:
        """A backward has ended, or an update begins.

        If an optimizer consumes each gradient at once, no parameter is known to have had one.

        Args:
            states: of each parameter, as `Optimizers.states` names them.
            counts: as `Optimizers.counts`; while it is unchanged, so are the states.
        """
        found = [(parameter, gradient is not None) for parameter, gradient in gradients]
        seen = found, counts
        if seen == self._seen:
            return
        self._seen = seen
        before = self._contents()
        self.states = by_states(states)
        self._had.update(parameter for parameter, has in found if has)
        self.without = tuple(parameter for parameter, has in found if not has)
        if self._had:
            self.never = tuple(one for one, _ in found if one not in self._had)
        self.version += self._contents() != before

    def _contents(self) -> tuple[object, ...]:
        return self.without, self.never, bool(self._had), self.states

    def options(self, name_of: Callable[[Any], str] = str) -> dict[str, object]:
        """The options of a strategy that describe them."""
        return {
            "no_gradient": [name_of(one) for one in self.without],
            "no_states": [name_of(one) for one in self.never],
            "states": named_states(self.states, name_of),
            "used_at_once": bool(self.without) and not self._had,
        }


def named_states(
    states: Mapping[tuple[str, ...], Iterable[Hashable]], name_of: Callable[[Any], str] = str
) -> dict[str, list[str]]:
    """Names of parameters, by the names of their states, in the form of a strategy's options."""
    return {
        " ".join(names): [name_of(one) for one in parameters]
        for names, parameters in states.items()
    }


def by_states(
    states: Iterable[tuple[Hashable, tuple[str, ...] | None]],
) -> dict[tuple[str, ...], tuple[Hashable, ...]]:
    """Parameters by the names of their states, without those that no optimizer stepped for."""
    found: dict[tuple[str, ...], list[Hashable]] = {}
    for parameter, names in states:
        if names is not None:
            found.setdefault(names, []).append(parameter)
    return {names: tuple(parameters) for names, parameters in found.items()}


def dtype_name(dtype: torch.dtype) -> str:
    """A dtype as events name it."""
    return str(dtype).removeprefix("torch.")
