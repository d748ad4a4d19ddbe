"""The matrices sharded by tensor parallelism, and each rank's shard (Megatron-LM, section 3).

Read from the recorded strategies of the program. A column-wise module's weight is sharded along its
output, a row-wise one's along its input; a rank has the shard of its index in the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from zerosim.schema.strategies import Strategy
from zerosim.systems.registry import Axis, axis_of
from zerosim.theory.programs.options import text

_STYLES = ("column", "row")


def matrices_of(
    held: Mapping[int, Sequence[Strategy]], ranks: Iterable[int], units: Iterable[str]
) -> list[dict[str, Any]]:
    """The sharded weights, in the order of the first rank that records them.

    Args:
        held: by global rank, the strategies that are in force.
        ranks: global, in the document's order.
        units: the names of computed units in events.

    Returns:
        For each weight its unit and module, its sharding ("column" or "row"), its whole shape, the
        number of shards, and the shard of each rank; -1 for a rank without a recorded one.
    """
    names, places = tuple(units), tuple(ranks)
    found: dict[str, dict[str, Any]] = {}
    for place, rank in enumerate(places):
        for strategy in held.get(rank, ()):
            if axis_of(strategy.system) is not Axis.TENSOR or rank not in strategy.ranks:
                continue
            for bundle in strategy.bundles:
                style = text(bundle, "style")
                weights = [one.shape for one in bundle.parameters if len(one.shape) > 1]
                if style not in _STYLES or not weights:
                    continue
                cut = found.setdefault(
                    bundle.name,
                    {
                        "unit_name": _unit_of(bundle.name, names),
                        "module": bundle.name,
                        "style": style,
                        "shape": list(weights[0]),
                        "num_parts": len(strategy.ranks),
                        "parts": [-1] * len(places),
                    },
                )
                cut["parts"][place] = strategy.ranks.index(rank)
    return list(found.values())


def _unit_of(module: str, units: Iterable[str]) -> str:
    """The innermost unit that contains a module; "" for none."""
    inside = (one for one in units if one and (module == one or module.startswith(f"{one}.")))
    return max(inside, key=len, default="")
