"""Figures of activations. Imports `lessons.facts` and `views.model`."""

from __future__ import annotations

from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, Bars, FigureTable, Part

_WORDS = {
    "none": "nothing computed again",
    "sequence": "sequence parallel",
    "selective": "selective recomputation",
    "both": "sequence parallel, selective",
    "full": "full recomputation",
}
_LARGE, _RANKS = (96, 12288, 96, 1, 2048), 8
"""The paper's 175B as one stage, and its tensor parallel ranks."""
_GIB = 2**30


def saved(facts: Facts, run: str) -> FigureTable:
    """What a block keeps, part by part, in bytes for each of the b s h elements, by law."""
    one = facts.sbh(run)
    parts = facts.block_parts(run)
    rows = [(part.what, f"{float(part.bytes) / one:g}") for part in parts]
    rows.append(("together", f"{float(sum(part.bytes for part in parts)) / one:g}"))
    title = "What a block with dropout keeps, by the law; at the run's sizes"
    return FigureTable(title, ("", "bytes for each of b·s·h"), tuple(rows))


def kept(facts: Facts, *runs: str) -> FigureTable:
    """What a block keeps when backward begins, measured, and the law."""
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
    columns = ("blocks.1", "measured, bytes", "the law", "beyond the law", "for each of b·s·h")
    title = "What one block keeps on rank 0 when backward begins"
    return FigureTable(title, columns, tuple(rows))


def variants(facts: Facts) -> Bars:
    """What all blocks of a large GPT keep on a GPU, by law."""
    bars = tuple(
        Bar(words, (Part("activations", facts.kept_law(_LARGE, _RANKS, name) / _GIB),))
        for name, words in _WORDS.items()
    )
    title = "Activations of 175 billion parameters on 8 tensor parallel GPUs, by the law, predicted"
    return Bars(title, "GiB", bars)
