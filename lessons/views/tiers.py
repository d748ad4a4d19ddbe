"""Figures of tiers: states and copies."""

from __future__ import annotations

from zerosim.base.language import term
from zerosim.base.tiers import Link, Tier
from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, BarPart, Bars, FigureTable
from zerosim.lessons.views.wording import each, said
from zerosim.schema.memory import MODEL_STATES, Role

MEGA = 1e6
_OVER = (Link.BUS, Link.STORAGE)


def copies(facts: Facts, run: str, *links: str) -> FigureTable:
    """Copies of rank 0 between its tiers in a step, by purpose; over all links or some."""
    rows = []
    chosen = [one for one in facts.copies(run) if not links or one.link in links]
    for way in dict.fromkeys((one.purpose, one.origin, one.target) for one in chosen):
        cells = [one.sent[0] for one in chosen if (one.purpose, one.origin, one.target) == way]
        counted = [cell.kernel for cell in cells if cell.kernel is not None]
        purpose, origin, target = (term(one or "") for one in way)
        name = said("copies.way", purpose=purpose, origin=origin, target=target)
        rows.append((name, *_sizes(facts, run, sum(cell.trace for cell in cells), sum(counted))))
    for link in (one for one in _OVER if any(row.link is one for row in chosen)):
        size, counts = facts.copied(run, link), facts.kernel_copied(run, link)
        rows.append((said(f"copies.{link}"), *_sizes(facts, run, size, counts)))
    title = said("copies.title", run=facts.title(run))
    return FigureTable(title, each("copies.columns"), tuple(rows))


def _sizes(facts: Facts, run: str, size: int, counted: int) -> tuple[str, str, str]:
    """In the order of a row; no kernel counts the traffic of a bus."""
    each_of = f"{facts.of_each(size, run):.3g}"
    return f"{size:,}", each_of, f"{counted:,}" if counted else said("copies.none")


def tiers(facts: Facts, *runs: str) -> Bars:
    """The model states of rank 0 by tier when the update begins."""
    bars = []
    for run in runs:
        for tier in Tier:
            parts = tuple(
                BarPart(str(role), facts.kept_in(run, tier, role) / facts.psi(run))
                for role in MODEL_STATES
            )
            if any(part.value for part in parts) or tier is Tier.DEVICE:
                bars.append(Bar(said("labels.of", run=facts.title(run), what=term(tier)), parts))
    return Bars(said("tiers.title"), "B", tuple(bars))


def cuts(facts: Facts) -> FigureTable:
    """Theory: traffic of the bus with one or another part of a step on the host."""
    ways = (
        ("moments",),
        ("update", "moments", "master"),
        ("update", "moments", "master", "rounding"),
        ("update", "moments", "master", "rounding", "gradients", "parameters"),
    )
    rows = tuple(
        (name, str(facts.cut_bytes(*on_host)))
        for name, on_host in zip(each("cuts.ways"), ways, strict=True)
    )
    return FigureTable(said("cuts.title"), each("cuts.columns"), rows)


def losses(facts: Facts, *runs: str) -> FigureTable:
    """The loss of each iteration, run by run."""
    steps = sorted({step for run in runs for step in facts.losses(run)})
    rows = tuple(
        (
            facts.title(run),
            *(
                f"{facts.loss(run, step):.6f}" if step in facts.losses(run) else ""
                for step in steps
            ),
        )
        for run in runs
    )
    columns = ("", *(said("losses.iteration", number=step) for step in steps))
    return FigureTable(said("losses.title"), columns, rows)


def checkpoints(facts: Facts, *runs: str) -> Bars:
    """Activations of rank 0 at the start of backward."""
    names = ("activations", "checkpoints on the device", "checkpoints on the host")
    bars = []
    for run in runs:
        parts = (
            BarPart(name, num / MEGA) for name, num in zip(names, facts.saved(run), strict=True)
        )
        bars.append(Bar(facts.title(run), tuple(parts)))
    return Bars(said("checkpoints.title"), "MB", tuple(bars))


def sums(facts: Facts, *runs: str) -> FigureTable:
    """Traffic of a rank for tensor-parallel blocks, and for gathering checkpoints."""
    rows = []
    for run in runs:
        added, gathered = (
            facts.sent(run, purpose=purpose) for purpose in ("activations", "gather activations")
        )
        share = f"1/{added / gathered:.0f}" if gathered else ""
        moved = facts.copied(run, Link.BUS)
        rows.append((facts.title(run), f"{added:,}", f"{gathered:,}", share, f"{moved:,}"))
    return FigureTable(said("sums.title"), each("sums.columns"), tuple(rows))


def pieces(facts: Facts, *runs: str) -> FigureTable:
    """Fragmentation of a device's free memory at its worst."""
    rows = tuple(
        (
            facts.title(run),
            f"{facts.limit(run) / MEGA:.1f} MB",
            f"{facts.free(run) / MEGA:.1f} MB",
            f"{facts.largest_free(run) / MEGA:.1f} MB",
            f"{facts.fragmentation(run):.1%}",
        )
        for run in runs
    )
    return FigureTable(said("pieces.title"), each("pieces.columns"), rows)


def fetches(facts: Facts, *runs: str) -> FigureTable:
    """Copies of each rank for each unit in one forward; all runs have the same units."""
    units = facts.units(runs[0])
    rows = []
    for run in runs:
        for rank, label in facts.ranks(run):
            cells = (f"{facts.fetched(run, unit, int(rank)):,}" for unit in units)
            rows.append((said("labels.of", run=facts.title(run), what=label), *cells))
    return FigureTable(said("fetches.title"), ("", *units), tuple(rows))


def tiled(facts: Facts, *runs: str) -> Bars:
    """The most of gathered parameters that rank 0 has at once."""
    bars = tuple(
        Bar(
            facts.title(run),
            (BarPart("gathered parameters", facts.peak_of(run, Role.GATHERED) / MEGA),),
        )
        for run in runs
    )
    return Bars(said("tiled.title"), "MB", bars)
