"""Figures of papers on the largest model that fits and its speed, reproduced.

ZeRO's throughput, its superlinear curve and its ladder of largest models; FSDP's gain from
prefetching; ZeRO-Infinity's largest model by number of nodes. Each table lists the parts of its
configurations that are cited from memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from zerosim.base.config import DType, EngineConfig
from zerosim.base.config.shapes import GPTConfig
from zerosim.base.tables import Cell, Table
from zerosim.predict.placement.machine import Machine, load_machine
from zerosim.predict.plan.prices import Prices
from zerosim.predict.plan.published import flops, gpt, published_table, step_s, with_network
from zerosim.schema.memory import Role
from zerosim.theory.footprint import footprints
from zerosim.theory.layout import Layout
from zerosim.theory.saved import KeptActivations, Recompute
from zerosim.theory.transformer import LayerCut

_ZERO = "Rajbhandari et al. 2020 (arXiv 1910.02054)"
_FROM_MEMORY = "its configurations (layers, width, heads, batches) are cited from memory"
_MARGIN = Fraction(1, 20)
"""The fraction of a card's memory for what no law counts, as in `zerosim plan`."""
_CONTEXT, _VOCABULARY = 1024, 50_304
_GPUS, _TENSOR = 400, 16


def _model(layers: int, width: int, heads: int) -> GPTConfig:
    return gpt(layers, width, heads, _CONTEXT, _VOCABULARY)


_OF_ZERO = {
    "1.5B": (_model(48, 1600, 16), 1, 24),
    "8B": (_model(72, 3072, 24), 4, 64),
    "40B": (_model(88, 6144, 32), 4, 12),
    "60B": (_model(132, 6144, 32), 16, 64),
    "80B": (_model(100, 8192, 64), 16, 32),
    "100B": (_model(125, 8192, 64), 16, 32),
    "120B": (_model(150, 8192, 64), 16, 24),
    "140B": (_model(175, 8192, 64), 16, 16),
    "170B": (_model(212, 8192, 64), 16, 12),
}
"""The runs of Figure 2: model, tensor-parallel ranks, and sequences of a micro-batch."""
_FITTED, _FITTED_TFLOPS = "100B", 38.0


def _layout(shape: GPTConfig, gpus: int, tensor: int, batch: int, stage: int = 2) -> Layout:
    return Layout(
        shape=shape,
        config=EngineConfig(stage=stage, dtype=DType.BF16, checkpoint_activations=True),
        data=gpus // tensor,
        cut=LayerCut(tensor),
        batch=batch,
        sequence=shape.context,
        ranks_per_node=16,
        keeping=KeptActivations(Recompute.FULL, has_scores=True, has_dropout=True),
    )


def _tflops(machine: Machine, layout: Layout) -> float:
    """TFLOP/s per GPU; forward counts twice, because it is recomputed."""
    shape = layout.shape
    assert isinstance(shape, GPTConfig)
    seconds = step_s(Prices(machine), layout)
    return flops(shape, layout.sequences) / (layout.num_ranks * seconds * 1e12)


def _as_published(machine: Machine) -> Machine:
    """A machine with the software efficiency that reproduces the fitted row."""
    shape, tensor, batch = _OF_ZERO[_FITTED]
    layout = _layout(shape, _GPUS, tensor, batch)
    least, most = 0.01, 1.0
    for _ in range(30):
        middle = (least + most) / 2
        if _tflops(replace(machine, achieved=middle), layout) < _FITTED_TFLOPS:
            least = middle
        else:
            most = middle
    return replace(machine, achieved=most)


def throughput() -> Table:
    """ZeRO, Figure 2: throughput per GPU by model size, on 400 V100 GPUs."""
    machine = _as_published(load_machine("dgx-2"))
    rows: list[tuple[Cell, ...]] = []
    for name, (shape, tensor, batch) in _OF_ZERO.items():
        published = "38" if name == _FITTED else None
        rate = _tflops(machine, _layout(shape, _GPUS, tensor, batch))
        rows.append((name, tensor, batch, published, rate))
    rates = [rate for name, *_, rate in rows if name not in ("1.5B", "120B", "140B", "170B")]
    mean = sum(one for one in rates if isinstance(one, float)) / len(rates) * _GPUS / 1000
    return published_table(
        "ZeRO-2 on 400 V100 by model size: TFLOP/s per GPU",
        ("model",),
        ("tensor_parallel", "batch", "published_tflops", "predicted_tflops"),
        rows,
        f"{_ZERO}, Figure 2 and section 10.2; {_FROM_MEMORY}",
        f"machine dgx-2 with {machine.achieved:.2f} of its roofline, fitted to {_FITTED}, which is "
        "therefore not a prediction",
        f"8B to 100B: published 15 PFLOP/s over all GPUs, predicted {mean:.1f}",
    )


_SUPERLINEAR = ((64, 16), (128, 48), (256, 48), (400, 64))
"""The runs of Figure 3: GPUs, and sequences of a micro-batch."""


def superlinear() -> Table:
    """ZeRO, Figure 3: 60B on more and more GPUs, whose memory allows larger batches."""
    machine = _as_published(load_machine("dgx-2"))
    shape = _model(75, 8192, 32)
    rows = []
    for gpus, batch in _SUPERLINEAR:

        def fits(size: int, gpus: int = gpus) -> bool:
            return _fits(_layout(shape, gpus, _TENSOR, size), parts=_TENSOR)

        room = _largest(fits, 128)
        rate = _tflops(machine, _layout(shape, gpus, _TENSOR, batch))
        rows.append((gpus, batch, room, rate, rate * gpus / 1000))
    return published_table(
        "ZeRO-2, 60B on 64 to 400 V100: the batch that fits, and its throughput",
        ("gpus",),
        ("published_batch", "predicted_batch", "predicted_tflops", "predicted_pflops_of_all"),
        rows,
        f"{_ZERO}, Figure 3, where each GPU is faster the more GPUs there are; {_FROM_MEMORY}",
        "predicted batch: the largest that fits in 32 GB less 5 %, with checkpoints divided (P_a)",
        f"machine dgx-2 with {machine.achieved:.2f} of its roofline, fitted to {_FITTED} on 400",
    )


_LADDER = (
    ("C1", "P_os", 1, 1, "40"),
    ("C2", "P_os, P_a", 1, _TENSOR, "60"),
    ("C3", "P_os+g", 2, 1, None),
    ("C4", "P_os+g, P_a", 2, _TENSOR, "140"),
    ("C5", "P_os+g, P_a+cpu", 2, 0, "150"),
)
"""Figure 6 and Table 3: stage, and number of parts of each checkpoint (0: on the host)."""
_LADDER_BATCH = 16


def ladder() -> Table:
    """ZeRO, Figure 6: the largest model by the states that are partitioned, from C1 to C5."""
    rows: list[tuple[Cell, ...]] = []
    for name, words, stage, parts, published in _LADDER:

        def fits(layers: int, stage: int = stage, parts: int = parts) -> bool:
            shape = _model(layers, 8192, 64)
            layout = _layout(shape, _GPUS, _TENSOR, _LADDER_BATCH, stage)
            return _fits(layout, parts=parts)

        layers = _largest(fits, 1024)
        billions = _model(layers, 8192, 64).num_parameters / 1e9 if layers else 0.0
        rows.append((name, words, published, billions))
    return published_table(
        "The largest model on 400 V100, tensor parallel by 16, a batch of 16: billions",
        ("configuration", "what_is_divided"),
        ("published_billions", "predicted_billions"),
        rows,
        f"{_ZERO}, Figure 6, Table 3 and section 10.5; its digits and the batch are cited from "
        "memory; none is cited for C3",
        "predicted: the most blocks of width 8,192 in 32 GB less 5 %, by the laws alone; the "
        "paper tries some sizes; no law covers what an allocator cannot use (M_D is said to "
        "matter)",
    )


def _largest(fits: Callable[[int], bool], most: int) -> int:
    """The largest number that fits; 0 if none fits."""
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        if fits(middle):
            least = middle
        else:
            most = middle - 1
    return least


def _fits(layout: Layout, parts: int) -> bool:
    """Whether the layout fits in a V100's memory.

    Args:
        parts: number of parts of each activation checkpoint; 0 if they are on the host.
    """
    room = (load_machine("dgx-2").memory_bytes or 0) * (1 - _MARGIN)
    for moment in footprints(layout):
        kept = sum(one.bytes for one in moment.parts if one.role is Role.CHECKPOINTS)
        if moment.bytes - kept + (kept / parts if parts else 0) > room:
            return False
    return True


_PREFETCHED = (128, 256, 512)


def prefetching() -> Table:
    """FSDP: the gain from gathering the next unit ahead in backward, for GPT-175B.

    Forward and backward gather the same bytes, and the communication exposed without any
    prefetching is divided equally between them: FSDP's forward gathers ahead in any case.
    """
    machine = with_network(load_machine("dgx-a100"), 2000)
    rows = []
    for gpus in _PREFETCHED:
        seconds = {}
        for ahead in (0, 1):
            layout = Layout(
                shape=gpt(96, 12_288, 96, vocabulary=50_000),
                config=EngineConfig(
                    stage=3, dtype=DType.BF16, checkpoint_activations=True, prefetch=ahead
                ),
                data=gpus,
                batch=1,
                sequence=2048,
                ranks_per_node=8,
                keeping=KeptActivations(Recompute.FULL),
            )
            seconds[ahead] = step_s(Prices(machine), layout)
        without = (seconds[0] + seconds[1]) / 2
        gain = 100 * (without / seconds[1] - 1)
        rows.append((gpus, without, seconds[1], 18, gain))
    return published_table(
        "Fully sharded GPT-175B on A100-80, without and with a unit gathered ahead in backward",
        ("gpus",),
        (
            *("predicted_without_s", "predicted_with_s"),
            *("published_gain_percent", "predicted_gain_percent"),
        ),
        rows,
        "Zhao et al. 2023 (arXiv 2304.11277), section 5.3: about 18 %, whatever the number of "
        "GPUs; cited from memory",
        "machine dgx-a100 with the paper's network of 2 Tb/s, used at full bandwidth; "
        "without: half of the time that is exposed if neither forward nor backward gathers ahead",
        "not predicted: the rate limiter, which keeps an allocator from running full: no law "
        "covers an allocator",
    )


_NODES = ((1, "1"), (4, None), (16, None), (32, "32"), (64, None), (96, "100"))
_DISK_BYTES = 28e12
_STATE_BYTES = 20
"""Per parameter: fp16 parameter and gradient; fp32 gradient, master copy, momentum, variance."""


def nodes() -> Table:
    """ZeRO-Infinity: the largest model by number of DGX-2 nodes, with its states on their disks."""
    rows = [
        (count, published, count * _DISK_BYTES / _STATE_BYTES / 1e12) for count, published in _NODES
    ]
    return published_table(
        "The largest model on DGX-2 nodes with all states on their disks: 10^12 parameters",
        ("nodes",),
        ("published_trillions", "predicted_trillions"),
        rows,
        "Rajbhandari et al. 2021 (arXiv 2104.07857): 1 on a node and 32 on 32 nodes read in the "
        "slides of SC21; 100 on 96, 28 TB a node and 20 bytes a parameter cited from memory",
        "predicted: the largest that the disks hold; the paper's are the sizes that it tried",
    )
