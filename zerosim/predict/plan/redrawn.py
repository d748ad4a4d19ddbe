"""Figures of papers, reproduced with the laws and the cost model of a plan.

Predictions are shown beside published values, where these were printed as numbers. Nothing here is
fitted to them; the files of machines list the data that they were fitted to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product

from zerosim.base.config import DType, EngineConfig
from zerosim.base.config.shapes import shape_of
from zerosim.base.tables import Cell, Table
from zerosim.base.tiers import Link
from zerosim.predict.placement.machine import load_machine
from zerosim.predict.plan.larger import ladder, nodes, prefetching, superlinear, throughput
from zerosim.predict.plan.prices import Prices
from zerosim.predict.plan.published import flops, gpt, published_table, step_s, with_network
from zerosim.theory import law, law_bytes
from zerosim.theory.layout import Layout
from zerosim.theory.operators import Computing
from zerosim.theory.saved import KeptActivations, Recompute, block_bytes
from zerosim.theory.transformer import BLOCK, LayerCut

_CONTEXT = 2048


_GPTS = {
    "18B": gpt(40, 6144, 48),
    "22B": gpt(48, 6144, 64),
    "174.6B": gpt(96, 12288, 96),
    "175B": gpt(96, 12288, 96),
    "529.6B": gpt(105, 20480, 128),
    "530B": gpt(105, 20480, 128),
    "1T": gpt(128, 25600, 160),
}
_VARIANTS = (
    ("sequence parallel", True, Recompute.NONE),
    ("selective recomputation", False, Recompute.SELECTIVE),
    ("both", True, Recompute.SELECTIVE),
    ("full recomputation", False, Recompute.FULL),
)
_WITHOUT = (False, Recompute.NONE)
_PERCENT = {
    "22B": (66.8, 49.4, 16.2, 7.64),
    "175B": (62.0, 56.5, 18.5, 8.71),
    "530B": (58.3, 62.0, 20.3, 9.42),
    "1T": (58.3, 62.0, 20.3, 9.42),
}


def activations() -> Table:
    """Korthikanti et al. 2022, Figure 7: activations in percent of those of tensor parallelism."""

    def kept(model: str, sequence: bool, recompute: Recompute) -> int:
        batch = 4 if model == "22B" else 1
        computing = Computing(_GPTS[model], batch, _CONTEXT, LayerCut(8, sequence))
        return block_bytes(computing, KeptActivations(recompute, has_scores=True, has_dropout=True))

    rows = [
        (model, words, printed, 100 * kept(model, sequence, recompute) / kept(model, *_WITHOUT))
        for model, percents in _PERCENT.items()
        for (words, sequence, recompute), printed in zip(_VARIANTS, percents, strict=True)
    ]
    return published_table(
        "Activations, percent of those of tensor parallelism by 8 alone",
        ("model", "variant"),
        ("published_percent", "predicted_percent"),
        rows,
        "Korthikanti et al. 2022 (arXiv 2205.05198), Figure 7, read off the figure",
    )


_DECAY = (
    ("174.6B", 384, 4, 144),
    ("174.6B", 768, 2, 88),
    ("174.6B", 1536, 1, 44),
    ("529.6B", 640, 4, 138),
    ("529.6B", 1120, 2, 98),
    ("529.6B", 2240, 1, 48),
)


def decay() -> Table:
    """Narayanan et al. 2021, Table 2: ZeRO-3 at a fixed batch on more and more GPUs."""
    prices = Prices(load_machine("zero-3-2021"))
    rows = []
    for model, gpus, batch, published in _DECAY:
        seconds = step_s(prices, _stage_3(model, gpus, batch, _CONTEXT, again=True))
        predicted = flops(_GPTS[model], gpus * batch) / (gpus * seconds * 1e12)
        off = 100 * (predicted / published - 1)
        rows.append((model, gpus, batch, seconds, published, predicted, off))
    return published_table(
        "ZeRO-3 at a fixed batch: TFLOP/s per GPU",
        ("model", "gpus", "batch"),
        ("predicted_step_s", "published_tflops", "predicted_tflops", "off_percent"),
        rows,
        "Narayanan et al. 2021 (arXiv 2104.04473), Table 2, its rows beyond 174.6B on 384 and 768 "
        "cited from memory",
        "machine zero-3-2021 was fitted to 174.6B on 384 and 768, so these two are not predictions",
    )


_HIDES = (
    ("dgx-h100", Link.NODE, 2200),
    ("dgx-h100", Link.NETWORK, 2475),
    ("dgx-b200", Link.NETWORK, 5625),
    ("dgx-2", Link.NETWORK, None),
)


def hides() -> Table:
    """scaling-book, gpus.md: tokens per GPU above which gathers are hidden (C / W)."""
    rows: list[tuple[Cell, ...]] = []
    for name, link, published in _HIDES:
        machine = load_machine(name)
        share = machine.link(link).bytes_per_second
        if link is Link.NETWORK:  # the node's network sends each byte that the node gathers once
            share *= machine.ranks_per_node or 1
        rows.append((name, str(link), published, machine.flops_per_second / share))
    return published_table(
        "Tokens per GPU above which data parallelism is compute-bound (C/W)",
        ("machine", "link"),
        ("published_tokens", "predicted_tokens"),
        rows,
        "jax-ml/scaling-book @0819a7d8, gpus.md: peak FLOPs over the bandwidth of a GPU, or of a "
        "node",
    )


_PEAK = 70e12
_NEEDS = (
    ("parameters and gradients", "sequence x batch = 1,024", 1024, 70e9, "over 50"),
    ("optimizer states", "sequence x batch / 4 = 512", 512, 1.5e12, "90"),
    ("activation checkpoints", "24 x hidden size of 2,048", 24 * 2048, 2e9, "over 50"),
)


def infinity() -> Table:
    """ZeRO-Infinity, Figure 3: efficiency by bandwidth and arithmetic intensity."""
    rows = [
        (what, words, bandwidth / 1e9, printed, 100 * ait * bandwidth / (ait * bandwidth + _PEAK))
        for what, words, ait, bandwidth, printed in _NEEDS
    ]
    return published_table(
        "Efficiency = ait x bandwidth / (ait x bandwidth + peak), at 70 TFLOP/s",
        ("what", "flop_per_byte"),
        ("bandwidth_gb_s", "published_percent", "predicted_percent"),
        rows,
        "Rajbhandari et al. 2021 (arXiv 2104.07857), section 4.2; numbers are cited from memory",
    )


def bubble() -> Table:
    """Narayanan et al. 2021, section 2.2: a pipeline's idle time relative to its computing time."""
    rows = [(p, m, v, 100 * (p - 1) / (v * m)) for p, m, v in product((4, 8), (8, 32, 128), (1, 2))]
    return published_table(
        "The bubble, percent of the ideal time: (p - 1) / (v m)",
        ("stages_p", "micro_batches_m", "chunks_v"),
        ("predicted_percent",),
        rows,
        "Narayanan et al. 2021 (arXiv 2104.04473), section 2.2",
    )


_GIGABITS = (800, 400, 200, 100)


def plusplus() -> Table:
    """ZeRO++: the gain from smaller messages, by the links of a node and the tokens per GPU."""
    machine = load_machine("dgx-2")
    rows = []
    for gigabits, tokens in product(_GIGABITS, (1024, 2048)):
        prices = Prices(with_network(machine, gigabits))
        plain = _stage_3("18B", 384, 1, tokens, again=True)
        config = replace(
            plain.config,
            quantize_weights=True,
            quantize_gradients=True,
            secondary_partition=machine.ranks_per_node or 1,
        )
        plus = replace(plain, config=config)
        before, after = (step_s(prices, one) for one in (plain, plus))
        rows.append((gigabits, tokens, before, after, before / after))
    return published_table(
        "ZeRO-3 and ZeRO++, 18B on 384 V100: seconds of a step",
        ("gigabits_a_node", "tokens_a_gpu"),
        ("predicted_zero_3_s", "predicted_zero_pp_s", "predicted_speed_up"),
        rows,
        "Wang et al. 2023 (arXiv 2306.10209), whose gains range from 2.2 (fewest links, 1K tokens) "
        "to 1.15 (most links, 2K)",
        "machine dgx-2, with ideal software; messages of int8 and int4 are priced as "
        "NCCL's own calls, their quantization as operators",
    )


def units() -> Table:
    """FSDP: live parameters, by the number of blocks that are wrapped together."""
    shape, num_ranks = shape_of("llama-3-8b"), 64
    layout = Layout(shape=shape, config=_engine(), data=num_ranks, sequence=shape.context)
    block = next(one for one in layout.pieces() if one.name == BLOCK)
    whole = shape.num_parameters
    rows = []
    for blocks in (1, 2, 4, 8, 16, 32):
        largest = max(blocks * block.elements, *(one.elements for one in layout.pieces()))
        rows.append((blocks, 2 * (Fraction(whole, num_ranks) + largest) / 10**9))
    return published_table(
        "Live parameters, llama-3-8b in bf16 on 64 GPUs: sum/N + largest unit",
        ("blocks_in_a_unit",),
        ("predicted_gb",),
        [(blocks, float(size)) for blocks, size in rows],
        "Zhao et al. 2023 (arXiv 2304.11277), section 3.2.1",
    )


def traffic() -> Table:
    """ZeRO, section 7: traffic of a GPU in a step, by stage."""
    rows = []
    for stage, published in ((0, "2Ψ"), (1, "2Ψ"), (2, "2Ψ"), (3, "3Ψ")):
        shape = _GPTS["174.6B"]
        layout = Layout(shape=shape, config=_engine(stage), data=384, sequence=shape.context)
        workload = layout.workload()
        rows.append((stage, published, law(workload).symbols, float(law_bytes(workload, 0)) / 1e9))
    return published_table(
        "Traffic of a GPU in a step, by the law: 174.6B in bf16 on 384 GPUs",
        ("stage",),
        ("published", "law", "predicted_gb"),
        rows,
        "Rajbhandari et al. 2020 (arXiv 1910.02054), section 7",
    )


def _engine(stage: int = 3, *, again: bool = False) -> EngineConfig:
    return EngineConfig(
        stage=stage,
        dtype=DType.BF16,
        checkpoint_activations=again,
    )


def _stage_3(model: str, gpus: int, batch: int, sequence: int, *, again: bool) -> Layout:
    size = 16 if model == "18B" else 8
    return Layout(
        shape=_GPTS[model],
        config=_engine(again=again),
        data=gpus,
        batch=batch,
        sequence=sequence,
        ranks_per_node=size,
        keeping=KeptActivations(Recompute.FULL if again else Recompute.NONE),
    )


FIGURES: dict[str, Callable[[], Table]] = {
    one.__name__: one
    for one in (
        *(activations, bubble, decay, hides, infinity, ladder, nodes, plusplus, prefetching),
        *(superlinear, throughput, traffic, units),
    )
}
"""The figures, by their names in `zerosim table`."""
