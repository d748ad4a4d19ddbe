"""The movements of one rank in one optimizer step, and their deviation from the pure law.

A system's plan has three parts that add up: the law; the causes, by which the ring shares of its
calls differ from the law; and the algorithm's difference from these shares. A ring share is the
average traffic of a rank of a ring: (N-1)/N of a buffer, twice that for an all-reduce.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from zerosim.base.errors import ConfigError
from zerosim.base.language import clauses, term
from zerosim.base.quantities import format_decimal, format_exact_bytes
from zerosim.base.tiers import Link
from zerosim.schema.events import Algorithm, Op, Phase, Purpose
from zerosim.schema.strategies import Parameter
from zerosim.theory.algorithms import is_more_than_asked
from zerosim.theory.causes import Cause, Deviation, Law
from zerosim.theory.movement import Movement
from zerosim.theory.wording import said

_ELEMENT_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "complex64": 8,
    "complex128": 16,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
_OF_ROOTS = frozenset({Op.BROADCAST, Op.REDUCE, Op.GATHER, Op.SCATTER})


def element_bytes_of(dtype: str) -> int:
    """Bytes of an element of a dtype, by PyTorch's name.

    Raises:
        ConfigError: the dtype is not known.
    """
    if dtype.startswith("float8"):
        return 1
    if dtype not in _ELEMENT_BYTES:
        raise ConfigError(
            f"the size of an element of dtype {dtype!r} is unknown: expected one of "
            f"{', '.join(_ELEMENT_BYTES)}"
        )
    return _ELEMENT_BYTES[dtype]


def bytes_of(parameters: Iterable[Parameter], dtype: str = "") -> int:
    """Bytes of whole parameters, in their own dtypes or in the one given."""
    return sum(one.elements * element_bytes_of(dtype or one.dtype) for one in parameters)


def factor(count: object) -> str:
    """A factor in front of a law's unit: empty for 1."""
    text = f"{count}"
    return "" if text == "1" else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Bubble:
    """Idle time of a pipeline's ranks, if every stage takes the same time.

    Attributes:
        num_ranks: p, ranks of the pipeline.
        num_microbatches: m.
        stages_a_rank: v.
    """

    num_ranks: int
    num_microbatches: int
    stages_a_rank: int

    @property
    def of_ideal(self) -> Fraction:
        """Idle time divided by the time of the work alone: (p-1) / (v m)."""
        return Fraction(self.num_ranks - 1, self.stages_a_rank * self.num_microbatches)

    @property
    def of_total(self) -> Fraction:
        """Idle time divided by the total time: (p-1) / (v m + p - 1)."""
        work = self.stages_a_rank * self.num_microbatches
        return Fraction(self.num_ranks - 1, work + self.num_ranks - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The unit of a law.

    Attributes:
        unit: its name: "Ψ", or "b·s·h", the activations at a boundary.
        unit_bytes: bytes of one unit, in the communicated dtype.
        share: the fraction of a payload that a rank sends: (N-1)/N, or 1 for messages.
        suffix: the share in symbols.
    """

    unit: str
    unit_bytes: int
    share: Fraction
    suffix: str = "(N-1)/N"

    @property
    def a_pass(self) -> Fraction:
        """Bytes that a rank sends for one unit of payload."""
        return self.unit_bytes * self.share

    def multiple(self, sent_bytes: Fraction | int) -> Fraction:
        """Bytes that a rank sends, as payload in the law's unit."""
        return Fraction(sent_bytes) / self.a_pass if self.a_pass else Fraction(0)

    def amount(self, sent_bytes: Fraction | int) -> str:
        """The same in words, as a law is written: `2Ψ(N-1)/N`, `Ψ(N-1)/N`, `2.89Ψ(N-1)/N`."""
        multiple = self.multiple(sent_bytes)
        text = f"{multiple}" if multiple.denominator == 1 else format_decimal(multiple, 2)
        return f"{factor(text)}{self.unit}{self.suffix}"

    def in_digits(self, sent_bytes: Fraction | int) -> str:
        """A difference from the law, with a sign: `- 0.04Ψ(N-1)/N`; "" if two digits hide it."""
        size = abs(Fraction(sent_bytes))
        shown = format_decimal(self.multiple(size), 2).strip("0.")
        return f"{'-' if sent_bytes < 0 else '+'} {self.amount(size)}" if shown else ""

    def in_units(self, sent_bytes: Fraction | int) -> str:
        """The same, or in bytes if two digits hide it: `+ Ψ(N-1)/N`, `- 12 B`."""
        sign = "-" if sent_bytes < 0 else "+"
        size = abs(Fraction(sent_bytes))
        return self.in_digits(sent_bytes) or f"{sign} {format_exact_bytes(size)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanClaim:
    """A sentence about a step that a run can prove or refute.

    Attributes:
        id: stable name, such as "sent-a-step".
        title: the sentence.
        formula: the law with this run's numbers filled in, and its value.
        law: the value of the pure law.
        causes: why a step moves more or less; their sum is exactly the difference.
        phase: the phase of the claim; None for the whole step.
        link: the link of the claim; None for all traffic between ranks.
    """

    id: str
    title: str
    formula: str
    law: Law
    causes: tuple[Deviation, ...]
    phase: Phase | None = None
    link: Link | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The movements of one rank in one optimizer step under one strategy.

    Attributes:
        system, name: the system of the plan.
        title: the system in words: "DDP", "DDP + ZeroRedundancyOptimizer".
        ranks: global ranks of its law.
        law_name: name of the law: "ZeRO-3".
        formula: the law in symbols: "3Ψ(N-1)/N".
        scale: the unit of its law.
        calls: all calls, and the copies between tiers; empty for one rank.
        causes: why the calls' ring shares differ from the law, in words without numbers. Together
            they are exactly the difference.
        bubble: for a pipeline with a schedule of known bubble.
        left_to: what determines the traffic that cannot be planned, by purpose: a communication
            hook.
        asked_for: requests of the program itself that the plan does not contain, in words, by unit.
        is_likeness: the law is the nearest one to the recorded calls, and was not planned.
        is_far: even the nearest one differs from the recorded calls by a larger part of it.
        num_parameters: Psi; 0 for a law with another unit.
        is_complete: whether nothing else is moved in the step, for any purpose.
        made: the forwards and backwards of the model, in words, if not one of each.
    """

    system: str
    name: str
    title: str
    ranks: tuple[int, ...]
    law: Law
    law_name: str
    formula: str
    scale: Scale
    calls: tuple[Movement, ...]
    causes: tuple[Deviation, ...] = ()
    bubble: Bubble | None = None
    left_to: dict[Purpose, str] = field(default_factory=dict)
    asked_for: dict[str, str] = field(default_factory=dict)
    is_likeness: bool = False
    is_far: bool = False
    num_parameters: int = 0
    is_complete: bool = False
    made: str = ""

    @property
    def purposes(self) -> frozenset[Purpose]:
        """The purposes of all planned calls."""
        return frozenset(call.purpose for call in self.calls)

    def merged_causes(self) -> list[Deviation]:
        """Its causes; those with equal words are merged."""
        sizes: dict[tuple[Cause, str], Fraction] = defaultdict(Fraction)
        for one in self.causes:
            sizes[one.cause, one.words] += one.bytes
        return [Deviation(cause, size, words) for (cause, words), size in sizes.items()]

    def deviations(self, rank: int, algorithm: Algorithm) -> tuple[Deviation, ...]:
        """Why the traffic of `rank` differs from the law, cause by cause.

        Returns:
            The causes that are not zero, each once, in the order of `Cause`. Their sum is exactly
            the traffic of the calls with `algorithm`, less `law.sent_bytes`.

        Raises:
            ConfigError: the algorithm's exact cost is not known.
        """
        merged = [
            replace(
                one,
                words=said("causes.in_units", words=one.words, size=self.scale.in_units(one.bytes)),
            )
            for one in self.merged_causes()
        ]
        found = [*merged, *_of_algorithm(self, rank, algorithm)]
        by_cause: dict[Cause, list[Deviation]] = defaultdict(list)
        for deviation in found:
            by_cause[deviation.cause].append(deviation)
        return tuple(
            joined for cause in Cause if (joined := _join(cause, by_cause.get(cause, []))).bytes
        )

    def claims(self, rank: int, algorithm: Algorithm) -> tuple[PlanClaim, ...]:
        """The claims that can be checked on a run; the first covers the whole step.

        Raises:
            ConfigError: the algorithm's exact cost is not known.
        """
        step = PlanClaim(
            id="law",
            title=said("claims.says", title=term(self.title), law=term(self.law_name)),
            formula=f"{self.formula} = {format_exact_bytes(self.law.sent_bytes)}",
            law=self.law,
            causes=self.deviations(rank, algorithm),
        )
        return (step,)

    def in_words(self, moved: Fraction, link: Link | None) -> str:
        """The movements of this plan; over a link, if a claim is about one."""
        assert link is None, "this plan makes no claims by link"
        key = "claims.called" if self.is_likeness else "claims.planned"
        return said(key, bytes=format_exact_bytes(moved))


def _join(cause: Cause, parts: Sequence[Deviation]) -> Deviation:
    total = sum((part.bytes for part in parts), Fraction(0))
    words = clauses(dict.fromkeys(part.words for part in parts if part.bytes))
    return Deviation(cause, total, words)


def _of_algorithm(plan: Plan, rank: int, algorithm: Algorithm) -> list[Deviation]:
    """The causes from the ring shares to the algorithm's actual traffic of a rank."""
    doubled, rounding, unequal = Fraction(0), Fraction(0), Fraction(0)
    for call in plan.calls:
        sent = call.cost(rank, algorithm).sent_bytes
        rest = sent - call.ring_share()
        if call.op in _OF_ROOTS:
            unequal += rest
            continue
        if is_more_than_asked(algorithm, call.op):
            doubled += call.ring_share()
            rest -= call.ring_share()
        rounding += rest
    return [
        Deviation(
            Cause.BACKEND_ALGORITHM,
            doubled,
            said("causes.native", size=plan.scale.in_units(doubled)),
        ),
        Deviation(
            Cause.SEGMENT_ROUNDING,
            rounding,
            said(
                "causes.unequal_more" if rounding > 0 else "causes.unequal_less",
                rank=rank,
                bytes=format_exact_bytes(abs(rounding)),
            ),
        ),
        Deviation(
            Cause.UNEQUAL_PARTS,
            unequal,
            said(
                "causes.root_more" if unequal > 0 else "causes.root_less",
                rank=rank,
                bytes=format_exact_bytes(abs(unequal)),
                size=plan.scale.in_units(unequal),
            ),
        ),
    ]
