"""The same model, data and ranks through zerosim and through PyTorch's own data parallelism."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count

import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor.debug import CommDebugMode
from torch.nn.parallel import DistributedDataParallel

import zerosim
from tests.bench.pairs import Around, Pairs, Step, time_pairs
from zerosim.config import DType, EngineConfig, ModelName
from zerosim.models import Batches, build, context_of
from zerosim.trace import trace
from zerosim.trace.wire import Wire

BATCH = 4
LEARNING_RATE = 3e-4


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison, as rank 0 measured it."""

    a: str
    b: str
    pairs: Pairs


def measure(model: ModelName, num_pairs: int) -> list[Row]:
    """All comparisons on the ranks of this program."""
    store_port = int(os.environ["MASTER_PORT"])
    wire = Wire(frozenset({store_port}))
    dist.barrier()
    wire.scan()

    def sent_bytes() -> int:
        return sum(sent for sent, _ in wire.read().values())

    rows = []
    for stage in range(4):
        with _engine(model, stage, DType.FP32) as step:
            rows += _traced(f"stage {stage}", step, num_pairs)
            rows.append(_watched(f"stage {stage}", step, num_pairs))
    for stage, name, make in (
        (0, "DDP", _ddp),
        (1, "DDP + ZeroRedundancyOptimizer", _ddp_zero),
        (3, "FSDP2", _fsdp),
    ):
        theirs = make(model)
        with _engine(model, stage, DType.FP32) as ours:
            pairs = time_pairs(ours, theirs, num_pairs, sent_bytes)
        rows.append(Row(f"zerosim stage {stage}, fp32", f"{name}, fp32", pairs))
        with tempfile.TemporaryDirectory() as folder:
            pairs = time_pairs(theirs, theirs, num_pairs, around_a=_tracing(folder))
        rows.append(Row(f"{name}, fp32, traced", "untraced", pairs))
    theirs = _fsdp(model, MixedPrecisionPolicy(torch.bfloat16, torch.bfloat16))
    with _engine(model, 3, DType.BF16) as ours:
        pairs = time_pairs(ours, theirs, num_pairs, sent_bytes)
    rows.append(Row("zerosim stage 3, bf16", "FSDP2, bf16 with fp32 master", pairs))
    wire.close()
    return rows


@contextmanager
def _engine(model: ModelName, stage: int, dtype: DType) -> Iterator[Step]:
    config = EngineConfig(stage=stage, dtype=dtype, learning_rate=LEARNING_RATE)
    engine = zerosim.initialize(build(model, 0), config)
    batches = _batches(model)

    def step() -> None:
        engine.backward(engine(batches.at(engine.iteration)))
        engine.step()

    yield step
    engine.close()


def _traced(name: str, step: Step, num_pairs: int) -> Iterator[Row]:
    """What tracing costs without memory, and what memory and the allocations' record add to it."""
    with tempfile.TemporaryDirectory() as folder:
        plain = _tracing(folder, memory=False)
        for a, around_a, b, around_b in (
            ("traced without memory", plain, "untraced", nullcontext),
            ("traced", _tracing(folder), "traced without memory", plain),
            (
                "traced with allocations",
                _tracing(folder, allocations=True),
                "untraced",
                nullcontext,
            ),
        ):
            pairs = time_pairs(step, step, num_pairs, around_a=around_a, around_b=around_b)
            yield Row(f"{name}, {a}", b, pairs)


def _tracing(folder: str, **options: bool) -> Around:
    """A new trace each time, beside the others."""
    own, numbers = tempfile.mkdtemp(dir=folder), count()
    return lambda: trace(f"{own}/{next(numbers)}", **options)


def _watched(name: str, step: Step, num_pairs: int) -> Row:
    def watched() -> None:
        with CommDebugMode():
            step()

    pairs = time_pairs(watched, step, num_pairs)
    return Row(f"{name}, under CommDebugMode", "untraced", pairs)


def _ddp(model: ModelName) -> Step:
    module = DistributedDataParallel(build(model, 0), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(module.parameters(), lr=LEARNING_RATE, fused=True)
    return _plain_step(model, module, optimizer)


def _ddp_zero(model: ModelName) -> Step:
    module = DistributedDataParallel(build(model, 0), gradient_as_bucket_view=True)
    optimizer = ZeroRedundancyOptimizer(
        module.parameters(), torch.optim.AdamW, lr=LEARNING_RATE, fused=True
    )
    return _plain_step(model, module, optimizer)


def _fsdp(model: ModelName, policy: MixedPrecisionPolicy | None = None) -> Step:
    module = build(model, 0)
    options = {} if policy is None else {"mp_policy": policy}
    for block in module.blocks:
        fully_shard(block, **options)
    fully_shard(module, **options)
    optimizer = torch.optim.AdamW(module.parameters(), lr=LEARNING_RATE, fused=True)
    return _plain_step(model, module, optimizer)


def _plain_step(
    model: ModelName, module: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> Step:
    batches = _batches(model)
    iteration = 0

    def step() -> None:
        nonlocal iteration
        module(batches.at(iteration)).backward()
        optimizer.step()
        optimizer.zero_grad()
        iteration += 1

    return step


def _batches(model: ModelName) -> Batches:
    return Batches(
        seed=0,
        rank=dist.get_rank(),
        num_ranks=dist.get_world_size(),
        batch=BATCH,
        context=context_of(model),
    )
