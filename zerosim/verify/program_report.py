"""What a verification says of a program that zerosim's engine did not run, as data.

It is a `Report`, so what prints or draws one shows it too; beside that it says whose law each part
obeys, what nobody planned, and what the kernel counted in the whole iteration.
Imports zerosim's L0 and this package.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from zerosim.events import Op, Phase, Purpose
from zerosim.verify.report import CauseBytes, LedgerRow, RankBytes, Report, to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramBytes(RankBytes):
    """One row of the ledgers for one rank of a program.

    Attributes:
        beside: of `trace`, what no plan asked for and a cause names.
    """

    beside: int = 0

    @property
    def unexplained_trace(self) -> int:
        """Bytes of the trace that no cause names."""
        return self.trace - self.theory - self.beside


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRow(LedgerRow):
    """One reason for traffic of one system, all ranks.

    Attributes:
        system: who planned it; "" for what no law speaks of.
    """

    system: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemLaw:
    """The law of one strategy, and what its first rank sends.

    Attributes:
        ranks: global ranks that the law speaks of.
        law_name, formula, words, source: whose law it is, in symbols, in words, and where from.
        formulas: of all ranks, from the least: a pipeline's stages differ.
        unit: what the law counts: "Ψ" or "b·s·h".
        unit_bytes: one of them.
        payloads: of the law, in this unit.
        law_bytes, sent_bytes: what the law, and what the plan with all causes makes a rank send.
        amount: what is sent in a step, in the law's unit, without `overheads`.
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
    why: tuple[str, ...]
    overheads: tuple[str, ...]
    causes: tuple[CauseBytes, ...]
    is_likeness: bool
    is_far: bool


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
    op: Op
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
class ProgramReport(Report):
    """The three ledgers of one iteration of a program, and the verdicts over all of them.

    Attributes:
        systems: each strategy with its law; several may hold together.
        sources: what no law speaks of.
        wires, wires_received: of the iteration, by rank: calls that run beside each other have
            no wire of their own, so the rows have none.
    """

    rows: tuple[ProgramRow, ...]
    systems: tuple[SystemLaw, ...]
    sources: tuple[SourceBytes, ...]
    wires: tuple[RankWire, ...]
    wires_received: tuple[RankWire, ...]

    def total(self, ledger: str, rank: int) -> int | None:
        """What a rank sent in the iteration by "theory", "trace" or "wire"."""
        if ledger == "wire":
            return self.wires[rank].wire if rank < len(self.wires) else None
        cells = [row.sent[rank] for row in self.rows]
        return sum(cell.theory if ledger == "theory" else cell.trace for cell in cells)

    @property
    def unexplained_wire(self) -> int | None:
        """The largest unexplained difference of any rank; None if it was not measured.

        Of what was sent: what a rank received may belong to a call that it has not made yet.
        """
        values = [wire.unexplained for wire in self.wires]
        known = [abs(value) for value in values if value is not None]
        return max(known) if known and len(known) == len(values) else None

    def to_plain(self) -> dict[str, Any]:
        """The report as JSON values; fractions become numbers if whole, else strings."""
        plain = Report.to_plain(self)
        for name, wires in (("wires", self.wires), ("wires_received", self.wires_received)):
            plain[name] = [{**asdict(wire), "unexplained": wire.unexplained} for wire in wires]
        converted: dict[str, Any] = to_json(plain)
        return converted
