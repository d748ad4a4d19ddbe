"""The shards of each rank in a program without zerosim's engine, as read by its system."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from zerosim.analysis.frames.cuts import Cutting, NotShown, ProgramUnits, along
from zerosim.analysis.frames.stages import read_stages, require_stages
from zerosim.schema.strategies import Strategy
from zerosim.systems.registry import Axis, reader_of, understood


def program_of(
    held: Mapping[int, Sequence[Strategy]], num_ranks: int, computations: Sequence[str]
) -> ProgramUnits:
    """The units of a program, and their partitioning.

    Args:
        held: by rank, the strategies in force.
        num_ranks: ranks of the run.
        computations: the names of forward computations, in order.

    Raises:
        NotShown: the contents of the ranks are unknown.
        TraceError: the trace contradicts itself about a system.
    """
    by_rank = {rank: {one.system: one for one in of_rank} for rank, of_rank in held.items()}
    systems = next(iter(by_rank.values()))
    if any(len(by_rank[rank]) < len(of_rank) for rank, of_rank in held.items()):
        names = " and ".join(str(one.system) for one in next(iter(held.values())))
        raise NotShown(f"the shards of each rank are not shown for {names}")
    if any(one.keys() != systems.keys() for one in by_rank.values()):
        raise NotShown("shards are shown only if all ranks partition the model the same way")
    if along(systems, Axis.PIPELINE):
        stages = require_stages(by_rank)
        return read_stages(by_rank, stages, computations, _read)
    return _read(by_rank, num_ranks, computations)


def _read(
    held: Mapping[int, Mapping[str, Strategy]], num_ranks: int, computations: Sequence[str]
) -> ProgramUnits:
    made = Cutting(held, num_ranks, computations)
    part = reader_of(made.systems, "frames")
    if part is None:
        names = " and ".join(str(one) for one in made.systems)
        raise NotShown(f"the shards of each rank are not shown for {names}")
    with understood(made.systems.values()):
        found: ProgramUnits = part.read(made)
    return found


def one_program(micro_steps: Iterable[ProgramUnits]) -> ProgramUnits:
    """Properties common to all micro-steps; units kept by all but the last stay until the last.

    Raises:
        NotShown: the micro-steps differ.
    """
    *others, last = micro_steps
    if last.division.frees_last:
        name = min(last.division.frees_last)
        raise NotShown(f"{name} stays gathered after backward")
    found = _until_the_last(last, others[0].division.frees_last if others else frozenset())
    if any(one != found for one in others):
        raise NotShown("the kept shards change from one micro-step to the next")
    return found


def _until_the_last(program: ProgramUnits, units: frozenset[str]) -> ProgramUnits:
    return replace(program, division=replace(program.division, frees_last=units))
