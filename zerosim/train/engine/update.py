"""The update: agreement between ranks, then AdamW on this rank's rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from zerosim.base.config import Offload
from zerosim.schema.events import Purpose
from zerosim.trace import labels
from zerosim.train.collectives import Handle, in_background
from zerosim.train.collectives.executor import Done
from zerosim.train.engine.context import Context
from zerosim.train.engine.disk_optimizer import DiskOptimizer
from zerosim.train.engine.flat import FlatUnit
from zerosim.train.engine.groups import ParameterGroups
from zerosim.train.engine.loss_scaling import LossScaler, clip_factor, gather_scalars, squared_norm
from zerosim.train.engine.optimizer import UnitOptimizer
from zerosim.train.engine.stages import Stage


class Updater:
    """Runs the optimizer steps of a stage.

    Attributes:
        scaler: the loss scale.
        gradient_norm: global norm of the last step, if clipping is enabled; else None.
        updates: number of steps that were not skipped.
    """

    def __init__(
        self, context: Context, stage: Stage, groups: ParameterGroups, *, resumes: bool
    ) -> None:
        """Start without states; `adopt` creates those of a unit.

        Args:
            resumes: whether the disk has states.
        """
        self._resumes = resumes
        self.updates = 0
        self._context = context
        self._stage = stage
        self._trained: Sequence[FlatUnit] = [
            flat for flat in context.units if flat.unit.trainable and context.updated_rows(flat)
        ]
        self._device = context.units[0].flat.device
        self._groups = groups
        self._optimizers: dict[str, UnitOptimizer] = {}
        self._found: set[str] = set()
        self.scaler = LossScaler(context.config)
        self.gradient_norm: float | None = None
        self._delayed = DelayedUpdate(self._device) if context.config.delayed_update else None

    def adopt(self, flat: FlatUnit, *, found: bool) -> None:
        """Create the states of a unit with complete parameters: for the rows updated here.

        Args:
            found: whether the stored parameters are those of an earlier run.
        """
        if flat not in self._trained:
            return
        if found:
            self._found.add(flat.name)
        config, disk = self._context.config, self._context.disk
        rows = self._context.updated_rows(flat)
        cuts = [self._groups.cuts(flat.unit, row) for row in rows]
        values = [flat.rows[row] for row in rows]
        if config.offload_optimizer is Offload.NVME:
            assert disk is not None, "nothing is configured to be on a disk"
            self._optimizers[flat.name] = DiskOptimizer(
                flat.name, values[0], config, self._groups, cuts[0], disk, resumes=self._resumes
            )
        else:
            shared = self._stage.parameters.store.shared(flat)
            self._optimizers[flat.name] = UnitOptimizer(
                flat.name, values, config, self._groups, cuts, shared
            )

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Restore the result of `saved`, with the states on the disk."""
        for flat in self._trained:
            optimizer = self._optimizers[flat.name]
            assert isinstance(optimizer, DiskOptimizer), f"{flat.name} is not on a disk"
            optimizer.resume(saved["updates"])
            if flat.name not in self._found:
                (written,) = self._stage.parameters.store.written(flat)
                optimizer.write_parameters(written)
                self._stage.after_update(flat)
        self._stage.finish_update()
        self.updates = saved["updates"]
        self.scaler.restore(saved["scaler"])

    def saved(self) -> dict[str, Any]:
        """The values for `resume` other than the states, as JSON values."""
        return {"updates": self.updates, "scaler": self.scaler.saved()}

    def step(self) -> bool:
        """Update all units, unless a gradient of any rank overflowed.

        Returns:
            True if the step was skipped.
        """
        overflowed = self._overflowed()
        if overflowed:
            labels.metric("overflow", 1.0)
        if self._delayed is not None:
            self._deliver(self._delayed.collect())
        if not overflowed:
            self._begin_update()
        self._stage.finish_update()
        if self.scaler.scales:
            labels.metric("loss scale", self.scaler.scale)
        self.scaler.update(overflowed=overflowed)
        return overflowed

    @property
    def learning_rate(self) -> float:
        """The learning rate of the first group of parameters."""
        return self._groups.learning_rate

    def set_learning_rate(self, learning_rate: float) -> None:
        """Use this learning rate from the next step on."""
        self._groups.set_learning_rate(learning_rate)

    def finish(self) -> None:
        """Apply the results of a delayed update to the parameters."""
        if self._delayed is not None:
            self._deliver(self._delayed.collect())
            self._stage.parameters.gathered()

    def release(self) -> None:
        """Release the optimizer states, because the engine is closed."""
        if self._delayed is not None:
            self._delayed.close()
        for optimizer in self._optimizers.values():
            optimizer.release()

    def _overflowed(self) -> bool:
        if not self.scaler.scales:
            return False
        own = squared_norm([r for flat in self._trained for r in self._stage.gradients.rows(flat)])
        flag = 0.0 if math.isfinite(own) else 1.0
        if self._context.config.stage == 0:
            return flag > 0
        return any(self._gather(flag, Purpose.OVERFLOW_FLAG, torch.float32))

    def _factor(self) -> float:
        """The factor of the gradients, which averages, unscales and clips."""
        config = self._context.config
        factor = 1.0 / (self._context.num_ranks * config.accumulate * self.scaler.scale)
        if config.clip is not None:
            self.gradient_norm = factor * self._summed_gradient_norm()
            factor *= clip_factor(self.gradient_norm, config.clip)
            labels.metric("gradient norm", self.gradient_norm)
        return factor

    def _begin_update(self) -> None:
        factor = self._factor()
        self.updates += 1
        work = [(flat, self._stage.gradients.rows(flat)) for flat in self._trained]
        for optimizer in self._optimizers.values():
            optimizer.read_groups()
        if self._delayed is None:
            self._update(work, factor, self._stage.after_update)
        else:
            self._delayed.start(lambda: self._update(work, factor), self._trained)

    def _update(
        self,
        work: Sequence[tuple[FlatUnit, list[torch.Tensor]]],
        factor: float,
        after: Callable[[FlatUnit], None] = lambda _: None,
    ) -> None:
        for index, (flat, gradients) in enumerate(work):
            optimizer = self._optimizers[flat.name]
            optimizer.fetch()
            for following, _ in work[index + 1 : index + 2]:
                self._optimizers[following.name].prefetch()
            with labels.compute(flat.name):
                optimizer.update(gradients, factor, self._stage.parameters.store.written(flat))
            optimizer.store()
            after(flat)

    def _deliver(self, updated: Sequence[FlatUnit]) -> None:
        for flat in updated:
            self._stage.after_update(flat)
        self._stage.settle()

    def _summed_gradient_norm(self) -> float:
        """Norm of the summed gradient: the same additions in the same order in every stage.

        Owners first sum the rows of their own units, so the last bits of fp64 may differ.
        """
        rows = [self._stage.gradients.rows(flat) for flat in self._trained]
        if self._context.config.stage == 0:
            squares = [squared_norm(of_one_rank) for of_one_rank in zip(*rows, strict=True)]
        else:
            own = squared_norm([row for of_unit in rows for row in of_unit])
            squares = self._gather(own, Purpose.GRADIENT_NORM, torch.float64)
        return math.sqrt(sum(squares))

    def _gather(self, value: float, purpose: Purpose, dtype: torch.dtype) -> list[float]:
        return gather_scalars(self._context.collectives, value, purpose, dtype, self._device)


class DelayedUpdate:
    """An update that is computed while the next iteration computes.

    Source: Ren et al., "ZeRO-Offload" (arXiv 2101.06840), section 5.2.
    """

    def __init__(self, device: torch.device) -> None:
        """Create an update without work in flight."""
        self._executor = in_background(device, "zerosim-update")
        self._under_way: Handle = Done()
        self._units: Sequence[FlatUnit] = ()

    def start(self, update: Callable[[], None], units: Sequence[FlatUnit]) -> None:
        """Begin to update these units."""
        self._units = units
        self._under_way = self._executor.submit(update)

    def collect(self) -> Sequence[FlatUnit]:
        """Wait for work in flight; returns the updated units."""
        self._under_way.wait()
        units, self._units = self._units, ()
        return units

    def close(self) -> None:
        """End the thread."""
        self._executor.close()
