"""Figures of a configuration: DeepSpeed's traffic with it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import FigureTable
from zerosim.lessons.views.wording import each, said

_ZERO = "zero_optimization."
_CHANGES: Mapping[str, tuple[object, ...]] = {
    f"{_ZERO}stage": (0, 1),
    "gradient_accumulation_steps": (1,),
    f"{_ZERO}use_multi_rank_bucket_allreduce": (False,),
    f"{_ZERO}reduce_scatter": (False,),
    f"{_ZERO}reduce_bucket_size": (1_000_000,),
    f"{_ZERO}overlap_comm": (False,),
    f"{_ZERO}contiguous_gradients": (False,),
    f"{_ZERO}allgather_partitions": (False,),
    f"{_ZERO}allgather_bucket_size": (1_000_000,),
}


def keys(facts: Facts) -> FigureTable:
    """Traffic of DeepSpeed in a step with one key of the file changed."""
    rows = [_row(facts, said("keys.as_it_stands"))]
    for key, values in _CHANGES.items():
        for value in values:
            changed = f"{key.removeprefix(_ZERO)}: {json.dumps(value)}"
            rows.append(_row(facts, changed, key, value))
    return FigureTable(said("keys.title"), each("keys.columns"), tuple(rows))


def told(facts: Facts) -> FigureTable:
    """The explanation of the file before a run."""
    lines = str(facts.explanation_of()).splitlines()
    return FigureTable(
        'zerosim.deepspeed.explain("ds_config.json")', ("",), tuple((one,) for one in lines)
    )


def _row(facts: Facts, label: str, *change: object) -> tuple[str, str, str]:
    found = facts.explanation_of(*change)  # type: ignore[arg-type]
    return label, f"{float(found.sends):.0f}", f"{float(found.law):.0f}"
