"""Optimizer states on a disk: read before a unit's update, written after it.

A unit's master, momentum and variance are one file, 12 bytes per parameter of a rank's row; the
file of the next unit is read while this one is updated, and that of the previous one is written.
Source: Rajbhandari et al., "ZeRO-Infinity" (arXiv 2104.07857), sections 5.1.2 and 6.3.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from zerosim.base.config import EngineConfig
from zerosim.schema.events import Purpose
from zerosim.schema.memory import OPTIMIZER_STATES
from zerosim.trace import labels
from zerosim.trace.holdings import hold_file
from zerosim.train.collectives import Handle
from zerosim.train.engine.groups import GroupColumns, ParameterGroups
from zerosim.train.engine.optimizer import UnitOptimizer
from zerosim.train.offload import Buffer, Disk

"""The contents of a unit's file, one after another, in fp32."""
FP32_BYTES = 4


def states_bytes(columns: int) -> int:
    """Size of the states of a row of `columns` elements."""
    return len(OPTIMIZER_STATES) * FP32_BYTES * columns


class DiskOptimizer(UnitOptimizer):
    """A unit's optimizer, with states in memory only during its update."""

    def __init__(
        self,
        unit: str,
        row: torch.Tensor,
        config: EngineConfig,
        groups: ParameterGroups,
        cuts: Sequence[GroupColumns],
        disk: Disk,
        *,
        resumes: bool,
    ) -> None:
        """Write the initial states, unless the disk already has states.

        Args:
            row: the parameters' first values, in the compute dtype.
            resumes: whether the disk has states, with which `resume` continues.
        """
        self._disk = disk
        self._name = f"states/{unit}"
        self._columns = row.numel()
        self._buffer: Buffer | None = None
        self._coming: tuple[Buffer, Handle] | None = None
        # with fewer, a prefetched buffer would block writes of parameters
        self._prefetches = config.disk_buffers > len(OPTIMIZER_STATES)
        super().__init__(unit, [row], config, groups, [cuts], shared=None)
        for role in OPTIMIZER_STATES:
            hold_file(f"{self._name}/{role}", role, unit, FP32_BYTES * self._columns)
        for cut, piece in zip(cuts, self._pieces[0], strict=True):
            self._adam.state[piece] = {"step": torch.tensor(0.0)} | self._moments(cut)
        if resumes:
            self._forget().release()
        else:
            self.store()

    def prefetch(self) -> None:
        """Start reading, if there is a buffer."""
        if self._prefetches and self._coming is None:
            buffer = self._disk.try_buffer(states_bytes(self._columns))
            if buffer is not None:
                self._coming = buffer, self._read(buffer)

    def fetch(self) -> None:
        """Ensure that the states are in memory."""
        if self._coming is None:
            buffer = self._disk.buffer(states_bytes(self._columns))
            self._coming = buffer, self._read(buffer)
        (self._buffer, handle), self._coming = self._coming, None
        handle.wait()
        master = self._states()[0]
        self._masters[0].data = master
        for cut, piece in zip(self._cuts[0], self._pieces[0], strict=True):
            piece.data = master[cut.start : cut.stop]
            self._adam.state[piece].update(self._moments(cut))

    def store(self) -> None:
        """Write the states, and release their memory."""
        buffer = self._forget()
        with labels.scope(unit=self._unit, purpose=Purpose.STORE_STATES, tensors=(self._unit,)):
            self._disk.write(self._name, buffer.tensor, on_done=buffer.release)

    def resume(self, steps: int) -> None:
        """Continue with the states on the disk.

        Args:
            steps: number of updates that produced them.
        """
        for piece in self._pieces[0]:
            self._adam.state[piece]["step"].fill_(steps)

    def write_parameters(self, written: torch.Tensor) -> None:
        """Write the parameters from the master copy on the disk.

        Args:
            written: a row in the compute dtype.
        """
        self.fetch()
        written.copy_(self._masters[0])
        self._forget().release()

    def release(self) -> None:
        """The engine is closed."""
        for role in OPTIMIZER_STATES:
            hold_file(f"{self._name}/{role}", role, self._unit, 0)

    def _make_masters(
        self, rows: Sequence[torch.Tensor], _: Sequence[torch.Tensor] | None
    ) -> list[torch.Tensor]:
        self._buffer = self._disk.buffer(states_bytes(self._columns))
        states = self._states().zero_()
        self._fill(states[0], rows[0])
        return [states[0]]

    def _forget(self) -> Buffer:
        """Release the buffer of the states."""
        buffer, self._buffer = self._buffer, None
        assert buffer is not None, f"{self._name} is not in memory"
        nothing = torch.empty(0)
        for tensor in (self._masters[0], *self._pieces[0]):
            tensor.data = nothing
        for piece in self._pieces[0]:
            self._adam.state[piece].update(exp_avg=nothing, exp_avg_sq=nothing)
        return buffer

    def _states(self) -> torch.Tensor:
        """The contents of the buffer, as rows of fp32: master, momentum, variance."""
        assert self._buffer is not None, f"{self._name} is not in memory"
        return self._buffer.tensor.view(torch.float32).view(len(OPTIMIZER_STATES), self._columns)

    def _moments(self, cut: GroupColumns) -> dict[str, torch.Tensor]:
        _, momentum, variance = self._states()
        return {
            "exp_avg": momentum[cut.start : cut.stop],
            "exp_avg_sq": variance[cut.start : cut.stop],
        }

    def _read(self, buffer: Buffer) -> Handle:
        with labels.scope(unit=self._unit, purpose=Purpose.FETCH_STATES, tensors=(self._unit,)):
            return self._disk.read(self._name, buffer.tensor)
