"""A model on a cluster: traffic of each axis of a layout, and the predicted duration of its step.

All facts are about one question, GPT-3 on 256 GPUs of a DGX A100 cluster; a grid is tensor x
pipeline x data parallel.
"""

from __future__ import annotations

from functools import cache

from zerosim.base.errors import ConfigError
from zerosim.lessons.facts.base import Base
from zerosim.lessons.facts.time import NS_A_MS
from zerosim.predict.plan import Fixed, LayoutSearch, PlanQuestion, PredictedLayout, ask, make_plan
from zerosim.predict.plan.schedule import TimeCategory
from zerosim.schema.events import Algorithm, Op
from zerosim.theory.algorithms import cost
from zerosim.theory.programs import Bubble
from zerosim.theory.transformer import BLOCK, LayerCut, pieces
from zerosim.theory.zero import SUMS_A_PASS

MODEL, GPUS, MACHINE = "gpt-3", 256, "dgx-a100"
TOKENS = 1536 * 2048
"""Near the 3.2 M of GPT-3's own batch (Brown et al. 2020, table 2.1)."""
_ELEMENT_BYTES = 2
AXES = ("tensor", "pipeline", "data")
Grid = tuple[int, int, int]


class LayoutFacts(Base):
    """Facts of layouts, all predicted or computed from theory."""

    def cluster_gpus(self) -> int:
        """All of them."""
        return _question().gpus

    def cluster_node(self) -> int:
        """GPUs of a node."""
        return _question().node

    def cluster_sequences(self) -> int:
        """Sequences of one optimizer step."""
        return _question().sequences

    def cluster_length(self) -> int:
        """Tokens of a sequence."""
        return _question().sequence

    def cluster_memory_gb(self) -> float:
        """Memory of one GPU."""
        return _question().memory_bytes / 1e9

    def cluster_layers(self) -> int:
        """Blocks of the model."""
        return _question().shape.layers

    def cluster_psi(self) -> int:
        """Parameters of the model."""
        return _question().shape.num_parameters

    def fastest(self, name: str) -> PredictedLayout:
        """The fastest layout of a kind, such as "ZeRO-3", that fits, or the smallest.

        Raises:
            ConfigError: there is no such kind.
        """
        kinds = _plan().kinds()
        if name not in kinds:
            raise ConfigError(f"kind is {name!r}: expected one of {', '.join(kinds)}")
        return kinds[name]

    def of_grid(self, tensor: int, pipeline: int) -> PredictedLayout:
        """The fastest layout of a grid that fits, or the smallest.

        Raises:
            ConfigError: no layout has it.
        """
        for one in _plan().tried:
            if (one.layout.cut.tensor, one.layout.pipeline) == (tensor, pipeline):
                return one
        raise ConfigError(f"grid is {tensor} x {pipeline}: expected one that divides {GPUS} GPUs")

    def grid_of(self, tensor: int, pipeline: int) -> str:
        """The grid in words, with all GPUs of the cluster."""
        return f"{tensor} x {pipeline} x {self.of_grid(tensor, pipeline).layout.data}"

    def grid_s(self, tensor: int, pipeline: int) -> float:
        """Seconds of a step of that layout, predicted."""
        return self.of_grid(tensor, pipeline).step_s

    def cause_s(self, tensor: int, pipeline: int, cause: str) -> float:
        """The part of that for a cause, such as "waiting: between nodes", predicted."""
        return self.of_grid(tensor, pipeline).times.get(TimeCategory(cause), 0) / 1e9

    def fastest_grid(self, *grids: tuple[int, int]) -> str:
        """The fastest of these, predicted, as "4x4"."""
        tensor, pipeline = min(grids, key=lambda one: self.grid_s(*one))
        return f"{tensor}x{pipeline}"

    def axis_gb(self, axis: str, grid: Grid) -> float:
        """Traffic of a GPU in the middle of a pipeline in a step for one axis, by theory.

        For tensor parallel, the all-reduces of its blocks, forward and backward, each as a ring;
        for the pipeline, activations and their gradients; for data parallel, a reduce-scatter and
        an all-gather of its own parameters (ZeRO-1). bf16, without recomputation. GB.

        Raises:
            ConfigError: there is no such axis.
        """
        if axis not in AXES:
            raise ConfigError(f"axis is {axis!r}: expected one of {', '.join(AXES)}")
        tensor, pipeline, data = grid
        question = _question()
        layers = question.shape.layers // pipeline
        between = question.sequences // data * question.sequence * question.shape.width
        if axis == "tensor":
            times = 2 * SUMS_A_PASS * layers
            return times * _sent(Op.ALL_REDUCE, tensor, between) / 1e9
        if axis == "pipeline":
            return 2 * (pipeline > 1) * between * _ELEMENT_BYTES / 1e9
        cut = pieces(question.shape, LayerCut(tensor))
        own = layers * next(one.elements for one in cut if one.name == BLOCK)
        return sum(_sent(op, data, own) for op in (Op.REDUCE_SCATTER, Op.ALL_GATHER)) / 1e9

    def most_first(self, grid: Grid) -> list[str]:
        """The axes in order of a GPU's traffic, the largest first."""
        return sorted(AXES, key=lambda axis: -self.axis_gb(axis, grid))

    def micro_batches_of(self, grid: Grid, batch: int) -> int:
        """m: micro-batches of `batch` sequences that pass through a pipeline in a step."""
        return _question().sequences // (grid[2] * batch)

    def bubble_of(self, grid: Grid, batch: int) -> float:
        """Idle fraction of a pipeline's total time, by theory."""
        micro_batches = self.micro_batches_of(grid, batch)
        bubble = Bubble(num_ranks=grid[1], num_microbatches=micro_batches, stages_a_rank=1)
        return float(bubble.of_total)

    def largest_batch(self, grid: Grid, most: float) -> int:
        """The largest micro-batch, a power of two, with at most that bubble."""
        sizes = [1 << power for power in range(self.micro_batches_of(grid, 1).bit_length())]
        return max(size for size in sizes if self.bubble_of(grid, size) <= most)

    def least_gpus(self) -> int:
        """Number of GPUs that hold the model states of mixed-precision Adam, with nothing else."""
        states = 16 * self.cluster_psi()
        return -int(-states // _question().memory_bytes)

    def call_ms(self, run: str, purpose: str) -> float:
        """Mean duration of a call, predicted; on rank 0."""
        table = self._run(run).events(kind="collective", purpose=purpose)
        spans = [int(row["duration_ns"] or 0) for row in table if row["rank"] == 0]
        return sum(spans) / len(spans) / NS_A_MS


@cache
def _question() -> PlanQuestion:
    return ask(MODEL, GPUS, MACHINE, TOKENS, is_ideal=True)


@cache
def _plan() -> LayoutSearch:
    return make_plan(_question(), Fixed(chunks=1))


def _sent(op: Op, ranks: int, elements: int) -> int:
    """Bytes that a rank of a ring sends for one call."""
    padded = -(-elements // ranks) * ranks
    return cost(Algorithm.RING, op, ranks, 0, padded, _ELEMENT_BYTES).sent_bytes
