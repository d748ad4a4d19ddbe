"""A witness of messages, which CommDebugMode does not see: it counts calls of isend and irecv."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from unittest import mock

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

import zerosim
from tests.systems.witness import Program, Weights


def run_with_messages(name: str, program: Program, folder: str) -> dict[str, object]:
    """Run a program before the witness, and traced into `folder`/`name`.

    Returns:
        equal: whether it trained to the same bits without a trace and with one; trouble: what kept
        the labeler from labelling; messages: how often the witness saw each: what was called, the
        other end, bytes.
    """
    messages: Counter[tuple[str, int, int]] = Counter()
    with ExitStack() as undo:
        for call, other_end in (("isend", "dst"), ("irecv", "src")):
            counted = _counted(getattr(dist, call), call, other_end, messages)
            for home in (dist, distributed_c10d):
                undo.enter_context(mock.patch.object(home, call, counted))
        plain = _from_the_same_start(program)
    with zerosim.trace(f"{folder}/{name}") as recorder:
        traced = _from_the_same_start(program)
        labeler = recorder.calls.labeler
        trouble = labeler.trouble + labeler._phases.trouble
    return {
        "equal": plain.keys() == traced.keys()
        and all(torch.equal(plain[key], traced[key]) for key in plain),
        "trouble": trouble,
        "messages": messages,
    }


def _from_the_same_start(program: Program) -> Weights:
    torch.manual_seed(0)
    weights = program()
    dist.barrier()
    return weights


def _counted(function, call, other_end, messages):
    def count(tensor, *args, **kwargs):
        in_group = kwargs.get(f"group_{other_end}")
        peer = args[0] if args else kwargs.get(other_end)
        peer = in_group if peer is None else peer
        messages[call, peer, tensor.numel() * tensor.element_size()] += 1
        return function(tensor, *args, **kwargs)

    return count
