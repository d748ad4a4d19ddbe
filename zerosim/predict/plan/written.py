"""A layout in the form that a framework takes: a DeepSpeed configuration, PyTorch calls, a command.

If a framework cannot express a layout, a message replaces the configuration.
"""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import Any

from zerosim.base.config import DType, EngineConfig, Offload
from zerosim.base.config.blocks import Architecture
from zerosim.base.config.model import trained_shape
from zerosim.base.config.shapes import GPTConfig
from zerosim.base.errors import ConfigError
from zerosim.predict.plan.question import PlanQuestion
from zerosim.predict.plan.wording import WORDS
from zerosim.theory.layout import Layout
from zerosim.theory.saved import Recompute
from zerosim.theory.transformer import BLOCK


def deepspeed_config(layout: Layout) -> dict[str, Any] | None:
    """The keys that describe a whole layout; None if DeepSpeed's file cannot.

    With DeepSpeed, the program decides about tensor and pipeline parallelism, not its
    configuration. The program also decides whether a block is recomputed; the file only configures
    how.
    """
    if layout.cut.tensor > 1 or layout.pipeline > 1 or _is_the_programs_own(layout):
        return None
    config = layout.config
    found: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": layout.batch,
        "gradient_accumulation_steps": layout.micro_batches,
    }
    if config.dtype is not DType.FP32:
        found[config.dtype.value] = {"enabled": True}
    found["zero_optimization"] = _zero(layout, config)
    return found


def _is_the_programs_own(layout: Layout) -> bool:
    """Properties that neither a file nor calls that wrap a model can express."""
    cut = layout.cut
    return layout.float8 or layout.replicas > 1 or cut.context > 1 or cut.experts > 1


def _zero(layout: Layout, config: EngineConfig) -> dict[str, Any]:
    block = next(one.elements for one in layout.pieces() if one.name == BLOCK)
    found: dict[str, Any] = {"stage": config.stage, "overlap_comm": config.overlap}
    found["reduce_bucket_size"] = config.bucket_elements or block
    if config.stage == 3:
        found["stage3_prefetch_bucket_size"] = config.prefetch * block
    for key, place in (
        ("offload_optimizer", config.offload_optimizer),
        ("offload_param", config.offload_param),
    ):
        if place is not Offload.NONE:
            found[key] = {"device": place.value}
    if config.quantize_weights:
        found["zero_quantized_weights"] = True
    if config.has_secondary:
        found["zero_hpz_partition_size"] = config.secondary_partition
    if config.quantize_gradients:
        found["zero_quantized_gradients"] = True
    return found


def torch_calls(layout: Layout) -> str | None:
    """The same with PyTorch's own systems; None if they do not support it.

    DDP, ZeroRedundancyOptimizer and `fully_shard` with tensor parallel blocks. ZeRO++ and
    ZeRO-Offload have no such calls (CPUOffloadPolicy moves all states, not the optimizer's alone).
    """
    config = layout.config
    if config.quantizes or config.has_secondary or config.offloads or layout.pipeline > 1:
        return None
    if isinstance(layout.shape, Architecture) and layout.cut.tensor > 1:
        return None  # the names of its layers differ
    if layout.replicas == 1 and _is_the_programs_own(layout):
        return None
    lines = _mesh(layout)
    if layout.cut.tensor > 1:
        lines += _tensor_parallel(layout)
    if layout.recompute is Recompute.FULL:
        lines += [
            "from torch.distributed.algorithms._checkpoint import checkpoint_wrapper",
            "for number, block in enumerate(model.blocks):",
            "    model.blocks[number] = checkpoint_wrapper.checkpoint_wrapper(block)",
        ]
    return "\n".join([*lines, *_data_parallel(layout)])


def _mesh(layout: Layout) -> list[str]:
    lines = ["import torch", "from torch.distributed.device_mesh import init_device_mesh"]
    if layout.cut.tensor > 1:
        sizes = f"({layout.data}, {layout.cut.tensor})"
        return [
            *lines,
            f'mesh = init_device_mesh("cuda", {sizes}, mesh_dim_names=("data", "tensor"))',
        ]
    if layout.replicas > 1:
        sizes = f"({layout.replicas}, {layout.shards})"
        names = '("replicate", "shard")'
        return [*lines, f'mesh = init_device_mesh("cuda", {sizes}, mesh_dim_names={names})']
    return [*lines, f'mesh = init_device_mesh("cuda", ({layout.data},), mesh_dim_names=("data",))']


_OF_GPT = {
    "attention_norm": "SequenceParallel()",
    "attention": "PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate())",
    "attention.query_key_value": "ColwiseParallel()",
    "attention.output": "RowwiseParallel(output_layouts=Shard(1))",
    "mlp_norm": "SequenceParallel()",
    "mlp": "PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate())",
    "mlp.0": "ColwiseParallel()",
    "mlp.2": "RowwiseParallel(output_layouts=Shard(1))",
}
_OF_LLAMA = {
    "attention_norm": "SequenceParallel()",
    "attention": "PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate())",
    "attention.query": "ColwiseParallel()",
    "attention.key": "ColwiseParallel()",
    "attention.value": "ColwiseParallel()",
    "attention.output": "RowwiseParallel(output_layouts=Shard(1))",
    "mlp_norm": "SequenceParallel()",
    "mlp": "PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate())",
    "mlp.gate": "ColwiseParallel()",
    "mlp.up": "ColwiseParallel()",
    "mlp.down": "RowwiseParallel(output_layouts=Shard(1))",
}


def _tensor_parallel(layout: Layout) -> list[str]:
    plan = _OF_GPT if isinstance(layout.shape, GPTConfig) else _OF_LLAMA
    return [
        "from torch.distributed.tensor import Replicate, Shard",
        "from torch.distributed.tensor.parallel import (",
        "    ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,",
        "    parallelize_module,",
        ")",
        "for block in model.blocks:",
        '    parallelize_module(block, mesh["tensor"], {',
        *(f'        "{name}": {style},' for name, style in plan.items()),
        "    })",
    ]


def _data_parallel(layout: Layout) -> list[str]:
    stage = layout.config.stage
    if stage >= 2:
        keeps = stage == 3
        return [
            "from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard",
            "dtype = torch.bfloat16",
            "policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=dtype)",
            'how = {"mesh": ' + _sharded_mesh(layout) + ', "mp_policy": policy}',
            "for block in model.blocks:",
            f"    fully_shard(block, reshard_after_forward={keeps}, **how)",
            f"fully_shard(model, reshard_after_forward={keeps}, **how)",
        ]
    lines = [
        "from torch.nn.parallel import DistributedDataParallel",
        'model = DistributedDataParallel(model, process_group=mesh["data"].get_group())',
    ]
    if stage == 1:
        lines += [
            "from torch.distributed.optim import ZeroRedundancyOptimizer",
            "optimizer = ZeroRedundancyOptimizer(",
            "    model.parameters(), optimizer_class=torch.optim.AdamW,",
            '    process_group=mesh["data"].get_group(),',
            ")",
        ]
    return lines


def _sharded_mesh(layout: Layout) -> str:
    return "mesh" if layout.replicas > 1 else 'mesh["data"]'


SIMULATED_STEPS = 2
"""In the second iteration, units are prefetched from the beginning."""


def simulate_command(question: PlanQuestion, layout: Layout) -> tuple[str, str]:
    """The command that simulates a layout; or "" and the reason why there is none."""
    reason = next(_reasons(question, layout), "")
    if reason:
        return "", reason
    config = layout.config
    words = [
        f"zerosim simulate --stage {config.stage} --model {quote(question.model)}",
        f"--ranks {question.gpus} --machine {question.machine.name}",
        f"--batch {layout.batch}",
    ]
    usual = EngineConfig()
    if layout.sequence != layout.shape.context:
        words.append(f"--context-length {layout.sequence}")
    if layout.micro_batches > 1:
        words.append(f"--accumulate {layout.micro_batches}")
    words += [
        f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}")
        for name in _SIMULATED
        if (value := getattr(config, name)) != getattr(usual, name)
    ]
    return " ".join([*words, f"--steps {SIMULATED_STEPS}"]), ""


def _reasons(question: PlanQuestion, layout: Layout) -> Iterator[str]:
    """Why zerosim's engine cannot dry-run a layout."""
    try:
        trained = trained_shape(layout.shape, question.model, layout.sequence)
    except ConfigError as error:
        yield str(error)
        return
    if layout.pipeline > 1:
        yield WORDS("no_dry_run.pipeline")
    if layout.cut.tensor > 1:
        yield WORDS("no_dry_run.tensor")
    if _is_the_programs_own(layout):
        yield WORDS("no_dry_run.own")
    if layout.recompute is Recompute.OPERATORS:
        yield WORDS("no_dry_run.operators")
    if layout.sequence != layout.shape.context and isinstance(trained, GPTConfig):
        yield WORDS("no_dry_run.context", context=layout.shape.context)


_SIMULATED = (
    "collectives",
    "bucket_elements",
    "prefetch",
    "offload_optimizer",
    "offload_param",
    "quantize_weights",
    "secondary_partition",
    "quantize_gradients",
    "checkpoint_activations",
)
