"""What the tests of DeepSpeed train: one small model under each configuration, on every rank."""

from __future__ import annotations

import gc
import logging
import os
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

import zerosim

STEPS = 3
NUM_TOKENS = 11
WIDTH = 6
BF16 = {"bf16": {"enabled": True}}
ON_CPU = {"device": "cpu"}
KEEPS_NOTHING = {
    "stage3_param_persistence_threshold": 0,
    "stage3_prefetch_bucket_size": 0,
    "stage3_max_reuse_distance": 0,
}


class Block(nn.Module):
    """A norm and two layers around a residual."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 3 * WIDTH)
        self.down = nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(self.norm(x))))


class Net(nn.Module):
    """No size divides by 4, so that each padding shows; one parameter belongs to the root."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(NUM_TOKENS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, NUM_TOKENS)
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x) * self.scale.sum()


class Tied(Net):
    """The head's weight is the embedding's, as in GPT-2."""

    def __init__(self):
        super().__init__()
        self.head.weight = self.embedding.weight


class External(Net):
    """The head is no module: the root computes with the embedding's weight."""

    def __init__(self):
        super().__init__()
        del self.head
        self.bias = nn.Parameter(torch.zeros(NUM_TOKENS))

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return nn.functional.linear(x, self.embedding.weight, self.bias) * self.scale.sum()


class Registered(External):
    """The same, and the program says so to DeepSpeed."""

    def __init__(self):
        super().__init__()
        import deepspeed

        deepspeed.zero.register_external_parameter(self, self.embedding.weight)


class ReadingHead(nn.Module):
    """A head that looks its weight up in the embedding."""

    def __init__(self, embedding):
        super().__init__()
        self.looks_in = [embedding]  # in a list it is no part of this module
        self.bias = nn.Parameter(torch.zeros(NUM_TOKENS))

    def forward(self, x):
        return nn.functional.linear(x, self.looks_in[0].weight, self.bias)


class ExternalInHead(Net):
    """A module other than the root computes with the embedding's weight."""

    def __init__(self):
        super().__init__()
        self.head = ReadingHead(self.embedding)


class HandingHead(nn.Linear):
    """A head that returns its bias to the caller, as Megatron's layers do."""

    def forward(self, x):
        return nn.functional.linear(x, self.weight), self.bias


class Handed(Net):
    """The root adds the bias that the head hands out."""

    def __init__(self):
        super().__init__()
        self.head = HandingHead(WIDTH, NUM_TOKENS)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        logits, bias = self.head(x)
        return (logits + bias) * self.scale.sum()


class Checkpointed(Net):
    """Each block is computed again in backward."""

    reentrant = True

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return self.head(x) * self.scale.sum()


class CheckpointedOnce(Checkpointed):
    """Each block is computed again as far as backward needs it."""

    reentrant = False


def zero(stage, /, accumulate=1, dtype=None, top=None, **options):
    """A DeepSpeed configuration as people write it."""
    return {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": accumulate,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "torch_adam": True}},
        "zero_optimization": {"stage": stage, **options},
        **(dtype or {}),
        **(top or {}),
    }


OFFLOAD = {"offload_optimizer": ON_CPU, "top": {"zero_force_ds_cpu_optimizer": False}}
FP32_SUMS = {"data_types": {"grad_accum_dtype": "fp32"}}
NO_CLIP = {"gradient_clipping": 0.0}
CASES = {
    "stage 0": zero(0),
    "stage 0, two micro-steps": zero(0, accumulate=2),
    "stage 0, bf16": zero(0, dtype=BF16),
    "stage 0, not clipped": zero(0, top=NO_CLIP),
    "stage 1": zero(1),
    "stage 1, two micro-steps": zero(1, accumulate=2, reduce_bucket_size=100),
    "stage 1, overlapped": zero(1, overlap_comm=True, reduce_bucket_size=100),
    "stage 1, bf16": zero(1, dtype=BF16),
    "stage 1, bf16, summed in fp32": zero(1, dtype=BF16, top=FP32_SUMS),
    "stage 2": zero(2),
    "stage 2, two micro-steps": zero(2, accumulate=2),
    "stage 2, bf16": zero(2, dtype=BF16),
    "stage 2, bf16, summed in fp32": zero(2, dtype=BF16, top=FP32_SUMS, accumulate=2),
    "stage 2, gradients in fp32": zero(2, dtype=BF16, top={"communication_data_type": "fp32"}),
    "stage 2, small buckets": zero(2, reduce_bucket_size=120),
    "stage 2, a reduce for each rank": zero(2, use_multi_rank_bucket_allreduce=False),
    "stage 2, a reduce for each rank and bucket": zero(
        2, use_multi_rank_bucket_allreduce=False, reduce_bucket_size=120
    ),
    "stage 2, no reduce-scatter": zero(2, reduce_scatter=False),
    "stage 2, not contiguous": zero(2, contiguous_gradients=False),
    "stage 2, overlapped": zero(2, overlap_comm=True),
    "stage 2, no norm": zero(2, compute_grad_norm=False, top=NO_CLIP),
    "stage 2, optimizer offloaded": zero(2, **OFFLOAD),
    "stage 3": zero(3),
    "stage 3, two micro-steps": zero(3, accumulate=2),
    "stage 3, bf16": zero(3, dtype=BF16),
    "stage 3, keeps nothing": zero(3, **KEEPS_NOTHING),
    "stage 3, keeps nothing, two micro-steps": zero(3, accumulate=2, **KEEPS_NOTHING),
    "stage 3, nothing persists": zero(3, stage3_param_persistence_threshold=0),
    "stage 3, small parameters persist": zero(
        3, **KEEPS_NOTHING | {"stage3_param_persistence_threshold": 20}
    ),
    "stage 3, few parameters persist": zero(
        3,
        **KEEPS_NOTHING | {"stage3_param_persistence_threshold": 20},
        stage3_model_persistence_threshold=40,
    ),
    "stage 3, fetched ahead": zero(3, **KEEPS_NOTHING | {"stage3_prefetch_bucket_size": 150}),
    "stage 3, few live": zero(
        3,
        stage3_param_persistence_threshold=0,
        stage3_prefetch_bucket_size=200,
        stage3_max_reuse_distance=0,
        stage3_max_live_parameters=130,
    ),
    "stage 3, reused soon": zero(3, **KEEPS_NOTHING | {"stage3_max_reuse_distance": 200}),
    "stage 3, one by one": zero(
        3, stage3_param_persistence_threshold=0, stage3_allgather_sequential=True
    ),
    "stage 3, fetched by all-reduce": zero(
        3, **KEEPS_NOTHING, stage3_use_all_reduce_for_fetch_params=True
    ),
    "stage 3, no reduce-scatter": zero(3, reduce_scatter=False),
    "stage 3, small buckets": zero(3, reduce_bucket_size=120),
    "stage 3, sub-groups": zero(3, sub_group_size=100),
    "stage 3, not overlapped": zero(3, overlap_comm=False),
    "stage 3, offloaded": zero(3, offload_param=ON_CPU, **OFFLOAD),
}


def leaf_blocks(model):
    """Blocks as one whole each, as for experts that not every token goes to."""
    from deepspeed.utils import set_z3_leaf_modules

    set_z3_leaf_modules(model, [Block])


def freeze_a_block(model):
    """As an adapter's base."""
    model.blocks[0].requires_grad_(requires_grad=False)


def look_at_the_head(engine):
    """Parameters whole, after a step; DeepSpeed then lets them go, small ones too."""
    import deepspeed

    with deepspeed.zero.GatheredParameters(list(engine.module.head.parameters())):
        pass


def change_the_head(engine):
    """The same, and what rank 0 made of them is broadcast."""
    import deepspeed

    head = list(engine.module.head.parameters())
    with deepspeed.zero.GatheredParameters(head, modifier_rank=0):
        pass


def average_a_metric(_):
    """A collective of the program's own, after the engine's step."""
    dist.all_reduce(torch.ones(3))


@dataclass(frozen=True)
class Program:
    """A training program that is more than its configuration.

    Attributes:
        model: makes it.
        prepare: what is done to it before it is DeepSpeed's.
        after: what is done after each optimizer step.
    """

    config: dict
    model: Callable[[], nn.Module] = Net
    prepare: Callable[[nn.Module], None] | None = None
    after: Callable[[object], None] | None = None


AHEAD = {
    "stage3_param_persistence_threshold": 20,
    "stage3_prefetch_bucket_size": 150,
    "stage3_max_reuse_distance": 10,
}
REUSED = KEEPS_NOTHING | {"stage3_max_reuse_distance": 200}
HPZ = {"zero_hpz_partition_size": 2}
PROGRAMS = {
    "tied": Program(zero(3), Tied),
    "tied, keeps nothing": Program(zero(3, **KEEPS_NOTHING), Tied),
    "tied, fetched ahead": Program(zero(3, accumulate=2, **AHEAD), Tied),
    "external": Program(zero(3, **KEEPS_NOTHING), External),
    "external, small parameters persist": Program(zero(3), External),
    "external, fetched ahead": Program(zero(3, accumulate=2, **AHEAD), External),
    "external, registered": Program(zero(3, accumulate=2, **REUSED), Registered),
    "external in the head": Program(zero(3, **KEEPS_NOTHING), ExternalInHead),
    "external in the head, leaf modules": Program(
        zero(3, accumulate=2, **REUSED), ExternalInHead, prepare=leaf_blocks
    ),
    "handed out": Program(zero(3, **KEEPS_NOTHING), Handed),
    "handed out, reused soon": Program(zero(3, accumulate=2, **REUSED), Handed),
    "checkpoints": Program(zero(3, **KEEPS_NOTHING), Checkpointed),
    "checkpoints, reused soon": Program(zero(3, accumulate=2, **REUSED), Checkpointed),
    "checkpoints that end early": Program(zero(3, **KEEPS_NOTHING), CheckpointedOnce),
    "checkpoints that end early, reused soon": Program(
        zero(3, accumulate=2, **REUSED), CheckpointedOnce
    ),
    "checkpoints that end early, fetched ahead": Program(
        zero(3, accumulate=2, **AHEAD), CheckpointedOnce
    ),
    "leaf modules": Program(zero(3, **KEEPS_NOTHING), prepare=leaf_blocks),
    "leaf modules, fetched ahead": Program(zero(3, accumulate=2, **AHEAD), prepare=leaf_blocks),
    "leaf modules, reused soon": Program(zero(3, **REUSED), prepare=leaf_blocks),
    "small parameters let go": Program(zero(3), after=look_at_the_head),
    "parameters gathered": Program(zero(3, **KEEPS_NOTHING), after=look_at_the_head),
    "parameters changed": Program(zero(3, **KEEPS_NOTHING), after=change_the_head),
    "a collective after the step": Program(zero(2), after=average_a_metric),
}
WITH_SECONDARY = {
    "hpZ": Program(zero(3, **KEEPS_NOTHING, **HPZ)),
    "hpZ, small parameters persist": Program(zero(3, **HPZ)),
    "hpZ, two micro-steps, partly frozen": Program(
        zero(3, accumulate=2, **KEEPS_NOTHING, **HPZ), prepare=freeze_a_block
    ),
    "hpZ, fetched ahead": Program(zero(3, accumulate=2, **AHEAD, **HPZ)),
}
"""On four ranks; they come last, since DeepSpeed keeps the group of one for all that follow."""


def prepare():
    """DeepSpeed as a machine without a compiler can run it."""
    os.environ["LOCAL_RANK"] = os.environ["RANK"]
    os.environ["DS_ACCELERATOR"] = "cpu"
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    import deepspeed.ops

    # it would be compiled when the first collective is called, which takes a minute and a half
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    gc.freeze()  # DeepSpeed collects garbage whenever it looks at its memory
    return deepspeed


def batch(iteration, micro_step=0):
    seed = 100 * iteration + 10 * micro_step + dist.get_rank()
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, NUM_TOKENS, (2, 5), generator=generator)


def loss_of(logits, tokens):
    return nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens.flatten())


def train(config, steps=STEPS):
    """The loop of DeepSpeed's documentation; returns the engine."""
    return run(Program(config), steps)


def run(program, steps=STEPS):
    """Train a program in this loop; returns the engine."""
    import deepspeed

    model, config = program.model(), program.config
    if program.prepare is not None:
        program.prepare(model)
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=config
    )
    for iteration in range(steps):
        for micro_step in range(config["gradient_accumulation_steps"]):
            tokens = batch(iteration, micro_step)
            engine.backward(loss_of(engine(tokens), tokens))
            engine.step()
        if program.after is not None:
            program.after(engine)
    return engine


def weights_of(engine):
    import deepspeed

    parameters = list(engine.module.parameters())
    is_divided = engine.zero_optimization_stage() == 3
    with deepspeed.zero.GatheredParameters(parameters, enabled=is_divided):
        return [parameter.detach().clone() for parameter in parameters]


class _NoModules:
    """In place of CommDebugMode's hooks on modules, which DeepSpeed's engine does not survive."""

    name, is_bw, activation_checkpointing = "", False, False
    module_parents_dict: ClassVar = {"": ()}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


@contextmanager
def witness(counts):
    """PyTorch's own count of collectives, by the operator's name."""
    from torch.distributed.tensor.debug import CommDebugMode

    mode = CommDebugMode()
    mode.advanced_module_tracker = _NoModules()
    with mode:
        yield
    for operator, count in mode.get_comm_counts().items():
        counts[str(operator).removeprefix("c10d.")] = count


def train_all(folder, names, programs=()):
    """Train each case twice, watched by the witness and traced; each program once, traced.

    Returns:
        By name: whether the weights are the same bits, whether they moved, what the witness saw.
    """
    prepare()
    seen = {}
    start = list(Net().parameters())
    for name in names:
        counts, weights = {}, []
        for watch in (partial(witness, counts), partial(zerosim.trace, f"{folder}/{name}")):
            with watch():
                engine = train(CASES[name])
            weights.append(weights_of(engine))
            engine.destroy()
        same = all(torch.equal(one, other) for one, other in zip(*weights, strict=True))
        moved = any(
            not torch.equal(one.float(), other)
            for one, other in zip(weights[0], start, strict=True)
        )
        seen[name] = (same, moved, counts)
    for name in programs:
        with zerosim.trace(f"{folder}/{name}"):
            engine = run((PROGRAMS | WITH_SECONDARY)[name])
        engine.destroy()
    return seen
