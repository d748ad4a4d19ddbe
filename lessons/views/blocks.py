"""A drawing of a quantized block and its scale."""

from __future__ import annotations

from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Box, Drawing, FigureTable, Note
from zerosim.lessons.views.wording import each, said

_BITS = {"bf16": 16, "int8": 8, "int4": 4}
_GROUPS = 16
"""Number of drawn pieces of a block: its actual elements are too many."""
_WIDTH, _LINE, _HIGH = 790.0, 68.0, 34.0


def blocks(facts: Facts, run: str) -> Drawing:
    """A block of numbers as bytes, before and after each quantization, to one scale."""
    numbers, scale_bytes = int(facts.config(run, "quantization_block")), facts.scale_bytes()
    whole = numbers * _BITS["bf16"] / 8
    scale = _WIDTH / (whole + scale_bytes)
    boxes, notes, rows = [], [], []
    for number, (dtype, bits) in enumerate(_BITS.items()):
        top, size = _LINE * number, numbers * bits / 8
        beside = scale_bytes if bits < _BITS["bf16"] else 0
        words = said(
            "blocks.size_and_scale" if beside else "blocks.size",
            numbers=numbers,
            size=f"{size:,.0f}",
            beside=beside,
            more=f"{beside / size:.1%}",
        )
        notes.append(Note(0, top + 18, said("blocks.dtype", dtype=dtype), is_strong=True))
        notes.append(Note(56, top + 18, words))
        boxes += [
            Box(
                x=group * size / _GROUPS * scale,
                y=top + 26,
                width=size / _GROUPS * scale,
                height=_HIGH,
                look="numbers",
                shrinks_from=whole / size,
            )
            for group in range(_GROUPS)
        ]
        if beside:
            boxes.append(
                Box(
                    x=size * scale,
                    y=top + 26,
                    width=beside * scale,
                    height=_HIGH,
                    look="scale",
                    shrinks_from=whole / size,
                )
            )
        rows.append((dtype, str(bits), f"{size:,.0f}", str(beside), f"{beside / size:.1%}"))
    title = said("blocks.title", numbers=numbers)
    return Drawing(
        width=_WIDTH,
        height=_LINE * len(_BITS) - 4,
        boxes=tuple(boxes),
        notes=tuple(notes),
        legend=("numbers", "scale"),
        table=FigureTable(title, each("blocks.columns"), tuple(rows)),
    )
