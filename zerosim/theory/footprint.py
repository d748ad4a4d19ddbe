"""The predicted peak of a rank's memory: every part of it, with its formula and source.

Model states are those of `model_states`, gathered units and whole gradients those of `residency`,
activations those of `saved`: this module combines those that are live at once. That differs from
moment to moment, so the peak is the largest of four:

    the loss            all activations, and the logits of all tokens
    the last block      its recomputed activations, its parameters and gradients, and the inputs
                        of all other blocks
    the first block     all gradients, and hardly any activations
    the update          all model states, and one unit's gradients in fp32

Memory that no law covers (fragmentation of the allocator, the driver's context, workspaces of
libraries) is a margin, which is declared as an assumption.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

from zerosim.base.tiers import Tier
from zerosim.schema.memory import MODEL_STATES, Role
from zerosim.theory.layout import FIRST, LAST, Layout, few_blocks
from zerosim.theory.model_states import FP32_BYTES, ModelStates
from zerosim.theory.operators import Computing
from zerosim.theory.partition import shard_elements
from zerosim.theory.residency import NUM_BUFFERS, most_gathered_bytes, secondary_bytes, whole_bytes
from zerosim.theory.saved import (
    LOSS_BYTES,
    TEMPORARY_LOSS_BYTES,
    KeptActivations,
    Recompute,
    block_bytes,
    formula,
    head_bytes,
    in_flight,
    loss_elements,
    statistics_bytes,
)
from zerosim.theory.transformer import BLOCK, BLOCKS, EMBEDDING, HEAD, ROOT, AlikeUnits, LayerCut
from zerosim.theory.wording import said
from zerosim.theory.workload import Workload
from zerosim.theory.zero_states import zero_states

_ZERO = "ZeRO, arXiv 1910.02054, sections 3 and 5"
_KORTHIKANTI = "Korthikanti et al., arXiv 2205.05198, section 4"
_RESIDENT = "ZeRO, arXiv 1910.02054, sections 5.2 and 5.3"
_BUFFERS = "ZeRO, arXiv 1910.02054, section 6.2"
_PLUS = "ZeRO++, arXiv 2306.10209, section 3.2"
_OWN = "zerosim.train.models, next_byte_loss"
LOG_PROBABILITIES, MADE_AGAIN = "log-probabilities", "a block made again"
"""Parts of a moment, by name."""


@dataclass(frozen=True, slots=True)
class _InWords:
    """What is said when somebody reads it, in the language of then: parts are kept for long."""

    key: str
    fields: tuple[tuple[str, object], ...] = ()

    def __str__(self) -> str:
        return said(self.key, **dict(self.fields))


@dataclass(frozen=True, slots=True)
class _LawOfRole:
    """What model states keep of a role, worked out when somebody reads it."""

    states: ModelStates
    role: Role

    def __str__(self) -> str:
        laws = self.states.role_laws(Tier.DEVICE)
        return next((law.words for law in laws if law.role is self.role), "")


def _words(key: str, **fields: object) -> _InWords:
    return _InWords(key, tuple(fields.items()))


_ASSUMED = _words("footprint.assumed")
_ENGINE = _words("footprint.engine")


@dataclass(frozen=True, slots=True)
class FootprintPart:
    """A part of a rank's memory at one moment.

    Attributes:
        law: in symbols, or in words with symbols.
        cited: source of the law.
        role: its role in a run's memory; None if no run attributes it to a role.
    """

    name: str
    bytes: int
    law: str | _InWords | _LawOfRole
    cited: str | _InWords
    role: Role | None = None

    @property
    def formula(self) -> str:
        """The law, in the current language."""
        return str(self.law)

    @property
    def source(self) -> str:
        """The source, in the current language."""
        return str(self.cited)


@dataclass(frozen=True)
class Footprint:
    """The memory of a rank at one moment.

    Attributes:
        moment: in words.
        place: the rank's stage of a pipeline; "" if there is one stage.
        parts: the parts, all nonempty.
        host_bytes, disk_bytes: bytes there instead of on the device.
    """

    moment: str
    place: str
    parts: tuple[FootprintPart, ...]
    host_bytes: int = 0
    disk_bytes: int = 0

    @cached_property
    def bytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.bytes for part in self.parts)


def peak(layout: Layout, margin: Fraction = Fraction(0)) -> Footprint:
    """The memory at the largest moment, on the largest stage.

    Args:
        margin: share for memory outside of all laws, as a fraction of the rest.
    """
    size, most = -1, None
    for moment in _moments(layout):
        found = sum([part.bytes for part in moment.parts])
        if found > size:
            size, most = found, moment
    assert most is not None, "a rank has moments"
    if not margin:
        return most.footprint()
    words = _words("footprint.of_the_rest", percent=f"{float(100 * margin):g}")
    left_out = size * margin.numerator // margin.denominator
    return most.footprint(FootprintPart("margin for what no law counts", left_out, words, _ASSUMED))


def footprints(layout: Layout) -> tuple[Footprint, ...]:
    """The memory at each of the moments, on the first and last stage of a pipeline."""
    return tuple(moment.footprint() for moment in _moments(layout))


def _moments(layout: Layout) -> list[_Moment]:
    places = (LAST,) if layout.pipeline == 1 else (FIRST, LAST)
    return [moment for place in places for moment in _StageRank(layout, place).moments()]


class _Moment(NamedTuple):
    """A moment of a rank, before anybody asks for its words."""

    name: str
    rank: _StageRank
    parts: Sequence[FootprintPart]

    def footprint(self, *more: FootprintPart) -> Footprint:
        """With all nonempty parts, and others."""
        parts, rank = tuple(part for part in self.parts if part.bytes), self.rank
        states = rank.units.states
        return Footprint(
            self.name, rank.place, (*parts, *more), states.host_bytes, states.disk_bytes
        )


@dataclass(frozen=True, slots=True)
class _States:
    """Model states of a stage's units.

    Attributes:
        kept: on the device, at every moment.
        gradients: on the device, but not at all moments.
    """

    kept: tuple[FootprintPart, ...]
    gradients: FootprintPart
    host_bytes: int
    disk_bytes: int


@lru_cache(maxsize=4096)
def _states(workload: Workload, times: tuple[int, ...]) -> _States:
    """Of all units; the workload has one of each kind."""
    states = zero_states(workload)
    count = dict(zip((unit.name for unit in workload.units), times, strict=True))
    found: dict[Tier, dict[Role, int]] = {tier: {} for tier in Tier}
    for tier in states.tiers:
        for (role, unit), size in states.bytes(tier).items():
            found[tier][role] = found[tier].get(role, 0) + size * count[unit]
    device, host, disk = found[Tier.DEVICE], found[Tier.HOST], found[Tier.DISK]
    parts = {
        role: FootprintPart(role, device.get(role, 0), _LawOfRole(states, role), _ZERO, role)
        for role in MODEL_STATES
    }
    gradients = parts.pop(Role.GRADIENTS)
    return _States(tuple(parts.values()), gradients, sum(host.values()), sum(disk.values()))


def _together(one: _States, other: _States) -> _States:
    """Of two groups of units."""

    def both(mine: FootprintPart, theirs: FootprintPart) -> FootprintPart:
        return FootprintPart(mine.name, mine.bytes + theirs.bytes, mine.law, mine.cited, mine.role)

    return _States(
        tuple(both(*pair) for pair in zip(one.kept, other.kept, strict=True)),
        both(one.gradients, other.gradients),
        one.host_bytes + other.host_bytes,
        one.disk_bytes + other.disk_bytes,
    )


@lru_cache(maxsize=4096)
def _most_gathered(workload: Workload) -> int:
    """The few blocks of a workload represent all."""
    whole = whole_bytes(workload)
    order = [unit for unit in whole if unit != ROOT]
    spanning = [ROOT] if ROOT in whole else []
    return most_gathered_bytes(whole, order, spanning, workload.config.prefetch)


@lru_cache(maxsize=1024)
def _activations(
    computing: Computing,
    keeping: KeptActivations,
    kinds: tuple[tuple[str, Fraction | int], ...],
    *,
    made_again: bool = False,
) -> tuple[FootprintPart, ...]:
    """Activations that blocks keep for backward; `made_again`: including one recomputed block.

    Args:
        kinds: number of blocks of each kind that keep them, over all micro-batches.
    """
    shape, cut = computing.shape, computing.cut
    is_full = keeping.recompute is Recompute.FULL
    sequence = f"/{cut.between}" if cut.between > 1 else ""
    inside = "" if is_full else _inside(cut)
    symbols = formula(shape, keeping, sequence if is_full else _cut_symbols(cut))
    total: Fraction | int = 0
    blocks: Fraction | int = 0
    for kind, count in kinds:
        each = block_bytes(computing, keeping, kind)
        if not is_full and not keeping.has_scores:
            each += statistics_bytes(computing)
        total, blocks = total + each * count, blocks + count
    name, role = "activations", Role.ACTIVATIONS
    if is_full:
        name, role = "activation checkpoints", Role.CHECKPOINTS
    law = _of_blocks(symbols, inside, blocks)
    kept = FootprintPart(name, int(total), law, _KORTHIKANTI, role)
    if not made_again or keeping.recompute not in (Recompute.FULL, Recompute.OPERATORS):
        return (kept,)
    again = KeptActivations(Recompute.NONE, keeping.has_scores, keeping.has_dropout)
    largest = max(block_bytes(computing, again, kind) for kind, _ in kinds)
    size = largest + statistics_bytes(computing)
    symbols = formula(shape, again, _cut_symbols(cut))
    law = _words("footprint.of_one_block", symbols=symbols, inside=_inside(cut))
    return (kept, FootprintPart(MADE_AGAIN, size, law, _KORTHIKANTI, Role.ACTIVATIONS))


@lru_cache(maxsize=1024)
def _scores(computing: Computing) -> tuple[FootprintPart, ...]:
    elements = loss_elements(computing)
    parts = f"/{computing.cut.of_ends}" if computing.cut.of_ends > 1 else ""
    size, before = LOSS_BYTES * elements, head_bytes(computing)
    return (
        FootprintPart("before and in the head", before, "4sbh", _KORTHIKANTI, Role.ACTIVATIONS),
        FootprintPart(LOG_PROBABILITIES, size, f"4sbV{parts}", _KORTHIKANTI, Role.ACTIVATIONS),
        FootprintPart(
            "scores, until the loss is there",
            TEMPORARY_LOSS_BYTES * elements,
            f"6sbV{parts}",
            _OWN,
        ),
    )


def _of_blocks(symbols: str, inside: str | _InWords, count: Fraction | int) -> _InWords:
    if count == 1:
        return _words("footprint.of_1_block", symbols=symbols, inside=inside)
    blocks = f"{float(count):g}"
    return _words("footprint.of_blocks", symbols=symbols, inside=inside, count=blocks)


def _cut_symbols(cut: LayerCut) -> str:
    return f"/{cut.tensor}" if cut.tensor > 1 and cut.sequence else ""


def _inside(cut: LayerCut) -> str | _InWords:
    """What is left whole between blocks."""
    if cut.tensor == 1 or cut.sequence:
        return ""
    return _words("footprint.inside", parts=cut.tensor)


@dataclass(frozen=True, slots=True)
class _StageUnits:
    """What a rank holds of a stage's units, whatever a micro-batch is and keeps.

    Attributes:
        whole: bytes of each complete unit.
        largest: elements of the largest.
        gathered, secondary: parts of stage 3 and of hpZ; () of others.
    """

    states: _States
    whole: Mapping[str, int]
    largest: int
    gathered: tuple[FootprintPart, ...]
    secondary: tuple[FootprintPart, ...]


@lru_cache(maxsize=4096)
def _stage_units(
    workload: Workload, experts: Workload | None, pieces: tuple[AlikeUnits, ...]
) -> _StageUnits:
    states = _states(workload, tuple(one.times for one in pieces))
    whole = whole_bytes(workload)
    if experts is not None:
        times = tuple(one.times for one in pieces if one.experts)
        states = _together(states, _states(experts, times))
        for name, size in whole_bytes(experts).items():
            whole = {**whole, name: whole[name] + size}
    return _StageUnits(
        states=states,
        whole=whole,
        largest=max(one.elements for one in pieces),
        gathered=tuple(_units_gathered(workload, pieces)),
        secondary=tuple(_copies(workload, pieces)),
    )


def _units_gathered(workload: Workload, pieces: tuple[AlikeUnits, ...]) -> Iterable[FootprintPart]:
    if workload.config.stage == 3:
        size = _most_gathered(few_blocks(workload, pieces))
        words = _words("footprint.ahead", ahead=workload.config.prefetch)
        yield FootprintPart("gathered parameters", size, words, _RESIDENT, Role.GATHERED)


def _copies(workload: Workload, pieces: tuple[AlikeUnits, ...]) -> Iterable[FootprintPart]:
    if workload.config.has_secondary:
        parts = secondary_bytes(workload)
        size = sum(parts[one.name] * one.times for one in pieces)
        yield FootprintPart("secondary parameters", size, "2Ψ/S", _PLUS, Role.SECONDARY)


@lru_cache(maxsize=4096)
def _kept_at_once(pipeline: int, chunks: int, micro_batches: int, place: str) -> Fraction | int:
    """Number of micro-batches with live activations on a stage.

    The first of p stages has p; with interleaved chunks a few more (`saved.in_flight`).
    """
    if pipeline == 1 or (place == LAST and chunks == 1):
        return 1
    if chunks == 1:
        return min(pipeline, micro_batches)
    most = pipeline * in_flight(pipeline, chunks)
    if place == LAST:
        most -= pipeline - 1
    return min(max(most, Fraction(1)), Fraction(micro_batches))


class _StageRank:
    """One rank of one stage of the pipeline."""

    def __init__(self, layout: Layout, place: str) -> None:
        self._layout, self._at = layout, place
        self._config, self._computing = layout.config, layout.computing
        pieces = layout.pieces(place)
        self._names = [one.name for one in pieces]
        self._kinds = tuple([(one.name, one.times) for one in pieces if one.name in BLOCKS])
        self.units = _stage_units(layout.workload(place), layout.experts(place), pieces)

    @property
    def place(self) -> str:
        """Its stage in words; "" if there is one."""
        return "" if self._layout.pipeline == 1 else f"the {self._at} stage"

    def moments(self) -> list[_Moment]:
        """All of the rank."""
        layout = self._layout
        of = (layout.pipeline, layout.chunks, layout.micro_batches, self._at)
        kept = _kept_at_once(*of)
        found = [("the loss is computed", self._at_loss(kept))] if HEAD in self._names else []
        found += [
            ("the last block's backward", self._at_last_block(kept)),
            ("the first block's backward", self._at_first_block()),
            ("the update", self._at_update()),
        ]
        return [_Moment(name, self, parts) for name, parts in found]

    # ------------------------------------------------------------------- the moments

    def _at_loss(self, kept: Fraction | int) -> list[FootprintPart]:
        units = self.units
        found = [*units.states.kept]
        if self._keeps_gradients:
            found.append(units.states.gradients)
        found += [*self._activations(kept), *_scores(self._computing), *units.secondary]
        root = units.whole.get(ROOT, 0)
        if root and self._config.stage == 3:
            words = _words("footprint.of_the_root")
            found.append(
                FootprintPart("gathered parameters", root, words, _RESIDENT, Role.GATHERED)
            )
        return found

    def _at_last_block(self, kept: Fraction | int) -> list[FootprintPart]:
        units, block = self.units, self.units.whole[BLOCK]
        found = [*units.states.kept]
        if self._keeps_gradients:
            found.append(units.states.gradients)
        if self._config.stage > 1:
            last = max(units.whole[HEAD], block) if HEAD in self._names else block
            found.append(self._whole_gradients(last + block))
        found += self._activations(kept, made_again=True)
        return [*found, *units.gathered, *self._on_their_way(), *units.secondary]

    def _at_first_block(self) -> list[FootprintPart]:
        units, block = self.units, self.units.whole[BLOCK]
        found = [*units.states.kept, units.states.gradients]
        if self._config.stage > 1:
            first = units.whole[EMBEDDING] if EMBEDDING in self._names else block
            first += units.whole.get(ROOT, 0)
            found.append(self._whole_gradients(first + block))
        found += self._activations(None, made_again=True)
        return [*found, *units.gathered, *self._on_their_way(), *units.secondary]

    def _at_update(self) -> list[FootprintPart]:
        units = self.units
        found = [*units.states.kept, units.states.gradients]
        if self._config.offloads_optimizer:
            return found
        part = shard_elements(units.largest, self._layout.shards if self._config.stage else 1)
        words = _words("footprint.of_the_largest", part="/N" if self._config.stage else "")
        return [
            *found,
            FootprintPart("gradients in fp32", FP32_BYTES * part, words, _ENGINE),
            *units.secondary,
        ]

    # ------------------------------------------------------------------- their parts

    @property
    def _keeps_gradients(self) -> bool:
        """Whether a micro-batch begins with gradients: of earlier ones, or in persistent memory."""
        return self._config.accumulate > 1 or self._config.stage < 2

    def _whole_gradients(self, size: int) -> FootprintPart:
        bucket, words = self._config.bucket_elements, _words("footprint.of_two_units")
        if bucket:
            size += NUM_BUFFERS * bucket * self._config.dtype.element_bytes
            words = _words("footprint.of_two_units_and_buckets")
        return FootprintPart("whole gradients", size, words, _RESIDENT, Role.GRADIENTS)

    def _on_their_way(self) -> tuple[FootprintPart, ...]:
        bucket = self._config.bucket_elements
        if bucket is None or self._layout.data == 1:
            return ()
        size = NUM_BUFFERS * bucket * self._config.dtype.element_bytes
        words = _words("footprint.two_buckets")
        return (FootprintPart("buckets on their way", size, words, _BUFFERS, Role.BUFFERS),)

    def _activations(
        self, micro_batches: Fraction | int | None, *, made_again: bool = False
    ) -> tuple[FootprintPart, ...]:
        """For `micro_batches` micro-batches in all blocks; None: for the first block alone."""
        kinds = self._kinds
        if micro_batches is None:
            counts: tuple[tuple[str, Fraction | int], ...] = ((kinds[0][0], 1),)
        else:
            counts = tuple([(name, micro_batches * times) for name, times in kinds])
        return _activations(self._computing, self._layout.keeping, counts, made_again=made_again)
