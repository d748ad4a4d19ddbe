"""The state of a pipeline of `torch.distributed.pipelining`, and the contents of its messages.

A schedule requests the operations of a micro-batch from its stages, and combines and delays them
freely. The purpose of each tensor is therefore recorded when a stage returns its operations, which
are passed on unchanged. Earlier messages between stages, shapes and votes, belong to the set-up.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Hashable, Iterator
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from zerosim.schema.events import Phase, Purpose
from zerosim.schema.strategies import Bundle, Strategy
from zerosim.systems.pipeline_parallel import NAME
from zerosim.trace.autolabel.observer import CarriedMessage, Observer, dtype_name, parameters_of
from zerosim.trace.autolabel.rules import Rule, find_frame
from zerosim.trace.autolabel.units import Units
from zerosim.trace.guard import guarded

_FILES = "/distributed/pipelining/"
_MODULE = "torch.distributed.pipelining.stage"
_FORWARD = (Purpose.SEND_ACTIVATIONS, Phase.FORWARD)
_BACKWARD = (Purpose.SEND_GRADIENTS, Phase.BACKWARD)
_ASKED = {
    "get_fwd_recv_ops": _FORWARD,
    "get_fwd_send_ops": _FORWARD,
    "get_bwd_recv_ops": _BACKWARD,
    "get_bwd_send_ops": _BACKWARD,
}


class Pipelines(Observer):
    """Every schedule that steps."""

    rules = (
        Rule(
            f"{_FILES}schedules.py",
            "_PipelineSchedule._initialize_pp_stages",
            Purpose.METADATA,
            phase=Phase.SETUP,
        ),
    )

    def __init__(self, units: Units) -> None:
        self._units = units
        self._schedules: weakref.WeakSet[Any] = weakref.WeakSet()
        self._messages: Any = WeakIdKeyDictionary()
        self._originals: dict[str, Any] = {}

    @property
    def is_piped(self) -> bool:  # type: ignore[override]
        """Whether a schedule steps in this process."""
        return len(self._schedules) > 0

    def is_preparing(self) -> bool:
        """Whether stages compute only to determine shapes for communication."""
        return is_preparing()

    def is_evaluating(self) -> bool:
        """Whether a stage computes a micro-batch without a backward."""
        stage = _computing("forward_one_chunk", "self")
        return stage is not None and not stage.has_backward

    def micro_batch(self, phase: Phase) -> int | None:
        """The micro-batch of a stage's forward or backward; None if there is none."""
        if phase is Phase.FORWARD:
            return _micro_batch("forward_one_chunk", "fwd_chunk_id")
        found = _micro_batch("backward_one_chunk", "bwd_chunk_id")
        return _micro_batch("backward_weight_one_chunk", "bwd_chunk_id") if found is None else found

    def install(self) -> None:
        """Start to record the operations of stages, once the program has imported them."""
        stages = getattr(sys.modules.get(_MODULE), "_PipelineStageBase", None)
        if stages is None or self._originals:
            return
        for name, (purpose, phase) in _ASKED.items():
            original = self._originals[name] = getattr(stages, name)
            setattr(stages, name, self._noting(original, purpose, phase))

    def remove(self) -> None:
        """Stop recording, and restore the methods of stages."""
        stages = getattr(sys.modules.get(_MODULE), "_PipelineStageBase", None)
        for name, original in self._originals.items():
            setattr(stages, name, original)
        self._originals.clear()

    def meet(self, _: Any) -> None:
        """Determine whether a schedule runs a model."""
        if _MODULE in sys.modules:
            self.install()
            self._meet_schedule()

    def message(self, tensors: list[torch.Tensor]) -> CarriedMessage | None:
        """The contents of a message; None if it is not known to be a pipeline's."""
        if _MODULE not in sys.modules:
            return None
        self.install()
        if is_preparing():
            return CarriedMessage(Purpose.METADATA, Phase.SETUP, "", 0)
        found: CarriedMessage | None = self._messages.get(tensors[0]) if tensors else None
        return found

    def settings(self) -> Hashable:
        """The tensors that messages carry."""
        return tuple(
            (
                id(schedule),
                schedule._n_microbatches,
                self._units.label(stage.submod),
                *_identity(stage._stage_meta),
            )
            for schedule in self._schedules
            for stage in _stages(schedule)
        )

    def describe(self) -> Iterator[Strategy]:
        """The current strategy of each schedule with known outputs and distinct labels."""
        for schedule in self._schedules:
            stages = _stages(schedule)
            labels = [self._units.label(stage.submod) for stage in stages]
            if any(stage._stage_meta.outputs is None for stage in stages):
                continue
            if len(set(labels)) < len(stages):
                continue
            num_stages = stages[0].num_stages
            ranks = [stages[0]._resolve_peer_global_rank(index) for index in range(num_stages)]
            yield Strategy(
                system=NAME,
                name=type(schedule).__name__,
                ranks=tuple(dict.fromkeys(ranks)),
                bundles=tuple(map(_bundle, stages, labels)),
                options={
                    "schedule": type(schedule).__name__.removeprefix("Schedule"),
                    "num_stages": num_stages,
                    "num_microbatches": schedule._n_microbatches,
                    "ranks_by_stage": ranks,
                },
            )

    def _noting(self, original: Any, purpose: Purpose, phase: Phase) -> Any:
        @guarded
        def note(stage: Any, chunk: int, operations: list[Any]) -> None:
            self._meet_schedule()
            # without a backward it is an evaluation
            where = phase if stage.has_backward else Phase.OUTSIDE
            message = CarriedMessage(purpose, where, _name(stage), chunk)
            for operation in operations:
                self._messages[operation.tensor] = message

        @functools.wraps(original)
        def ask(stage: Any, chunk: int) -> Any:
            operations = original(stage, chunk)
            note(stage, chunk, operations)
            return operations

        return ask

    def _meet_schedule(self) -> None:
        frame = find_frame("_step_microbatches", _FILES)
        if frame is not None:
            self._schedules.add(frame.f_locals["self"])


def is_preparing() -> bool:
    """Whether stages compute only to determine shapes for communication."""
    return _MODULE in sys.modules and find_frame("_initialize_pp_stages", _FILES) is not None


def _micro_batch(function: str, argument: str) -> int | None:
    number = _computing(function, argument)
    return number if isinstance(number, int) else None


def _computing(function: str, variable: str) -> Any:
    """A variable of a running function of a stage; None if it does not run."""
    if _MODULE not in sys.modules:
        return None
    frame = find_frame(function, _FILES)
    return None if frame is None else frame.f_locals.get(variable)


def _stages(schedule: Any) -> list[Any]:
    several = getattr(schedule, "_stages", None)
    return [schedule._stage] if several is None else list(several)


def _name(stage: Any) -> str:
    return f"stage {stage.stage_index}"


def _bundle(stage: Any, label: str) -> Bundle:
    meta = stage._stage_meta
    outputs = () if stage.is_last else meta.outputs or ()
    inputs = () if stage.is_first else meta.inputs or ()
    return Bundle(
        name=_name(stage),
        # stages of one rank may have equal names
        parameters=parameters_of(
            (f"{_name(stage)}.{name}", parameter)
            for name, parameter in stage.submod.named_parameters()
        ),
        options={
            "index": stage.stage_index,
            "label": label,
            "output_shapes": [list(one.shape) for one in outputs],
            "dtypes": [dtype_name(one.dtype) for one in outputs],
            "output_gradients": _present(meta.output_grads, len(outputs)),
            "input_shapes": [list(one.shape) for one in inputs],
            "input_dtypes": [dtype_name(one.dtype) for one in inputs],
            "input_gradients": _present(meta.input_grads, len(inputs)),
        },
    )


def _identity(meta: Any) -> tuple[int, ...]:
    """A key that changes whenever stages have agreed again."""
    return (id(meta.inputs), id(meta.outputs), id(meta.input_grads), id(meta.output_grads))


def _present(gradients: Any, number: int) -> list[bool]:
    """Which of the tensors receive a gradient."""
    if gradients is None:
        return [True] * number
    return [gradient is not None for gradient in gradients[:number]]


def observer(units: Units) -> Observer:
    """The observer of this system."""
    return Pipelines(units)
