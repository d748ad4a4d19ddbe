"""The moments of an iteration, detected by hooks and passed on to the stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch

from zerosim.base.errors import ConfigError
from zerosim.trace import labels
from zerosim.train.engine.flat import FlatUnit
from zerosim.train.engine.hooks import ModuleListener, attach_hooks
from zerosim.train.engine.stages import Stage
from zerosim.train.engine.units import ROOT


class StageHooks(ModuleListener):
    """Notifies a stage of the events of the units' modules."""

    def __init__(self, stage: Stage, units: Sequence[FlatUnit]) -> None:
        """Attach hooks to the units' modules and parameters."""
        self._stage = stage
        self._parameters = stage.parameters
        self._units = units
        self._last_micro_step = True
        self._unfinished: dict[str, FlatUnit] = {}
        self._uses: Counter[str] = Counter()
        self._spans: dict[str, int | None] = {}
        self._recomputed: set[str] = set()
        self._hooks = attach_hooks(units, self)

    def begin_backward(self, *, last_micro_step: bool) -> None:
        """Autograd is about to compute gradients of every unit."""
        self._last_micro_step = last_micro_step
        self._unfinished = {flat.name: flat for flat in reversed(self._units)}

    def end_backward(self) -> None:
        """Autograd has finished: missing gradients count as zeros."""
        self._uses.clear()
        for flat in list(self._unfinished.values()):
            self._finish_unit(flat)
        self._stage.finish_backward(last_micro_step=self._last_micro_step)

    def close(self) -> None:
        """Remove the hooks."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def module_begins(self, units: Sequence[FlatUnit]) -> None:
        """Parameters must be present before the module computes."""
        for flat in units:
            self._parameters.before_forward(flat)
            self._uses[flat.name] += torch.is_grad_enabled()
        if self._spans.get(units[0].name) is None:
            self._begin_compute(units[0])
        else:  # recomputation: part of the backward that requested it
            self._recomputed.add(units[0].name)

    def module_ends(self, units: Sequence[FlatUnit], outputs: Sequence[torch.Tensor]) -> None:
        """Forward no longer needs the parameters."""
        if units[0].name not in self._recomputed:
            self._end_compute(units[0])
        for flat in units:
            if self._parameters.sharded and any(flat.holds(output) for output in outputs):
                raise ConfigError(
                    f"unit {flat.name} returned its own weights, which stage 3 frees: return "
                    "a clone, or give units=(...) that leave them to the root"
                )
            self._parameters.after_forward(flat)

    def output_gradient(self, units: Sequence[FlatUnit]) -> None:
        """Parameters must be present before the module's backward computes."""
        for flat in units:
            if flat.name in self._unfinished:
                self._parameters.before_backward(flat)
        if units[0].name in self._unfinished and self._spans.get(units[0].name) is None:
            self._begin_compute(units[0])

    def parameter_gradient(self, flat: FlatUnit, index: int) -> None:
        """One more gradient is present; the unit's last one ends its backward."""
        if flat.name not in self._unfinished:
            raise ConfigError(
                f"a gradient of unit {flat.name} arrived when none was expected: call "
                "engine.backward(loss) instead of loss.backward(), and checkpoint a "
                "module that is used "
                "twice with use_reentrant=False"
            )
        if flat.collect_gradient(index):
            self._finish_unit(flat)

    def input_gradients(self, units: Sequence[FlatUnit]) -> None:
        """Frozen parameters are needed until this moment, if this was the module's first use."""
        for flat in units:
            self._uses[flat.name] -= 1
            if self._uses[flat.name] > 0:
                continue
            if not flat.unit.trainable and flat.name in self._unfinished:
                self._finish_unit(flat)

    def _finish_unit(self, flat: FlatUnit) -> None:
        self._end_compute(flat)
        del self._unfinished[flat.name]
        if flat.unit.trainable:
            flat.complete_gradient()
        self._stage.after_backward(flat, last_micro_step=self._last_micro_step)

    def _begin_compute(self, flat: FlatUnit) -> None:
        if flat.name != ROOT:
            self._spans[flat.name] = labels.begin_compute(flat.name)

    def _end_compute(self, flat: FlatUnit) -> None:
        self._recomputed.discard(flat.name)
        labels.end(self._spans.pop(flat.name, None))
