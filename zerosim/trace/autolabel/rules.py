"""The purpose of a collective, from the functions on the stack of its call.

A framework calls its collectives in its own functions; a table lists them with the purpose and with
the way to find the unit in the function's variables. The innermost known function decides; one with
several possible purposes (DTensor's redistribution) only if no other is known. Calls outside of the
table's functions stay unattributed.

Frameworks are neither imported nor changed: a name that a version lacks is simply never found.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from zerosim.schema.events import Phase, Purpose

UnitOf = Callable[[FrameType], str]


@dataclass(frozen=True, slots=True)
class Rule:
    """The purpose of communication in a function of a framework.

    Attributes:
        file: part of the path of the file that contains it.
        function: its qualified name; "" for every function of the file.
        unit: finds the unit's name in the function's frame; None if it has none.
        phase: the phase to which it belongs wherever it is called; None for the current phase.
        is_weak: whether any other known function takes precedence.
    """

    file: str
    function: str
    purpose: Purpose
    unit: UnitOf | None = None
    phase: Phase | None = None
    is_weak: bool = False


@dataclass(frozen=True, slots=True)
class StackLabel:
    """The meaning of a stack for a collective."""

    purpose: Purpose
    unit: str
    phase: Phase | None


_OURS = ("/zerosim/trace/", "/zerosim/predict/simulate/")
_IN_BETWEEN = ("/torch/_ops.py", "/torch/_compile.py", "/torch/_dynamo/eval_frame.py")
"""Files of functions that pass a call on."""

_C10D = "/torch/distributed/distributed_c10d.py"
_UTILS = "/torch/distributed/utils.py"

GENERAL: tuple[Rule, ...] = (
    Rule(_UTILS, "_verify_param_shape_across_processes", Purpose.METADATA),
    Rule(_UTILS, "_sync_module_states", Purpose.BROADCAST_STATE, is_weak=True),
    Rule("/torch/nn/utils/clip_grad.py", "", Purpose.GRADIENT_NORM, phase=Phase.UPDATE),
    Rule(
        "/torch/amp/grad_scaler.py",
        "GradScaler._unscale_grads_",
        Purpose.OVERFLOW_FLAG,
        phase=Phase.UPDATE,
    ),
    Rule("/torch/amp/grad_scaler.py", "", Purpose.OVERFLOW_FLAG, phase=Phase.UPDATE, is_weak=True),
    Rule("/torch/distributed/algorithms/model_averaging/", "", Purpose.AVERAGE_PARAMETERS),
    Rule("/torch/distributed/device_mesh.py", "", Purpose.METADATA, is_weak=True),
    *(
        Rule(_C10D, name, Purpose.METADATA)
        for name in (
            "all_gather_object",
            "gather_object",
            "broadcast_object_list",
            "scatter_object_list",
            "send_object_list",
            "recv_object_list",
        )
    ),
)
"""Rules outside of systems; each system has its own."""


_UNMET = Rule("", "", Purpose.UNLABELLED)
"""Placeholder for a function that was not looked up yet."""


class RuleTable:
    """The table, indexed by identity of code objects: hashing them is too slow."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._by_function: dict[str, list[Rule]] = {}
        self._by_file: list[Rule] = []
        for rule in rules:
            if rule.function:
                self._by_function.setdefault(rule.function, []).append(rule)
            else:
                self._by_file.append(rule)
        self._known: dict[int, Rule | None] = {}
        self._codes: dict[int, CodeType] = {}

    def find(self) -> StackLabel | None:
        """The meaning of the calling functions; None if none is known."""
        strong: StackLabel | None = None
        weak: StackLabel | None = None
        frame: FrameType | None = sys._getframe(1)
        known = self._known
        while frame is not None:
            code = frame.f_code
            rule = known.get(id(code), _UNMET)
            if rule is _UNMET:
                rule = self._learn(code)
            if rule is not None:
                found = StackLabel(rule.purpose, _unit(rule, frame), rule.phase)
                if rule.is_weak:
                    weak = weak or found
                elif strong is None or (found.unit and found.purpose is strong.purpose):
                    strong = found
                # a function without its unit may have been called by one that knows it
                if strong is not None and (strong.unit or rule.unit is None):
                    return strong
            frame = frame.f_back
        return strong or weak

    def know(self, code: CodeType, rule: Rule | None) -> None:
        """Record the rule of a function, possibly the program's own; None if it has none."""
        self._codes[id(code)] = code  # as long as it is kept, no other has its identity
        self._known[id(code)] = rule

    def _learn(self, code: CodeType) -> Rule | None:
        candidates = (*self._by_function.get(code.co_qualname, ()), *self._by_file)
        rule = next((one for one in candidates if one.file in code.co_filename), None)
        self.know(code, rule)
        return rule


def _unit(rule: Rule, frame: FrameType) -> str:
    return "" if rule.unit is None else rule.unit(frame)


def code_of(function: Any) -> CodeType | None:
    """The code of a function, a method, a partial or a callable object."""
    function = getattr(function, "func", function)
    function = getattr(function, "__func__", function)
    if not hasattr(function, "__code__"):
        function = vars(type(function)).get("__call__")
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


def find_frame(function: str, file: str) -> FrameType | None:
    """The innermost frame of a function of this name, in a file whose path has this part."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == function and file in frame.f_code.co_filename:
            return frame
        frame = frame.f_back
    return None


def in_autograd() -> bool:
    """Whether autograd's engine calls directly, without a Python function in between."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not _passes_on(code.co_filename) and code.co_name != "__torch_dispatch__":
            return code.co_filename.endswith("/torch/autograd/graph.py")
        frame = frame.f_back
    return True  # an autograd thread has no Python frame below


@lru_cache(4096)
def _passes_on(path: str) -> bool:
    """Whether functions of a file are on the stack between caller and call."""
    return any(part in path for part in _OURS) or path.endswith(_IN_BETWEEN)
