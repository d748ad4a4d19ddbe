"""The result of a verification, as data for commands and pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Protocol

from zerosim.base.tiers import Link, Tier
from zerosim.schema.events import Op, Phase, Purpose
from zerosim.verify.outcome import Outcome, outcome_of, together

UNEXPLAINED = "unexplained"
"""Prefix of the name of a difference that has no known cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankBytes:
    """One row of a ledger for one rank: one column per source of evidence.

    Attributes:
        theory: bytes that the rank sends under the bound of the collective, or that it copies,
            exact; None if no law is known.
        trace: bytes that PyTorch was told to send: intercepted messages; for a native call, the
            bound of its payload; for a copy, the size that the program declared.
        kernel: the kernel's count, on the wire or of a disk; None if not measured.
        algorithm: the part of `kernel` that the backend's algorithm adds to the bound.
        framing: the part of `kernel` that the backend's protocol adds, or the overhead of a file
            besides its contents: header, checksums, whole pages; None if unknown.
        overhead: the part of `trace` that is in no plan, but has a named cause.
    """

    rank: int
    theory: int | None
    trace: int
    kernel: int | None
    algorithm: int = 0
    framing: int | None = 0
    overhead: int = 0

    @property
    def unexplained_trace(self) -> int:
        """Bytes of the trace that no cause names."""
        return 0 if self.theory is None else self.trace - self.theory - self.overhead

    @property
    def unexplained_kernel(self) -> int | None:
        """Bytes of the kernel's counter that no cause names."""
        if self.kernel is None or self.framing is None:
            return None
        return self.kernel - self.trace - self.algorithm - self.framing


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """One reason for traffic: calls between all ranks, or copies between the tiers of each.

    Attributes:
        op: None for copies, from `origin` to `target`.
        link: the link class; None for all links between ranks.
        system: the system that planned it; "" for traffic outside of all laws.
        calls: number of calls, by rank; empty for rows of one link.
        payload_bytes: their payload on the first rank that made any; None for rows of one link.
        sent: bytes by rank; for copies, the copied bytes.
        received: bytes by rank; empty for copies, and for rows of one link.
    """

    phase: Phase
    purpose: Purpose
    op: Op | None = None
    origin: Tier | None = None
    target: Tier | None = None
    link: Link | None = None
    system: str = ""
    calls: tuple[int, ...] = ()
    payload_bytes: int | None = None
    sent: tuple[RankBytes, ...]
    received: tuple[RankBytes, ...] = ()

    @property
    def num_calls(self) -> int:
        """The number of calls of the first rank that made any."""
        return next(filter(None, self.calls), 0)

    @property
    def has_no_law(self) -> bool:
        """Whether the amount is unknown to theory for some rank."""
        return any(cell.theory is None for cell in self.sent)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceBytes:
    """A node's network interface over a whole run, as the kernel counts it.

    Attributes:
        node: counted from 0.
        name: "eth0" and the like.
        sockets: bytes that the connections of the node's ranks to other nodes sent through it.
        others: bytes that the ranks sent to other endpoints, such as a store.
        headers: headers of all packets.
        counted: bytes that the interface sent.
    """

    node: int
    name: str
    sockets: int
    others: int
    headers: int
    counted: int

    @property
    def unexplained(self) -> int:
        """Counted bytes that nothing explains."""
        return self.counted - self.sockets - self.others - self.headers


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseBytes:
    """One named difference, summed over a step, for one rank.

    Attributes:
        bytes: exact; positive if more is sent than under the pure law.
        words: an explanation.
        is_excused: whether the law omits it; other causes are deviations from the law.
    """

    cause: str
    bytes: Fraction
    words: str
    is_excused: bool

    @property
    def outcome(self) -> Outcome:
        """Its effect on the law: none, an explained difference, or an unexplained one."""
        if self.cause.startswith(UNEXPLAINED):
            return Outcome.UNEXPLAINED
        return Outcome.AS_PREDICTED if self.is_excused else Outcome.EXPLAINED


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One claim, checked in all complete iterations on all ranks.

    Attributes:
        id: stable name.
        title: the sentence.
        formula: the law with this run's numbers in it; "" if there is none.
        holds: whether every byte has a name; None if it could not be checked.
        measured: the measured value, in words.
        differs: whether it holds only with a named cause.
    """

    id: str
    title: str
    formula: str = ""
    holds: bool | None
    measured: str
    differs: bool = False

    @property
    def outcome(self) -> Outcome | None:
        """Its outcome; None if it could not be checked."""
        return outcome_of(holds=self.holds, differs=self.differs)

    def to_plain(self) -> dict[str, Any]:
        """As JSON values, with the outcome instead of `holds` and `differs`."""
        plain = asdict(self) | {"outcome": self.outcome}
        return {name: plain[name] for name in ("id", "title", "formula", "outcome", "measured")}


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemLaw:
    """The law of one strategy, and the bytes that its first rank sends.

    Attributes:
        ranks: global ranks of the law.
        made: its forwards and backwards, in words, if not one of each.
        law_name, formula, words, source: name of the law, in symbols, in words, and its source.
        formulas: of all ranks, from the smallest: a pipeline's stages differ.
        unit: the unit of the law: "Ψ" or "b·s·h".
        unit_bytes: bytes of one unit.
        payloads: payload of the law, in this unit.
        law_bytes, sent_bytes: bytes of a rank under the law, and under the plan with all causes.
        amount: traffic of a step, in the law's unit, without `overheads`.
        planned: the planned amount, if planned calls were not made; else "".
        is_sent: whether anything is sent at all.
        why: why `amount` differs from the law, in words; empty if it does not.
        overheads: traffic that the law omits, if two digits show it: "+ 0.04Ψ(N-1)/N for buffers".
        causes: from the law to the sent bytes.
        is_likeness: there was no plan; the law is the nearest to the recorded calls.
        is_far: even the nearest law does not match the recorded calls.
    """

    system: str
    name: str
    ranks: tuple[int, ...]
    law_name: str
    formula: str
    formulas: tuple[str, ...]
    words: str
    source: str
    unit: str
    unit_bytes: int
    payloads: Fraction
    law_bytes: Fraction
    sent_bytes: Fraction
    amount: str
    planned: str
    is_sent: bool
    why: tuple[str, ...]
    overheads: tuple[str, ...]
    causes: tuple[CauseBytes, ...]
    is_likeness: bool
    is_far: bool
    made: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBytes:
    """Calls outside of all laws, by the line that made them, on the first rank with any.

    Attributes:
        why: the cause that names them.
        sent_bytes: by their algorithm.
    """

    source: str
    phase: Phase
    purpose: Purpose
    op: Op | None
    why: str
    num_calls: int
    payload_bytes: int
    sent_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankWire:
    """One rank's iteration, one direction: the trace beside the kernel's count.

    Attributes:
        algorithm: bytes that the backend's algorithm adds to the trace.
        framing: bytes that its protocol adds; None if unknown.
        wire: None if not measured.
        under_way: bytes of calls that were pending at the end of an iteration: those carried over
            into this one, less those that it leaves to the next.
    """

    rank: int
    trace: int
    algorithm: int
    framing: int | None
    wire: int | None
    under_way: int = 0

    @property
    def unexplained(self) -> int | None:
        """Bytes that no cause names."""
        if self.wire is None or self.framing is None:
            return None
        return self.wire - self.trace - self.algorithm - self.framing - self.under_way


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The ledgers of one iteration, and the verdicts over all of them.

    Attributes:
        headline: whether theory holds here, in one sentence.
        holds: whether every byte has a name; None if nothing was predicted.
        stage: for a run of zerosim's engine.
        law: the law in words.
        num_parameters: Psi; 0 if no law or more than one uses it.
        iteration: the iteration of `rows`; -1 for a whole program without iterations.
        iterations: all iterations of the verdicts.
        systems: each strategy with its law; several may be in force together.
        rows: traffic between ranks.
        sources: traffic outside of all laws.
        wires, wires_received: those of the iteration, by rank.
        wire_by_call: whether each call, and so each row, has its own wire count; concurrent
            calls have none.
        causes: from all laws to the wire, for the first rank.
        outside_bytes: the kernel's count outside of every collective in the iteration, by rank.
        notes: further information for the reader.
        num_nodes: K.
        links: the rows by link class; empty with one node, or if messages are not known.
        copies: copies between tiers, in the iteration.
        interfaces: those of the whole run; empty if none were counted.
        unrecorded: for an imported run, calls of a rank in the iteration without a recorded size;
            `rows` are without them.
    """

    folder: str
    headline: str
    holds: bool | None
    stage: int | None
    law: str
    dtype: str
    algorithm: str
    backend: str
    num_ranks: int
    num_nodes: int
    num_parameters: int
    element_bytes: int
    accumulate: int
    iteration: int
    iterations: tuple[int, ...]
    systems: tuple[SystemLaw, ...]
    rows: tuple[LedgerRow, ...]
    sources: tuple[SourceBytes, ...]
    wires: tuple[RankWire, ...]
    wires_received: tuple[RankWire, ...]
    wire_by_call: bool
    causes: tuple[CauseBytes, ...]
    outside_bytes: tuple[int, ...]
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...]
    links: tuple[LedgerRow, ...]
    copies: tuple[LedgerRow, ...]
    interfaces: tuple[InterfaceBytes, ...]
    unrecorded: int = 0

    @property
    def outcome(self) -> Outcome | None:
        """The outcome of all verdicts; None if nothing was predicted or could be checked."""
        if self.holds is None:
            return None
        return together(verdict.outcome for verdict in self.verdicts)

    @property
    def law_bytes(self) -> Fraction | None:
        """Bytes of the first rank under all pure laws; None if no law is known."""
        if not self.systems:
            return None
        return sum((law.law_bytes for law in self.systems), Fraction(0))

    @property
    def law_symbols(self) -> str:
        """The pure law of one system, such as "2Ψ(N-1)/N"; "" if none is known, or several."""
        return self.systems[0].formula if len(self.systems) == 1 else ""

    def total(self, ledger: str, place: int, link: Link | None = None) -> int | None:
        """Bytes that a rank sent, or copied over a link, in the iteration; None if unknown.

        Args:
            ledger: a field of `RankBytes`: "theory", "trace", "kernel".
            place: index of the rank among all.
            link: between two tiers; None for traffic to other ranks.
        """
        if link is None and self.unrecorded:
            return None
        if link is None and ledger == "kernel" and not self.wire_by_call:
            return self.wires[place].wire if place < len(self.wires) else None
        rows = [row for row in self.copies if row.link is link] if link else self.rows
        return total([row.sent[place] for row in rows], ledger)

    @property
    def unexplained_trace(self) -> int:
        """The largest unexplained difference of a row of any rank, in bytes of the trace."""
        rows = (*self.rows, *self.copies)
        return max((abs(c.unexplained_trace) for row in rows for c in row.sent), default=0)

    @property
    def unexplained_wire(self) -> int | None:
        """Like `unexplained_trace`, on the wire, of a row or rank; None if not measured.

        Only for sent bytes: received bytes may belong to a call that the rank has not made yet.
        """
        if self.wire_by_call:
            return _largest([c.unexplained_kernel for row in self.rows for c in row.sent])
        return _largest([wire.unexplained for wire in self.wires])

    @property
    def unexplained_disk(self) -> int | None:
        """Like `unexplained_trace`, for the kernel's disk counts; None if not measured."""
        rows = [row for row in self.copies if row.link is Link.STORAGE]
        return _largest([c.unexplained_kernel for row in rows for c in row.sent])

    def to_plain(self) -> dict[str, Any]:
        """The report as JSON values; fractions become numbers if whole, else strings."""
        plain: dict[str, Any] = with_outcomes(to_json(asdict(self)), self)
        plain["law_bytes"] = to_json(self.law_bytes)
        plain["law_symbols"] = self.law_symbols
        plain["unexplained_trace_bytes"] = self.unexplained_trace
        plain["unexplained_wire_bytes"] = self.unexplained_wire
        plain["unexplained_disk_bytes"] = self.unexplained_disk
        for name, wires in (("wires", self.wires), ("wires_received", self.wires_received)):
            for entry, wire in zip(plain[name], wires, strict=True):
                entry["unexplained"] = wire.unexplained
        return plain


def total(cells: Iterable[RankBytes], ledger: str) -> int | None:
    """The sum of one column; None if a part of it is not known."""
    values = [getattr(cell, ledger) for cell in cells]
    return None if None in values else sum(values)


def _largest(values: Sequence[int | None]) -> int | None:
    known = [abs(value) for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


class _Judged(Protocol):
    @property
    def outcome(self) -> Outcome | None: ...

    @property
    def verdicts(self) -> tuple[Verdict, ...]: ...


def with_outcomes(plain: dict[str, Any], report: _Judged) -> dict[str, Any]:
    """A report as JSON values, with its own outcome and those of its verdicts."""
    del plain["holds"]
    plain["outcome"] = report.outcome
    plain["verdicts"] = [verdict.to_plain() for verdict in report.verdicts]
    return plain


def to_json(value: Any) -> Any:
    """The values of a record as JSON values; a fraction becomes a number if it is whole."""
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else str(value)
    if isinstance(value, dict):
        return {name: to_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value
