"""The position of each rank among those that share a training run, and its part of a unit.

Ranks that shard parameters (FSDP) are rows, ranks that compute layers together (tensor parallel)
are columns: a shard is the intersection of a row and a column. Replicas have the same shards.
Source: S. Li et al., "PyTorch FSDP" (arXiv 2304.11277), section 3.2.2; M. Shoeybi et al.,
"Megatron-LM" (arXiv 1909.08053), section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from zerosim.analysis.frames.cuts import (
    CUT,
    SUMMED_LATE,
    WHOLE,
    WHOLE_GRADIENT,
    Cutting,
    NotShown,
    along,
    parameters_in,
)
from zerosim.analysis.frames.layout import Division, ShardDuties
from zerosim.schema.memory import Role
from zerosim.schema.strategies import Strategy
from zerosim.systems.registry import Axis, find
from zerosim.theory.programs.options import numbers, texts
from zerosim.theory.programs.parts import local_parameters

_NOT_ALIKE = "shards are shown only if all ranks partition the model the same way"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """The position of one rank.

    Attributes:
        row, num_rows: among the ranks that shard parameters.
        columns: the ranks that compute layers together.
        column: its index among them.
        among: the ranks whose gradients are summed for the same shards.
    """

    rank: int
    row: int
    num_rows: int
    columns: tuple[int, ...]
    among: frozenset[int]

    @property
    def num_shards(self) -> int:
        """Shards of every unit."""
        return self.num_rows * len(self.columns)

    def part(self, sort: str) -> ShardDuties:
        """The rank's part of a unit with parameters of this sort."""
        count = len(self.columns)
        everywhere = frozenset(range(self.num_shards))
        column = self.columns.index(self.rank)
        mine = everywhere if sort not in (CUT, WHOLE_GRADIENT) else _of(column, count, everywhere)
        keeps = frozenset(one for one in mine if one // count == self.row)
        return ShardDuties(
            computes=mine,
            keeps=keeps,
            updates=keeps,
            makes=everywhere if sort == WHOLE_GRADIENT else mine,
            among=frozenset(self.columns) if sort == SUMMED_LATE else self.among,
        )


def _of(column: int, num_columns: int, shards: frozenset[int]) -> frozenset[int]:
    return frozenset(one for one in shards if one % num_columns == column)


def seats_of(made: Cutting) -> dict[int, Seat]:
    """The position of each rank.

    Raises:
        NotShown: shards are not divided evenly, or not in all bundles among the same ranks.
    """
    seats = {rank: _seat(rank, held) for rank, held in made.held.items()}
    if len({(one.num_rows, len(one.columns), len(one.among)) for one in seats.values()}) > 1:
        raise NotShown(_NOT_ALIKE)
    return seats


def _seat(rank: int, held: Mapping[str, Strategy]) -> Seat:
    tensor = next(iter(along(held, Axis.TENSOR)), None)
    columns = (rank,) if tensor is None else tensor.ranks
    data = next(iter(along(held, Axis.DATA)), None)
    among = (rank,) if data is None else data.ranks
    rows = (rank,) if data is None else _rows(data, rank)
    if rank not in columns or rank not in rows or rank not in among:
        raise NotShown(_NOT_ALIKE)
    return Seat(
        rank=rank,
        row=rows.index(rank),
        num_rows=len(rows),
        columns=columns,
        among=frozenset(among),
    )


def _rows(strategy: Strategy, rank: int) -> tuple[int, ...]:
    """The ranks that shard parameters; replicas have all of them."""
    system = find(strategy.system)
    if system is not None and Role.PARAMETERS in system.replicates:
        return (rank,)
    found = {tuple(numbers(one, "shard_ranks") or (rank,)) for one in strategy.bundles}
    if len(found) != 1:
        raise NotShown("bundles are divided among different numbers of ranks")
    return found.pop()


def divided(made: Cutting, division: Division, seats: Mapping[int, Seat]) -> Division:
    """A division with the parts of each rank, if shard r is not simply that of rank r."""
    one = next(iter(seats.values()))
    is_plain = len(one.columns) == 1 and len(one.among) == made.num_ranks
    if is_plain and one.num_rows == (made.num_ranks if division.parameters else 1):
        return division
    return replace(
        division,
        num_shards=one.num_shards,
        parts={
            (rank, unit): seat.part(sort)
            for rank, seat in seats.items()
            for unit, sort in made.sorts.items()
        },
        summed_late=frozenset(unit for unit, sort in made.sorts.items() if sort == SUMMED_LATE),
    )


def require_seats_of_all(made: Cutting) -> None:
    """Raise unless every strategy spans all ranks.

    Raises:
        NotShown: a strategy does not.
    """
    for held in made.held.values():
        for strategy in held.values():
            if len(strategy.ranks) != made.num_ranks:
                raise NotShown(_NOT_ALIKE)


def sorts_of(tensor: Strategy) -> dict[str, str]:
    """By parameter under tensor parallelism, each rank's part of it.

    Raises:
        NotShown: the parts are not equal.
    """
    every = parameters_in(tensor.bundles)
    late, whole = set(texts(tensor, "partial_gradients")), set(texts(tensor, "whole_gradients"))
    found = {}
    for one, part in zip(every, local_parameters(every, [tensor]), strict=True):
        if part == one:
            found[one.name] = SUMMED_LATE if one.name in late else WHOLE
        elif part.elements * len(tensor.ranks) == one.elements:
            found[one.name] = WHOLE_GRADIENT if one.name in whole else CUT
        else:
            raise NotShown(f"the parts of {one.name} on the ranks are not equal")
    return found
