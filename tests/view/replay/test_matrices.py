"""Which part of a cut weight each rank holds, from what tensor parallel says of itself."""

from __future__ import annotations

from zerosim.schema.strategies import Bundle, Parameter, Strategy
from zerosim.view.replay.matrices import matrices_of


def cut(ranks, name, style, shape):
    weight = Parameter(name=f"{name}.weight", shape=shape, dtype="float32", trainable=True)
    bundle = Bundle(name=name, parameters=(weight,), options={"style": style})
    return Strategy(system="tensor parallel", name="GPT", ranks=ranks, bundles=(bundle,))


def test_each_group_of_ranks_holds_every_part_once():
    held = {
        rank: (cut((0, 1) if rank < 2 else (2, 3), "blocks.10.mlp.0", "column", (8, 4)),)
        for rank in range(4)
    }
    assert matrices_of(held, range(4), ("blocks.1", "blocks.10", "")) == [
        {
            "unit_name": "blocks.10",
            "module": "blocks.10.mlp.0",
            "style": "column",
            "shape": [8, 4],
            "num_parts": 2,
            "parts": [0, 1, 0, 1],
        }
    ]


def test_what_is_not_cut_or_is_of_another_system_is_no_matrix():
    sequence = cut((0, 1), "norm", "sequence", (4, 4))
    bias = cut((0, 1), "head", "row", (4,))
    assert matrices_of({0: (sequence, bias), 1: ()}, (0, 1), ("head",)) == []
    alone = matrices_of({0: (cut((0, 1), "head", "row", (4, 4)),)}, (0, 1), ("head",))
    assert [one["parts"] for one in alone] == [[0, -1]]
