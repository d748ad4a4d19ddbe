"""The same model, data and ranks through zerosim and through PyTorch's own data parallelism."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count

import torch.distributed as dist
from torch.distributed.tensor.debug import CommDebugMode
from torch.profiler import ProfilerActivity, profile

import zerosim
from tests.bench.pairs import Around, Pairs, Step, time_pairs
from tests.systems.witness import counting
from zerosim.base.config import DType, EngineConfig, Implementation, ModelName, RunConfig
from zerosim.systems.catalogue import make_step, unavailable
from zerosim.trace import trace
from zerosim.trace.wire import Connections
from zerosim.train.models import Batches, build, context_of

BATCH = 4
LEARNING_RATE = 3e-4
OTHERS = {0: Implementation.DDP, 1: Implementation.DDP_ZERO, 3: Implementation.FSDP2}
"""Who does in PyTorch what a stage does."""
TRACED = (
    Implementation.DDP,
    Implementation.FSDP2,
    Implementation.TENSOR_PARALLEL,
    Implementation.DEEPSPEED_1,
)


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison, as rank 0 measured it."""

    a: str
    b: str
    pairs: Pairs


def measure(model: ModelName, num_pairs: int) -> list[Row]:
    """All comparisons on the ranks of this program."""
    store_port = int(os.environ["MASTER_PORT"])
    wire = Connections(frozenset({store_port}))
    dist.barrier()
    wire.scan()

    def sent_bytes() -> int:
        return sum(sent for sent, _ in wire.read().values())

    rows = []
    for stage in range(4):
        with _engine(model, stage, DType.FP32) as step:
            rows += _traced(f"stage {stage}", step, num_pairs)
            rows.append(_watched(f"stage {stage}", step, num_pairs))
    for stage, implementation in OTHERS.items():
        theirs = _theirs(implementation, model)
        with _engine(model, stage, DType.FP32) as ours:
            pairs = time_pairs(ours, theirs, num_pairs, sent_bytes)
        rows.append(Row(f"zerosim stage {stage}, fp32", f"{implementation}, fp32", pairs))
    theirs = _theirs(Implementation.FSDP2_BF16, model)
    with _engine(model, 3, DType.BF16) as ours:
        pairs = time_pairs(ours, theirs, num_pairs, sent_bytes)
    rows.append(Row("zerosim stage 3, bf16", "fsdp2, bf16 with fp32 master", pairs))
    wire.close()
    return rows


def measure_programs(model: ModelName, num_pairs: int) -> list[Row]:
    """What it costs to trace others' programs, on the ranks of this program."""
    run = RunConfig(model=model, ranks=dist.get_world_size())
    os.environ["LOCAL_RANK"] = os.environ["RANK"]  # as a launcher has it, and DeepSpeed wants it
    return [
        row
        for implementation in TRACED
        if not unavailable(implementation, run)
        for row in _overhead(implementation, model, num_pairs)
    ]


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


def _overhead(implementation: Implementation, model: ModelName, num_pairs: int) -> Iterator[Row]:
    """The cost of tracing another implementation, beside PyTorch's own two recorders."""
    step = _theirs(implementation, model)
    with tempfile.TemporaryDirectory() as folder:
        for name, around in (
            ("traced without memory", _tracing(folder, memory=False)),
            ("traced", _tracing(folder)),
            ("under CommDebugMode, modules aside", counting),
            ("under torch.profiler", lambda: profile(activities=[ProfilerActivity.CPU])),
        ):
            pairs = time_pairs(step, step, num_pairs, around_a=around)
            yield Row(f"{implementation}, {name}", "untraced", pairs)


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


def _theirs(implementation: Implementation, model: ModelName) -> Step:
    """A step of another implementation, from the first one on."""
    run = RunConfig(model=model, ranks=dist.get_world_size(), batch=BATCH)
    one = make_step(implementation, run, _batches(model))
    iterations = count()
    return lambda: one(next(iterations))


def _batches(model: ModelName) -> Batches:
    return Batches(
        seed=0,
        rank=dist.get_rank(),
        num_ranks=dist.get_world_size(),
        batch=BATCH,
        context=context_of(model),
    )
