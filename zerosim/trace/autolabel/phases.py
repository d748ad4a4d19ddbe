"""The current phase: forward, backward, update, from calls that every PyTorch program makes.

    a module's forward, the outermost     forward; without gradients it is an evaluation: outside,
                                          unless nothing of the model is trained (a reference)
    autograd's engine                     backward, until another phase begins
    an optimizer's step, the outermost    update, and after it outside; so is a gradient scaler's,
                                          whether it steps or not; DeepSpeed's engine continues
                                          after its optimizer: calls after its return are outside

An iteration ends with its optimizer step: the next forward, or the next backward that accumulates
gradients, begins another one. A forward after a backward that accumulated gradients, without a step
in between, begins another micro-step, unless these gradients were cleared (`zero_grad`): then the
iteration ended without an update. Differentiation within a forward belongs to the forward,
recomputation within a backward to the backward; an optimizer that steps within a backward ends the
iteration at the end of that backward. A pipeline's stage reports its own micro-batch. A module
without parameters (a loss, a metric) begins nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch import nn

from zerosim.schema.events import Phase
from zerosim.trace import labels
from zerosim.trace.autolabel import modules
from zerosim.trace.autolabel.fail_safe import fail_safe
from zerosim.trace.autolabel.rules import find_frame
from zerosim.trace.autolabel.units import is_trained
from zerosim.trace.sink import Position


class PhaseObserver(Protocol):
    """Receives the current phase, and answers questions about the schedule of micro-batches."""

    def is_preparing(self) -> bool:
        """Whether modules compute only to determine shapes for communication."""
        ...

    def is_evaluating(self) -> bool:
        """Whether the current micro-batch has no backward."""
        ...

    def micro_batch(self, phase: Phase) -> int | None:
        """The micro-batch of the current forward or backward; None if there is none."""
        ...

    def forward_begins(self, root: nn.Module) -> None:
        """An outermost module computes with gradients; the position is that of its forward."""
        ...

    def evaluation_begins(self, root: nn.Module) -> None:
        """An outermost module computes without gradients, between two steps."""
        ...

    def evaluation_ends(self) -> None:
        """It has computed, if it had begun to."""
        ...

    def module_begins(self, module: nn.Module) -> bool | None:
        """A module computes in forward, the outermost too; returns whether it is a unit."""
        ...

    def module_ends(self, module: nn.Module, output: Any, error: BaseException | None) -> None:
        """It has computed, or raised."""
        ...

    def forward_ends(self, root: nn.Module, output: Any) -> None:
        """An outermost module has computed."""
        ...

    def module_recomputes(self, module: nn.Module) -> None:
        """A module computes again, in backward."""
        ...

    def backward_begins(self, roots: tuple[torch.Tensor, ...]) -> None:
        """Autograd begins at these tensors; the position is that of its backward."""
        ...

    def backward_ends(self, *, adds: bool) -> None:
        """Autograd is done; `adds` is set if it added to gradients."""
        ...

    def gradients_cleared(self, parameters: Iterable[torch.Tensor]) -> bool | None:
        """Whether this clears all gradients of the micro-step."""
        ...

    def optimizer_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer begins its step."""
        ...

    def update_begins(self) -> None:
        """The outermost step begins."""
        ...

    def update_ends(self) -> None:
        """It has ended."""
        ...


class Phases:
    """Enters phases as the program proceeds, from `install` to `remove`.

    Attributes:
        trouble: why it has stopped observing; "" if it has not.
    """

    def __init__(self, observer: PhaseObserver) -> None:
        self.trouble = ""
        self._observer = observer
        self._iteration = 0
        self._micro_step = 0
        self._has_stepped = False
        self._has_stepped_within = False
        self._engine_steps = False
        self._has_gone_back = False
        self._has_computed = False
        self._running: list[nn.Module] = []
        self._thread = 0
        self._backward_depth = 0
        self._adds = False
        self._step_depth = 0
        self._before_aside: Position | None = None

    def install(self) -> None:
        """Begin to observe."""
        if labels.position() is _Left.position:
            labels.enter(-1, Phase.OUTSIDE)
        modules.watch(self)

    def remove(self) -> None:
        """Stop observing."""
        modules.unwatch(self)
        _Left.position = labels.position()

    def update_begins(self) -> None:
        """Something that belongs to the update was seen before its optimizer's step."""
        if not self.in_backward and labels.position().phase is Phase.BACKWARD:
            self._enter(Phase.UPDATE)

    def forward_is_prepared(self) -> bool:
        """Something that the next forward needs is fetched before it: its phase begins here.

        Returns:
            Whether the phase begins here; it does not while something computes.
        """
        if self.is_busy or self._step_depth or speaks_for_itself():
            return False
        self._begin_micro_step()
        self._enter(Phase.FORWARD)
        return True

    def is_after_step(self) -> bool:
        """Whether an optimizer step was the program's last action."""
        is_outside = labels.position().phase is Phase.OUTSIDE
        return self._has_stepped and is_outside and not self.is_busy

    @property
    def is_busy(self) -> bool:
        """Whether a model or autograd computes."""
        return bool(self._running) or self.in_backward or self._before_aside is not None

    @property
    def in_backward(self) -> bool:
        """Whether autograd runs: a forward within it is a recomputation."""
        return self._backward_depth > 0

    # modules

    @fail_safe
    def module_begins(self, module: nn.Module) -> bool:
        """A module is called; returns whether later calls of it within another module matter."""
        running, thread = self._running, threading.get_ident()
        if self._backward_depth:
            if not running:
                self._observer.module_recomputes(module)
            return True
        if not running:
            self._thread = thread
        if thread != self._thread or speaks_for_itself():
            return True
        running.append(module)
        if len(running) == 1:
            self._forward_begins(module)
        if self._before_aside is None:
            return bool(self._observer.module_begins(module))
        return True

    @fail_safe
    def module_ends(self, module: nn.Module, output: Any, error: BaseException | None) -> None:
        """The call has ended."""
        running = self._running
        if not running or running[-1] is not module or threading.get_ident() != self._thread:
            return
        running.pop()
        if self._before_aside is None:
            self._observer.module_ends(module, output, error)
            if not running and error is None:
                self._observer.forward_ends(module, output)
        elif not running:
            self._observer.evaluation_ends()
            self._come_back()

    def _forward_begins(self, root: nn.Module) -> None:
        if self._observer.is_preparing():
            self._step_aside(Phase.SETUP)
            return
        micro_batch = self._observer.micro_batch(Phase.FORWARD)
        if micro_batch is None and next(root.parameters(), None) is None:
            return
        # checkpointed modules compute without gradients, and again in backward
        is_without = (
            not torch.is_grad_enabled() and find_frame("forward", "/utils/checkpoint.py") is None
        )
        if (is_without and not self._is_beside(root)) or self._observer.is_evaluating():
            self._step_aside(Phase.OUTSIDE)
            self._observer.evaluation_begins(root)
            return
        if self._step_depth and find_frame("wrapper", "/torch/optim/optimizer.py") is None:
            self._step_depth = 0  # the end of a step that raised was never reported
        self._begin_micro_step()
        self._enter(Phase.FORWARD, micro_batch)
        self._observer.forward_begins(root)

    def _is_beside(self, root: nn.Module) -> bool:
        """Whether a frozen model computes for a trained one: a teacher, a reference."""
        return self._has_computed and not is_trained(root)

    # autograd

    @fail_safe
    def backward_begins(self, roots: Any, *, adds: bool) -> None:
        """Autograd begins; `adds` if it adds to gradients."""
        self._backward_depth += 1
        if self._backward_depth == 1 and not self._running and not speaks_for_itself():
            if self._observer.is_preparing():
                self._step_aside(Phase.SETUP)
                return
            if adds and self._has_stepped and not self._step_depth:
                self._begin_micro_step()
            self._has_computed = True
            self._adds = adds
            self._has_gone_back |= adds
            self._enter(Phase.BACKWARD, self._observer.micro_batch(Phase.BACKWARD))
            tensors = roots if isinstance(roots, list | tuple) else (roots,)
            self._observer.backward_begins(
                tuple(one for one in tensors if isinstance(one, torch.Tensor))
            )

    @fail_safe
    def backward_ends(self) -> None:
        """Autograd is done."""
        self._backward_depth -= 1
        if self._backward_depth or self._running or speaks_for_itself():
            return
        if self._before_aside is not None:
            self._come_back()
            return
        self._observer.backward_ends(adds=self._adds)
        if self._has_stepped_within:
            self._has_stepped_within = False
            labels.enter(self._iteration, Phase.OUTSIDE)
        elif self._step_depth:
            self._enter(Phase.UPDATE)  # it was a closure that the optimizer called

    # optimizers

    @fail_safe
    def gradients_cleared(self, parameters: Iterable[torch.Tensor]) -> None:
        """Gradients are discarded; if no step has used them, the iteration ends without one."""
        if torch.compiler.is_compiling() or speaks_for_itself() or self.is_busy:
            return
        is_pending = self._has_gone_back and not self._has_stepped and not self._step_depth
        if is_pending and self._observer.gradients_cleared(parameters):
            self._has_stepped = True
            labels.enter(self._iteration, Phase.OUTSIDE)

    @fail_safe
    def optimizer_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer begins its step."""
        if torch.compiler.is_compiling() or speaks_for_itself():
            return
        self.step_begins()
        self._observer.optimizer_begins(optimizer)

    @fail_safe
    def step_begins(self) -> None:
        """An optimizer step, or its wrapper, begins."""
        self._step_depth += 1
        if self._step_depth == 1 and not self.in_backward and not speaks_for_itself():
            self._enter(Phase.UPDATE)
            self._observer.update_begins()

    @fail_safe
    def step_ends(self) -> None:
        """An optimizer step, or its wrapper, ends."""
        if torch.compiler.is_compiling() or speaks_for_itself():
            return
        self._step_depth = max(0, self._step_depth - 1)
        if self._step_depth:
            return
        self._observer.update_ends()
        # before the first forward a step only creates the optimizer states, as DeepSpeed has it
        self._has_stepped = self._has_computed
        # DeepSpeed's optimizers have one of PyTorch's inside, and go on after it
        self._engine_steps = _in_engine_step()
        if not self._engine_steps:
            self._has_stepped_within = self.in_backward
            if not self.in_backward:
                labels.enter(self._iteration, Phase.OUTSIDE)

    def engine_has_stepped(self) -> bool:
        """Whether DeepSpeed's step around an optimizer step has ended since the last check."""
        is_in_update = self._engine_steps and labels.position().phase is Phase.UPDATE
        if not is_in_update or _in_engine_step():
            return False
        self._engine_steps = False
        labels.enter(self._iteration, Phase.OUTSIDE)
        return True

    # places

    def place_of_message(self, phase: Phase, micro_batch: int) -> Position:
        """The position of a pipeline message; the first of an iteration begins it."""
        if phase not in (Phase.FORWARD, Phase.BACKWARD):
            return Position(labels.position().iteration, micro_batch, phase)
        if self._has_stepped or labels.position().iteration < self._iteration:
            self._begin_micro_step()
            self._enter(phase, micro_batch)
        return Position(self._iteration, micro_batch, phase)

    def _begin_micro_step(self) -> None:
        if self._has_stepped:
            self._iteration += 1
            self._micro_step = 0
        elif self._has_gone_back:
            self._micro_step += 1
        self._has_stepped = self._has_gone_back = False
        self._has_computed = True

    def _step_aside(self, phase: Phase) -> None:
        """The current computation belongs to no iteration."""
        self._before_aside = before = labels.position()
        labels.enter(before.iteration, phase)

    def _come_back(self) -> None:
        if self._before_aside is not None:
            before, self._before_aside = self._before_aside, None
            labels.enter(before.iteration, before.phase, before.micro_step)

    def _enter(self, phase: Phase, micro_step: int | None = None) -> None:
        if micro_step is not None:
            self._micro_step = micro_step
            self._has_gone_back = False
        self._engine_steps = False
        labels.enter(self._iteration, phase, self._micro_step)


class _Left:
    """The position when the last observer stopped: irrelevant for the next one."""

    position: Position | None = None


def _in_engine_step() -> bool:
    return find_frame("step", "/deepspeed/runtime/") is not None


def speaks_for_itself() -> bool:
    """Whether an engine reports its position: then nothing is inferred."""
    return labels.is_described()
