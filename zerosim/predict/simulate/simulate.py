"""A dry run of a job: ranks execute one after another, then all events are placed in time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from zerosim.base.config import EngineConfig, Implementation
from zerosim.base.errors import ConfigError, OutOfMemory, RunError
from zerosim.predict.placement import place
from zerosim.predict.placement.machine import Machine, load_machine
from zerosim.predict.simulate.alike import alike_of
from zerosim.predict.simulate.lasting import Lasting
from zerosim.predict.simulate.post import Letters
from zerosim.predict.simulate.rank import SimulatedRank, stand_in
from zerosim.predict.simulate.turns import in_turn
from zerosim.record import load, write
from zerosim.schema.manifest import EACH
from zerosim.systems.catalogue import make_step, unavailable
from zerosim.systems.step import Step
from zerosim.trace import trace
from zerosim.train.device import device_memory
from zerosim.train.engine import Engine
from zerosim.train.launch import parallel
from zerosim.train.launch.job import Job
from zerosim.train.launch.training import batches_of, make_engine, train_engine, train_other
from zerosim.train.models import context_of


def simulate_job(job: Job, machine: str) -> None:
    """Dry-run each run of a job on all its ranks, with predicted times.

    Args:
        machine: the machine whose constants predict the times, as for `load_machine`.
    """
    costs = load_machine(machine)
    for who, folder in job.engines:
        with TemporaryDirectory(prefix="zerosim-dry-") as dry:
            run_dry(job, who, Path(dry), costs)
            write(place(load(dry, strict=True), Lasting(costs)), folder)


def require_simulated(job: Job, machine: str) -> None:
    """Check that a job supports a dry run.

    Raises:
        ConfigError: there is no such machine, its nodes are not filled, the ranks cannot compute
            the model together, or an option needs a real run.
    """
    costs, run = load_machine(machine), job.run
    for who, _ in job.engines:
        if isinstance(who, EngineConfig):
            parallel.require_divisible(run, who)
        elif why := unavailable(who, run):
            raise ConfigError(f"{who} cannot be simulated: {why}")
    if run.resume:
        raise ConfigError("resume has no effect in a dry run, which saves no state: leave it out")
    require_nodes(costs, run.ranks)


def require_nodes(costs: Machine, num_ranks: int) -> None:
    """Check that ranks fill the nodes of a machine.

    Raises:
        ConfigError: they do not.
    """
    size = costs.ranks_per_node
    if size and num_ranks > size and num_ranks % size:
        raise ConfigError(
            f"ranks is {num_ranks} on {costs.name}: expected at most {size}, or a multiple of "
            f"{size}, the ranks of a node"
        )


def run_dry(
    job: Job,
    who: EngineConfig | Implementation,
    folder: Path,
    machine: Machine,
    each: int = EACH,
) -> None:
    """Dry-run one run on all ranks, one after another; its times only give an order.

    Args:
        each: up to this number, every rank has a file; above it, one represents all equal ones.
    """
    num_ranks = job.run.ranks
    if isinstance(who, EngineConfig):
        who = _on_nodes(who, num_ranks, machine)
        size = who.ranks_per_node or num_ranks
    else:
        size = min(num_ranks, machine.ranks_per_node or num_ranks)
    backend = "nccl" if machine.generation else "gloo"
    alike = alike_of(job.run, who, each)
    others = {rank for one in alike for rank in range(one.first, one.last + 1)}

    def do(rank: int, letters: Letters) -> None:
        where = SimulatedRank(rank, num_ranks, size, backend, machine.name, alike)
        try:
            run_rank(job, who, folder, where, letters)
        except OutOfMemory as error:
            raise RunError(f"rank {rank} failed: {type(error).__name__}: {error}") from None

    in_turn([rank for rank in range(num_ranks) if rank not in others], folder, do)


def _on_nodes(config: EngineConfig, num_ranks: int, machine: Machine) -> EngineConfig:
    """A file that represents other ranks lacks their nodes; these are in the configuration."""
    size = config.ranks_per_node or min(num_ranks, machine.ranks_per_node or num_ranks)
    return replace(config, ranks_per_node=size) if size < num_ranks else config


def run_rank(
    job: Job,
    who: EngineConfig | Implementation,
    folder: Path,
    where: SimulatedRank,
    letters: Letters | None = None,
) -> None:
    """Dry-run one run on one rank; the times in its file only give an order.

    Args:
        letters: values sent by the others so far; the first rank needs none.
    """
    run = job.run
    ours = isinstance(who, EngineConfig)
    with stand_in(where, None if ours else letters or Letters()) as dry_rank:
        # the groups' own tensors have values
        data = parallel.data_group(run)
        trained: Engine | Step | None = None
        with (
            dry_rank.without_memory(),
            device_memory(run.device_bytes, torch.device("cpu")),
            trace(
                folder,
                program="zerosim simulate" if ours else f"zerosim simulate: {who}",
                run=run.to_plain(),
                memory=run.memory,
            ),
        ):
            if isinstance(who, EngineConfig):
                trained = make_engine(job, who, torch.device("cpu"), data)
                shape = run.batch, context_of(run.model, run.shape) + 1
                train_engine(
                    trained,
                    run.steps,
                    read=lambda *_: torch.empty(shape, dtype=torch.int64),
                    advance=lambda _: None,
                )
            else:
                trained = make_step(who, run, batches_of(run, data))
                train_other(trained, run.steps, who, lambda _: None)
        del trained
