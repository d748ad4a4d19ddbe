"""Figures of collectives by themselves."""

from __future__ import annotations

from zerosim.base.language import term
from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Arrow, Box, Drawing, FigureTable, Note
from zerosim.lessons.views.wording import each, said

_OPS = ("broadcast", "scatter", "gather", "all-gather", "all-to-all", "all-reduce")
_RANKS = (4, 8, 64, 1024)
_SIZES = tuple((1 << power, name) for power, name in (
    (10, "1 KiB"), (16, "64 KiB"), (20, "1 MiB"), (24, "16 MiB"), (28, "256 MiB"), (30, "1 GiB"),
))  # fmt: skip
_LATENCY_US, _GIGABYTES = 10, 25
"""A network between nodes: latency of a message, and 200 Gb/s."""


_WIDE, _HIGH, _BESIDE, _BELOW, _LEFT = 72, 34, 20, 46, 90
"""Sizes of a rank's box, of the room beside and below it, and of the words at its left."""


def tree(facts: Facts, run: str) -> Drawing:
    """Ranks with the payload after each round of a broadcast, with senders and receivers."""
    num_ranks = facts.num_ranks(run)
    rounds = facts.tree(num_ranks)
    boxes, notes, arrows, rows = [], [], [], []

    def left(rank: int) -> float:
        return _LEFT + rank * (_WIDE + _BESIDE)

    for number in range(len(rounds) + 1):
        top = number * (_HIGH + _BELOW)
        words = said("tree.round" if number else "tree.before", number=number)
        notes.append(Note(0, top + _HIGH / 2 + 5, words, is_strong=True))
        for rank in range(num_ranks):
            look = "rank 0" if rank < 1 << number else ""
            boxes.append(
                Box(x=left(rank), y=top, width=_WIDE, height=_HIGH, look=look, label=f"rank {rank}")
            )
        for source, target in rounds[number] if number < len(rounds) else ():
            middle = _WIDE / 2
            below = top + _HIGH + _BELOW
            arrows.append(Arrow(left(source) + middle, top + _HIGH, left(target) + middle, below))
    for number, sends in enumerate(rounds, start=1):
        rows.append(
            (
                said("tree.round", number=number),
                ", ".join(f"{one} → {other}" for one, other in sends),
            )
        )
    title = said("tree.title", ranks=num_ranks)
    return Drawing(
        width=left(num_ranks),
        height=len(rounds) * (_HIGH + _BELOW) + _HIGH,
        boxes=tuple(boxes),
        notes=tuple(notes),
        arrows=tuple(arrows),
        table=FigureTable(title, each("tree.columns"), tuple(rows)),
    )


def senders(facts: Facts, run: str) -> FigureTable:
    """The kernel's count for each rank in each native call, in payloads."""
    rows = tuple((term(op), *(f"{one:.2f}" for one in facts.kernel_shares(run, op))) for op in _OPS)
    title = said("senders.title", bytes=f"{facts.payload_bytes(run, 'broadcast'):,}")
    columns = (said("senders.own"), *(f"rank {rank}" for rank in range(facts.num_ranks(run))))
    return FigureTable(title, columns, rows)


def broadcasts(facts: Facts) -> FigureTable:
    """Rounds of a broadcast, and the payload where a chain becomes faster than a tree,
    predicted.
    """
    rows = tuple(
        (
            f"{n:,}",
            f"{facts.rounds('tree', n)}",
            f"{facts.rounds('chain', n):,}",
            f"{facts.crossing_bytes(n, _LATENCY_US, _GIGABYTES) / 1e6:,.2f}",
        )
        for n in _RANKS
    )
    title = said("broadcasts.title", latency=_LATENCY_US, gigabytes=_GIGABYTES)
    return FigureTable(title, each("broadcasts.columns"), rows)


def trees(facts: Facts, machine: str, num_nodes: str) -> FigureTable:
    """An all-reduce by NCCL's ring and by its tree, as its model predicts."""
    rows = []
    for size, name in _SIZES:
        ring, tree = (
            facts.nccl_us(machine, int(num_nodes), size, each) for each in ("ring", "tree")
        )
        rows.append((name, f"{ring:,.0f}", f"{tree:,.0f}", term("ring" if ring < tree else "tree")))
    title = said("trees.title", nodes=num_nodes, machine=machine)
    return FigureTable(title, each("trees.columns"), tuple(rows))
