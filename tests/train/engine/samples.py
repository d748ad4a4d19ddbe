"""What the tests of the engine train: small models, their data, and the plain PyTorch oracle.

Every model's forward is its loss. On rank r a model is built with seed r: an engine that forgets
to make all ranks equal to rank 0 fails every comparison with the oracle, which uses seed 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from zerosim.base.config import DType, EngineConfig
from zerosim.train.collectives import RankGroup, world
from zerosim.train.engine import Engine, initialize
from zerosim.train.models import GPT, MLP, Batches, GPTConfig, MLPConfig

CONTEXT = 16
WIDTH = 6
BATCH = 4


# models that read text


def gpt(*, tied: bool = False) -> nn.Module:
    return GPT(GPTConfig(layers=2, width=32, heads=2, context=CONTEXT, tied=tied))


def mlp() -> nn.Module:
    return MLP(MLPConfig(window=3, embedding=3, width=7, context=CONTEXT))


# models that read vectors


class Layer(nn.Module):
    """A block of three tensors, whose sizes 3 and 4 ranks do not divide."""

    def __init__(self, width: int = WIDTH):
        super().__init__()
        self.up = nn.Linear(width, width + 1)
        self.down = nn.Linear(width + 1, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.tanh(self.up(x)))


class Stack(nn.Module):
    """Layers one after another; the base of the odd ones below."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Layer() for _ in range(3))

    def body(self, x: Tensor, iteration: int) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, x: Tensor, iteration: int = 0) -> Tensor:
        return (self.body(x, iteration) - x.flip(1)).square().mean()


class Tied(Stack):
    """Two blocks share a matrix: it belongs to the root."""

    def __init__(self):
        super().__init__()
        self.blocks[2].up.weight = self.blocks[0].up.weight


class UsedTwice(Stack):
    """One block computes twice in a forward."""

    def body(self, x, iteration):
        return self.blocks[2](self.blocks[1](self.blocks[1](self.blocks[0](x))))


def freeze(module: nn.Module) -> None:
    for parameter in module.parameters():
        parameter.requires_grad_(requires_grad=False)


class FrozenBlock(Stack):
    """Backward passes through a block that learns nothing."""

    def __init__(self):
        super().__init__()
        freeze(self.blocks[1])


class FrozenStart(Stack):
    """No gradient ever reaches the first block."""

    def __init__(self):
        super().__init__()
        freeze(self.blocks[0])


class FrozenFirst(Stack):
    """The first matrix of each block is frozen: backward needs it after all its gradients."""

    def __init__(self):
        super().__init__()
        for block in self.blocks:
            freeze(block.up)


class FrozenTwice(UsedTwice):
    """A frozen block computes twice in a forward."""

    def __init__(self):
        super().__init__()
        freeze(self.blocks[1])


class FrozenPartTwice(UsedTwice):
    """A block with a frozen matrix computes twice in a forward."""

    def __init__(self):
        super().__init__()
        freeze(self.blocks[1].up)


class Branches(Stack):
    """Which blocks compute depends on the iteration; the first comes without the second."""

    def body(self, x, iteration):
        x = self.blocks[0](x)
        return self.blocks[1 + iteration % 2](x)


class UnusedParameter(Stack):
    """A block whose one parameter is used in some iterations only."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Parameter(torch.randn(WIDTH))

    def body(self, x, iteration):
        x = super().body(x, iteration)
        return x if iteration % 2 else x * self.gate


class RootParameters(Stack):
    """The root holds a vector, a scalar, and a parameter without elements."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.randn(WIDTH))
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.empty = nn.Parameter(torch.empty(0, WIDTH))

    def body(self, x, iteration):
        return self.scale * super().body(x + self.shift, iteration) + self.empty.sum()


class NoBlocks(nn.Module):
    """A model whose only unit is its root."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH))

    def forward(self, x, iteration=0):
        return (torch.tanh(x @ self.weight) - x.flip(1)).square().mean()


class OneLinear(nn.Linear):
    """A model that is a single layer of PyTorch's own."""

    def __init__(self):
        super().__init__(WIDTH, WIDTH)

    def forward(self, x, iteration=0):
        return (torch.tanh(super().forward(x)) - x.flip(1)).square().mean()


class NestedContainers(Stack):
    """Blocks inside a module that also holds plain layers, as most published models have it."""

    def __init__(self):
        super().__init__()
        self.trunk = Stack()
        self.trunk.norm = nn.LayerNorm(WIDTH)
        self.last = nn.Sequential(nn.Linear(WIDTH, 5), nn.GELU(), nn.Linear(5, WIDTH))

    def body(self, x, iteration):
        return self.last(self.trunk.norm(self.trunk.body(super().body(x, iteration), iteration)))


@dataclass
class Answer:
    x: Tensor
    note: str = ""


class OtherOutputs(Stack):
    """Blocks that return a dataclass, a dict, and a tuple, and that take keywords."""

    class InDataclass(Layer):
        def forward(self, x):
            return Answer(super().forward(x))

    class InDict(Layer):
        def forward(self, *, given):
            return {"x": [super().forward(given)], "n": 1}

    def __init__(self):
        super().__init__()
        self.blocks[0] = self.InDataclass()
        self.blocks[1] = self.InDict()

    def body(self, x, iteration):
        answer = self.blocks[0](x)
        (x,) = self.blocks[1](given=answer.x)["x"]
        return self.blocks[2](x)


class CheckpointInside(Stack):
    """Each block recomputes its own inside."""

    class Block(Layer):
        def forward(self, x):
            def inside(y):
                return self.down(torch.tanh(self.up(y)))

            return x + checkpoint(inside, x, use_reentrant=False)

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(self.Block() for _ in range(3))


class CheckpointBlock(Stack):
    """Blocks are recomputed whole; the middle one as older programs do it."""

    def body(self, x, iteration):
        for index, block in enumerate(self.blocks):
            # the older way warns where there is nothing to recompute for
            older = index == 1 and torch.is_grad_enabled()
            x = checkpoint(block, x, use_reentrant=older)
        return x


class CheckpointFrozen(CheckpointBlock):
    """A frozen block is recomputed."""

    def __init__(self):
        super().__init__()
        freeze(self.blocks[1])
        freeze(self.blocks[2].up)


class CheckpointSeveral(UsedTwice):
    """Two blocks are recomputed together, one of them in both of its uses."""

    def body(self, x, iteration):
        def two(y):
            return self.blocks[1](self.blocks[0](y))

        x = checkpoint(two, x, use_reentrant=False)
        return self.blocks[2](checkpoint(self.blocks[1], x, use_reentrant=False))


class Transposed(Stack):
    """Weights that are views of others, and not contiguous."""

    def __init__(self):
        super().__init__()
        for block in self.blocks:
            weight = torch.randn(WIDTH, WIDTH + 1) / WIDTH
            block.up.weight = nn.Parameter(weight.t())


TEXT_MODELS: dict[str, Callable[[], nn.Module]] = {
    "gpt": gpt,
    "gpt tied": lambda: gpt(tied=True),
    "mlp": mlp,
}
ODD_MODELS: dict[str, Callable[[], nn.Module]] = {
    kind.__name__: kind
    for kind in (
        Stack,
        Tied,
        UsedTwice,
        FrozenBlock,
        FrozenStart,
        FrozenFirst,
        FrozenTwice,
        FrozenPartTwice,
        Branches,
        UnusedParameter,
        RootParameters,
        NoBlocks,
        OneLinear,
        NestedContainers,
        OtherOutputs,
        CheckpointInside,
        CheckpointBlock,
        CheckpointFrozen,
        CheckpointSeveral,
        Transposed,
    )
}


def build(name: str, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return (TEXT_MODELS | ODD_MODELS)[name]()


def inputs(name: str, rank: int, num_ranks: int, iteration: int, micro_step: int) -> tuple:
    """A rank's micro-batch, as arguments of the model."""
    if name in TEXT_MODELS:
        batches = Batches(seed=0, rank=rank, num_ranks=num_ranks, batch=BATCH, context=CONTEXT)
        return (batches.at(iteration, micro_step),)
    seed = 1 + micro_step + 10 * (rank + 10 * iteration)
    vectors = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(seed))
    return vectors, iteration


def union(name: str, num_ranks: int, iteration: int, micro_step: int) -> tuple:
    """The micro-batches of all ranks in one."""
    first, *rest = (inputs(name, r, num_ranks, iteration, micro_step) for r in range(num_ranks))
    if name in TEXT_MODELS:
        batches = Batches(seed=0, rank=0, num_ranks=num_ranks, batch=BATCH, context=CONTEXT)
        return (batches.union(iteration, micro_step),)
    return (torch.cat([first[0], *(other[0] for other in rest)]), *first[1:])


# training


@dataclass(frozen=True)
class Case:
    """What is trained, and how.

    Attributes:
        evaluates: call the engine without gradients at every moment at which that is allowed.
    """

    model: str
    config: EngineConfig
    steps: int = 20
    evaluates: bool = False


@dataclass
class Outcome:
    """What training gave, as one rank sees it.

    Attributes:
        losses: mean over ranks and micro-steps, by step.
        norms: of the gradients, by step, where it was clipped.
    """

    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    weights: dict[str, Tensor] = field(default_factory=dict)
    skipped: int = 0

    def differs_from(self, other: Outcome) -> str:
        """What is not bit-equal, or nothing."""
        if self.losses != other.losses:
            return f"losses {self.losses} and {other.losses}"
        for name, weight in self.weights.items():
            if not torch.equal(weight, other.weights[name]):
                return f"{name} by {(weight - other.weights[name]).abs().max():.3g}"
        return ""

    def loss_distance(self, other: Outcome) -> float:
        """Largest relative difference of a loss."""
        return max(abs(a - b) / abs(b) for a, b in zip(self.losses, other.losses, strict=True))

    def weight_distance(self, other: Outcome) -> float:
        """Largest absolute difference of a weight."""
        return max(
            float((weight.float() - other.weights[name].float()).abs().max())
            for name, weight in self.weights.items()
            if weight.numel()
        )


def train(case: Case, group: RankGroup | None = None) -> Outcome:
    """Train with the engine, as one of its ranks."""
    group = group or world()
    engine = initialize(build(case.model, seed=group.rank), case.config, group)
    outcome = Outcome()
    for iteration in range(case.steps):
        losses = []
        for micro_step in range(case.config.accumulate):
            batch = inputs(case.model, group.rank, group.size, iteration, micro_step)
            _evaluate(engine, case, batch)
            loss = engine(*batch)
            _evaluate(engine, case, batch)
            engine.backward(loss)
            _evaluate(engine, case, batch)
            losses.append(loss.item())
            if engine.is_boundary:
                outcome.losses.append(engine.average_loss(sum(losses) / len(losses)))
            engine.step()
        if engine.gradient_norm is not None:
            outcome.norms.append(engine.gradient_norm)
    outcome.weights = engine.full_parameters()
    outcome.skipped = engine.skipped_steps
    engine.close()
    return outcome


def _evaluate(engine: Engine, case: Case, batch: tuple) -> None:
    if case.evaluates:
        with torch.no_grad():
            engine(*batch)
        with torch.inference_mode():
            engine(*batch)


def oracle(case: Case, num_ranks: int, dtype: torch.dtype = torch.float32) -> Outcome:
    """Train with PyTorch alone, in one process, on the micro-batches of all ranks together."""
    config = case.config
    assert config.dtype is DType.FP32
    model = build(case.model, seed=0).to(dtype)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        trainable,
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        weight_decay=config.weight_decay,
    )
    outcome = Outcome()
    for iteration in range(case.steps):
        optimizer.zero_grad()
        losses = []
        for micro_step in range(config.accumulate):
            batch = union(case.model, num_ranks, iteration, micro_step)
            loss = model(*(v.to(dtype) if _is_float(v) else v for v in batch))
            (loss / config.accumulate).backward()
            losses.append(loss.item())
        outcome.losses.append(sum(losses) / len(losses))
        for parameter in trainable:  # a weight without a gradient is one whose gradient is 0
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        if config.clip is not None:
            outcome.norms.append(float(nn.utils.clip_grad_norm_(trainable, config.clip)))
        optimizer.step()
    outcome.weights = {name: p.detach() for name, p in model.named_parameters()}
    return outcome


def _is_float(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def engine_config(**changes) -> EngineConfig:
    """fp32 unless asked otherwise."""
    return EngineConfig(**{"dtype": DType.FP32, **changes})
