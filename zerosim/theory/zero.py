"""The movements of a system of the ZeRO family in one optimizer step, term by term.

- Stage 0 all-reduces each bucket in the last micro-step.
- Stage 1 reduce-scatters each bucket in the last micro-step, stage 2 in every one, because it keeps
  no whole gradient; both all-gather the updated parameters.
- Stage 3 all-gathers each unit, even a frozen one, in forward and again in backward, and
  reduce-scatters each bucket, in every micro-step.
- qwZ gathers int8 in forward, and in backward unless hpZ is used, with which each group of S ranks
  gathers its own copy there. qgZ reduces a bucket by an all-to-all within the nodes and one across
  them, both int4.
- An owner broadcasts its units in place of the gathers. It receives the updated shards, or each
  bucket is reduced to it and nothing is sent after its update (ZeRO-3 as in the paper).
- In `Phase.UPDATE` the ranks agree on an overflow (one fp32 each), the gradient norm (one fp64
  each; not after an overflow) and the loss (one fp32 each); the first two only where gradients
  are partitioned.
- With the optimizer on the host (ZeRO-Offload), gradients leave the device as they are reduced and
  updated parameters come back: 2 + 2 bytes per parameter in bf16, of a rank's own part. States on a
  disk are read before an update and written after it. Parameters on the host or on a disk
  (ZeRO-Infinity) are fetched before each gather and stored after an update; an optimizer on the
  host writes them in place.
- Blocks that T tensor-parallel ranks compute together sum their output twice in forward and the
  gradient of their input twice in backward; with checkpoints, forward is recomputed in backward,
  with its sums. P_a divides a checkpoint among the T ranks, which gather it before that: one
  all-gather of b s h, a twelfth of the 6 all-reduces, each of which a ring counts twice.

Sources: S. Rajbhandari et al., "ZeRO" (arXiv 1910.02054), sections 5.3, 6.1, 7 and 8; gradient
accumulation follows from what a stage keeps between micro-steps; J. Ren et al., "ZeRO-Offload"
(arXiv 2101.06840), section 3; S. Rajbhandari et al., "ZeRO-Infinity" (arXiv 2104.07857), sections 5
and 6; G. Wang et al., "ZeRO++" (arXiv 2306.10209), section 3; M. Shoeybi et al., "Megatron-LM"
(arXiv 1909.08053), section 3. Reduce-scattering gradients and sending updated shards to owners that
broadcast is our own combination, for owners of parameters only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import lru_cache

from zerosim.base.config import DType
from zerosim.base.errors import ConfigError
from zerosim.base.tiers import Tier
from zerosim.schema.events import STEP_PHASES, Op, Phase, Purpose
from zerosim.theory.causes import Cause
from zerosim.theory.movement import Movement
from zerosim.theory.nodes import Span, members
from zerosim.theory.partition import (
    UnitSize,
    bucket_size,
    cut_buckets,
    padded_elements,
    shard_elements,
)
from zerosim.theory.terms import Term
from zerosim.theory.workload import Workload
from zerosim.theory.zeropp import (
    INT4_BYTES,
    INT8_BYTES,
    int4_bytes,
    int8_bytes,
    secondary_elements,
)

FP32_BYTES, FP64_BYTES = 4, 8
STATE_BYTES = 12
"""Bytes per parameter on a disk: fp32 master, momentum, variance."""
SUMS_A_PASS = 2
"""All-reduces of a block in forward, and again in backward."""


def step_terms(workload: Workload, rank: int = 0) -> tuple[Term, ...]:
    """The movements of one optimizer step: between ranks first, then between the tiers of a rank.

    If all ranks communicate in the same way, the terms are those of rank 0.

    Raises:
        ConfigError: there is no such rank.
    """
    if not 0 <= rank < workload.world_size:
        raise ConfigError(f"rank {rank}: expected 0 to {workload.world_size - 1}")
    is_alike = not (
        workload.config.has_owners
        or workload.config.has_secondary
        or workload.config.quantize_gradients
        or workload.tensor_parallel > 1
    )
    return _terms(workload, 0 if is_alike else rank)


def planned(workload: Workload, rank: int = 0) -> tuple[Movement, ...]:
    """Every collective, message and copy of one optimizer step that `rank` makes, term by term.

    Raises:
        ConfigError: there is no such rank.
    """
    return tuple(one for term in step_terms(workload, rank) for one in term.movements)


@lru_cache(maxsize=16)
def _terms(workload: Workload, rank: int) -> tuple[Term, ...]:
    """Cached: a step is requested many times, by each rank, claim and phase."""
    step = _ZeroStep(workload, rank)
    return (
        *step.activations(Phase.FORWARD),
        *step.gathers(Phase.FORWARD),
        *step.gathers(Phase.BACKWARD),
        *step.activations(Phase.BACKWARD),
        *step.reductions(),
        *step.agreements(),
        *step.updated(),
        *step.loss(),
        *step.copies(),
    )


class _ZeroStep:
    """Makes the terms of one rank."""

    def __init__(self, workload: Workload, rank: int) -> None:
        self._workload, self._config, self._rank = workload, workload.config, rank
        self._units = workload.units
        self._trainable = tuple(unit for unit in workload.units if unit.trainable)
        self._world = members(workload, Span.WORLD, rank)
        self._owners = {
            unit.name: workload.owner(place, rank) for place, unit in enumerate(workload.units)
        }

    # ------------------------------------------------------------------- between ranks

    def gathers(self, phase: Phase) -> Iterator[Term]:
        """How stage 3 gathers each unit."""
        workload = self._workload
        if self._config.stage != 3:
            return
        op, rest, span = Op.ALL_GATHER, None, Span.WORLD
        size = Fraction(workload.element_bytes)
        if phase is Phase.BACKWARD and self._config.has_secondary:
            span = Span.SECONDARY
        elif self._config.has_owners:
            op, rest = Op.BROADCAST, Cause.UNEQUAL_PARTS
        elif self._config.quantize_weights:
            size, rest = INT8_BYTES, Cause.SCALES
        ranks = members(workload, span, self._rank)

        def movement(unit: UnitSize) -> Movement:
            row = shard_elements(unit.elements, workload.num_ranks)
            return Movement(
                phase=phase,
                purpose=Purpose.GATHER_PARAMETERS,
                op=op,
                ranks=ranks,
                span=span,
                elements=self._padded(unit, span),
                element_bytes=size if rest is Cause.SCALES else workload.element_bytes,
                times=self._config.accumulate,
                root=self._owners[unit.name] if op is Op.BROADCAST else None,
                unit=unit.name,
                quantized_bytes=workload.num_ranks
                * int8_bytes(row, self._config.quantization_block)
                if rest is Cause.SCALES
                else None,
                chunk_bytes=self._config.chunk_bytes,
            )

        yield self._term(
            phase,
            Purpose.GATHER_PARAMETERS,
            op,
            self._config.accumulate,
            size,
            movement,
            span=span,
            counts_frozen=True,
            rest=rest,
        )

    def reductions(self) -> Iterator[Term]:
        """How each bucket is reduced."""
        workload = self._workload
        times = workload.num_reductions
        if self._config.quantize_gradients:
            for span, rows in ((Span.NODE, workload.num_ranks), (Span.ACROSS, workload.num_nodes)):
                if len(members(workload, span, self._rank)) > 1:
                    share = Fraction(times * rows, workload.num_ranks)
                    yield self._reduction(Op.ALL_TO_ALL, share, INT4_BYTES, span, rows)
            return
        op = Op.REDUCE_SCATTER if workload.partitions else Op.ALL_REDUCE
        passes = times if workload.partitions else 2 * times
        if self._config.owners_update:
            op = Op.REDUCE
        yield self._reduction(op, Fraction(passes), Fraction(workload.element_bytes))

    def _reduction(
        self, op: Op, passes: Fraction, size: Fraction, span: Span = Span.WORLD, rows: int = 0
    ) -> Term:
        """Args: rows: of the matrix of quantized elements; 0 if they are not quantized."""
        workload = self._workload
        ranks = members(workload, span, self._rank)
        buckets = cut_buckets(workload.units, workload.num_ranks, self._config.bucket_elements)
        rest = Cause.SCALES if rows else Cause.UNEQUAL_PARTS if op is Op.REDUCE else None
        found = []
        for bucket in buckets if workload.num_ranks > 1 else ():
            elements = bucket_size(bucket, workload.num_ranks)
            columns = elements // workload.num_ranks
            found.append(
                Movement(
                    phase=Phase.BACKWARD,
                    purpose=Purpose.REDUCE_GRADIENTS,
                    op=op,
                    ranks=ranks,
                    span=span,
                    elements=rows * columns if rows else elements,
                    element_bytes=INT4_BYTES if rows else workload.element_bytes,
                    times=workload.num_reductions,
                    root=self._owners[bucket.name] if op is Op.REDUCE else None,
                    unit=bucket.name,
                    quantized_bytes=rows * int4_bytes(columns, self._config.quantization_block)
                    if rows
                    else None,
                    chunk_bytes=self._config.chunk_bytes,
                )
            )
        return Term(
            phase=Phase.BACKWARD,
            purpose=Purpose.REDUCE_GRADIENTS,
            op=op,
            passes=passes,
            element_bytes=size,
            span=span,
            ranks=ranks,
            padding=self._padding(span, counts_frozen=False),
            movements=tuple(found),
            rest=rest,
        )

    def updated(self) -> Iterator[Term]:
        """How updated parameters reach the ranks that need them: all ranks, or their owner."""
        workload = self._workload
        happens = workload.hands_on
        if self._config.owners_update:
            return
        if self._config.has_owners:
            found = [one for unit in self._trainable for one in self._to_owner(unit)]
            yield Term(
                phase=Phase.UPDATE,
                purpose=Purpose.GATHER_PARAMETERS,
                op=Op.SEND,
                passes=Fraction(1, workload.num_ranks),
                element_bytes=Fraction(workload.element_bytes),
                ranks=self._world,
                happens=happens,
                padding=self._padding(Span.WORLD, counts_frozen=False),
                movements=tuple(found) if happens else (),
                rest=Cause.UNEQUAL_PARTS,
            )
        elif self._config.stage in (1, 2):

            def movement(unit: UnitSize) -> Movement:
                return Movement(
                    phase=Phase.UPDATE,
                    purpose=Purpose.GATHER_PARAMETERS,
                    op=Op.ALL_GATHER,
                    ranks=self._world,
                    elements=self._padded(unit, Span.WORLD),
                    element_bytes=workload.element_bytes,
                    unit=unit.name,
                    chunk_bytes=self._config.chunk_bytes,
                )

            yield self._term(
                Phase.UPDATE,
                Purpose.GATHER_PARAMETERS,
                Op.ALL_GATHER,
                1,
                Fraction(workload.element_bytes),
                movement,
                happens=happens,
            )

    def _to_owner(self, unit: UnitSize) -> Iterator[Movement]:
        """Each rank sends its updated row of a unit to the unit's owner."""
        owner, rank = self._owners[unit.name], self._rank
        others = [peer for peer in self._world if peer != owner]
        for peer in others if rank == owner else [owner]:
            yield Movement(
                phase=Phase.UPDATE,
                purpose=Purpose.GATHER_PARAMETERS,
                op=Op.RECEIVE if rank == owner else Op.SEND,
                ranks=tuple(sorted((rank, peer))),
                elements=shard_elements(unit.elements, self._workload.num_ranks),
                element_bytes=self._workload.element_bytes,
                root=peer,
                unit=unit.name,
                chunk_bytes=self._config.chunk_bytes,
            )

    def agreements(self) -> Iterator[Term]:
        """One number per rank for each: whether a gradient overflowed, and the norm of all."""
        workload = self._workload
        if workload.partitions and self._config.dtype is DType.FP16:
            yield self._number(Purpose.OVERFLOW_FLAG, FP32_BYTES, Cause.OVERFLOW_FLAG)
        if workload.partitions and self._config.clip is not None and not workload.update_skipped:
            yield self._number(Purpose.GRADIENT_NORM, FP64_BYTES, Cause.GRADIENT_NORM)

    def loss(self) -> Iterator[Term]:
        """One number per rank: its loss, to be averaged."""
        if self._workload.averages_loss:
            yield self._number(Purpose.AVERAGE_LOSS, FP32_BYTES, Cause.AVERAGE_LOSS)

    def _number(self, purpose: Purpose, element_bytes: int, cause: Cause) -> Term:
        one = Movement(
            phase=Phase.UPDATE,
            purpose=purpose,
            op=Op.ALL_GATHER,
            ranks=self._world,
            elements=len(self._world),
            element_bytes=element_bytes,
            chunk_bytes=self._config.chunk_bytes,
        )
        return Term(
            phase=Phase.UPDATE,
            purpose=purpose,
            op=Op.ALL_GATHER,
            ranks=self._world,
            movements=(one,) if len(self._world) > 1 else (),
            rest=cause,
        )

    def activations(self, phase: Phase) -> Iterator[Term]:
        """The calls of tensor-parallel blocks in forward or backward; none for T = 1."""
        workload = self._workload
        kept = workload.activations
        if kept is None or workload.tensor_parallel == 1:
            return
        is_again = phase is Phase.BACKWARD and self._config.checkpoint_activations
        ranks = members(workload, Span.TENSOR, self._rank)
        blocks = kept.num_blocks * self._config.accumulate
        part = workload.part_elements * workload.tensor_parallel
        sums = blocks * SUMS_A_PASS * (2 if is_again else 1)
        gathers = is_again and self._config.partition_activations
        for purpose, op, elements, times, carrier in (
            (Purpose.GATHER_ACTIVATIONS, Op.ALL_GATHER, part, blocks * gathers, None),
            (Purpose.ACTIVATIONS, Op.ALL_REDUCE, kept.elements, sums, kept.carrier),
        ):
            if not times:
                continue
            one = Movement(
                phase=phase,
                purpose=purpose,
                op=op,
                ranks=ranks,
                span=Span.TENSOR,
                elements=elements,
                element_bytes=workload.element_bytes,
                times=times,
                carrier=carrier,
                chunk_bytes=self._config.chunk_bytes,
            )
            yield Term(
                phase=phase,
                purpose=purpose,
                op=op,
                span=Span.TENSOR,
                ranks=ranks,
                movements=(one,),
                rest=Cause.ACTIVATIONS,
            )

    def _term(  # noqa: PLR0913 - a term has that many parameters
        self,
        phase: Phase,
        purpose: Purpose,
        op: Op,
        passes: int,
        element_bytes: Fraction,
        movement: Callable[[UnitSize], Movement],
        *,
        span: Span = Span.WORLD,
        counts_frozen: bool = False,
        happens: bool = True,
        rest: Cause | None = None,
    ) -> Term:
        """A term with one movement per unit."""
        units = self._units if counts_frozen else self._trainable
        moves = happens and self._workload.num_ranks > 1
        return Term(
            phase=phase,
            purpose=purpose,
            op=op,
            passes=Fraction(passes),
            element_bytes=element_bytes,
            span=span,
            ranks=members(self._workload, span, self._rank),
            counts_frozen=counts_frozen,
            happens=happens,
            padding=self._padding(span, counts_frozen=counts_frozen),
            movements=tuple(map(movement, units)) if moves else (),
            rest=rest,
        )

    def _padded(self, unit: UnitSize, span: Span) -> int:
        """Communicated elements of a unit in one pass, including padding."""
        if span is Span.SECONDARY:
            part = secondary_elements(self._workload, unit.elements)
            return part * self._config.secondary_partition
        return padded_elements(unit.elements, self._workload.num_ranks)

    def _padding(self, span: Span, *, counts_frozen: bool) -> tuple[int, ...]:
        return tuple(
            self._padded(unit, span) - unit.elements if unit.trainable or counts_frozen else 0
            for unit in self._units
        )

    # ------------------------------------------------------------------- between tiers

    def copies(self) -> Iterator[Term]:
        """Every copy between the tiers of the rank, by phase."""
        found = [*self._fetches(), *self._offloaded(), *self._stores(), *self._checkpoints()]
        yield from sorted(found, key=lambda term: STEP_PHASES.index(term.phase))

    def _fetches(self) -> Iterator[Term]:
        """Before each gather, the copies of the rank's part from the tier that stores it."""
        workload = self._workload
        passes = [Phase.FORWARD]
        if not self._config.has_secondary:  # backward gathers from it instead
            passes.append(Phase.BACKWARD)
        for phase in passes:
            for way in route(self._config.offload_param.tier, Tier.DEVICE):
                yield self._copied(
                    (phase, Purpose.FETCH_PARAMETERS, *way),
                    self._config.accumulate,
                    workload.element_bytes,
                    self._kept(),
                    counts_frozen=True,
                )

    def _offloaded(self) -> Iterator[Term]:
        """Gradients as soon as they are reduced, and the optimizer states for an update."""
        workload = self._workload
        if not self._config.offloads_optimizer:
            return
        buckets = cut_buckets(workload.units, workload.num_ranks, self._config.bucket_elements)
        yield self._copied(
            (Phase.BACKWARD, Purpose.OFFLOAD_GRADIENTS, Tier.DEVICE, Tier.HOST),
            workload.num_reductions,
            workload.element_bytes,
            [(s.unit, s.stop - s.start) for bucket in buckets for s in bucket.segments],
        )
        if self._config.offload_optimizer.tier is Tier.DISK:
            for purpose, origin, target in (
                (Purpose.FETCH_STATES, Tier.DISK, Tier.HOST),
                (Purpose.STORE_STATES, Tier.HOST, Tier.DISK),
            ):
                way = (Phase.UPDATE, purpose, origin, target)
                yield self._copied(way, 1, STATE_BYTES, self._rows())

    def _stores(self) -> Iterator[Term]:
        """Updated parameters: to the device for the other ranks, and to their store."""
        workload = self._workload
        keeps = self._config.offload_param.tier is not Tier.DEVICE
        size = workload.element_bytes
        if self._config.offloads_optimizer and (self._config.has_owners or not keeps):
            way = (Phase.UPDATE, Purpose.RETURN_PARAMETERS, Tier.HOST, Tier.DEVICE)
            yield self._copied(way, 1, size, self._rows())
        is_on_host = self._config.offloads_optimizer and not self._config.has_owners
        begin = Tier.HOST if is_on_host else Tier.DEVICE
        trainable = {unit.name for unit in self._trainable}
        for step in route(begin, self._config.offload_param.tier) if keeps else ():
            kept = [(name, size_) for name, size_ in self._kept() if name in trainable]
            yield self._copied((Phase.UPDATE, Purpose.STORE_PARAMETERS, *step), 1, size, kept)

    def _checkpoints(self) -> Iterator[Term]:
        """Activation checkpoints to the host in forward, and back before their block's backward."""
        workload = self._workload
        kept = workload.activations
        if kept is None or not self._config.cpu_checkpointing:
            return
        for phase, purpose, origin, target in (
            (Phase.FORWARD, Purpose.OFFLOAD_ACTIVATIONS, Tier.DEVICE, Tier.HOST),
            (Phase.BACKWARD, Purpose.FETCH_ACTIVATIONS, Tier.HOST, Tier.DEVICE),
        ):
            one = Movement(
                phase=phase,
                purpose=purpose,
                origin=origin,
                target=target,
                elements=workload.part_elements,
                element_bytes=workload.element_bytes,
                times=kept.num_blocks * self._config.accumulate,
            )
            yield Term(
                phase=phase,
                purpose=purpose,
                origin=origin,
                target=target,
                ranks=self._world,
                movements=(one,),
                rest=Cause.ACTIVATIONS,
            )

    def _rows(self) -> list[tuple[str, int]]:
        """The trainable units, and the number of parameters of each that this rank updates."""
        count = self._workload.num_ranks
        return [(unit.name, shard_elements(unit.elements, count)) for unit in self._trainable]

    def _kept(self) -> Iterator[tuple[str, int]]:
        """The units with parameters on this rank, and their number: its row, or all as owner."""
        workload = self._workload
        for unit in self._units:
            row = shard_elements(unit.elements, workload.num_ranks)
            if not self._config.has_owners:
                yield unit.name, row
            elif self._owners[unit.name] == self._rank:
                yield unit.name, row * workload.num_ranks

    def _copied(
        self,
        way: tuple[Phase, Purpose, Tier, Tier],
        times: int,
        element_bytes: int,
        sizes: Iterable[tuple[str, int]],
        *,
        counts_frozen: bool = False,
    ) -> Term:
        """A term of copies.

        Args:
            sizes: name of a unit and elements of each copy.
        """
        workload = self._workload
        phase, purpose, origin, target = way
        is_of_owners = self._config.has_owners and purpose in (
            Purpose.FETCH_PARAMETERS,
            Purpose.STORE_PARAMETERS,
        )
        happens = phase is not Phase.UPDATE or workload.hands_on
        return Term(
            phase=phase,
            purpose=purpose,
            origin=origin,
            target=target,
            passes=Fraction(times),
            element_bytes=Fraction(element_bytes),
            ranks=self._world,
            counts_frozen=counts_frozen,
            happens=happens,
            padding=self._padding(Span.WORLD, counts_frozen=counts_frozen),
            movements=tuple(
                Movement(
                    phase=phase,
                    purpose=purpose,
                    origin=origin,
                    target=target,
                    unit=name,
                    elements=elements,
                    element_bytes=element_bytes,
                    times=times,
                )
                for name, elements in (sizes if happens else ())
            ),
            rest=Cause.UNEQUAL_PARTS if is_of_owners else None,
        )


def route(origin: Tier, target: Tier) -> tuple[tuple[Tier, Tier], ...]:
    """The copies from one tier to another; between device and disk they pass through the host."""
    order = [Tier.DEVICE, Tier.HOST, Tier.DISK]
    here, there = order.index(origin), order.index(target)
    step = 1 if there > here else -1
    return tuple((order[at], order[at + step]) for at in range(here, there, step))
