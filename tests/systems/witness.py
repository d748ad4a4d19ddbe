"""A program that knows nothing of zerosim, run twice: before a witness, and traced.

The witness is PyTorch's own CommDebugMode: it sees operators by another way (a dispatch mode) and
counts what it saw, and changes nothing.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import ClassVar

import torch
import torch.distributed as dist
from torch.distributed.tensor.debug import CommDebugMode

import zerosim

Weights = dict[str, torch.Tensor]
Program = Callable[[], Weights]

NO_WITNESS = ("compile",)
"""Programs with this in their names: a compiler and a dispatch mode exclude each other."""


class _NoModules:
    """In place of what CommDebugMode tells modules apart with: it follows one forward only."""

    name = "Global"
    is_bw = False
    activation_checkpointing = False
    module_parents_dict: ClassVar = {"Global": set()}

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def counting() -> CommDebugMode:
    """PyTorch's witness, which counts operators and looks at no modules."""
    mode = CommDebugMode()
    mode.advanced_module_tracker = _NoModules()
    return mode


def run_twice(name: str, program: Program, folder: str) -> dict[str, object]:
    """Run a program under CommDebugMode, and traced into `folder`/`name`.

    Returns:
        equal: whether it trained to the same bits without a trace and with one, and to numbers;
        trouble: what kept the labeler from labelling; counts: what CommDebugMode saw, by the
        operator's name, None if it did not look.
    """
    looks = not any(part in name for part in NO_WITNESS)
    with counting() if looks else nullcontext() as mode:
        plain = _from_the_same_start(program)
    with zerosim.trace(f"{folder}/{name}") as recorder:
        traced = _from_the_same_start(program)
        labeler = recorder.calls.labeler
        trouble = labeler.trouble + labeler._phases.trouble
    return {
        "equal": plain.keys() == traced.keys()
        and all(torch.equal(plain[key], traced[key]) for key in plain)
        and all(bool(value.isfinite().all()) for value in plain.values()),
        "trouble": trouble,
        "counts": None if mode is None else _by_name(mode.get_comm_counts()),
    }


def run_traced(name: str, program: Program, folder: str) -> None:
    """Run a program once, traced into `folder`/`name`."""
    with zerosim.trace(f"{folder}/{name}"):
        _from_the_same_start(program)


def _from_the_same_start(program: Program) -> Weights:
    gc.collect()  # what the program before left in circles is none of this one's memory
    torch.manual_seed(0)
    weights = program()
    dist.barrier()
    return weights


def _by_name(counts: dict[object, int]) -> Counter[str]:
    names: Counter[str] = Counter()
    for operator, number in counts.items():
        names[str(operator).rpartition(".")[2]] += number
    return names


OPS = {
    "all-reduce": ("allreduce_", "allreduce_coalesced_", "all_reduce"),
    "all-gather": (
        "_allgather_base_",
        "allgather_",
        "allgather_coalesced_",
        "allgather_into_tensor_coalesced_",
        "all_gather_into_tensor",
    ),
    "reduce-scatter": (
        "_reduce_scatter_base_",
        "reduce_scatter_",
        "reduce_scatter_tensor_coalesced_",
        "reduce_scatter_tensor",
    ),
    "broadcast": ("broadcast_", "broadcast"),
    "reduce": ("reduce_",),
    "scatter": ("scatter_",),
    "all-to-all": ("alltoall_base_", "alltoall_", "all_to_all_single"),
}
"""The witness's names for what a trace calls so."""


def seen_by_witness(counts: Counter[str]) -> Counter[str]:
    """The witness's counts under the names of a trace."""
    found: Counter[str] = Counter()
    for op, names in OPS.items():
        number = sum(counts[name] for name in names)
        if number:
            found[op] = number
    left = set(counts) - {name for names in OPS.values() for name in names}
    assert not left, left
    return found
