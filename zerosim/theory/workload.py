"""The inputs that determine traffic, copies and memory of one optimizer step.

Source of the options: the papers of ZeRO, ZeRO-Offload, ZeRO-Infinity and ZeRO++ (arXiv 1910.02054,
2101.06840, 2104.07857, 2306.10209); `zero` and `zeropp` derive the consequences.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from zerosim.base.config import EngineConfig
from zerosim.base.errors import ConfigError
from zerosim.schema.events import Algorithm
from zerosim.theory.partition import UnitSize, require_names, shard_elements


@dataclass(frozen=True, slots=True, kw_only=True)
class Activations:
    """The activations between blocks: their inputs, from which backward may recompute the rest.

    Attributes:
        num_blocks: number of blocks in a micro-step.
        elements: elements of one block's input, b s h: sequences of a micro-batch, tokens of each,
            width.
        carrier: the backend of the sums over tensor-parallel ranks.

    Raises:
        ConfigError: a number is below 1.
    """

    num_blocks: int
    elements: int
    carrier: Algorithm = Algorithm.GLOO

    def __post_init__(self) -> None:
        for what, number in (
            ("number of blocks", self.num_blocks),
            ("elements of an input", self.elements),
        ):
            if number < 1:
                raise ConfigError(f"{what} is {number}: expected 1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The inputs that determine traffic, copies and memory of one optimizer step.

    Attributes:
        config: the engine's configuration.
        num_ranks: N, the ranks that share the states.
        units: in forward order.
        averages_loss: whether the ranks average their losses.
        update_skipped: whether the ranks found an overflow, so that this step has no update.
        has_pending_update: whether this step finishes the delayed update of the previous step.
        tensor_parallel: T, neighbouring ranks that compute each block together. There are N T
            ranks in total; each belongs to one group of T and one group of N.
        ranks_per_node: ranks per node, of all ranks, as launched; 0 if they are on one node.
        activations: those of the blocks; None if they move nothing, or are unknown.

    Raises:
        ConfigError: a value is out of range, two units have the same name, or the ranks do not fill
            their nodes or the groups of a secondary partition.
    """

    config: EngineConfig
    num_ranks: int
    units: tuple[UnitSize, ...]
    averages_loss: bool = False
    update_skipped: bool = False
    has_pending_update: bool = True
    tensor_parallel: int = 1
    ranks_per_node: int = 0
    activations: Activations | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", tuple(self.units))
        for what, number in (
            ("number of ranks", self.num_ranks),
            ("number of units", len(self.units)),
            ("ranks of a node", self.node_size),
            ("tensor parallel", self.tensor_parallel),
        ):
            if number < 1:
                raise ConfigError(f"{what} is {number}: expected 1 or more")
        self.config.require_ranks(self.world_size, self.tensor_parallel)
        if self.config.quantize_gradients and self.num_ranks % self.node_size:
            raise ConfigError(
                f"ranks of a node is {self.node_size}: expected a divisor of the {self.num_ranks} "
                "ranks"
            )
        require_names(self.units)

    def __hash__(self) -> int:
        # hashing all units would cost as much as the cache saves
        return hash((self.config.stage, self.num_ranks, len(self.units), self.update_skipped))

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of the compute dtype, in which parameters and gradients are kept and
        sent.
        """
        return self.config.dtype.element_bytes

    @property
    def num_parameters(self) -> int:
        """Psi: all parameters, trainable and frozen, without padding."""
        return sum(unit.elements for unit in self.units)

    @property
    def num_frozen(self) -> int:
        """The number of parameters without gradients."""
        return sum(unit.elements for unit in self.units if not unit.trainable)

    @property
    def ring_share(self) -> Fraction:
        """(N-1)/N."""
        return Fraction(self.num_ranks - 1, self.num_ranks)

    @property
    def partitions(self) -> bool:
        """Whether a rank has only a part of the reduced gradients: stages 1 to 3."""
        return self.config.stage > 0

    @property
    def world_size(self) -> int:
        """All ranks: N T."""
        return self.num_ranks * self.tensor_parallel

    @property
    def world_node_size(self) -> int:
        """Ranks of a node, among all ranks."""
        return self.ranks_per_node or self.world_size

    @property
    def node_size(self) -> int:
        """P: ranks of a node, among the N that share the states."""
        return max(1, self.world_node_size // self.tensor_parallel)

    @property
    def num_nodes(self) -> int:
        """K: number of nodes."""
        return -(-self.num_ranks // self.node_size)

    @property
    def num_reductions(self) -> int:
        """Number of reductions of a gradient: one, or one per micro-step in stages 2 and 3."""
        return self.config.accumulate if self.config.stage >= 2 else 1

    @property
    def hands_on(self) -> bool:
        """Whether updated parameters are returned, gathered or stored in this step."""
        return self.has_pending_update if self.config.delayed_update else not self.update_skipped

    def owner(self, position: int, rank: int = 0) -> int:
        """The rank that keeps the unit at this position for `rank`, with `owner_broadcast`."""
        together = self.tensor_parallel
        return position % self.num_ranks * together + rank % together

    @property
    def part_elements(self) -> int:
        """Elements of an input that a rank keeps; 0 if activations are unknown."""
        kept = self.activations
        if kept is None:
            return 0
        parts = self.tensor_parallel if self.config.partition_activations else 1
        return shard_elements(kept.elements, parts)
