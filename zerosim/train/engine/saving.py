"""The state of a training run on a disk: committed after each step, and resumed from.

A commit waits for the disk during the next iteration's forward. It ends before that iteration's
gradients are reduced: a rank that overwrites a state has received gradients of ranks whose commits
ended, so a state that all ranks have is never overwritten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from zerosim.base.config import EngineConfig, Offload
from zerosim.base.errors import ConfigError
from zerosim.schema.events import Purpose
from zerosim.trace import dry, labels
from zerosim.train.collectives import Handle, RankGroup, in_background
from zerosim.train.collectives.executor import Done
from zerosim.train.engine.disk_optimizer import states_bytes
from zerosim.train.engine.flat import FlatUnit
from zerosim.train.offload import Disk, DiskFiles, DryDisk, SavedState

Saved = Mapping[str, Any]


def open_disk(
    config: EngineConfig,
    units: Sequence[FlatUnit],
    group: RankGroup,
    tensor: RankGroup,
    *,
    resumes: bool,
) -> tuple[Disk | None, Saved]:
    """The configured disk, and its committed state.

    Args:
        group, tensor: the data-parallel ranks of this one, and those that compute each layer with
            it: a state is complete if all ranks of both kinds have it.
        resumes: whether to continue from the last state that all ranks have.

    Raises:
        ConfigError: there is no state to resume, or it belongs to a different model.
        DiskError: the state is damaged.
        EnvironmentFault: the folder is not usable.
    """
    wanted = (config.offload_optimizer, config.offload_param)
    if resumes and config.offload_optimizer is not Offload.NVME:
        raise ConfigError(
            f"resume with offload-optimizer {config.offload_optimizer}: expected nvme, whose "
            "states outlive the run"
        )
    if Offload.NVME not in wanted:
        return None, {}
    folder = Path(config.nvme_path)
    num_ranks = group.size * tensor.size
    buffer_bytes = _largest(config, units, group.size)
    if dry.installed() is not None:
        return DryDisk(buffers=config.disk_buffers, buffer_bytes=buffer_bytes), {}
    state = _state_to_resume(folder, units, num_ranks) if resumes else None
    disk = DiskFiles(
        folder,
        group.rank * tensor.size + tensor.rank,
        num_ranks,
        buffers=config.disk_buffers,
        buffer_bytes=buffer_bytes,
        state=state,
    )
    if state is None:
        return disk, {}
    with labels.scope(purpose=Purpose.FETCH_STATES):
        disk.check()
    return disk, state.values


def _state_to_resume(folder: Path, units: Sequence[FlatUnit], num_ranks: int) -> SavedState:
    state = DiskFiles.last_good(folder, num_ranks)
    if state is None:
        raise ConfigError(
            f"nothing to resume in {folder}: expected the state of a run with {num_ranks} ranks; "
            "leave --resume out to start over"
        )
    if state.values.get("units") != describe(units):
        raise ConfigError(
            f"{folder} has the state of a different model: expected the same "
            f"{len(units)} names and sizes of units; give the options of the run that wrote it"
        )
    return state


def describe(units: Sequence[FlatUnit]) -> list[list[Any]]:
    """The identity of a model: names and sizes of its units, as JSON values."""
    return [[flat.name, flat.unit.elements, flat.unit.trainable] for flat in units]


def _largest(config: EngineConfig, units: Sequence[FlatUnit], num_ranks: int) -> int:
    """Bytes of the largest file: a unit's states, or its parameters."""
    columns = max(flat.unit.columns for flat in units)
    sizes = [0]
    if config.offload_optimizer is Offload.NVME:
        sizes.append(states_bytes(columns))
    if config.offload_param is Offload.NVME:
        rows = num_ranks if config.has_owners else 1
        sizes.append(rows * columns * config.dtype.element_bytes)
    return max(sizes)


class Saver:
    """Commits a disk's state during computation."""

    def __init__(self, disk: Disk, device: torch.device) -> None:
        """Create a committer without a commit in progress."""
        self._disk = disk
        self._executor = in_background(device, "zerosim-commit")
        self._under_way: Handle = Done()

    def commit(self, saved: Saved) -> None:
        """Start to commit the written state as the last good one."""
        self._under_way = self._executor.submit(lambda: self._disk.commit(saved))

    def settle(self) -> None:
        """Wait for the commit in progress."""
        self._under_way.wait()

    def close(self) -> None:
        """Wait for the last commit, and release the disk."""
        self._executor.close()
        self._disk.close()
        self.settle()
