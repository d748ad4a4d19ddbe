"""Verdicts and their outcomes on a terminal: a sign, a word, a colour, a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zerosim.base.language import term
from zerosim.cli.console import print_table
from zerosim.cli.wording import said
from zerosim.verify import CauseBytes, Outcome, Verdict
from zerosim.view.reading.profile import Profile
from zerosim.view.reading.system import SystemRow


def print_verdicts(console: Console, verdicts: Sequence[Verdict], *, is_whole: bool) -> None:
    """Every claim if `is_whole`; else those that fail, and the number of the others."""
    if is_whole:
        for verdict in verdicts:
            print_verdict(console, verdict)
        return
    print_failed(console, verdicts)
    num_held = sum(verdict.outcome is Outcome.AS_PREDICTED for verdict in verdicts)
    if num_held:
        count = said("common.one_holds" if num_held == 1 else "common.hold", count=num_held)
        console.print(Text.assemble(mark_of(Outcome.AS_PREDICTED), f" {count}"))


def print_failed(console: Console, verdicts: Sequence[Verdict]) -> None:
    """The claims that do not hold as predicted."""
    for verdict in verdicts:
        if verdict.outcome is not Outcome.AS_PREDICTED:
            print_verdict(console, verdict)


def mark_of(outcome: Outcome | None) -> Text:
    """The sign of an outcome in its colour; a dash if not checked."""
    return Text("-", style="dim") if outcome is None else Text(outcome.sign, style=outcome.colour)


def print_judged(
    console: Console, what: str, table: Table, rows: Sequence[Profile | SystemRow]
) -> None:
    """The description of the runs, a table of them, and below it the verdict of each row in a
    sentence.
    """
    console.print(Text(what, style="dim"))
    print_table(console, table)
    console.print()
    for row in rows:
        answer = said("common.named", name=row.name, headline=row.headline)
        console.print(Text.assemble(mark_of(row.outcome), f" {answer}"))


def word_of(outcome: Outcome | None) -> str:
    """An outcome in words."""
    return said("common.nothing_predicted") if outcome is None else term(outcome)


def print_answer(console: Console, outcome: Outcome | None, headline: str) -> None:
    """The answer in a sentence, with its sign."""
    mark = mark_of(outcome)
    console.print(Text(f"{mark} {headline}", style=f"bold {mark.style}"))


def style_of(cause: CauseBytes) -> str:
    """The colour of a row with a cause: that of its effect on the law."""
    is_left_out = cause.outcome is Outcome.AS_PREDICTED
    return "" if is_left_out else cause.outcome.colour


def print_verdict(console: Console, verdict: Verdict) -> None:
    """A claim, whether it holds, and the measured value."""
    is_told = verdict.outcome in (Outcome.EXPLAINED, Outcome.UNEXPLAINED)
    title = verdict.title
    if is_told:
        title = said("common.outcome", title=title, outcome=term(verdict.outcome or ""))
    console.print(Text.assemble(mark_of(verdict.outcome), f" {title}"))
    key = "common.measured_law" if verdict.formula else "common.measured"
    found = said(key, law=verdict.formula, measured=verdict.measured)
    console.print(Text(f"    {found}", style="dim"))
