"""Figures of activations."""

from __future__ import annotations

from zerosim.base.language import term
from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, BarPart, Bars, FigureTable
from zerosim.lessons.views.wording import each, said

_VARIANTS = ("none", "sequence", "selective", "both", "full")
_LARGE, _RANKS = (96, 12288, 96, 1, 2048), 8
"""The paper's 175B as one stage, and its tensor parallel ranks."""
_GIB = 2**30


def saved(facts: Facts, run: str) -> FigureTable:
    """Activations of a block, part by part, in bytes per element of b s h, by law."""
    one = facts.sbh(run)
    parts = facts.block_parts(run)
    rows = [(term(part.what), f"{float(part.bytes) / one:g}") for part in parts]
    rows.append((said("saved.together"), f"{float(sum(part.bytes for part in parts)) / one:g}"))
    return FigureTable(said("saved.title"), each("saved.columns"), tuple(rows))


def kept(facts: Facts, *runs: str) -> FigureTable:
    """Activations of a block at the start of backward, measured, and the law."""
    rows = []
    for run in runs:
        one = facts.sbh(run)
        measured, law = facts.kept_by(run, "blocks.1"), facts.block_law(run)
        rows.append(
            (
                facts.title(run),
                f"{measured:,}",
                f"{law:,}",
                f"{measured - law:,}",
                f"{measured / one:.2f}",
            )
        )
    return FigureTable(said("kept.title"), each("kept.columns"), tuple(rows))


def variants(facts: Facts) -> Bars:
    """Activations of all blocks of a large GPT on a GPU, by law."""
    bars = tuple(
        Bar(
            said(f"variants.{name}"),
            (BarPart("activations", facts.kept_law(_LARGE, _RANKS, name) / _GIB),),
        )
        for name in _VARIANTS
    )
    return Bars(said("variants.title"), "GiB", bars)
