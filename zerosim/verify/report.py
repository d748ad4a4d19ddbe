"""What a verification says, as data that a command prints and a page draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Protocol

from zerosim.base.tiers import Link, Tier
from zerosim.schema.events import Op, Phase, Purpose
from zerosim.verify.outcome import Outcome, outcome_of, together

UNEXPLAINED = "unexplained"
"""What a cause's name begins with that is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankBytes:
    """One row of a ledger for one rank: a column for each witness.

    Attributes:
        theory: what the bound of the collective makes the rank send, or what it is to copy, exact;
            None if no law is known.
        trace: what PyTorch was asked to send: messages as intercepted, of a native call the bound
            of what it was asked for; of a copy what the program said that it copies.
        kernel: what the kernel counted, on the wire or of a disk; None if it was not measured, or
            has no counter.
        algorithm: of `kernel`, what the backend's algorithm adds to the bound.
        framing: of `kernel`, what the backend's protocol adds, or what a file is beside its
            content: head, checksums, whole pages; None if it is not known.
        overhead: of `trace`, what no plan asked for and a cause names.
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
    """One reason for traffic, all ranks: calls between them, or copies between tiers of each.

    Attributes:
        op: None for copies, from `origin` to `target`.
        link: what it goes over; None for all links between ranks.
        system: who planned it; "" for what no law speaks of.
        calls: how often, by rank; empty for what went over one link.
        payload_bytes: what they were asked for, of the first rank that made any; None likewise.
        sent: by rank; of copies what was copied.
        received: by rank; empty for copies, and for what went over one link.
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
        """Of the first rank that made any."""
        return next(filter(None, self.calls), 0)

    @property
    def has_no_law(self) -> bool:
        """Whether theory does not know how much it ought to be."""
        return any(cell.theory is None for cell in self.sent)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceBytes:
    """A node's network interface over a whole run, as the kernel counts it.

    Attributes:
        node: counted from 0.
        name: "eth0" and the like.
        sockets: what the connections of the node's ranks to other nodes sent through it.
        others: what connections of the ranks sent through it that lead to no rank: to a store.
        headers: what each packet has before its payload.
        counted: what the interface sent.
    """

    node: int
    name: str
    sockets: int
    others: int
    headers: int
    counted: int

    @property
    def unexplained(self) -> int:
        """Bytes of the counter that have no name."""
        return self.counted - self.sockets - self.others - self.headers


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseBytes:
    """One named difference, summed over a step, for one rank.

    Attributes:
        bytes: exact; positive if more is sent than the pure law says.
        words: how it comes about.
        is_excused: whether a law leaves it out; what is not excused differs from the law.
    """

    cause: str
    bytes: Fraction
    words: str
    is_excused: bool

    @property
    def outcome(self) -> Outcome:
        """What it makes of the law: nothing, another number that is explained, or a riddle."""
        if self.cause.startswith(UNEXPLAINED):
            return Outcome.UNEXPLAINED
        return Outcome.AS_PREDICTED if self.is_excused else Outcome.EXPLAINED


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One claim, held against all complete iterations and all ranks.

    Attributes:
        id: stable name.
        title: the sentence.
        formula: the law with this run's numbers in it; "" if it has none.
        holds: whether every byte has a name; None if it could not be checked.
        measured: what was found, in words.
        differs: whether it holds only because a named cause is counted.
    """

    id: str
    title: str
    formula: str = ""
    holds: bool | None
    measured: str
    differs: bool = False

    @property
    def outcome(self) -> Outcome | None:
        """What it comes to; None if it could not be checked."""
        return outcome_of(holds=self.holds, differs=self.differs)

    def to_plain(self) -> dict[str, Any]:
        """As JSON values: its outcome in place of what it is made of."""
        plain = asdict(self) | {"outcome": self.outcome}
        return {name: plain[name] for name in ("id", "title", "formula", "outcome", "measured")}


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemLaw:
    """The law of one strategy, and what its first rank sends.

    Attributes:
        ranks: global ranks that the law speaks of.
        made: in which forwards and backwards, in words, if that is not one of each.
        law_name, formula, words, source: whose law it is, in symbols, in words, and where from.
        formulas: of all ranks, from the least: a pipeline's stages differ.
        unit: what the law counts: "Ψ" or "b·s·h".
        unit_bytes: one of them.
        payloads: of the law, in this unit.
        law_bytes, sent_bytes: what the law, and what the plan with all causes makes a rank send.
        amount: what is sent in a step, in the law's unit, without `overheads`.
        planned: likewise what was planned, if calls of it were not made; else "".
        is_sent: anything is sent at all.
        why: what makes that differ from the law, in words; empty if it does not.
        overheads: what a law leaves out, where it shows beside its number: "0.04Ψ for buffers".
        causes: from the law to what is sent.
        is_likeness: nothing was planned; the law is the nearest to what was called.
        is_far: even the nearest law is not what was called.
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
    """Calls that no law speaks of, by the line that made them; of the first rank that did.

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
    """One rank's iteration, one way: what its trace says, and what the kernel counted.

    Attributes:
        algorithm: what the backend's algorithm adds to the trace.
        framing: what its protocol adds; None if it is not known.
        wire: None if it was not measured.
        under_way: of calls that were under way when an iteration ended: what came late into this
            one, less what this one left to the next.
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
        headline: one sentence that answers: is the theory true here?
        holds: whether every byte has a name; None if nothing was predicted.
        stage: of a run of zerosim's engine.
        law: in words.
        num_parameters: Psi; 0 if no law or more than one counts it.
        iteration: whose ledgers `rows` are; -1 for all of a program that told of no iterations.
        iterations: all that the verdicts cover.
        systems: each strategy with its law; several may hold together.
        rows: what went between ranks.
        sources: what no law speaks of.
        wires, wires_received: of the iteration, by rank.
        wire_by_call: whether each call has a wire of its own; calls that run beside each other
            have none, so then the rows have none.
        causes: from all laws to the wire, for the first rank.
        outside_bytes: what the kernel sent outside of every collective in the iteration, by rank.
        notes: what else a reader should know.
        num_nodes: K.
        links: the rows by link class; empty with one node, or where messages are not known.
        copies: between tiers, in the iteration.
        interfaces: of the whole run; empty if none were counted.
        unrecorded: of an imported run, calls of a rank in the iteration of which it is not
            recorded what they send; `rows` are without them.
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
        """What all verdicts come to; None if nothing was predicted, or could be checked."""
        if self.holds is None:
            return None
        return together(verdict.outcome for verdict in self.verdicts)

    @property
    def law_bytes(self) -> Fraction | None:
        """What all pure laws make the first rank send; None if no law is known."""
        if not self.systems:
            return None
        return sum((law.law_bytes for law in self.systems), Fraction(0))

    @property
    def law_symbols(self) -> str:
        """The pure law of one system, such as "2Ψ(N-1)/N"; "" if none is known, or several."""
        return self.systems[0].formula if len(self.systems) == 1 else ""

    def total(self, ledger: str, place: int, link: Link | None = None) -> int | None:
        """What a rank sent, or copied over a link, in the iteration; None if it is not known.

        Args:
            ledger: a field of `RankBytes`: "theory", "trace", "kernel".
            place: of the rank among all.
            link: between two tiers; None for what it sent to other ranks.
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
        """Likewise on the wire, of a row or of a rank; None if it was not measured.

        Of what was sent: what a rank received may belong to a call that it has not made yet.
        """
        if self.wire_by_call:
            return _largest([c.unexplained_kernel for row in self.rows for c in row.sent])
        return _largest([wire.unexplained for wire in self.wires])

    @property
    def unexplained_disk(self) -> int | None:
        """Likewise of what the kernel counted to and from disks; None if it was not measured."""
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
    """A report as JSON values, with the outcomes of itself and of its verdicts."""
    del plain["holds"]
    plain["outcome"] = report.outcome
    plain["verdicts"] = [verdict.to_plain() for verdict in report.verdicts]
    return plain


def to_json(value: Any) -> Any:
    """Records' values as JSON has them; a fraction becomes a number if it is whole."""
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else str(value)
    if isinstance(value, dict):
        return {name: to_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value
