"""The parameters of a rank: how they are divided, and their states according to the strategy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from zerosim.schema.memory import FACTORED_STATES, OPTIMIZER_STATES, ROLE_OF_STATE, Role
from zerosim.schema.strategies import Parameter, Strategy
from zerosim.theory.causes import Cause
from zerosim.theory.model_states import FP32_BYTES, Kept
from zerosim.theory.programs.options import number_map, text_lists, texts
from zerosim.theory.programs.plan import element_bytes_of

_UNDIVIDED = "undivided_states"


@dataclass(frozen=True, slots=True, kw_only=True)
class Divided:
    """Parameters that are kept in the same way: a single one, or those of a flat parameter.

    Attributes:
        elements, trainable: elements over all ranks; with and without frozen ones.
        size: bytes of an element.
        kept: elements of the storages of this rank.
        kept_gradients, kept_states: the same for gradients and states, if the number differs.
        among: number of ranks among which they are divided.
        states_among: the same for the optimizer states, if these are divided differently.
        cause: why the kept part is not an equal share; states are never padded.
        has_gradient, has_states: False if the last backward, or any backward, produced no gradient.
        states: elements of the trained ones' states by role, over all ranks and on this one; None
            if they are those that any optimizer keeps.
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
    states: Mapping[Role, tuple[int, int]] | None = None

    def owned(self, among: int, *, is_own: bool) -> Divided:
        """The same with its states on one of several ranks."""
        states = self.states
        if states is not None and not is_own:
            states = {role: (of_all, 0) for role, (of_all, _) in states.items()}
        kept = None if is_own else 0
        return replace(self, states=states, states_among=among, kept_states=kept)

    def of_role(self, role: Role, *, has_master: bool) -> Kept:
        """This bundle's part for one role."""
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
        frozen = 0 if role is Role.PARAMETERS else self.elements - self.trainable
        trained = self.elements - frozen
        if is_state and self.states is not None and is_there:
            trained, kept = self.states.get(role, (0, 0))
        return Kept(
            role=role,
            elements=frozen + trained,
            frozen=frozen,
            element_bytes=FP32_BYTES if is_state and has_master else self.size,
            among=among if among > 1 else 0,
            kept=kept if is_there else 0,
            cause=cause if is_there else Cause.UNUSED,
        )


class ToldStates:
    """Gradients and states of the parameters or bundles, as recorded in a strategy."""

    def __init__(
        self, strategy: Strategy, everywhere: Mapping[int, Sequence[Strategy]] | None = None
    ) -> None:
        """Read the states of a strategy.

        Args:
            everywhere: the strategies of all ranks, if a rank may lack the states of a parameter
                that another has.
        """
        same = (strategy.system, strategy.name)
        held = [one for of_rank in (everywhere or {}).values() for one in of_rank]
        tell = [strategy, *(one for one in held if (one.system, one.name) == same)]
        self._no_gradient = frozenset(texts(strategy, "no_gradient"))
        self._no_states = frozenset(texts(strategy, "no_states"))
        self._states: dict[str, list[str]] = {}
        for one in tell:
            for names, parameters in text_lists(one, "states").items():
                for parameter in parameters:
                    found = self._states.setdefault(parameter, [])
                    found += (name for name in names.split() if name not in found)
        for names in number_map(strategy, _UNDIVIDED):
            self._states[f"{_UNDIVIDED} {names}"] = names.split()[1:]

    def of(self, name: str, part: Divided, shape: tuple[int, ...] = ()) -> Divided:
        """A part with its recorded gradients and states.

        Args:
            shape: of its parameter; without one it is flat.
        """
        return replace(
            with_states(part, self._states.get(name), shape),
            has_gradient=name not in self._no_gradient,
            has_states=name not in self._no_states,
        )


def with_states(part: Divided, names: Iterable[str] | None, shape: tuple[int, ...] = ()) -> Divided:
    """A part with states of these names only; None if its states are not recorded."""
    if names is None or not part.trainable:
        return part
    found: dict[Role, tuple[int, int]] = {}
    kept = part.kept if part.kept_states is None else part.kept_states
    for one in names:
        role, dim = ROLE_OF_STATE[one], FACTORED_STATES.get(one, 0)
        size = shape[-dim] if dim and len(shape) >= dim else 1
        of_all, of_rank = found.get(role, (0, 0))
        found[role] = (of_all + part.trainable // size, of_rank + kept // size)
    return replace(part, states=found)


def together(parts: Iterable[Divided]) -> Mapping[Role, tuple[int, int]] | None:
    """The states of several parameters; None if they are not recorded."""
    found: dict[Role, tuple[int, int]] = {}
    told = [one.states for one in parts if one.states is not None]
    for states in told:
        for role, (elements, kept) in states.items():
            of_all, of_rank = found.get(role, (0, 0))
            found[role] = (of_all + elements, of_rank + kept)
    return found if told else None


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
    """Elements of a model's parameters that are not sharded, by dtype and recorded states."""
    for option, trains in (("undivided", True), ("undivided_frozen", False)):
        left = number_map(strategy, option)
        for names, elements in number_map(strategy, _UNDIVIDED).items() if trains else ():
            dtype = names.split()[0]
            left[dtype] -= elements
            yield Parameter(name=f"{_UNDIVIDED} {names}", shape=(elements,), dtype=dtype)
        for dtype, elements in left.items():
            if elements:
                yield Parameter(name="", shape=(elements,), dtype=dtype, trainable=trains)
