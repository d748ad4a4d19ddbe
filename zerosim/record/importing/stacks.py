"""The stack frames of a call, translated to the annotations of PyTorch.

A framework calls its collectives in its own functions: their presence on the stack is equivalent to
an annotation in a profile. PyTorch's C++ code has no frame: an all-reduce directly below autograd's
engine is from DDP's reducer. On a GPU, autograd has its own threads, named "pt_autograd_N"
(torch/csrc/autograd/engine.cpp), whose stacks do not contain the program: their calls belong to
backward.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zerosim.record.importing.dumps import DumpedCall, StackFrame
from zerosim.record.importing.kineto import (
    ACCUMULATES,
    ENGINE,
    SHARD,
    SHARDED,
    STEP,
    WRAPPED,
)
from zerosim.record.importing.purposes import OF_SHARDED
from zerosim.schema.events import Op

BACKWARD = f"{ENGINE}{ACCUMULATES}"
_ENGINE = "_engine_run_backward"
_NAMES: tuple[tuple[str, str, str], ...] = (
    ("/torch/autograd/", _ENGINE, BACKWARD),
    ("/torch/autograd/__init__.py", "backward", BACKWARD),
    ("/torch/nn/parallel/distributed.py", "forward", WRAPPED),
    ("/_fsdp_param_group.py", "pre_forward", f"{SHARD}pre_forward"),
    ("/_fsdp_collectives.py", "foreach_all_gather", f"{SHARD}all_gather"),
    ("/_fsdp_collectives.py", "foreach_reduce", f"{SHARD}post_backward_reduce"),
    ("/zero_redundancy_optimizer.py", "step", f"{STEP}ZeroRedundancyOptimizer.step"),
    *(("/fsdp/_runtime_utils.py", name, f"{SHARDED}{name}") for name in OF_SHARDED),
)
"""Part of a file's path, a function in it, and the equivalent annotation."""
_AUTOGRAD = "pt_autograd_"
_PASS_ON = ("/zerosim/trace/", "/torch/_ops.py")
_FORWARD = (WRAPPED, f"{SHARD}pre_forward", f"{SHARDED}_pre_forward")


def annotated(entry: DumpedCall) -> list[str]:
    """The annotations around a call, from the outermost, each once."""
    found = [BACKWARD] if _is_in_autograd(entry) else []
    found += [name for frame in reversed(entry.frames) for name in _of(frame)]
    return list(dict.fromkeys([*found, WRAPPED] if _is_of_reducer(entry) else found))


def is_backward(names: Sequence[str]) -> bool:
    """Whether a call with these annotations belongs to backward."""
    return BACKWARD in names


def is_forward(names: Sequence[str]) -> bool:
    """Whether it belongs to forward."""
    return BACKWARD not in names and any(name in _FORWARD for name in names)


def _is_of_reducer(entry: DumpedCall) -> bool:
    """Whether DDP's reducer made it: in backward, and below no Python function."""
    asked = next((one for one in entry.frames if not _passes_on(one)), None)
    is_engine = _is_in_autograd(entry) if asked is None else asked.function == _ENGINE
    return entry.op is Op.ALL_REDUCE and is_engine


def _is_in_autograd(entry: DumpedCall) -> bool:
    return entry.thread.startswith(_AUTOGRAD)


def _of(frame: StackFrame) -> Iterator[str]:
    for file, function, name in _NAMES:
        if frame.function == function and file in frame.file:
            yield name


def _passes_on(frame: StackFrame) -> bool:
    return any(one in frame.file for one in _PASS_ON)
