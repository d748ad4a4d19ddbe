"""The model states of a rank in a program that zerosim's engine does not run.

For each system the law, role by role, and its exact value for these parameters: computed from the
strategy, which has the sharding and dtype of each parameter. A gradient has its parameter's dtype,
and PyTorch's optimizers keep their states in it too, or in fp32 beside an fp32 master copy. A
strategy does not tell the states of the optimizer: they are given.

Each system's own module defines its memory (`zerosim.systems`, the part `states`).

Sources: S. Rajbhandari et al., "ZeRO" (arXiv 1910.02054), sections 3.1 and 5; Y. Zhao et al.,
"PyTorch FSDP" (arXiv 2304.11277), sections 3.2 and 4.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from zerosim.base.quantities import format_exact
from zerosim.schema.memory import MOMENTS, OPTIMIZER_STATES, Role
from zerosim.schema.strategies import Parameter, Strategy
from zerosim.systems.registry import reader_of, understood
from zerosim.theory.causes import Cause
from zerosim.theory.model_states import FP32_BYTES, Kept, ModelStates
from zerosim.theory.programs.options import (
    number_map,
    texts,
)
from zerosim.theory.programs.plan import element_bytes_of
from zerosim.theory.wording import said


@dataclass(frozen=True, slots=True, kw_only=True)
class Divided:
    """Parameters kept in the same way: one, or those of a flat parameter.

    Attributes:
        elements, trainable: elements over all ranks; with and without frozen ones.
        size: bytes of an element.
        kept: elements of the storages of this rank.
        kept_gradients, kept_states: likewise, if that is not as many, or none where all is frozen.
        among: how many ranks they are divided among.
        states_among: likewise the optimizer's states, if these are divided otherwise.
        cause: why what is kept is not an equal share; states are never padded.
        has_gradient, has_states: False if the backward before gave none, or none ever did.
    """

    elements: int
    trainable: int
    size: int
    kept: int
    kept_gradients: int | None = None
    kept_states: int | None = None
    among: int = 1
    states_among: int | None = None
    cause: Cause = Cause.UNEQUAL_PARTS
    has_gradient: bool = True
    has_states: bool = True

    def of_role(self, role: Role, *, has_master: bool) -> Kept:
        """Its part for one role."""
        is_state = role in OPTIMIZER_STATES
        among, kept = self.among, self.kept
        if role is not Role.PARAMETERS:
            own = self.kept_states if is_state else self.kept_gradients
            kept = (self.kept if self.trainable else 0) if own is None else own
        if is_state and self.states_among is not None:
            among = self.states_among
        is_padded = self.cause is Cause.PADDING
        is_there = self.has_states if is_state else self.has_gradient or role is Role.PARAMETERS
        cause = Cause.UNEQUAL_PARTS if is_state and is_padded else self.cause
        return Kept(
            role=role,
            elements=self.elements,
            frozen=0 if role is Role.PARAMETERS else self.elements - self.trainable,
            element_bytes=FP32_BYTES if is_state and has_master else self.size,
            among=among if among > 1 else 0,
            kept=kept if is_there else 0,
            cause=cause if is_there else Cause.UNUSED,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedStates:
    """A rank and its strategies, for the query of its states.

    Attributes:
        own: its strategies in force, by system.
        everywhere: the strategies of all ranks.
        has_master: the optimizer keeps an fp32 copy of the parameters.
    """

    own: Mapping[str, Strategy]
    everywhere: Mapping[int, Sequence[Strategy]]
    rank: int
    has_master: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptParts:
    """The memory of a rank, part by part, according to its system.

    Attributes:
        name: the system and its mode, in words.
        unknown: why nothing is said of gradients; "" if it is.
        tells_states: whether it is known which parameters have optimizer states.
        updates_in_backward: an optimizer uses each gradient at once, so that it has its states
            already when its first update would begin.
    """

    name: str
    parts: Sequence[Divided]
    unknown: str = ""
    tells_states: bool = True
    updates_in_backward: bool = False


def program_states(
    strategies: Mapping[int, Sequence[Strategy]],
    rank: int,
    optimizer: Collection[Role],
    first_update: int = 0,
) -> ModelStates | None:
    """The memory of a rank; None if no law is known.

    Args:
        strategies: those in force, by rank.
        optimizer: the present ones among `OPTIMIZER_STATES`.
        first_update: the iteration of the first update, which creates momentum and variance, and a
            master copy if there is one.
    """
    own = {one.system: one for one in strategies[rank]}
    if len(own) != len(strategies[rank]):
        return None  # several models, or several optimizers: their states cannot be assigned
    has_master = Role.MASTER in optimizer
    found = _kept_by(AskedStates(own=own, everywhere=strategies, rank=rank, has_master=has_master))
    if found is None or not any(part.elements for part in found.parts):
        return None
    parts, unknown = found.parts, found.unknown
    roles = [role for role in OPTIMIZER_STATES if role in optimizer and found.tells_states]
    among = max(max(part.among, part.states_among or 1) for part in parts)
    kept = [
        part.of_role(role, has_master=has_master)
        for role in (Role.PARAMETERS, *(() if unknown else (Role.GRADIENTS,)), *roles)
        for part in parts
    ]
    since = first_update if found.updates_in_backward else first_update + 1
    return ModelStates(
        name=found.name,
        num_ranks=among if among > 1 else max(len(one.ranks) for one in strategies[rank]),
        parts=tuple(replace(one, since=since) if one.role in MOMENTS else one for one in kept),
        words=_words(parts),
        unknown=unknown,
        unsettled=first_update if has_master and roles else None,
    )


def _words(parts: Sequence[Divided]) -> dict[Cause, str]:
    num_frozen = sum(part.elements - part.trainable for part in parts)
    num_unused = sum(part.trainable for part in parts if not part.has_gradient)
    num_whole = sum(part.elements for part in parts if part.cause is Cause.REPLICATED)
    return {
        Cause.FROZEN_PARAMETERS: said("states.frozen", count=format_exact(num_frozen)),
        Cause.PADDING: said("states.same_size"),
        Cause.REPLICATED: said("states.whole", count=format_exact(num_whole)),
        Cause.UNEQUAL_PARTS: said("states.unequal"),
        Cause.UNUSED: said("states.unused", count=format_exact(num_unused)),
    }


def _kept_by(asked: AskedStates) -> KeptParts | None:
    """From the system that handles itself beside the others; None if none does."""
    part = reader_of(asked.own, "states")
    keeps: Callable[[AskedStates], KeptParts | None] | None = None if part is None else part.keeps
    if keeps is None:
        return None
    with understood(asked.own.values()):
        return keeps(asked)


def with_gradients(strategy: Strategy, name: str, part: Divided) -> Divided:
    """A part with what the strategy tells of the gradients of its parameter, or its bundle."""
    return replace(
        part,
        has_gradient=name not in texts(strategy, "no_gradient"),
        has_states=name not in texts(strategy, "no_states"),
    )


def whole(parameter: Parameter) -> Divided:
    """A parameter that the rank keeps whole."""
    size = parameter.elements
    return Divided(
        elements=size,
        trainable=size if parameter.trainable else 0,
        size=element_bytes_of(parameter.dtype),
        kept=size,
    )


def undivided(strategy: Strategy) -> Iterator[Parameter]:
    """The parameters of a model outside of the sharded ones: their elements, by dtype."""
    for option, trains in (("undivided", True), ("undivided_frozen", False)):
        for dtype, elements in number_map(strategy, option).items():
            yield Parameter(name="", shape=(elements,), dtype=dtype, trainable=trains)
