"""Gloo held against theory on the wire: the kernel's counters of every rank, to the byte.

This is the measurement that `zerosim.theory.gloo` and `framing` rest on. A counter is
`bytes_sent - bytes_retrans + notsent_bytes` of `TCP_INFO`, over all TCP connections of the
process but the store's.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

import pytest

from tests.ranks import run_ranks
from zerosim.schema.events import Algorithm, Op
from zerosim.theory import Cost, cost, framing

MIB = 1 << 20
IN_PARTS = (Op.REDUCE_SCATTER, Op.ALL_GATHER, Op.ALL_TO_ALL, Op.GATHER, Op.SCATTER)
WITH_ROOT = (Op.BROADCAST, Op.REDUCE, Op.GATHER, Op.SCATTER)
LIST_FORM = "reduce-scatter of a list"
COALESCED = "two reduce-scatters, coalesced"
UNEQUAL = "all-to-all of unequal parts"


def routed(source, target):
    """Rows that a rank sends to another in an all-to-all: also none."""
    return (source + 2 * target) % 3


def requests(num_ranks):
    """(what, elements, dtype, root) of each call to be measured."""
    sizes = [(1, "float32"), (7, "float32"), (1001, "bfloat16"), (3, "uint8"), (501, "float64")]
    for op in Op:
        if op in (Op.RECEIVE, Op.UNKNOWN):
            continue
        if op is Op.BARRIER:
            yield op, 0, "float32", 0
            continue
        for elements, dtype in sizes:
            scale = num_ranks if op in IN_PARTS else 1
            for root in (0, num_ranks - 1) if op in WITH_ROOT else (0,):
                yield op, elements * scale, dtype, root
        yield op, 0, "float32", 0
    # more than two segments of 1 MiB a block, so that Gloo's segment rules show
    for op in (Op.ALL_REDUCE, Op.REDUCE, Op.REDUCE_SCATTER, Op.ALL_GATHER, Op.SEND):
        yield op, num_ranks * (2 * MIB + 68) // 4 // num_ranks * num_ranks, "float32", 0
    yield Op.ALL_REDUCE, num_ranks * 3 * MIB // 4 + 5, "float32", 0
    yield Op.REDUCE, num_ranks * 3 * MIB // 4 + 5, "float32", 1
    yield LIST_FORM, 1001 * num_ranks, "float32", 0
    yield COALESCED, 3 * 1001 * num_ranks, "float32", 0
    for row in (0, 1, 1001):
        yield UNEQUAL, row, "bfloat16", 0


def parts_of(what, elements, num_ranks, rank):
    """As `Event.parts` and `Event.received_parts`."""
    if what == LIST_FORM:
        return (elements // num_ranks,) * num_ranks, ()
    if what == COALESCED:
        return (elements // 3, elements // 3 * 2), ()
    if what == UNEQUAL:
        sent = tuple(routed(rank, other) * elements for other in range(num_ranks))
        return sent, tuple(routed(other, rank) * elements for other in range(num_ranks))
    return (), ()


def measure():
    """Bytes that this rank's sockets sent and received for each request."""
    import torch
    import torch.distributed as dist

    rank, num_ranks = dist.get_rank(), dist.get_world_size()
    store = dist.distributed_c10d._get_default_store()
    num_syncs = 0

    def sync():
        nonlocal num_syncs
        num_syncs += 1
        store.set(f"sync {num_syncs} {rank}", "")
        store.wait([f"sync {num_syncs} {other}" for other in range(num_ranks)])

    dist.all_to_all_single(torch.empty(num_ranks), torch.ones(num_ranks))
    sockets = open_sockets(int(os.environ["MASTER_PORT"]))
    assert len(sockets) == num_ranks - 1
    readings = []
    for what, elements, dtype, root in requests(num_ranks):
        call = make_call(what, torch.ones(elements, dtype=getattr(torch, dtype)), root)
        sync()
        before = read(sockets)
        sync()
        call()
        sync()
        after = read(sockets)
        readings.append((after[0] - before[0], after[1] - before[1]))
    sync()  # the next to communicate may be in a hurry
    for each in sockets:
        each.close()
    return readings


def make_call(what, x, root):
    import torch
    import torch.distributed as dist

    rank, num_ranks = dist.get_rank(), dist.get_world_size()
    is_root = rank == root
    part = torch.ones(x.numel() // num_ranks, dtype=x.dtype)
    parts = [part.clone() for _ in range(num_ranks)]

    def message():
        if rank == 0:
            dist.send(x, 1)
        elif rank == 1:
            dist.recv(x, 0)

    def coalesced():
        with dist._coalescing_manager():
            for times in (1, 2):
                size = times * x.numel() // 3
                whole, reduced = x.new_ones(size), x.new_empty(size // num_ranks)
                dist.reduce_scatter_tensor(reduced, whole)

    def unequal():
        row = x.numel()
        sent = [routed(rank, other) for other in range(num_ranks)]
        received = [routed(other, rank) for other in range(num_ranks)]
        result = x.new_empty(sum(received), row)
        dist.all_to_all_single(result, x.new_ones(sum(sent), row), received, sent)

    calls = {
        COALESCED: coalesced,
        UNEQUAL: unequal,
        Op.ALL_REDUCE: lambda: dist.all_reduce(x),
        Op.REDUCE_SCATTER: lambda: dist.reduce_scatter_tensor(part, x),
        LIST_FORM: lambda: dist.reduce_scatter(part, parts),
        Op.ALL_GATHER: lambda: dist.all_gather_into_tensor(x, part),
        Op.BROADCAST: lambda: dist.broadcast(x, root),
        Op.REDUCE: lambda: dist.reduce(x, root),
        Op.GATHER: lambda: dist.gather(part, parts if is_root else None, root),
        Op.SCATTER: lambda: dist.scatter(part, parts if is_root else None, root),
        Op.ALL_TO_ALL: lambda: dist.all_to_all_single(x.clone(), x),
        Op.SEND: message,
        Op.BARRIER: dist.barrier,
    }
    return calls[what]


def open_sockets(store_port):
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            each = socket.socket(fileno=os.dup(int(entry.name)))
        except OSError:
            continue
        try:
            ports = {each.getsockname()[1], each.getpeername()[1]}
            is_tcp = each.family in (socket.AF_INET, socket.AF_INET6)
        except (OSError, IndexError, TypeError):
            is_tcp, ports = False, set()
        if is_tcp and store_port not in ports:
            found.append(each)
        else:
            each.close()
    return found


def read(sockets):
    sent = received = 0
    for each in sockets:
        info = each.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        bytes_sent, bytes_retrans = struct.unpack_from("QQ", info, 200)
        sent += bytes_sent - bytes_retrans + struct.unpack_from("I", info, 144)[0]
        received += struct.unpack_from("Q", info, 128)[0]
    return sent, received


def theory(what, num_ranks, rank, elements, element_bytes, root):
    parts, received = parts_of(what, elements, num_ranks, rank)
    if parts:
        op = Op.ALL_TO_ALL if what == UNEQUAL else Op.REDUCE_SCATTER
        sizes = (sum(parts), element_bytes)
        return cost(
            Algorithm.GLOO, op, num_ranks, rank, *sizes, parts=parts, received_parts=received
        )
    if what is Op.SEND:
        if rank > 1:
            return Cost()
        what = Op.SEND if rank == 0 else Op.RECEIVE
    return cost(Algorithm.GLOO, what, num_ranks, rank, elements, element_bytes, root)


@pytest.mark.ranks
@pytest.mark.parametrize("num_ranks", [2, 3])
def test_gloo_sends_to_the_byte_what_theory_says(num_ranks):
    element_bytes = {"uint8": 1, "bfloat16": 2, "float32": 4, "float64": 8}
    measured = run_ranks(measure, num_ranks)
    asked = list(requests(num_ranks))
    known = {*Op, LIST_FORM, COALESCED, UNEQUAL} - {Op.RECEIVE, Op.UNKNOWN}
    assert {what for what, *_ in asked} == known
    for rank, readings in enumerate(measured):
        for (what, elements, dtype, root), reading in zip(asked, readings, strict=True):
            said = theory(what, num_ranks, rank, elements, element_bytes[dtype], root)
            frames = framing("gloo", said)
            expected = (
                said.sent_bytes + frames.sent_bytes,
                said.received_bytes + frames.received_bytes,
            )
            assert reading == expected, (what, elements, dtype, root, rank, said)
