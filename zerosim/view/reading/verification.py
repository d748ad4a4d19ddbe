"""The verification of a run: to print, to display and to process further."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from zerosim.base.quantities import format_psi
from zerosim.base.tables import Cell, Column, Evidence, Table, html_text, written_out
from zerosim.schema.events import WHOLE
from zerosim.verify import MemoryReport, Report, Verdict
from zerosim.verify.outcome import Outcome
from zerosim.view.reading.law import Expected, RankAmount, amount_words
from zerosim.view.reading.wording import said

_SIGNS = {Outcome.AS_PREDICTED: "✓", Outcome.EXPLAINED: "≠", Outcome.UNEXPLAINED: "✗", None: "?"}
_LAST = (Column("outcome"), Column("words"))
_MOST_RANKS = 64
"""Minimum end of the axis of ranks, for runs with fewer."""


@dataclass(frozen=True, slots=True)
class Verification:
    """The verdicts on a run, as in `zerosim verify` or `zerosim memory`.

    Attributes:
        report: the full report of the checks.
    """

    report: Report | MemoryReport

    @property
    def headline(self) -> str:
        """Whether theory holds here, in one sentence."""
        return self.report.headline

    @property
    def holds(self) -> bool | None:
        """Whether every byte has a name; None if nothing was predicted."""
        return self.report.holds

    @property
    def outcome(self) -> Outcome | None:
        """As predicted, explained, or unexplained; None if nothing was predicted."""
        return self.report.outcome

    @property
    def claims(self) -> tuple[Verdict, ...]:
        """Each claim, checked in all complete iterations on all ranks."""
        return self.report.verdicts

    @property
    def causes(self) -> Table:
        """From the law to the measurement on the first rank, cause by cause."""
        law, symbols = self.report.law_bytes, getattr(self.report, "law_symbols", "")
        rows: list[tuple[Cell, ...]] = []
        if law is not None:
            rows.append((symbols or "law", _number(law), "", self.report.law))
        rows += [
            (one.cause, _number(one.bytes), one.outcome.value, one.words)
            for one in self.report.causes
        ]
        columns = (Column("cause"), Column("bytes", Evidence.PREDICTED), *_LAST)
        return Table("From the law to the measurement, first rank", columns, tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values: the output of the command with --json."""
        return self.report.to_plain()

    def __repr__(self) -> str:
        lines = [f"  {_SIGNS[one.outcome]} {one.title}: {one.measured}" for one in self.claims]
        notes = [f"note: {one}" for one in self.report.notes]
        return written_out("\n".join([self.headline, *lines, *notes]))

    def _repr_html_(self) -> str:
        items = "".join(
            f"<li>{_SIGNS[one.outcome]} {html_text(f'{one.title}: {one.measured}')}</li>"
            for one in self.claims
        )
        return f"<p><b>{html_text(self.headline)}</b></p><ul>{items}</ul>"


@dataclass(frozen=True, slots=True, repr=False)
class TrafficVerification(Verification):
    """The verdicts on the traffic of a run."""

    report: Report

    def ledger(self, rank: int = 0) -> Table:
        """Bytes sent by one rank by reason: theory, trace and wire side by side."""
        report = self.report
        rows: list[tuple[Cell, ...]] = []
        for row in report.rows:
            cell = next(one for one in row.sent if one.rank == rank)
            reason = (row.phase.value, row.purpose.value, str(row.op))
            rows.append((*reason, row.num_calls, cell.theory, cell.trace, cell.kernel))
        place = "" if report.iteration == WHOLE else f" in iteration {report.iteration}"
        columns = (
            *map(Column, ("phase", "purpose", "op")),
            Column("calls", Evidence.TRACED),
            Column("theory_bytes", Evidence.PREDICTED),
            Column("trace_bytes", Evidence.TRACED),
            Column("wire_bytes", Evidence.MEASURED),
        )
        return Table(f"Sent by rank {rank}{place}", columns, tuple(rows))

    def laws(self, rank: int = 0) -> Table:
        """Bytes sent by a rank in a step, in Psi, over the number of ranks N.

        Laws k(N-1)/N, including this run's, and the bytes sent by its rank, by kernel or trace.
        Empty if the run's law does not depend on N alone.
        """
        report = self.report
        unit = report.num_parameters * report.element_bytes
        rows: list[tuple[Cell, ...]] = []
        if report.law_bytes is not None and unit and report.num_ranks > 1 and report.rows:
            own = report.law_bytes / unit / Fraction(report.num_ranks - 1, report.num_ranks)
            if own.denominator == 1:
                rows = self._law_rows(rank, int(own), unit)
        columns = (Column("curve"), Column("kind"), Column("ranks"), Column("sent_psi"))
        return Table("Sent in a step as the number of ranks grows, in Ψ", columns, tuple(rows))

    def _law_rows(self, rank: int, own: int, unit: int) -> list[tuple[Cell, ...]]:
        report = self.report
        most = max(_MOST_RANKS, report.num_ranks)
        rows: list[tuple[Cell, ...]] = [
            (f"{k}Ψ", "own" if k == own else "other", n, k * (n - 1) / n)
            for k in sorted({2, 3, 4, own})
            for n in range(1, most + 1)
        ]
        place = [cell.rank for cell in report.rows[0].sent].index(rank)
        sent = report.total("kernel", place)
        if sent is None:
            sent = report.total("trace", place)
        if sent is not None:
            psi = Fraction(sent, unit)
            rows.append(
                (said("laws.this_run", psi=format_psi(psi)), "run", report.num_ranks, float(psi))
            )
        return rows


@dataclass(frozen=True, slots=True, repr=False)
class MemoryVerification(Verification):
    """The verdicts on the memory of a run."""

    report: MemoryReport


@dataclass(frozen=True, slots=True)
class LawCheck:
    """A law given by the user, compared with every rank in every iteration.

    Attributes:
        held: the comparisons.
        causes: why it differs from the law of this run's system.
    """

    expected: Expected
    held: tuple[RankAmount, ...]
    causes: Table

    @property
    def holds(self) -> bool:
        """Whether every rank follows the law in every iteration."""
        return all(one.holds for one in self.held)

    @property
    def headline(self) -> str:
        """The answer in a sentence."""
        law = self.expected.quantity.text
        worst = max(self.held, key=lambda one: (not one.holds, abs(one.found - one.wanted)))
        found = amount_words(worst.found, worst.unit, self.expected)
        if self.holds:
            return f"{law} holds on every rank in every iteration: {found}."
        return f"{law} does not hold: {_place(worst)} moves {found}."

    @property
    def table(self) -> Table:
        """Traffic of each rank in each iteration, and the value of the law."""
        rows = tuple(
            (
                one.rank.rank,
                None if one.iteration == WHOLE else one.iteration,
                _number(one.wanted),
                _number(one.found),
                float(one.found / one.unit),
                one.holds,
            )
            for one in self.held
        )
        names = ("law", "found", "found_psi")
        columns = (
            Column("rank"),
            Column("iteration"),
            *(Column(name, Evidence.COMPUTED) for name in names),
            Column("holds"),
        )
        return Table(self.headline, columns, rows)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "headline": self.headline,
            "holds": self.holds,
            "law": self.expected.quantity.text,
            "table": self.table.to_dict(),
            "causes": self.causes.to_dict(),
        }

    def __repr__(self) -> str:
        if self.holds or not len(self.causes):
            return self.headline
        why = [f"  {row['bytes']:+,.0f} B {row['cause']}: {row['words']}" for row in self._why()]
        return written_out("\n".join([self.headline, *why]))

    def _repr_html_(self) -> str:
        return f"<pre>{html_text(repr(self))}</pre>"

    def _why(self) -> Sequence[dict[str, Any]]:
        return list(self.causes)[1:]


def _number(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)


def _place(one: RankAmount) -> str:
    where = "" if one.iteration == WHOLE else f" in iteration {one.iteration}"
    return f"rank {one.rank.rank}{where}"
