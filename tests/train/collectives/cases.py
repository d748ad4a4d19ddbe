"""Cases that several processes run together, and what each must end with.

All ranks draw the same cases from a seed, and each can compute every rank's input, so the oracle
needs no communication.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch
import torch.distributed as dist

import zerosim
from zerosim.schema.events import Op, Phase
from zerosim.trace import labels
from zerosim.train.collectives import BackgroundExecutor, InlineExecutor, Native, Ring, world

WHOLE = 1 << 20
NUM_CASES = 48
NUM_IN_FLIGHT = 12
OPS = (Op.ALL_REDUCE, Op.REDUCE_SCATTER, Op.ALL_GATHER, Op.BROADCAST, Op.REDUCE, Op.SEND)
DTYPES = ("float32", "bfloat16", "float16", "int64")
BORDER = 3
"""Columns of a wider matrix on either side of the buffer, which nothing may touch."""


@dataclass(frozen=True)
class Case:
    number: int
    op: Op
    is_matrix: bool
    columns: int
    dtype: str
    chunk_bytes: int
    root: int

    def elements(self, num_ranks):
        return self.columns * num_ranks if self.is_matrix else self.columns

    @property
    def element_bytes(self):
        return getattr(torch, self.dtype).itemsize


def draw_cases(num_ranks):
    """The first ones are the corners: every op with nothing, one element, fewer than ranks."""
    draw = random.Random(num_ranks)  # noqa: S311 - the same on all ranks is what is wanted
    few = [0, 1, num_ranks - 1, num_ranks + 1]
    cases = []
    for number in range(NUM_CASES):
        op = OPS[number % len(OPS)]
        must = op in (Op.REDUCE_SCATTER, Op.ALL_GATHER)
        round_ = number // len(OPS)
        columns = few[round_] if round_ < len(few) else draw.randint(40, 400)
        chunk_bytes = draw.choice((1, 16))
        if columns >= 40:  # a few chunks a row, and the last one shorter
            chunk_bytes = draw.choice((columns // 3, columns, columns * 5 // 2 + 1, WHOLE))
        cases.append(
            Case(
                number=number,
                op=op,
                is_matrix=must or (op is Op.ALL_REDUCE and round_ > 3 and draw.random() < 0.5),
                columns=columns,
                dtype=draw.choice(DTYPES),
                chunk_bytes=chunk_bytes,
                root=number // len(OPS) % num_ranks,
            )
        )
    return cases


def content(case, rank, num_ranks, *, rounds=True):
    """What a rank starts from, inside a wider tensor; whole numbers if sums must be exact."""
    generator = torch.Generator().manual_seed(1000 * case.number + rank)
    wide = case.columns + 2 * BORDER
    shape = (num_ranks, wide) if case.is_matrix else (wide,)
    dtype = getattr(torch, case.dtype)
    if rounds and dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(-8, 9, shape, generator=generator).to(dtype)


def inner(case, wide):
    return wide[..., BORDER : BORDER + case.columns]


def split(case, buffer, num_ranks):
    return list(buffer.unbind(0) if case.is_matrix else buffer.tensor_split(num_ranks))


def folded(case, num_ranks, *, rounds):
    """Row j of the sum: rank j+1's, plus j+2's, ..., plus j's; rounded after each addition."""
    parts = [
        split(case, inner(case, content(case, rank, num_ranks, rounds=rounds)), num_ranks)
        for rank in range(num_ranks)
    ]
    rows = []
    for row in range(num_ranks):
        total = parts[(row + 1) % num_ranks][row].clone()
        for step in range(2, num_ranks + 1):
            total = total + parts[(row + step) % num_ranks][row]
        rows.append(total)
    return torch.stack(rows) if case.is_matrix else torch.cat(rows)


def chained(case, num_ranks, *, rounds):
    """The sum at the root: that of the rank behind it, plus the next one's, ..., plus its own."""
    total = inner(case, content(case, (case.root + 1) % num_ranks, num_ranks, rounds=rounds))
    for step in range(2, num_ranks + 1):
        other = content(case, (case.root + step) % num_ranks, num_ranks, rounds=rounds)
        total = total + inner(case, other)
    return total


def expected(case, rank, num_ranks, *, rounds):
    """The whole tensor of a rank afterwards; only its own row counts after a reduce-scatter."""
    wide = content(case, rank, num_ranks, rounds=rounds)
    target = inner(case, wide)
    if case.op is Op.ALL_REDUCE:
        target.copy_(folded(case, num_ranks, rounds=rounds))
    elif case.op is Op.REDUCE_SCATTER:
        target[rank] = folded(case, num_ranks, rounds=rounds)[rank]
    elif case.op is Op.ALL_GATHER:
        for other in range(num_ranks):
            target[other] = inner(case, content(case, other, num_ranks, rounds=rounds))[other]
    elif case.op is Op.REDUCE:
        if rank == case.root:
            target.copy_(chained(case, num_ranks, rounds=rounds))
    elif case.op is Op.BROADCAST or rank == (case.root + 1) % num_ranks:
        target.copy_(inner(case, content(case, case.root, num_ranks, rounds=rounds)))
    return wide


def perform(collectives, case, wide):
    """Ask for the case's collective; returns its handle, None for a rank without a part in it."""
    buffer = inner(case, wide)
    rank, to = collectives.group.rank, (case.root + 1) % collectives.group.size
    if case.op is Op.ALL_REDUCE:
        return collectives.all_reduce(buffer)
    if case.op is Op.REDUCE_SCATTER:
        return collectives.reduce_scatter(buffer)
    if case.op is Op.ALL_GATHER:
        return collectives.all_gather(buffer)
    if case.op in (Op.BROADCAST, Op.REDUCE):
        of_a_root = collectives.broadcast if case.op is Op.BROADCAST else collectives.reduce
        return of_a_root(buffer, case.root)
    if rank == case.root:
        return collectives.send(buffer, to)
    return collectives.receive(buffer, case.root) if rank == to else None


def differs(case, rank, found, wanted):
    if case.op is Op.REDUCE_SCATTER:  # the other rows hold partial sums, the border nothing new
        inner(case, found)[:rank] = inner(case, wanted)[:rank]
        inner(case, found)[rank + 1 :] = inner(case, wanted)[rank + 1 :]
    if case.op is Op.REDUCE and rank != case.root:
        inner(case, found).copy_(inner(case, wanted))
    return not torch.equal(bits(found), bits(wanted))


def bits(tensor):
    return tensor.view(torch.int16 if tensor.element_size() == 2 else tensor.dtype)


def settle(moment):
    """Wait for all ranks over the store: nothing is sent between them."""
    store = dist.distributed_c10d._get_default_store()
    if store.add(f"{moment}, count", 1) == dist.get_world_size():
        store.set(moment, "")
    store.wait([moment])


def run_all(folder):
    """Run every case in every way; returns what went wrong and what all ranks must agree on."""
    rank, num_ranks = dist.get_rank(), dist.get_world_size()
    group, inline = world(), InlineExecutor()
    background = BackgroundExecutor(torch.device("cpu"))
    cases = draw_cases(num_ranks)
    wrong, results = [], []
    for case in cases:
        ways = {
            "ring": Ring(group, inline, case.chunk_bytes),
            "ring again": Ring(group, inline, case.chunk_bytes),
            "ring, one chunk": Ring(group, inline, WHOLE),
            "ring, background": Ring(group, background, case.chunk_bytes),
            "native": Native(group, inline),
            "native, background": Native(group, background),
        }
        for way, collectives in ways.items():
            rounds = way.startswith("ring")
            wide = content(case, rank, num_ranks, rounds=rounds)
            handle = perform(collectives, case, wide)
            if handle is not None:
                handle.wait()
            if way == "ring" and case.op is Op.ALL_REDUCE:
                results.append(inner(case, wide).clone())
            if differs(case, rank, wide, expected(case, rank, num_ranks, rounds=rounds)):
                wrong.append((way, case))
    wrong += several_in_flight(f"{folder}/in-flight", cases, Ring(group, background, 256))
    background.close()
    measure(f"{folder}/ring", cases, lambda case: Ring(group, inline, case.chunk_bytes))
    measure(f"{folder}/native", cases, lambda _: Native(group, inline))
    return wrong, [result.float() for result in results]


def several_in_flight(folder, cases, ring):
    rank, num_ranks = ring.group.rank, ring.group.size
    chosen = [case for case in cases if case.op is not Op.SEND][-NUM_IN_FLIGHT:]
    with zerosim.trace(folder):
        wides = [content(case, rank, num_ranks) for case in chosen]
        handles = [perform(ring, case, wide) for case, wide in zip(chosen, wides, strict=True)]
        for handle in reversed(handles):
            handle.wait()
    return [
        ("in flight", case)
        for case, wide in zip(chosen, wides, strict=True)
        if differs(case, rank, wide, expected(case, rank, num_ranks, rounds=True))
    ]


def measure(folder, cases, make):
    """Trace the cases, each between two samples of the wire while nothing else is under way."""
    dist.all_to_all_single(torch.empty(dist.get_world_size()), torch.ones(dist.get_world_size()))
    with zerosim.trace(folder):
        for case in cases:
            settle(f"{folder} {case.number} is drawn")
            labels.enter(case.number, Phase.FORWARD)
            settle(f"{folder} {case.number} begins")
            wide = content(case, dist.get_rank(), dist.get_world_size())
            handle = perform(make(case), case, wide)
            if handle is not None:
                handle.wait()
            settle(f"{folder} {case.number} is over")
        labels.enter(-1, Phase.OUTSIDE)
        settle(f"{folder} is over")
