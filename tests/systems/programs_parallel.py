"""Programs as people write them with tensor and pipeline parallelism. None knows of zerosim."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
)
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, AdamW
from torch.utils.checkpoint import checkpoint

STEPS = 2
LAYERS, BATCH, SEQUENCE, HIDDEN, VOCABULARY = 2, 2, 8, 8, 16
NUM_MICROBATCHES = 4
CPU = torch.device("cpu")


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(HIDDEN, HIDDEN) for _ in range(4))

    def forward(self, x):
        return self.o(F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x)))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(HIDDEN), Attention()
        self.norm2, self.mlp = nn.LayerNorm(HIDDEN), Mlp()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    """Embedding, blocks, norm and head; blocks may be checkpointed."""

    def __init__(self, *, checkpointed=False):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCABULARY)
        self.checkpointed = checkpointed

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return self.head(self.norm(x))


def tokens(step, *, batch=BATCH, part=0):
    """Inputs and targets, the same for all ranks that compute the same part of a batch."""
    generator = torch.Generator().manual_seed(100 * part + step)
    both = torch.randint(VOCABULARY, (2, batch, SEQUENCE), generator=generator)
    return both[0], both[1]


def loss_of(output, target):
    return F.cross_entropy(output.flatten(0, -2), target.flatten())


def train(model, optimizer=None, *, part=0, clip=False, micro_steps=1):
    optimizer = optimizer or AdamW(model.parameters(), lr=0.01)
    for step in range(STEPS):
        for micro_step in range(micro_steps):
            x, y = tokens(micro_steps * step + micro_step, part=part)
            loss_of(model(x), y).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return own_weights(model)


def own_weights(model):
    """This rank's part of each parameter, without asking another rank."""
    return {
        name: (value.to_local() if isinstance(value, DTensor) else value).detach().clone()
        for name, value in model.state_dict().items()
    }


# tensor parallel

MATRICES = {
    "attention.q": ColwiseParallel,
    "attention.k": ColwiseParallel,
    "attention.v": ColwiseParallel,
    "attention.o": RowwiseParallel,
    "mlp.up": ColwiseParallel,
    "mlp.down": RowwiseParallel,
}


def divided(mesh, *, shares_input=False, **options):
    """Megatron's way: columns, then rows."""
    model = Transformer(**options)
    shared = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate())
    plan = {"attention": shared} if shares_input else {}
    for block in model.blocks:
        parallelize_module(block, mesh, plan | {name: kind() for name, kind in MATRICES.items()})
    return model


def all_ranks():
    return init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))


def rows_and_columns():
    """Half of the ranks, at least one, hold the same; two divide each layer."""
    return init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("dp", "tp"))


def tensor(*, micro_steps=1, **options):
    return train(divided(all_ranks(), **options), micro_steps=micro_steps)


def exchanged():
    """Between the matrices of each MLP a rank has all features of some samples."""
    model = Transformer()
    exchange = {
        "mlp.up": ColwiseParallel(output_layouts=Shard(0)),
        "mlp.down": RowwiseParallel(input_layouts=Shard(0)),
    }
    for block in model.blocks:
        own = {name: kind() for name, kind in MATRICES.items()} | exchange
        parallelize_module(block, all_ranks(), own)
    return train(model)


def sequence(*, optimizer=AdamW, clip=False):
    """With sequence parallel, embedding and head divided as well."""
    mesh, model = all_ranks(), Transformer()
    gathers = {"input_layouts": (Shard(1),), "desired_input_layouts": (Replicate(),)}
    outer = {
        "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    }
    inner = {
        "norm1": SequenceParallel(),
        "attention": PrepareModuleInput(**gathers),
        "norm2": SequenceParallel(),
        "mlp": PrepareModuleInput(**gathers),
    }
    for name, kind in MATRICES.items():
        inner[name] = kind() if kind is ColwiseParallel else kind(output_layouts=Shard(1))
    parallelize_module(model, mesh, outer)
    for block in model.blocks:
        parallelize_module(block, mesh, inner)
    return train(model, optimizer(model.parameters(), lr=0.01), clip=clip)


def tensor_and_ddp():
    """Each half of the ranks has a part of the batch; within it layers are divided."""
    mesh = rows_and_columns()
    model = DistributedDataParallel(divided(mesh["tp"]), device_mesh=mesh["dp"])
    optimizer = SGD(model.parameters(), lr=0.1)
    return train(model, optimizer, part=mesh.get_local_rank("dp"))


def tensor_and_fsdp2():
    mesh = rows_and_columns()
    model = divided(mesh["tp"])
    for block in model.blocks:
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    return train(model, part=mesh.get_local_rank("dp"))


# pipeline parallel


def stages(*, a_rank=1, static=False):
    """A stage for each block; the first has the embedding, the last the head."""
    rank, num_ranks = dist.get_rank(), dist.get_world_size()
    num_stages = a_rank * num_ranks
    torch.manual_seed(0)
    blocks = [Block() for _ in range(num_stages)]
    blocks[0] = nn.Sequential(nn.Embedding(VOCABULARY, HIDDEN), blocks[0])
    blocks[-1] = nn.Sequential(blocks[-1], nn.Linear(HIDDEN, VOCABULARY))
    made = []
    for index in range(rank, num_stages, num_ranks):
        said = {}
        if static:
            wide = torch.zeros(BATCH, SEQUENCE, HIDDEN, requires_grad=True)
            logits = torch.zeros(BATCH, SEQUENCE, VOCABULARY, requires_grad=True)
            said = {
                "input_args": tokens(0)[0] if index == 0 else wide,
                "output_args": logits if index == num_stages - 1 else wide,
            }
        made.append(PipelineStage(blocks[index], index, num_stages, CPU, **said))
    return made


def pipeline(kind, *, evaluates=False, **options):
    """A schedule of `torch.distributed.pipelining`, stepped as its documentation has it."""
    own = stages(**options)
    is_single = kind is not ScheduleInterleaved1F1B
    schedule = kind(own[0] if is_single else own, NUM_MICROBATCHES, loss_fn=loss_of)
    parameters = [parameter for stage in own for parameter in stage.submod.parameters()]
    optimizer = AdamW(parameters, lr=0.01)
    is_first = any(stage.is_first for stage in own)
    is_last = any(stage.is_last for stage in own)
    for step in range(STEPS):
        x, y = tokens(step, batch=NUM_MICROBATCHES * BATCH)
        inputs = (x,) if is_first else ()
        targets = {"target": y, "losses": []} if is_last else {}
        schedule.step(*inputs, **targets)
        optimizer.step()
        optimizer.zero_grad()
        if evaluates:
            with torch.no_grad():
                schedule.eval(*inputs, **targets)
    return {
        f"{stage.stage_index}.{name}": value.detach().clone()
        for stage in own
        for name, value in stage.submod.state_dict().items()
    }


def pipeline_of_shards():
    """Two stages, each divided among half of the ranks by FSDP2; shapes are found at run time."""
    mesh = init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("pp", "dp"))
    index, part = mesh.get_local_rank("pp"), mesh.get_local_rank("dp")
    block = Block()
    others = nn.Linear(HIDDEN, VOCABULARY) if index else nn.Embedding(VOCABULARY, HIDDEN)
    model = nn.Sequential(block, others) if index else nn.Sequential(others, block)
    fully_shard(block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    stage = PipelineStage(model, index, 2, CPU, group=mesh.get_group("pp"))
    schedule = Schedule1F1B(stage, NUM_MICROBATCHES, loss_fn=loss_of)
    optimizer = AdamW(model.parameters(), lr=0.01)
    for step in range(STEPS):
        x, y = tokens(step, batch=NUM_MICROBATCHES * BATCH, part=part)
        if index:
            schedule.step(target=y, losses=[])
        else:
            schedule.step(x)
        optimizer.step()
        optimizer.zero_grad()
    return own_weights(model)


def gpipe(**options):
    return pipeline(ScheduleGPipe, **options)


def one_forward_one_backward(**options):
    return pipeline(Schedule1F1B, **options)


def interleaved(**options):
    return pipeline(ScheduleInterleaved1F1B, a_rank=2, **options)
