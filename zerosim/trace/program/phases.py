"""Where a program is: forward, backward, update, from what every PyTorch program must call.

    a module's forward, the outermost     forward; without gradients it is an evaluation: outside
    autograd's engine                     backward, until something else begins
    an optimizer's step, the outermost    update, and after it outside

An iteration ends with its optimizer's step: the next forward begins another. A forward after a
backward, with no step between them, begins another micro-step. A pipeline's stage says itself which
micro-batch it works on. Nothing is found while a compiler traces the program's code.
Imports torch, zerosim's L0 and trace.labels.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Protocol

import torch
import torch.autograd.graph
from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.hooks import RemovableHandle

from zerosim.events import Phase
from zerosim.trace import labels
from zerosim.trace.program.rules import find_frame
from zerosim.trace.sink import Position


class Observer(Protocol):
    """Who is told where the program is."""

    def forward_begins(self, root: nn.Module) -> None:
        """An outermost module computes with gradients; the position is that of its forward."""
        ...

    def module_begins(self, module: nn.Module) -> None:
        """A module computes in forward, the outermost too."""
        ...

    def module_ends(self, module: nn.Module, output: Any) -> None:
        """It has computed; `output` is None if it raised."""
        ...

    def backward_begins(self) -> None:
        """Autograd begins; the position is that of its backward."""
        ...

    def backward_ends(self) -> None:
        """Autograd is done."""
        ...

    def optimizer_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """An outermost optimizer begins its step."""
        ...


class Phases:
    """Enters phases as the program goes, from `install` to `remove`."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._hooks: list[RemovableHandle] = []
        self._original: Any = None
        self._iteration = 0
        self._micro_step = 0
        self._has_stepped = False
        self._has_gone_back = False
        self._forward_depth = 0
        self._backward_depth = 0
        self._step_depth = 0
        self._before_evaluation: Position | None = None

    def install(self) -> None:
        """Begin to look."""
        self._hooks = [
            register_module_forward_pre_hook(self._module_begins),
            register_module_forward_hook(self._module_ends, always_call=True),
            register_optimizer_step_pre_hook(self._optimizer_begins),
            register_optimizer_step_post_hook(self._optimizer_ends),
        ]
        self._original = original = torch.autograd.graph._engine_run_backward

        @functools.wraps(original)
        def run_backward(*args: Any, **kwargs: Any) -> Any:
            self._backward_begins()
            try:
                return original(*args, **kwargs)
            finally:
                self._backward_ends()

        # two modules hold the function by name
        for home in (torch.autograd, torch.autograd.graph):
            home._engine_run_backward = run_backward  # type: ignore[attr-defined]

    def remove(self) -> None:
        """Stop looking."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        if self._original is not None:
            for home in (torch.autograd, torch.autograd.graph):
                home._engine_run_backward = self._original  # type: ignore[attr-defined]
            self._original = None

    def update_begins(self) -> None:
        """Something that belongs to the update was seen before its optimizer's step."""
        if not self.in_backward and labels.position().phase is Phase.BACKWARD:
            self._enter(Phase.UPDATE)

    @property
    def in_backward(self) -> bool:
        """Whether autograd runs: a forward within it is a recomputation."""
        return self._backward_depth > 0

    def _module_begins(self, module: nn.Module, _: Any) -> None:
        if torch.compiler.is_compiling():
            return
        self._forward_depth += 1
        if self._forward_depth == 1 and not self.in_backward:
            self._forward_begins(module)
        if self._before_evaluation is None:
            self._observer.module_begins(module)

    def _module_ends(self, module: nn.Module, _: Any, output: Any) -> None:
        if torch.compiler.is_compiling():
            return
        if self._before_evaluation is None:
            self._observer.module_ends(module, output)
        self._forward_depth = max(0, self._forward_depth - 1)
        if self._forward_depth == 0 and self._before_evaluation is not None:
            before, self._before_evaluation = self._before_evaluation, None
            labels.enter(before.iteration, before.phase, before.micro_step)

    def _forward_begins(self, root: nn.Module) -> None:
        if speaks_for_itself():
            return
        if not torch.is_grad_enabled():
            self._before_evaluation = before = labels.position()
            labels.enter(before.iteration, Phase.OUTSIDE)
            return
        self._step_depth = 0
        if self._has_stepped:
            self._iteration += 1
            self._micro_step = 0
        elif self._has_gone_back:
            self._micro_step += 1
        self._has_stepped = self._has_gone_back = False
        self._enter(Phase.FORWARD, _micro_batch("forward_one_chunk", "fwd_chunk_id"))
        self._observer.forward_begins(root)

    def _backward_begins(self) -> None:
        self._backward_depth += 1
        if self._backward_depth == 1 and not speaks_for_itself():
            self._has_gone_back = True
            self._enter(Phase.BACKWARD, _micro_batch("backward_one_chunk", "bwd_chunk_id"))
            self._observer.backward_begins()

    def _backward_ends(self) -> None:
        self._backward_depth -= 1
        if self._backward_depth == 0:
            self._observer.backward_ends()

    def _optimizer_begins(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self._step_depth += 1
        if self._step_depth == 1 and not self.in_backward and not speaks_for_itself():
            self._enter(Phase.UPDATE)
            self._observer.optimizer_begins(optimizer)

    def _optimizer_ends(self, *_: Any) -> None:
        self._step_depth = max(0, self._step_depth - 1)
        if self._step_depth == 0 and not self.in_backward and not speaks_for_itself():
            self._has_stepped = True
            # DeepSpeed's optimizers have one of PyTorch's inside, and go on after it
            if find_frame("step", "/deepspeed/") is None:
                labels.enter(self._iteration, Phase.OUTSIDE)

    def _enter(self, phase: Phase, micro_step: int | None = None) -> None:
        if micro_step is not None:
            self._micro_step = micro_step
            self._has_gone_back = False
        labels.enter(self._iteration, phase, self._micro_step)


def speaks_for_itself() -> bool:
    """Whether an engine says where it is: then nothing need be found out."""
    return bool(labels.description().units)


def _micro_batch(function: str, argument: str) -> int | None:
    """Which micro-batch a stage of a pipeline works on; None outside of one."""
    if "torch.distributed.pipelining.stage" not in sys.modules:
        return None
    frame = find_frame(function, "/distributed/pipelining/")
    number = None if frame is None else frame.f_locals.get(argument)
    return number if isinstance(number, int) else None
