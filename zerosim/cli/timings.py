"""What the event graph says, as tables on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zerosim.analysis import Budget, GraphReport, PathStep, TimeCause
from zerosim.cli.console import make_table, print_table
from zerosim.cli.ledgers import mark_of, print_answer
from zerosim.graph import Check, HostClock
from zerosim.quantities import format_bytes
from zerosim.record.text import name_iterations
from zerosim.verify.outcome import outcome_of

_MOST_RANKS = 8
"""With more ranks than this only their sums are shown, and the longest waits."""
_MOST_VIOLATIONS = 12
_MOST_WAITS = 10
_WORDS = {
    TimeCause.COMPUTE: "units computing",
    TimeCause.COMMUNICATION: "collectives moving bytes, once all ranks had arrived",
    TimeCause.SCHEDULING: "hand-over to and from the collectives' thread",
    TimeCause.OTHER: "the program's own code between these",
    TimeCause.COPYING: "bytes moving between device, host and disk",
}
_BUDGET_WORDS = """\
exposed: stalled while a collective ran; for others: stalled until they arrived
hidden: a collective ran without stalling it; overlap: hidden / (hidden + exposed)"""
_COPY_WORDS = """
copying: stalled while bytes moved between device, host and disk; hidden copying: not stalled"""


def print_timings(console: Console, report: GraphReport) -> None:
    """Print everything that the event graph says about an iteration."""
    _print_title(console, report)
    for table in _tables(report):
        print_table(console, table)
        console.print()
    for check in report.checks:
        _print_check(console, check)
    for note in report.notes:
        console.print(f"note: {note}", style="yellow")


def _tables(report: GraphReport) -> Iterator[Table]:
    """What is known, and only that; of predicted times each says so."""
    for table in _known(report):
        if report.is_predicted:
            table.title = f"{table.title}; predicted"
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
    plural = "s" if report.num_ranks > 1 else ""
    facts = [
        f"{report.num_ranks} rank{plural}",
        f"{report.num_nodes:,} nodes and {report.num_edges:,} edges in the whole trace",
    ]
    if report.iterations:
        shown = name_iterations(report.iterations, "..")
        facts.append(f"iteration {report.iteration} of {shown}")
    if report.is_timed:
        facts.append(f"all times are {'predicted' if report.is_predicted else 'measured'}")
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
    table = make_table(
        "cause", "ms", "share", "what it is", title="the critical path over all ranks"
    )
    table.columns[-1].justify = "left"
    for cause, ns in path.by_cause().items():
        table.add_row(cause.value, _ms(ns), _percent(ns, path.duration_ns), _WORDS[cause])
    table.add_row("total", _ms(path.duration_ns), "", "first begin to last end", style="bold")
    return table


def _budget_table(report: GraphReport) -> Table:
    budgets = report.budgets
    whole = budgets.of()
    copies = whole.copying_ns + whole.hidden_copying_ns > 0
    table = make_table(
        "rank", "phase", "wall", "compute", "exposed", "for others", "other", "hidden", "overlap",
        *(["copying", "hidden copying", "overlap"] * copies),
        left=2,
        title="each rank's time, ms: compute + exposed + "
        f"{'copying + ' * copies}for others + other = wall",
    )  # fmt: skip
    if len(budgets.ranks) <= _MOST_RANKS:
        for rank in budgets.ranks:
            for index, phase in enumerate(budgets.phases):
                if (rank, phase) in budgets.by_phase:
                    name = str(rank) if index == 0 else ""
                    times = _budget(budgets.by_phase[rank, phase], copies)
                    table.add_row(name, phase.value, *times)
            table.add_row("", "all", *_budget(budgets.of(rank=rank), copies), style="bold")
    if len(budgets.ranks) > 1:
        for index, phase in enumerate(budgets.phases):
            name = "sum" if index == 0 else ""
            table.add_row(name, phase.value, *_budget(budgets.of(phase=phase), copies))
        table.add_row("", "all", *_budget(whole, copies), style="bold")
    words = _BUDGET_WORDS + _COPY_WORDS * copies
    table.caption = words
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
    title = "who waited for whom"
    if not report.budgets.waits_recorded:
        title = "whose collectives waited for whose arrival (whether it stalled is not known)"
    if len(ranks) > _MOST_RANKS:
        table = make_table("rank", "for rank", "ms", title=f"{title}, the longest")
        longest = sorted(waited.items(), key=lambda item: -item[1])[:_MOST_WAITS]
        for (rank, straggler), ns in longest:
            table.add_row(str(rank), str(straggler), _ms(ns))
        return table
    names = [f"for rank {rank}" for rank in ranks]
    table = make_table("", *names, "sum", title=f"{title}, ms")
    for rank in ranks:
        times = [waited.get((rank, straggler), 0) for straggler in ranks]
        cells = ["-" if one == rank else _ms(ns) for one, ns in zip(ranks, times, strict=True)]
        table.add_row(f"rank {rank}", *cells, _ms(sum(times)))
    totals = [report.budgets.waited_for(rank) for rank in ranks]
    table.add_row("sum", *map(_ms, totals), _ms(sum(totals)), style="bold")
    return table


def _bandwidth_table(report: GraphReport) -> Table:
    table = make_table(
        "operation", "payload B", "calls", "call ms", "algorithm", "bus",
        "after the last arrival ms", "bus",
        title="bandwidth by operation and payload, medians; algorithm and bus as nccl-tests "
        "defines them",
    )  # fmt: skip
    for one in report.bandwidths:
        table.add_row(
            one.op.value,
            f"{one.payload_bytes:,}",
            str(one.num_collectives),
            _ms(one.call_ns),
            _rate(one.algorithm_bytes_per_s),
            _rate(one.bus_bytes_per_s),
            "not recorded" if one.moving_ns is None else _ms(one.moving_ns),
            _rate(one.moving_bus_bytes_per_s),
        )
    return table


def _rate(bytes_per_s: float | None) -> str:
    return "" if bytes_per_s is None else f"{format_bytes(round(bytes_per_s))}/s"


def _steps_table(report: GraphReport) -> Table:
    path = report.path
    assert path is not None
    table = make_table(
        "ms", "share", "at ms", "rank", "phase", "cause", "what", "called from", left=0,
        title=f"the {len(report.steps)} longest steps of the critical path",
    )  # fmt: skip
    for column in table.columns[4:]:
        column.justify = "left"
    for step in report.steps:
        table.add_row(
            _ms(step.duration_ns),
            _percent(step.duration_ns, path.duration_ns),
            _ms(step.start_ns),
            _rank(step),
            step.phase,
            step.cause.value,
            step.label,
            step.source,
        )
    return table


def _rank(step: PathStep) -> str:
    return "all" if step.cause is TimeCause.COMMUNICATION else str(step.rank)


def _slack_table(report: GraphReport) -> Table:
    rank = report.slacks[0].rank
    table = make_table(
        "at ms", "ms", "slack ms", "phase", "what", left=0,
        title=f"rank {rank}'s events: how much later each could have ended without the iteration "
        "ending later",
    )  # fmt: skip
    for column in table.columns[3:]:
        column.justify = "left"
    for one in report.slacks:
        style = "bold" if one.slack_ns == 0 else ""
        free = "critical" if one.slack_ns == 0 else _ms(one.slack_ns)
        table.add_row(
            _ms(one.start_ns), _ms(one.duration_ns), free, one.phase, one.label, style=style
        )
    return table


def _clock_table(clocks: Sequence[HostClock]) -> Table:
    table = make_table(
        "host", "ranks", "added to its times", left=3,
        title="clocks, aligned with that of the first host",
    )  # fmt: skip
    for index, clock in enumerate(clocks):
        ranks = ", ".join(map(str, clock.ranks))
        table.add_row(clock.host, ranks, "the reference" if index == 0 else clock_words(clock))
    return table


def clock_words(clock: HostClock) -> str:
    """An offset in words: "+1.000000123 s ± 85 µs, from 1,204 exchanges"."""
    seconds = f"{clock.offset_ns / 1e9:+,.9f} s"
    if clock.uncertainty_ns is None:
        return f"{seconds} by the wall clocks: no exchange bounds it"
    exchanges = f"from {clock.num_exchanges:,} exchanges"
    uncertainty = _short(clock.uncertainty_ns)
    if clock.is_contradictory:
        return (
            f"{seconds}, contradicted by up to {uncertainty}, {exchanges}: a clock drifted or was "
            "set during the run"
        )
    return f"{seconds} ± {uncertainty}, {exchanges}"


def _short(ns: int) -> str:
    if ns < 10**4:
        return f"{ns:,} ns"
    return f"{ns / 1e3:,.0f} µs" if ns < 10**7 else f"{ns / 1e6:,.0f} ms"


def _print_check(console: Console, check: Check) -> None:
    mark = mark_of(outcome_of(holds=check.holds))
    counted = "; ".join(part for part in (check.counted, check.unknown) if part)
    console.print(Text.assemble(mark, f" {check.title}", (f": {counted}", "dim")))
    for violation in check.violations[:_MOST_VIOLATIONS]:
        console.print(Text(f"    {violation.message}", style="red"))
    if len(check.violations) > _MOST_VIOLATIONS:
        console.print(f"    and {len(check.violations) - _MOST_VIOLATIONS} more")
