"""The model states of a rank in a program that zerosim's engine does not run.

For each system the law, role by role, and its exact value for these parameters: computed from the
strategy, which has the sharding and dtype of each parameter. A gradient has its parameter's dtype,
and PyTorch's optimizers keep their states in it too, or in fp32 beside an fp32 master copy. A
strategy records the names of each parameter's states. For older traces without them, the caller
gives the states. The memory of several models, each in its own system or in none, is their sum.

Each system's own module defines its memory (`zerosim.systems`, the part `states`).

Sources: S. Rajbhandari et al., "ZeRO" (arXiv 1910.02054), sections 3.1 and 5; Y. Zhao et al.,
"PyTorch FSDP" (arXiv 2304.11277), sections 3.2 and 4.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from zerosim.base.language import enumerated
from zerosim.base.quantities import format_exact
from zerosim.schema.memory import MOMENTS, OPTIMIZER_STATES, Role
from zerosim.schema.strategies import Parameter, Strategy
from zerosim.systems.registry import Axis, axis_of, find, reader_of, understood
from zerosim.theory.causes import Cause
from zerosim.theory.model_states import ModelStates
from zerosim.theory.programs.divided import Divided, whole, with_states
from zerosim.theory.programs.options import record_lists, text
from zerosim.theory.wording import said


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedStates:
    """A rank and its strategies: the input from which its states are computed.

    Attributes:
        own: its strategies in force for one model, by system.
        everywhere: the strategies of all ranks.
        has_master: whether the optimizer keeps an fp32 copy of the parameters.
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
        unknown: why the gradients are unknown; "" if they are known.
        tells_states: whether it is known which parameters have optimizer states.
        updates_in_backward: whether an optimizer uses each gradient at once, so that its states
            exist before its first update would begin.
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
        optimizer: the states that the optimizer has, of `OPTIMIZER_STATES`.
        first_update: the iteration of the first update, which creates momentum and variance, and a
            master copy if there is one.
    """
    has_master = Role.MASTER in optimizer
    of_models = [
        _kept_by(AskedStates(own=own, everywhere=strategies, rank=rank, has_master=has_master))
        for own in _by_model(strategies[rank])
    ]
    beside = _beside(strategies[rank])
    found = _sum([*(one for one in of_models if one is not None), *beside])
    if None in of_models or found is None or not any(part.elements for part in found.parts):
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


def _by_model(strategies: Sequence[Strategy]) -> list[dict[str, Strategy]]:
    """The strategies that keep each model, by system; none if that is not known.

    Of several models each is divided by a system of its own, with the optimizers that join it.
    """
    own = {one.system: one for one in strategies}
    if len(own) == len(strategies) and reader_of(own, "states") is not None:
        return [own]
    joining: dict[tuple[str, str], list[Strategy]] = {}
    models = []
    for one in strategies:
        system = find(one.system)
        if system is not None and system.joins:
            joining.setdefault((system.joins, one.system), []).append(one)
        elif axis_of(one.system) is Axis.DATA:
            models.append(one)
        else:
            return []
    return [
        {one.system: one}
        | {
            name: replace(beside[0], bundles=tuple(b for each in beside for b in each.bundles))
            for (joined, name), beside in joining.items()
            if joined == one.system
        }
        for one in models
    ]


def _beside(strategies: Sequence[Strategy]) -> list[KeptParts]:
    """Models that computed and that no system divides: each rank keeps them whole."""
    dividing = [one for one in strategies if not getattr(find(one.system), "joins", "")]
    if not dividing or not all("label" in one.options for one in dividing):
        return []
    taken = {text(one, "label") for one in dividing}
    latest = max(dividing, key=lambda one: (one.iteration, one.micro_step))
    models = record_lists(latest, "models")
    parts = [_seen(one) for label, found in models.items() if label not in taken for one in found]
    return [KeptParts(name="", parts=parts)] if parts else []


def _seen(seen: Mapping[str, object]) -> Divided:
    """The part of parameters with equal gradients and states at the start of an update."""
    dtype, elements = str(seen["dtype"]), int(str(seen["elements"]))
    states = seen["states"]
    one = Parameter(name="", shape=(elements,), dtype=dtype, trainable=bool(seen["trainable"]))
    names = None if states is None else str(states).split()
    has_gradient = bool(seen["has_gradient"])
    part = with_states(whole(one), names)
    return replace(part, has_gradient=has_gradient, has_states=has_gradient or bool(names))


def _sum(models: Sequence[KeptParts]) -> KeptParts | None:
    """The memory of all models together; None without any."""
    if not models:
        return None
    return KeptParts(
        name=enumerated(dict.fromkeys(one.name for one in models if one.name)),
        parts=[part for one in models for part in one.parts],
        unknown=next((one.unknown for one in models if one.unknown), ""),
        tells_states=all(one.tells_states for one in models),
        updates_in_backward=any(one.updates_in_backward for one in models),
    )


def _words(parts: Sequence[Divided]) -> dict[Cause, str]:
    num_frozen = sum(part.elements - part.trainable for part in parts)
    num_unused = sum(
        part.trainable for part in parts if not (part.has_gradient and part.has_states)
    )
    num_whole = sum(part.elements for part in parts if part.cause is Cause.REPLICATED)
    return {
        Cause.FROZEN_PARAMETERS: said("states.frozen", count=format_exact(num_frozen)),
        Cause.PADDING: said("states.same_size"),
        Cause.REPLICATED: said("states.whole", count=format_exact(num_whole)),
        Cause.UNEQUAL_PARTS: said("states.unequal"),
        Cause.UNUSED: said("states.unused", count=format_exact(num_unused)),
    }


def _kept_by(asked: AskedStates) -> KeptParts | None:
    """The memory according to the system that combines itself with others; None without one."""
    part = reader_of(asked.own, "states")
    keeps: Callable[[AskedStates], KeptParts | None] | None = None if part is None else part.keeps
    if keeps is None:
        return None
    with understood(asked.own.values()):
        return keeps(asked)
