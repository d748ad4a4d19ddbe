"""A program with its own collectives: the law that its calls resemble most.

The author's intention is unknown, so the calls are taken as recorded, and the closest known pattern
is a resemblance, not a proof. It is chosen by the requested bytes, the phase and the operation; the
backend's implementation is a separate cause.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from zerosim.base.language import term
from zerosim.base.quantities import PSI
from zerosim.schema.events import Op, Phase
from zerosim.schema.strategies import Parameter, Strategy
from zerosim.theory.causes import Cause, Deviation, Law
from zerosim.theory.movement import Movement
from zerosim.theory.programs.fully_sharded import kept_after_forward
from zerosim.theory.programs.options import flag, parameters_of, text
from zerosim.theory.programs.plan import Plan, Scale, bytes_of, element_bytes_of, factor
from zerosim.theory.wording import said

_PAPER = "Rajbhandari et al., arXiv 1910.02054, section"


@dataclass(frozen=True, slots=True)
class _Known:
    """A law, as the payloads of its operations, in Psi of a ring's passes.

    Attributes:
        times: micro-steps, in each of which it applies.
    """

    words: str
    section: str
    passes: dict[tuple[bool, Op | None], int]
    times: int = 1

    @property
    def name(self) -> str:
        """The name of the law, for display."""
        own = term(self.words)
        return own if self.times == 1 else said("programs.each", law=own, count=self.times)

    @property
    def payloads(self) -> int:
        """All passes together."""
        return sum(self.passes.values())


_ALIKE = Fraction(1, 4)
"""A program that differs from a law by more than this fraction does not resemble it."""
_REDUCTIONS = (Op.ALL_REDUCE, Op.REDUCE_SCATTER, Op.REDUCE)
_WIDTHS = (2, 4, 8)
"""Bytes of the elements of communicated parameters and gradients; other sizes are other data."""
_FORWARD, _ELSEWHERE = True, False
_ZERO_3 = "ZeRO-3"
_KNOWN = (
    _Known("data parallel", "7.1", {(_ELSEWHERE, Op.ALL_REDUCE): 2}),
    _Known(
        "ZeRO-1 or ZeRO-2",
        "7.2.1",
        {(_ELSEWHERE, Op.REDUCE_SCATTER): 1, (_ELSEWHERE, Op.ALL_GATHER): 1},
    ),
    _Known(
        "ZeRO-1 with an all-reduce in place of the reduce-scatter",
        "7.2.1",
        {(_ELSEWHERE, Op.ALL_REDUCE): 2, (_ELSEWHERE, Op.ALL_GATHER): 1},
    ),
    _Known(
        "ZeRO-3",
        "7.2.2",
        {
            (_FORWARD, Op.ALL_GATHER): 1,
            (_ELSEWHERE, Op.ALL_GATHER): 1,
            (_ELSEWHERE, Op.REDUCE_SCATTER): 1,
        },
    ),
)


def plan_hand_written(
    strategy: Strategy, seen: Sequence[Movement], num_micro_steps: int = 1
) -> Plan:
    """The recorded calls of one step, beside the closest known pattern.

    Args:
        strategy: the strategy, with the number of parameters.
        seen: calls of the rank in the step among the strategy's ranks that no other strategy
            planned: laws of data parallelism cover neither messages nor calls of other groups.
        num_micro_steps: micro-steps of the step; gradients may be reduced, and parameters gathered,
            in each.
    """
    num_ranks = len(strategy.ranks)
    scale = Scale(
        unit=PSI,
        unit_bytes=bytes_of(parameters_of(strategy)),
        share=Fraction(num_ranks - 1, num_ranks),
    )
    counts_bytes = any(flag(one, "counts_bytes", default=False) for one in strategy.bundles)
    own_bytes = _own_bytes(strategy)
    passes = _passes(seen, scale, own_bytes)
    known = min(_laws(num_micro_steps), key=lambda one: (_distance(passes, one), one.payloads))
    law = Law(
        Fraction(known.payloads),
        _words(strategy, known),
        f"{_PAPER} {known.section}",
        known.payloads * scale.a_pass,
    )
    rest = sum((call.ring_share() for call in seen), Fraction(0)) - law.sent_bytes
    named = _of_dtypes(seen, own_bytes)
    left = rest - sum((one.bytes for one in named), Fraction(0))
    if known.words.startswith(_ZERO_3):
        named += _named(seen, strategy, known, left)
    explained = sum((one.bytes for one in named), Fraction(0))
    distance = Fraction(0) if named and rest == explained else _distance(passes, known)
    return Plan(
        system=strategy.system,
        name=strategy.name,
        title=strategy.system,
        ranks=strategy.ranks,
        law=law,
        law_name=known.name,
        formula=f"{factor(known.payloads)}{PSI}(N-1)/N",
        scale=scale,
        calls=tuple(seen),
        causes=(
            *named,
            Deviation(Cause.UNLIKE, rest - explained, said("hand_written.against", law=known.name)),
        ),
        is_likeness=True,
        is_far=distance > _ALIKE * known.payloads,
        num_parameters=0 if counts_bytes else strategy.num_parameters,
    )


def _named(
    seen: Sequence[Movement], strategy: Strategy, known: _Known, rest: Fraction
) -> tuple[Deviation, ...]:
    """Why units of ZeRO-3 deviate from the law, if calls name their units.

    Args:
        rest: traffic beyond the law.
    """
    gathers = [call for call in seen if call.op is Op.ALL_GATHER and call.unit]
    sizes: dict[str, dict[bool, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for call in gathers:
        sizes[call.unit][call.phase is Phase.FORWARD] += call.ring_share()
    parts = _parts(seen, strategy)
    kept: dict[str, Fraction] = defaultdict(Fraction)
    for unit, size in sizes.items():
        if size[_ELSEWHERE] < size[_FORWARD]:
            words = said(kept_after_forward(unit))
            kept[words] += (size[_ELSEWHERE] - size[_FORWARD]) * parts.get(unit, 1)
    found = [Deviation(Cause.KEPT_PARAMETERS, size, words) for words, size in kept.items()]
    padding = rest - sum(kept.values(), Fraction(0))
    whole = {call.unit: call.payload_bytes for call in gathers if call.phase is Phase.FORWARD}
    added = sum(whole.values()) - bytes_of(parameters_of(strategy))
    most = known.payloads * added * Fraction(len(strategy.ranks) - 1, len(strategy.ranks))
    if 0 < padding <= most and added == _padding(strategy):
        found.append(Deviation(Cause.PADDING, padding, said("programs.padding")))
    return tuple(found)


def _own_bytes(strategy: Strategy) -> int:
    """Bytes of a parameter's element; 0 if they differ, or if only bytes are known."""
    sizes = {element_bytes_of(one.dtype) for one in parameters_of(strategy)}
    counts_bytes = any(flag(one, "counts_bytes", default=False) for one in strategy.bundles)
    return 0 if counts_bytes or len(sizes) != 1 else sizes.pop()


def _in_own(call: Movement, own_bytes: int) -> Fraction:
    """Bytes that a rank would send in a call if its elements were as wide as a parameter's."""
    share = call.ring_share()
    is_other = own_bytes and call.element_bytes in _WIDTHS
    return share * own_bytes / Fraction(call.element_bytes) if is_other else share


def _of_dtypes(seen: Sequence[Movement], own_bytes: int) -> tuple[Deviation, ...]:
    """Causes: gradients or parameters are sent in a different width from that of the parameters."""
    sizes: dict[tuple[bool, int], Fraction] = defaultdict(Fraction)
    for call in seen:
        added = call.ring_share() - _in_own(call, own_bytes)
        if added:
            sizes[call.op in _REDUCTIONS, int(call.element_bytes)] += added
    return tuple(
        Deviation(
            Cause.REDUCTION_DTYPE if reduces else Cause.GATHER_DTYPE,
            size,
            said(
                "fsdp.reduced_in" if reduces else "hand_written.gathered_in",
                size=width,
                own=own_bytes,
            ),
        )
        for (reduces, width), size in sizes.items()
    )


def _padding(strategy: Strategy) -> int:
    """The padding of all parameters that makes the rows of each divisible by the ranks."""
    return sum(_padded(one, len(strategy.ranks)) for one in parameters_of(strategy)) - bytes_of(
        parameters_of(strategy)
    )


def _padded(parameter: Parameter, num_ranks: int) -> int:
    size, rows = bytes_of([parameter]), parameter.shape[0] if parameter.shape else 0
    return size + (-rows % num_ranks) * (size // rows) if rows else size


def _parts(seen: Sequence[Movement], strategy: Strategy) -> dict[str, Fraction]:
    """The fraction of a unit's traffic without padding; empty if its parameters are unknown.

    They are if gradients, in the order of backward, fill units in the order of their reductions.
    """
    parameters = iter(parameters_of(strategy))
    found: dict[str, Fraction] = {}
    for call in seen:
        if call.op is not Op.REDUCE_SCATTER or call.unit in found:
            continue
        padded = size = 0
        while padded < call.payload_bytes and (one := next(parameters, None)) is not None:
            padded += _padded(one, len(strategy.ranks))
            size += bytes_of([one])
        if padded != call.payload_bytes:
            return {}
        found[call.unit] = Fraction(size, padded)
    return found


def _words(strategy: Strategy, known: _Known) -> str:
    """The law; and the number of parameters, if it was derived from other data."""
    counted = next((text(one, "counted_by") for one in strategy.bundles), "")
    return said(
        "hand_written.law_counted" if counted else "hand_written.law",
        law=known.name,
        psi=f"{strategy.num_parameters:,}",
        counted=counted,
    )


def _laws(num_micro_steps: int) -> Sequence[_Known]:
    """The laws, and their total if everything in backward and forward is done each time."""
    if num_micro_steps == 1:
        return _KNOWN
    return (
        *_KNOWN,
        *(
            _Known(
                known.words,
                known.section,
                {key: num_micro_steps * count for key, count in known.passes.items()},
                num_micro_steps,
            )
            for known in _KNOWN
            if known.words in ("data parallel", "ZeRO-3")
        ),
        _Known(
            "ZeRO-2",
            "7.2.1",
            {(_ELSEWHERE, Op.REDUCE_SCATTER): num_micro_steps, (_ELSEWHERE, Op.ALL_GATHER): 1},
            num_micro_steps,
        ),
    )


def _passes(
    seen: Sequence[Movement], scale: Scale, own_bytes: int
) -> dict[tuple[bool, Op | None], Fraction]:
    """Traffic in Psi of a ring's passes; a broadcast distributes parameters like a gather."""
    found: dict[tuple[bool, Op | None], Fraction] = defaultdict(Fraction)
    for call in seen:
        op = Op.ALL_GATHER if call.op is Op.BROADCAST else call.op
        found[call.phase is Phase.FORWARD, op] += scale.multiple(_in_own(call, own_bytes))
    return found


def _distance(passes: dict[tuple[bool, Op | None], Fraction], known: _Known) -> Fraction:
    keys = passes.keys() | known.passes.keys()
    return sum(
        (abs(passes.get(key, Fraction(0)) - known.passes.get(key, 0)) for key in keys), Fraction(0)
    )
