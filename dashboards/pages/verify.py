"""Verify: the three ledgers, the derivation from the law to the wire, each claim.

The contents of the page are computed here from its address; `components.verify` converts them to
Dash components. The numbers are those of `zerosim verify` and `zerosim memory`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from urllib.parse import urlencode

from zerosim.base.config import STAGE_NAMES, STAGES
from zerosim.base.errors import ConfigError, TraceError
from zerosim.base.language import term
from zerosim.base.quantities import (
    format_bytes,
    format_decimal,
    format_exact,
    format_psi,
    parse_count,
)
from zerosim.base.tables import Table
from zerosim.dashboards.entry import TraceEntry
from zerosim.dashboards.pages.verify_places import PlacesSection, places_of
from zerosim.dashboards.texts import SITE
from zerosim.schema.events import Algorithm
from zerosim.theory import paper_table_1, stage_states
from zerosim.theory.algorithms import is_more_than_asked
from zerosim.verify import (
    LedgerRow,
    MemoryReport,
    Outcome,
    Report,
    Verdict,
    verify_memory,
)
from zerosim.view.reading import load
from zerosim.view.reading.verification import TrafficVerification

PATH = "/verify"
TITLE = "pages.verify"
NOT_MEASURED = "verify.not_measured"
NOT_RECORDED = "verify.not_recorded"
NOT_PREDICTED = "verify.nothing_predicted"
NO_PLAN = "verify.no_plan"
NO_LAW = "verify.no_law"
"""Keys of the texts in place of a number."""
MOST_CHOICES = 16
"""Maximum number of ranks or iterations side by side."""
LARGEST_PSI = 10**15
LARGEST_N = 10**6
DEFAULT_PSI, DEFAULT_N = 7_500_000_000, 64
"""The values of the paper's Figure 1."""


@dataclass(frozen=True, slots=True)
class Reports:
    """The verification of a trace. `memory` is None, with the reason, if it was not recorded."""

    traffic: TrafficVerification
    memory: MemoryReport | None
    no_memory: str
    iterations: tuple[int, ...]


def make_reports(entry: TraceEntry, iteration: int | None) -> Reports:
    """Verify a trace.

    Raises:
        TraceError: the trace is damaged, or has no such iteration.
    """
    run = load(entry.folder)
    traffic = run.verify(iteration=iteration)
    memory, reason = None, ""
    try:
        memory = verify_memory(run.trace, iteration)
    except TraceError as error:
        reason = str(error).removeprefix(f"{run.folder} ").removeprefix(f"{run.folder}: ")
    return Reports(traffic, memory, reason, run.iterations)


@dataclass(frozen=True, slots=True)
class ShownChoice:
    """A rank or an iteration, and its address on the page."""

    value: int
    address: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """A line of the ledgers, for one rank.

    Attributes:
        look: class of an outcome, if trace or wire differ from theory by more than framing.
        repeats: whether the phase is that of the line above.
    """

    phase: str
    purpose: str
    calls: str
    theory: str
    trace: str
    wire: str
    look: str = ""
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """A line of the user's own table: memory and traffic of a stage."""

    stage: str
    memory_law: str
    memory: str
    traffic_law: str
    traffic: str


@dataclass(frozen=True, slots=True)
class LawInputs:
    """The inputs of the user's table, and their errors."""

    psi: str
    n: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyView:
    """All that the page shows."""

    report: Report
    headline: str
    mark: str
    remark: str
    facts: str
    rows: tuple[LedgerLine, ...]
    totals: LedgerLine
    psi_totals: LedgerLine
    spread: str
    causes: Table
    laws: Table
    claims: tuple[Verdict, ...]
    no_memory: str
    ranks: tuple[ShownChoice, ...]
    rank: int
    iterations: tuple[ShownChoice, ...]
    question: LawInputs
    planned: tuple[Planned, ...]
    paper: tuple[tuple[int, tuple[str, ...]], ...]
    notes: tuple[str, ...]
    places: PlacesSection


def view(reports: Reports, query: Mapping[str, str]) -> VerifyView:
    """The contents of the page.

    Args:
        query: of the address: `rank`, `psi` and `n` of the user's own table; other parameters stay
            in the addresses of the choices.
    """
    report = reports.traffic.report
    known = [cell.rank for cell in report.rows[0].sent] if report.rows else [0]
    place = known.index(int(given)) if (given := query.get("rank", "")) in map(str, known) else 0
    rows = tuple(_rows(report, place))
    asked, planned = _plan(query)
    memory = reports.memory
    return VerifyView(
        report=report,
        headline=report.headline,
        mark="unknown" if report.outcome is None else report.outcome.look,
        remark=_remark(report),
        facts=_facts(report),
        rows=rows,
        totals=_totals(report, place),
        psi_totals=_psi_totals(report, place),
        spread=_spread(report),
        causes=reports.traffic.causes,
        laws=reports.traffic.laws(known[place]),
        claims=report.verdicts + (() if memory is None else memory.verdicts),
        no_memory=reports.no_memory,
        ranks=_choices(query, "rank", known, known[place]),
        rank=known[place],
        iterations=_choices(query, "iteration", reports.iterations, report.iteration),
        question=asked,
        planned=planned,
        paper=_paper(),
        notes=report.notes,
        places=places_of(report, place),
    )


def _choices(
    query: Mapping[str, str], name: str, values: Sequence[int], chosen: int
) -> tuple[ShownChoice, ...]:
    """All values, or the first, the last and those around the displayed one."""
    at = values.index(chosen) if chosen in values else 0
    last = len(values) - 1
    return tuple(
        ShownChoice(value, f"{PATH}?{urlencode({**query, name: value})}", value == chosen)
        for place, value in enumerate(values)
        if last < MOST_CHOICES or place in (0, last) or abs(place - at) <= MOST_CHOICES // 3
    )


def _remark(report: Report) -> str:
    parts = [SITE(NOT_PREDICTED) if report.outcome is None else term(report.outcome.value)]
    parts += [report.law] if report.law else []
    if report.unexplained_wire is not None:
        most = max(report.unexplained_trace, report.unexplained_wire)
        parts.append(SITE("verify.bytes_are_unexplained_in_the_trace", most=format_exact(most)))
    elif report.rows:
        parts.append(SITE("verify.the_wire_was_not_measured"))
    return SITE("verify.sentences").join(f"{part[:1].upper()}{part[1:]}" for part in parts)


def _facts(report: Report) -> str:
    count = report.num_ranks
    parts = [
        f"Ψ = {format_exact(report.num_parameters)}" if report.num_parameters else "",
        report.dtype,
        f"(N\N{MINUS SIGN}1)/N = {count - 1}/{count}",
        SITE("verify.iteration_2", iteration=report.iteration) if report.iteration >= 0 else "",
    ]
    return " · ".join(part for part in parts if part)


def _rows(report: Report, place: int) -> list[LedgerLine]:
    rows: list[LedgerLine] = []
    before = ""
    for row in report.rows:
        cell = row.sent[place]
        repeats, before = row.phase.value == before, row.phase.value
        rows.append(
            LedgerLine(
                row.phase.value,
                row.purpose.value,
                f"{format_exact(row.num_calls)} × {term(str(row.op))}",  # noqa: RUF001 - times
                SITE(NO_PLAN) if _has_no_plan(report, row) else _measured(cell.theory, NO_LAW),
                format_exact(cell.trace),
                _measured(cell.kernel),
                look=_look(report, row, place),
                repeats=repeats,
            )
        )
    return rows


def _look(report: Report, row: LedgerRow, place: int) -> str:
    cell = row.sent[place]
    if cell.unexplained_trace or cell.unexplained_kernel:
        return Outcome.UNEXPLAINED.look
    is_more = report.algorithm in list(Algorithm) and is_more_than_asked(
        Algorithm(report.algorithm), row.op
    )
    return Outcome.EXPLAINED.look if is_more or cell.overhead else ""


def _has_no_plan(report: Report, row: LedgerRow | None = None) -> bool:
    """Whether a row, or any row, has no plan: recorded calls are not theory."""
    taken = {law.system for law in report.systems if law.is_likeness}
    systems = {one.system for one in report.rows if one.system}
    if row is not None:
        return row.system in taken
    return bool(taken) and taken >= systems


def _measured(value: int | None, otherwise: str = NOT_MEASURED) -> str:
    return otherwise if value is None else format_exact(value)


def _totals(report: Report, place: int) -> LedgerLine:
    theory, trace, wire = (
        report.total(name, place) if report.rows or report.unrecorded else 0
        for name in ("theory", "trace", "kernel")
    )
    planned = SITE(NO_PLAN) if _has_no_plan(report) else _measured(theory)
    return LedgerLine(
        SITE("verify.total"), "", "", planned, _measured(trace, NOT_RECORDED), _measured(wire)
    )


def _psi_totals(report: Report, place: int) -> LedgerLine:
    unit = report.num_parameters * report.element_bytes

    def in_psi(name: str) -> str:
        total = report.total(name, place) if report.rows or report.unrecorded else 0
        return "" if total is None or not unit else format_psi(Fraction(total, unit))

    planned = "" if _has_no_plan(report) else in_psi("theory")
    return LedgerLine("", "", "", planned, in_psi("trace"), in_psi("kernel"))


def _spread(report: Report) -> str:
    if not report.rows or report.num_ranks == 1:
        return ""
    totals = [report.total("kernel", place) for place in range(len(report.rows[0].sent))]
    known = [total for total in totals if total is not None]
    if len(known) < len(totals) or not max(known):
        return ""
    spread = Fraction(max(known) - min(known), max(known))
    outside = format_exact(sum(report.outside_bytes))
    alike = (
        SITE("verify.the_same_on_every_rank")
        if not spread
        else SITE("verify.ranks_differ_by_at_most")
    )
    percent = "" if not spread else f"{format_decimal(100 * spread, 3)} %"
    return SITE(
        "verify.bytes_were_sent_outside_of_every", alike=alike, percent=percent, outside=outside
    )


# ------------------------------------------------------------------- the reader's own table


def question(query: Mapping[str, str]) -> LawInputs:
    """The inputs for the table in an address."""
    return _plan(query)[0]


def _plan(query: Mapping[str, str]) -> tuple[LawInputs, tuple[Planned, ...]]:
    """Memory and traffic of each stage with the user's Psi and N, in mixed precision."""
    psi_text = query.get("psi", format_exact(DEFAULT_PSI))
    n_text = query.get("n", format_exact(DEFAULT_N))
    try:
        psi = _count("Ψ", psi_text, LARGEST_PSI)
        count = _count("N", n_text, LARGEST_N)
    except ConfigError as error:
        return LawInputs(psi_text[:40], n_text[:40], str(error)), ()
    lines = []
    for stage in STAGES:
        payloads = 3 if stage == 3 else 2
        sent = payloads * psi * 2 * Fraction(count - 1, count)
        states = stage_states(stage, count, psi)
        lines.append(
            Planned(
                term(STAGE_NAMES[stage]),
                states.law(),
                format_bytes(states.law_bytes()),
                f"{payloads}Ψ(N\N{MINUS SIGN}1)/N",
                format_bytes(sent),
            )
        )
    return LawInputs(format_exact(psi), format_exact(count), ""), tuple(lines)


def _count(name: str, text: str, most: int) -> int:
    value = parse_count(text[:40])
    if not 1 <= value <= most:
        raise ConfigError(
            SITE("verify.is_expected_1_to", name=name, text=text[:40], most=format_exact(most))
        )
    return value


def _paper() -> tuple[tuple[int, tuple[str, ...]], ...]:
    """The paper's Table 1: by number of ranks the GB that it prints."""
    lines: dict[int, list[str]] = {}
    for cell in paper_table_1():
        lines.setdefault(cell.num_ranks, []).append(cell.printed)
    return tuple((count, tuple(cells)) for count, cells in lines.items())
