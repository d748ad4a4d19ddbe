"""Figures of one collective on a ring."""

from __future__ import annotations

from string import ascii_lowercase

from zerosim.base.language import term
from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, BarPart, Bars, FigureTable
from zerosim.lessons.views.wording import said

UNIT = "blocks.2"


def letter(shard: int) -> str:
    """The label of a piece: a, b, c ... as in the replay."""
    return ascii_lowercase[shard % len(ascii_lowercase)]


def hops(facts: Facts, run: str, op: str) -> FigureTable:
    """The piece that each rank sends in each hop, and its receiver."""
    messages = facts.messages(run, op, UNIT)
    numbers = range(1, facts.num_hops(run, op, UNIT) + 1)
    rows = []
    for rank, label in facts.ranks(run):
        own = {m.hop: m for m in messages if str(m.source) == rank}
        cells = (f"{letter(own[k].shard)} → {own[k].target}" if k in own else "" for k in numbers)
        rows.append((label, *cells))
    columns = ("", *(said("hops.hop", number=number) for number in numbers))
    return FigureTable(said("hops.title", op=term(op), unit=UNIT), columns, tuple(rows))


def shares(facts: Facts, *runs: str) -> Bars:
    """Traffic of rank 0 in one collective of each kind, in multiples of its payload."""
    bars = []
    for run in runs:
        for op in facts.ops(run, UNIT):
            whole = facts.share_sent(run, op, UNIT)
            law = facts.ring_share(op, facts.num_ranks(run))
            bars.append(Bar(term(op), (BarPart(op, whole),), law))
    title = said("shares.title", unit=UNIT)
    return Bars(title, said("shares.unit"), tuple(bars), said("shares.law"))
