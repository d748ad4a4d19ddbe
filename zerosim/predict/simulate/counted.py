"""The work of a recorded run's computations, from a dry run of the same training.

A run counts no FLOPs while it trains. Its model, batch and stage determine them: one rank repeats
it as a dry run, and each computation of the recorded run has the operators of the one with its
name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from zerosim.base.config import EngineConfig, RunConfig
from zerosim.predict.placement import Tasks
from zerosim.predict.simulate.rank import SimulatedRank
from zerosim.predict.simulate.simulate import run_rank
from zerosim.record import load
from zerosim.schema.events import Kind, OperatorWork, Phase
from zerosim.schema.manifest import Alike
from zerosim.train.launch.job import Job


class CountedDry:
    """Operators of a run's computations, by phase and unit."""

    def __init__(self, run: RunConfig, config: EngineConfig) -> None:
        """Dry-run one step on the first rank."""
        job = Job(replace(run, steps=1, memory=False, resume=False), ())
        alike = (Alike(rank=0, first=1, last=run.ranks - 1),) if run.ranks > 1 else ()
        size = config.ranks_per_node or run.ranks
        self._of: dict[tuple[Phase, str], tuple[OperatorWork, ...]] = {}
        with TemporaryDirectory(prefix="zerosim-counted-") as folder:
            run_rank(
                job, config, Path(folder), SimulatedRank(0, run.ranks, size, "gloo", "", alike)
            )
            for _, event in load(Path(folder)).ranks[0].events.of_kind(Kind.COMPUTE):
                self._of.setdefault((event.phase, event.unit), event.work)
        updates = [work for (phase, _), work in self._of.items() if phase is Phase.UPDATE]
        self._update = tuple(one for work in updates for one in work)

    def __call__(self, tasks: Tasks) -> Sequence[Sequence[OperatorWork]]:
        """The operators of each computation; an update without a unit is that of all units."""
        columns = zip(tasks.column("phase"), tasks.column("unit"), strict=True)
        return [self._of.get(one, self._update_of(one[0])) for one in columns]

    def _update_of(self, phase: Phase) -> tuple[OperatorWork, ...]:
        return self._update if phase is Phase.UPDATE else ()
