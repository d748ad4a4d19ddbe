"""Ranks that do the same, so that one dry run represents them."""

from __future__ import annotations

from itertools import groupby

from zerosim.base.config import EngineConfig, Implementation, RunConfig
from zerosim.base.config.choices import AlikeRanks
from zerosim.predict.simulate.mode import without_memory
from zerosim.predict.simulate.work import WorkCounter
from zerosim.schema.manifest import EACH, Alike
from zerosim.train.models import build


def alike_of(
    run: RunConfig, who: EngineConfig | Implementation, each: int = EACH
) -> tuple[Alike, ...]:
    """Ranks that represent others, if there are many equal ones.

    Native calls of the whole world are equal on every rank, and so are those of tensor-parallel
    groups, with each rank in one, if all have the same placement on nodes. A ring's messages go to
    different peers on each rank; the groups of an owner, a node or a pipeline do not include all
    ranks. A parameter's dim 0 may be split in N pieces, the last of which may be shorter or empty:
    ranks with equal pieces are equal.
    """
    if run.ranks <= each or _differ(run, who):
        return ()
    if isinstance(who, EngineConfig) or who.alike is not AlikeRanks.ROWS:
        return (Alike(rank=0, first=1, last=run.ranks - 1),)
    with without_memory(WorkCounter()):
        model = build(run.model, run.seed, shape=run.shape)
    rows = sorted({parameter.shape[0] for parameter in model.parameters()})
    pieces = groupby(range(run.ranks), key=lambda rank: _pieces(rows, run.ranks, rank))
    spans = [list(ranks) for _, ranks in pieces]
    return tuple(
        Alike(rank=span[0], first=span[1], last=span[-1]) for span in spans if len(span) > 1
    )


def _differ(run: RunConfig, who: EngineConfig | Implementation) -> bool:
    if not isinstance(who, EngineConfig):
        return who.alike is AlikeRanks.NONE
    node, together = who.ranks_per_node or run.ranks, run.tensor_parallel
    return not who.asks_alike or bool(node % together and together % node)


def _pieces(rows: list[int], num_ranks: int, rank: int) -> tuple[int, ...]:
    """Rows on a rank of parameters with these numbers of rows, as split by `torch.chunk`."""
    found = []
    for num_rows in rows:
        size = -(-num_rows // num_ranks)
        found.append(max(0, min(size, num_rows - rank * size)))
    return tuple(found)
