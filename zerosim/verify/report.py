"""What a verification says, as data that a command prints and a page draws.

Imports zerosim's L0.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Protocol

from zerosim.events import Op, Phase, Purpose
from zerosim.tiers import Link, Tier, link_of_copy
from zerosim.verify.outcome import Outcome, outcome_of, together

UNEXPLAINED = "unexplained"
"""What a cause's name begins with that is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankBytes:
    """One row of the ledgers for one rank.

    Attributes:
        theory: what the bound of the collective makes the rank send, exact.
        trace: what PyTorch was asked to send: messages as intercepted, of a native call the bound
            of what it was asked for.
        wire: what the kernel sent; None if it was not measured.
        algorithm: of `wire`, what the backend's algorithm adds to the bound.
        framing: of `wire`, what the backend's protocol adds; None if it is not known.
    """

    rank: int
    theory: int
    trace: int
    wire: int | None
    algorithm: int
    framing: int | None

    @property
    def unexplained_trace(self) -> int:
        """Bytes of the trace that no cause names."""
        return self.trace - self.theory

    @property
    def unexplained_wire(self) -> int | None:
        """Bytes of the wire that no cause names."""
        if self.wire is None or self.framing is None:
            return None
        return self.wire - self.trace - self.algorithm - self.framing


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """One reason for traffic, all ranks.

    Attributes:
        num_collectives, payload_bytes: calls, and what they were asked for, of the first rank that
            made any.
        sent, received: by rank.
    """

    phase: Phase
    purpose: Purpose
    op: Op
    num_collectives: int
    payload_bytes: int
    sent: tuple[RankBytes, ...]
    received: tuple[RankBytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRow:
    """What of a row of the ledgers went over one link class, all ranks.

    Attributes:
        sent: by rank.
    """

    link: Link
    phase: Phase
    purpose: Purpose
    op: Op
    sent: tuple[RankBytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyBytes:
    """One row of copies for one rank.

    Attributes:
        theory: what is to be copied, exact; None if no law is known.
        trace: what the program said that it copies.
        kernel: what the kernel counted, of a disk; None if it was not measured, or has no counter.
        framing: what a file is beside its content: head, checksums, whole pages; 0 on the bus.
    """

    rank: int
    theory: int | None
    trace: int
    kernel: int | None
    framing: int

    @property
    def unexplained_trace(self) -> int:
        """Bytes of the trace that theory does not know."""
        return 0 if self.theory is None else self.trace - self.theory

    @property
    def unexplained_kernel(self) -> int | None:
        """Bytes of the kernel's counter that no cause names."""
        return None if self.kernel is None else self.kernel - self.trace - self.framing


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyLedger:
    """One reason for copies between two tiers, all ranks.

    Attributes:
        num_copies: by rank.
        copied: by rank.
    """

    phase: Phase
    purpose: Purpose
    origin: Tier
    target: Tier
    num_copies: tuple[int, ...]
    copied: tuple[CopyBytes, ...]

    @property
    def has_no_law(self) -> bool:
        """Whether theory does not know how much it ought to be."""
        return any(cell.theory is None for cell in self.copied)

    @property
    def link(self) -> Link:
        """What the copies go over."""
        return link_of_copy(self.origin, self.target)


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
    formula: str
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
class Report:
    """The three ledgers of one iteration, and the verdicts over all of them.

    Attributes:
        headline: one sentence that answers: is the theory true here?
        holds: whether every byte has a name; None if nothing was predicted.
        num_parameters: Psi.
        iteration: whose ledgers `rows` are; -1 for all of a program that told of no iterations.
        iterations: all that the verdicts cover.
        law_bytes: what the pure law makes a rank send; None if no law is known.
        causes: from the law to the wire, for the first rank.
        outside_bytes: what the kernel sent outside of every collective in the iteration, by rank.
        notes: what else a reader should know.
        num_nodes: K.
        law_symbols: the pure law, such as "2Ψ(N-1)/N"; "" if none is known.
        links: the rows by link class; empty with one node, or where messages are not known.
        copies: between tiers, in the iteration.
        interfaces: of the whole run; empty if none were counted.
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
    num_parameters: int
    element_bytes: int
    accumulate: int
    iteration: int
    iterations: tuple[int, ...]
    law_bytes: Fraction | None
    rows: tuple[LedgerRow, ...]
    causes: tuple[CauseBytes, ...]
    outside_bytes: tuple[int, ...]
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...]
    num_nodes: int = 1
    law_symbols: str = ""
    links: tuple[LinkRow, ...] = ()
    copies: tuple[CopyLedger, ...] = ()
    interfaces: tuple[InterfaceBytes, ...] = ()

    @property
    def outcome(self) -> Outcome | None:
        """What all verdicts come to; None if nothing was predicted, or could be checked."""
        if self.holds is None:
            return None
        return together(verdict.outcome for verdict in self.verdicts)

    def total(self, ledger: str, rank: int) -> int | None:
        """What a rank sent in the iteration by "theory", "trace" or "wire"."""
        values = [getattr(row.sent[rank], ledger) for row in self.rows]
        return None if any(value is None for value in values) else sum(values)

    def copied(self, ledger: str, link: Link, rank: int) -> int | None:
        """What a rank copied over a link by this ledger, a field of `CopyBytes`, if it is known."""
        values = [getattr(row.copied[rank], ledger) for row in self.copies if row.link is link]
        return None if any(value is None for value in values) else sum(values)

    @property
    def unexplained_trace(self) -> int:
        """The largest unexplained difference of a row of any rank, in bytes of the trace."""
        between_ranks = [abs(cell.unexplained_trace) for cell in self._cells()]
        copied = [abs(c.unexplained_trace) for row in self.copies for c in row.copied]
        return max([*between_ranks, *copied], default=0)

    @property
    def unexplained_disk(self) -> int | None:
        """Likewise of what the kernel counted to and from disks; None if it was not measured."""
        cells = [c for row in self.copies if row.link is Link.STORAGE for c in row.copied]
        values = [abs(c.unexplained_kernel) for c in cells if c.unexplained_kernel is not None]
        return max(values) if values and len(values) == len(cells) else None

    @property
    def unexplained_wire(self) -> int | None:
        """Likewise on the wire; None if it was not measured."""
        values = [cell.unexplained_wire for cell in self._cells()]
        known = [abs(value) for value in values if value is not None]
        return max(known) if known and len(known) == len(values) else None

    def to_plain(self) -> dict[str, Any]:
        """The report as JSON values; fractions become numbers if whole, else strings."""
        plain: dict[str, Any] = with_outcomes(to_json(asdict(self)), self)
        plain["unexplained_trace_bytes"] = self.unexplained_trace
        plain["unexplained_wire_bytes"] = self.unexplained_wire
        plain["unexplained_disk_bytes"] = self.unexplained_disk
        for row, ledger in zip(plain["copies"], self.copies, strict=True):
            row["link"] = ledger.link
        return plain

    def _cells(self) -> list[RankBytes]:
        return [cell for row in self.rows for cell in row.sent]


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
