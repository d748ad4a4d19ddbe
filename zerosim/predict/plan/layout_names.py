"""Names of layouts: the kind of a layout, and its options in words."""

from __future__ import annotations

from collections.abc import Sequence

from zerosim.base.config import STAGE_NAMES, Offload
from zerosim.base.language import term
from zerosim.predict.plan.layouts import Variant, variant_of
from zerosim.predict.plan.wording import WORDS
from zerosim.theory.layout import Layout
from zerosim.theory.saved import Recompute

KINDS = (
    "data parallel",
    "ZeRO-1",
    "ZeRO-2",
    "ZeRO-3",
    "ZeRO++",
    "ZeRO-Offload",
    "ZeRO-Infinity",
    "HSDP",
    "tensor parallel",
    "pipeline parallel",
)


def kind_of(layout: Layout) -> str:
    """The member of `KINDS` to which a layout belongs."""
    if layout.pipeline > 1:
        return "pipeline parallel"
    if layout.cut.tensor > 1:
        return "tensor parallel"
    variant = variant_of(layout)
    return STAGE_NAMES[layout.config.stage] if variant is Variant.PLAIN else _KINDS[variant]


_KINDS = {
    Variant.PLUS: "ZeRO++",
    Variant.OFFLOAD: "ZeRO-Offload",
    Variant.INFINITY: "ZeRO-Infinity",
    Variant.HSDP: "HSDP",
}


def name_of(layout: Layout) -> str:
    """A layout in one line."""
    return " · ".join(words_of(layout))


def words_of(layout: Layout) -> Sequence[str]:
    """The parts of a layout's name: stage and options, ranks, batch."""
    # without data parallelism the stage has no meaning
    stage = term(STAGE_NAMES[layout.config.stage] if layout.data > 1 else kind_of(layout))
    grid = f"{layout.cut.tensor} x {layout.pipeline} x {layout.data}"
    batch = f"{layout.batch} x {layout.micro_batches}"
    return (", ".join([stage, *options_of(layout)]), grid, batch)


def options_of(layout: Layout) -> list[str]:
    """The options on top of a layout's stage, in words."""
    config = layout.config
    return [
        *(["qwZ"] if config.quantize_weights else []),
        *([f"hpZ {config.secondary_partition}"] if config.has_secondary else []),
        *(["qgZ"] if config.quantize_gradients else []),
        *([WORDS("options.offload_optimizer")] if config.offloads_optimizer else []),
        *([WORDS("options.offload_param")] if config.offload_param is not Offload.NONE else []),
        *([_bucket(config.bucket_elements)] if config.bucket_elements else []),
        *_counted("replicas", layout.replicas),
        *_counted("context", layout.cut.context),
        *_counted("experts", layout.cut.experts),
        *_counted("chunks", layout.chunks),
        *(["float8"] if layout.float8 else []),
        *([WORDS(f"options.{layout.recompute}")] if layout.recompute in AGAIN else []),
    ]


AGAIN = (Recompute.FULL, Recompute.OPERATORS)


def _counted(name: str, count: int) -> list[str]:
    """Ranks or parts of a kind, if there is more than one."""
    return [WORDS(f"options.{name}", count=count)] if count > 1 else []


def gpus_of(count: int) -> str:
    """A number of GPUs in words."""
    return WORDS("problems.one_gpu") if count == 1 else WORDS("problems.many", count=f"{count:,}")


def _bucket(elements: int) -> str:
    return WORDS("options.bucket", millions=f"{elements / 1e6:g}")
