"""All that decides what one optimizer step sends, copies and keeps.

Source of the options: the papers of ZeRO, ZeRO-Offload, ZeRO-Infinity and ZeRO++ (arXiv 1910.02054,
2101.06840, 2104.07857, 2306.10209); `zero` and `zeropp` say what follows from each.
May import the standard library and layer L0.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from zerosim.config import STAGES
from zerosim.errors import ConfigError
from zerosim.events import Algorithm
from zerosim.theory.messages import DEFAULT_CHUNK_BYTES
from zerosim.theory.partition import UnitSize, require_names
from zerosim.tiers import Tier

DEFAULT_QUANTIZATION_BLOCK = 256
"""What `EngineConfig.quantization_block` is unless a user says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Activations:
    """What blocks hand on and keep: their inputs, from which backward may compute the rest again.

    Attributes:
        num_blocks: how many there are in a micro-step.
        elements: of the input of one, b s h: sequences of a micro-batch, tokens of each, width.
        carrier: who carries out the sums of tensor parallel ranks, which the backend is asked for.
        is_recomputed: only the inputs are kept, as checkpoints.
        is_partitioned: each of the ranks that compute a block together keeps its part of them only
            (ZeRO-R, P_a).
        is_on_host: they are kept in the host's memory (P_a+cpu).

    Raises:
        ConfigError: a number is below 1.
    """

    num_blocks: int
    elements: int
    carrier: Algorithm = Algorithm.GLOO
    is_recomputed: bool = False
    is_partitioned: bool = False
    is_on_host: bool = False

    def __post_init__(self) -> None:
        for what, number in (
            ("number of blocks", self.num_blocks),
            ("elements of an input", self.elements),
        ):
            if number < 1:
                raise ConfigError(f"{what} is {number}: expected 1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """All that decides what one optimizer step sends and copies.

    Attributes:
        stage: 0 data parallel; 1, 2, 3 partition optimizer states, gradients, parameters.
        num_ranks: N, that the states are divided among.
        units: in forward order.
        element_bytes: of the compute dtype, in which parameters and gradients travel.
        accumulate: micro-steps of the optimizer step, g.
        bucket_elements: most elements reduced in one collective; None for one bucket a unit.
        clips: the global gradient norm is computed.
        scales_loss: the ranks agree whether a gradient overflowed (fp16).
        averages_loss: the ranks average their losses.
        update_skipped: an overflow was agreed on, so nothing is updated in this step.
        chunk_bytes: largest message of zerosim's ring.
        offload_optimizer: tier of the optimizer's states, which are updated on the host if it is
            not the device.
        offload_param: tier of the parameters that a rank keeps in stage 3.
        owner_broadcast: a unit is kept whole by one rank, which broadcasts it.
        delayed_update: what a step computes is updated during the next one.
        has_pending_update: with `delayed_update`, this step ends an update of the one before.
        tensor_parallel: T, neighbours that compute each block together; each is one of the N ranks
            at its place in the other groups. There are N T ranks in all.
        ranks_per_node: of all ranks; 0 if they are on one node.
        quantize_weights: forward gathers int8 (qwZ).
        secondary_partition: S, ranks that keep all parameters among them for backward (hpZ); 1
            for no such copy.
        quantize_gradients: gradients are reduced as int4 by two all-to-alls (qgZ).
        quantization_block: elements that share an fp32 scale.
        activations: of the blocks; None if they move nothing, or it is not known.

    Raises:
        ConfigError: a value is out of its range, two units have the same name, or the ranks do not
            fill their nodes or the groups of a secondary partition.
    """

    stage: int
    num_ranks: int
    units: tuple[UnitSize, ...]
    element_bytes: int = 2
    accumulate: int = 1
    bucket_elements: int | None = None
    clips: bool = False
    scales_loss: bool = False
    averages_loss: bool = False
    update_skipped: bool = False
    chunk_bytes: int = DEFAULT_CHUNK_BYTES
    offload_optimizer: Tier = Tier.DEVICE
    offload_param: Tier = Tier.DEVICE
    owner_broadcast: bool = False
    delayed_update: bool = False
    has_pending_update: bool = True
    tensor_parallel: int = 1
    ranks_per_node: int = 0
    quantize_weights: bool = False
    secondary_partition: int = 1
    quantize_gradients: bool = False
    quantization_block: int = DEFAULT_QUANTIZATION_BLOCK
    activations: Activations | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", tuple(self.units))
        if self.stage not in STAGES:
            raise ConfigError(f"stage is {self.stage}: expected 0, 1, 2 or 3")
        for what, number in (
            ("number of ranks", self.num_ranks),
            ("element bytes", self.element_bytes),
            ("accumulate", self.accumulate),
            ("bucket elements", 1 if self.bucket_elements is None else self.bucket_elements),
            ("chunk bytes", self.chunk_bytes),
            ("number of units", len(self.units)),
            ("secondary partition", self.secondary_partition),
            ("quantization block", self.quantization_block),
            ("ranks of a node", self.node_size),
            ("tensor parallel", self.tensor_parallel),
        ):
            if number < 1:
                raise ConfigError(f"{what} is {number}: expected 1 or more")
        for what, size in (
            ("secondary partition", self.secondary_partition),
            ("ranks of a node", self.node_size if self.quantize_gradients else 1),
        ):
            if self.num_ranks % size:
                raise ConfigError(
                    f"{what} is {size}: expected a divisor of the {self.num_ranks} ranks"
                )
        require_names(self.units)

    def __hash__(self) -> int:
        # a hash of all units would cost as much as what is kept by it
        return hash((self.stage, self.num_ranks, len(self.units), self.update_skipped))

    @property
    def num_parameters(self) -> int:
        """Psi: all parameters, trainable and frozen, without padding."""
        return sum(unit.elements for unit in self.units)

    @property
    def num_frozen(self) -> int:
        """Those of them that get no gradient."""
        return sum(unit.elements for unit in self.units if not unit.trainable)

    @property
    def ring_share(self) -> Fraction:
        """(N-1)/N."""
        return Fraction(self.num_ranks - 1, self.num_ranks)

    @property
    def partitions(self) -> bool:
        """Whether a rank holds only a part of the reduced gradients: stages 1 to 3."""
        return self.stage > 0

    @property
    def world_size(self) -> int:
        """All ranks: N T."""
        return self.num_ranks * self.tensor_parallel

    @property
    def world_node_size(self) -> int:
        """Ranks of a node, of all ranks."""
        return self.ranks_per_node or self.world_size

    @property
    def node_size(self) -> int:
        """P: ranks of a node, of the N that the states are divided among."""
        return max(1, self.world_node_size // self.tensor_parallel)

    @property
    def num_nodes(self) -> int:
        """K."""
        return -(-self.num_ranks // self.node_size)

    @property
    def num_reductions(self) -> int:
        """How often a gradient is reduced: once, or in every micro-step in stages 2 and 3."""
        return self.accumulate if self.stage >= 2 else 1

    @property
    def hands_on(self) -> bool:
        """Whether updated parameters are returned, gathered or stored in this step."""
        return self.has_pending_update if self.delayed_update else not self.update_skipped

    @property
    def updates_on_host(self) -> bool:
        """Whether the optimizer works in the host's memory."""
        return self.offload_optimizer is not Tier.DEVICE

    @property
    def has_secondary(self) -> bool:
        """Whether backward gathers from a secondary partition (hpZ)."""
        return self.secondary_partition > 1

    def owner(self, position: int, rank: int = 0) -> int:
        """The rank that keeps the unit at this position for `rank`, with `owner_broadcast`."""
        together = self.tensor_parallel
        return position % self.num_ranks * together + rank % together

    @property
    def part_elements(self) -> int:
        """Elements of an input that a rank keeps; 0 if no activations are known."""
        kept = self.activations
        if kept is None:
            return 0
        return -(-kept.elements // self.tensor_parallel) if kept.is_partitioned else kept.elements
