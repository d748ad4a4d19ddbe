"""A run on one screen: its origin, its description, the available data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from zerosim.base.config import STAGE_NAMES
from zerosim.base.errors import ZerosimError, first_line
from zerosim.base.quantities import format_exact
from zerosim.base.tables import html_text, written_out
from zerosim.record import RankTrace, Trace, iterations, num_nodes
from zerosim.record.text import as_text, name_iterations
from zerosim.schema.events import Kind
from zerosim.view.reading.selection import units_of

_MOST_NAMES = 8
_MOST_SETTINGS = 10
_NEXT = 'run.traffic(by="phase"), run.memory(), run.time(), run.verify(), run.plot.memory()'


@dataclass(frozen=True, slots=True)
class Summary:
    """The contents of the screen: a title, named lines, and the answer."""

    title: str
    lines: tuple[tuple[str, str], ...]
    headline: str


def summary(trace: Trace, source: str, headline: Callable[[], str]) -> Summary:
    """Put a run in words.

    Args:
        source: the origin of the run.
        headline: the verdict in a sentence.
    """
    try:
        answer = headline()
    except ZerosimError as error:
        answer = first_line(error)
    title = f"Run {as_text(str(trace.folder))} ({source}): {_system(trace)}"
    return Summary(title, tuple(_lines(trace)), answer)


def as_text_lines(found: Summary) -> str:
    """The summary as text for a terminal."""
    width = max(len(name) for name, _ in found.lines)
    lines = [f"  {name.ljust(width)}  {words}" for name, words in found.lines]
    return written_out("\n".join([found.title, *lines, found.headline, f"next: {_NEXT}"]))


def as_html(found: Summary) -> str:
    """The summary as HTML for a notebook."""
    rows = "".join(
        f'<tr><th style="text-align:left">{html_text(name)}</th>'
        f'<td style="text-align:left">{html_text(words)}</td></tr>'
        for name, words in found.lines
    )
    return (
        f"<table><caption>{html_text(found.title)}</caption>{rows}</table>"
        f"<p>{html_text(found.headline)}</p>"
    )


def _system(trace: Trace) -> str:
    stage = trace.manifest.config.get("stage")
    if isinstance(stage, int):
        return STAGE_NAMES[stage]
    systems = dict.fromkeys(one.system for one in trace.ranks[0].strategies)
    return ", ".join(systems) or "a program of unknown parallelism"


def _lines(trace: Trace) -> Iterator[tuple[str, str]]:
    manifest, first = trace.manifest, trace.ranks[0]
    versions = ", ".join(f"{name} {version}" for name, version in manifest.versions.items())
    yield "made by", as_text(manifest.program)
    yield "at", f"{manifest.created}, {manifest.device}, {manifest.backend}; {versions}"
    nodes = num_nodes(trace)
    missing = manifest.num_ranks - len(trace.ranks) - trace.num_alike
    lost = f", {missing} of them not recorded" * bool(missing)
    alike = f", {trace.num_alike} of them represented by another" * bool(trace.num_alike)
    yield "ranks", f"{manifest.num_ranks} on {nodes} node{'s' * (nodes > 1)}{lost}{alike}"
    groups = [f"{group.name} ({len(group.ranks)} ranks)" for group in first.groups.values()]
    yield "groups", _names(groups)
    done = iterations(trace)
    yield "iterations", f"{len(done)}, {name_iterations(done)}" if done else "none was finished"
    elements = sum(unit.elements for unit in manifest.units)
    parameters = f"; {format_exact(elements)} parameters" * bool(elements)
    yield "units", _names(list(units_of(trace))) + parameters
    if first.strategies:
        latest = {one.name: one for one in first.strategies}.values()
        yield "strategies", _names([f"{one.system} over {len(one.ranks)} ranks" for one in latest])
    settings = {**manifest.run, **manifest.config}
    if settings:
        yield "configuration", _settings(settings)
    known, unknown = _evidence(trace)
    yield "traced", ", ".join(known["traced"])
    yield "measured", ", ".join(known["measured"]) or "nothing"
    yield "computed", ", ".join(known["computed"])
    if unknown:
        yield "not recorded", ", ".join(unknown)
    for warning in trace.warnings[:2]:
        yield "incomplete", warning


def _evidence(trace: Trace) -> tuple[dict[str, list[str]], list[str]]:
    """The traced, measured and computed quantities; and those not recorded."""
    ranks = trace.ranks
    counts = Counter(event.kind for rank in ranks for event in rank.events)
    calls, messages = counts[Kind.COLLECTIVE], counts[Kind.TRANSFER]
    known: dict[str, list[str]] = {
        "traced": [f"{calls:,} collectives", f"{messages:,} of their messages"],
        "measured": [],
        "computed": ["the critical path"],
    }
    unknown = []
    if not messages and calls:
        known["traced"].pop()
        known["computed"].append("traffic of native calls")
    witnesses: tuple[tuple[str, str, Callable[[RankTrace], object]], ...] = (
        ("traced", "memory by role", lambda rank: rank.memory_samples),
        ("traced", "computation by unit", lambda rank: _has(rank, Kind.COMPUTE)),
        ("traced", "waiting", lambda rank: _has(rank, Kind.WAIT)),
        ("measured", "bytes on the wire", lambda rank: len(rank.wire_samples) > 1),
        ("measured", "allocated memory", _is_allocation_known),
    )
    for kind, name, is_there in witnesses:
        if all(map(is_there, ranks)):
            known[kind].append(name)
        else:
            unknown.append(name)
    return known, unknown


def _has(rank: RankTrace, kind: Kind) -> bool:
    return any(event.kind is kind for event in rank.events)


def _is_allocation_known(rank: RankTrace) -> bool:
    asked = any(sample.allocated_bytes is not None for sample in rank.memory_samples)
    return asked or bool(rank.allocations)


def _names(names: list[str]) -> str:
    if not names:
        return "none"
    more = len(names) - _MOST_NAMES
    cut = f", ... and {more} more" if more > 0 else ""
    return ", ".join(names[:_MOST_NAMES]) + cut


def _settings(settings: dict[str, object]) -> str:
    """The first nonempty ones."""
    told = [f"{name} {value}" for name, value in settings.items() if value not in (None, "", False)]
    more = len(told) - _MOST_SETTINGS
    cut = f", ... and {more} more: run.configuration" if more > 0 else ""
    return ", ".join(told[:_MOST_SETTINGS]) + cut
