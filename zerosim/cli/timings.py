"""The event graph's results, as tables on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zerosim.analysis import Budget, GraphReport, PathStep, TimeCause
from zerosim.analysis.graph import Check, HostClock
from zerosim.base.language import clauses, term
from zerosim.base.quantities import format_bytes
from zerosim.cli.console import make_table, print_table
from zerosim.cli.verdicts import mark_of, print_answer
from zerosim.cli.wording import counted, said
from zerosim.record.text import name_iterations
from zerosim.verify.outcome import outcome_of

_MOST_RANKS = 8
"""With more ranks than this only their sums are shown, and the longest waits."""
_MOST_VIOLATIONS = 12
_MOST_WAITS = 10


def print_timings(console: Console, report: GraphReport) -> None:
    """Print all results of the event graph for an iteration."""
    _print_title(console, report)
    for table in _tables(report):
        print_table(console, table)
        console.print()
    for check in report.checks:
        _print_check(console, check)
    for note in report.notes:
        console.print(said("common.note", note=note), style="yellow")


def _tables(report: GraphReport) -> Iterator[Table]:
    """The known times only; predicted ones are marked."""
    for table in _known(report):
        if report.is_predicted:
            table.title = said("graph.predicted", title=table.title)
        yield table


def _known(report: GraphReport) -> Iterator[Table]:
    has_path = report.path is not None and report.budgets.waits_recorded
    if has_path:
        yield _path_table(report)
        yield _budget_table(report)
    if report.budgets.waited_ns and report.is_timed:
        yield _waiting_table(report)
    if report.bandwidths:
        yield _bandwidth_table(report)
    if has_path and report.steps:
        yield _steps_table(report)
    if has_path and report.slacks:
        yield _slack_table(report)
    if len(report.clocks) > 1:
        yield _clock_table(report.clocks)


def _print_title(console: Console, report: GraphReport) -> None:
    print_answer(console, outcome_of(holds=report.holds), report.headline)
    size = {"nodes": f"{report.num_nodes:,}", "edges": f"{report.num_edges:,}"}
    facts = [counted("ranks", report.num_ranks), said("graph.size", **size)]
    if report.iterations:
        shown = name_iterations(report.iterations, "..")
        facts.append(said("common.iteration", iteration=report.iteration, iterations=shown))
    if report.is_timed:
        times = "predicted" if report.is_predicted else "measured"
        facts.append(said(f"graph.times_{times}"))
    console.print(Text("  " + " · ".join(facts), style="dim"))
    console.print()


def _ms(ns: int) -> str:
    return f"{ns / 1e6:,.3f}"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""


def _share(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"


def _path_table(report: GraphReport) -> Table:
    path = report.path
    assert path is not None
    table = make_table(*said.each("graph.path_columns"), title=said("graph.path"))
    table.columns[-1].justify = "left"
    for cause, ns in path.by_cause().items():
        share = _percent(ns, path.duration_ns)
        table.add_row(term(cause), _ms(ns), share, said(f"causes.{cause}"))
    whole = (said("common.total"), _ms(path.duration_ns), "", said("graph.whole"))
    table.add_row(*whole, style="bold")
    return table


def _budget_table(report: GraphReport) -> Table:
    budgets = report.budgets
    whole = budgets.of()
    copies = whole.copying_ns + whole.hidden_copying_ns > 0
    table = make_table(
        *said.each("graph.budget_columns"),
        *(said.each("graph.copying_columns") if copies else ()),
        left=2,
        title=said("graph.budget_copying" if copies else "graph.budget"),
    )
    if len(budgets.ranks) <= _MOST_RANKS:
        for rank in budgets.ranks:
            for index, phase in enumerate(budgets.phases):
                if (rank, phase) in budgets.by_phase:
                    name = str(rank) if index == 0 else ""
                    times = _budget(budgets.by_phase[rank, phase], copies)
                    table.add_row(name, term(phase), *times)
            table.add_row(
                "", said("graph.all"), *_budget(budgets.of(rank=rank), copies), style="bold"
            )
    if len(budgets.ranks) > 1:
        for index, phase in enumerate(budgets.phases):
            name = said("graph.sum") if index == 0 else ""
            table.add_row(name, term(phase), *_budget(budgets.of(phase=phase), copies))
        table.add_row("", said("graph.all"), *_budget(whole, copies), style="bold")
    table.caption = said("graph.caption")
    if copies:
        table.caption += f"\n{said('graph.copying_caption')}"
    return table


def _budget(budget: Budget, copies: bool) -> list[str]:
    times = (
        budget.wall_ns,
        budget.compute_ns,
        budget.exposed_ns,
        budget.waiting_ns,
        budget.other_ns,
        budget.hidden_ns,
    )
    of_copies = [
        _ms(budget.copying_ns),
        _ms(budget.hidden_copying_ns),
        _share(budget.copying_overlap),
    ]
    return [*map(_ms, times), _share(budget.overlap), *(of_copies * copies)]


def _waiting_table(report: GraphReport) -> Table:
    waited, ranks = report.budgets.waited_ns, report.budgets.ranks
    title = said("graph.waited" if report.budgets.waits_recorded else "graph.arrived")
    if len(ranks) > _MOST_RANKS:
        columns = said.each("graph.waiting_columns")
        table = make_table(*columns, title=said("graph.longest", title=title))
        longest = sorted(waited.items(), key=lambda item: -item[1])[:_MOST_WAITS]
        for (rank, straggler), ns in longest:
            table.add_row(str(rank), str(straggler), _ms(ns))
        return table
    names = [said("graph.for_rank", rank=rank) for rank in ranks]
    table = make_table("", *names, said("graph.sum"), title=said("graph.in_ms", title=title))
    for rank in ranks:
        times = [waited.get((rank, straggler), 0) for straggler in ranks]
        cells = ["-" if one == rank else _ms(ns) for one, ns in zip(ranks, times, strict=True)]
        table.add_row(said("graph.rank", rank=rank), *cells, _ms(sum(times)))
    totals = [report.budgets.waited_for(rank) for rank in ranks]
    table.add_row(said("graph.sum"), *map(_ms, totals), _ms(sum(totals)), style="bold")
    return table


def _bandwidth_table(report: GraphReport) -> Table:
    table = make_table(*said.each("graph.bandwidth_columns"), title=said("graph.bandwidth"))
    for one in report.bandwidths:
        table.add_row(
            term(one.op),
            f"{one.payload_bytes:,}",
            str(one.num_collectives),
            _ms(one.call_ns),
            _rate(one.algorithm_bytes_per_s),
            _rate(one.bus_bytes_per_s),
            said("common.not_recorded") if one.moving_ns is None else _ms(one.moving_ns),
            _rate(one.moving_bus_bytes_per_s),
        )
    return table


def _rate(bytes_per_s: float | None) -> str:
    return "" if bytes_per_s is None else f"{format_bytes(round(bytes_per_s))}/s"


def _steps_table(report: GraphReport) -> Table:
    path = report.path
    assert path is not None
    title = said("graph.steps", count=len(report.steps))
    table = make_table(*said.each("graph.steps_columns"), left=0, title=title)
    for column in table.columns[4:]:
        column.justify = "left"
    for step in report.steps:
        table.add_row(
            _ms(step.duration_ns),
            _percent(step.duration_ns, path.duration_ns),
            _ms(step.start_ns),
            _rank(step),
            term(step.phase),
            term(step.cause),
            step.label,
            step.source,
        )
    return table


def _rank(step: PathStep) -> str:
    return said("graph.all") if step.cause is TimeCause.COMMUNICATION else str(step.rank)


def _slack_table(report: GraphReport) -> Table:
    rank = report.slacks[0].rank
    title = said("graph.slack", rank=rank)
    table = make_table(*said.each("graph.slack_columns"), left=0, title=title)
    for column in table.columns[3:]:
        column.justify = "left"
    for one in report.slacks:
        style = "bold" if one.slack_ns == 0 else ""
        free = said("graph.critical") if one.slack_ns == 0 else _ms(one.slack_ns)
        table.add_row(
            _ms(one.start_ns), _ms(one.duration_ns), free, term(one.phase), one.label, style=style
        )
    return table


def _clock_table(clocks: Sequence[HostClock]) -> Table:
    table = make_table(*said.each("graph.clock_columns"), left=3, title=said("graph.clocks"))
    for index, clock in enumerate(clocks):
        ranks = ", ".join(map(str, clock.ranks))
        words = clock_words(clock) if index else said("graph.reference")
        table.add_row(clock.host, ranks, words)
    return table


def clock_words(clock: HostClock) -> str:
    """An offset in words: "+1.000000123 s ± 85 µs, from 1,204 exchanges"."""
    seconds = f"{clock.offset_ns / 1e9:+,.9f} s"
    if clock.uncertainty_ns is None:
        return said("graph.wall_clocks", seconds=seconds)
    return said(
        "graph.contradicted" if clock.is_contradictory else "graph.aligned",
        seconds=seconds,
        uncertainty=_short(clock.uncertainty_ns),
        count=f"{clock.num_exchanges:,}",
    )


def _short(ns: int) -> str:
    if ns < 10**4:
        return f"{ns:,} ns"
    return f"{ns / 1e3:,.0f} µs" if ns < 10**7 else f"{ns / 1e6:,.0f} ms"


def _print_check(console: Console, check: Check) -> None:
    mark = mark_of(outcome_of(holds=check.holds))
    known = clauses(part for part in (check.counted, check.unknown) if part)
    console.print(Text.assemble(mark, f" {check.title}", (f": {known}", "dim")))
    for violation in check.violations[:_MOST_VIOLATIONS]:
        console.print(Text(f"    {violation.message}", style="red"))
    if len(check.violations) > _MOST_VIOLATIONS:
        more = len(check.violations) - _MOST_VIOLATIONS
        console.print(f"    {said('common.and_more', count=more)}")
