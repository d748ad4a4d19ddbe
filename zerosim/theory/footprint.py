"""The predicted peak of a rank's memory: every part of it, with its formula and source.

Model states are those of `model_states`, gathered units and whole gradients those of `residency`,
activations those of `saved`: this module combines those that coexist. That differs from
moment to moment, so the peak is the largest of four:

    the loss            all activations, and the logits of all tokens
    the last block      its recomputed activations, its parameters and gradients, and the inputs
                        of all other blocks
    the first block     all gradients, and hardly any activations
    the update          all model states, and one unit's gradients in fp32

Memory that no law covers (fragmentation of the allocator, the driver's context, workspaces of
libraries) is a margin, which is marked as an assumption.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache

from zerosim.theory.footprint_parts import (
    LOG_PROBABILITIES,
    MADE_AGAIN,
    FootprintPart,
    StageActivations,
    activations,
    words,
)
from zerosim.theory.footprint_stage import (
    FIRST_BLOCK,
    LAST_BLOCK,
    LOSS,
    HeldByStage,
    StageUnits,
    held_by_stage,
)
from zerosim.theory.layout import FIRST, LAST, Layout
from zerosim.theory.saved import in_flight
from zerosim.theory.transformer import BLOCKS, AlikeUnits

__all__ = [
    "LOG_PROBABILITIES",
    "MADE_AGAIN",
    "Footprint",
    "FootprintPart",
    "footprints",
    "peak",
    "peak_bytes",
]

_ASSUMED = words("footprint.assumed")


@dataclass(frozen=True)
class Footprint:
    """The memory of a rank at one moment.

    Attributes:
        moment: the moment, in words.
        place: the rank's stage of a pipeline; "" if there is one stage.
        parts: the nonempty parts.
        host_bytes, disk_bytes: bytes on the host and on the disk instead of on the device.
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
    """The memory at the moment with the largest peak, on the stage with the largest memory.

    Args:
        margin: share for memory outside of all laws, as a fraction of the rest.
    """
    most = max(footprints(layout), key=lambda one: one.bytes)
    if not margin:
        return most
    law = words("footprint.of_the_rest", percent=f"{float(100 * margin):g}")
    left_out = _margin_bytes(most.bytes, margin)
    more = FootprintPart("margin for memory outside the laws", left_out, law, _ASSUMED)
    return replace(most, parts=(*most.parts, more))


def peak_bytes(layout: Layout, margin: Fraction = Fraction(0)) -> int:
    """The bytes of `peak` alone: a plan displays the parts of only a few of its layouts."""
    size = max([most for place in _places(layout) for most in _sizes(layout, place)])
    return size + _margin_bytes(size, margin)


def footprints(layout: Layout) -> tuple[Footprint, ...]:
    """The memory at each of the moments, on the first and last stage of a pipeline."""
    return tuple(one for place in _places(layout) for one in _at_moments(layout, place))


def _margin_bytes(size: int, margin: Fraction) -> int:
    return size * margin.numerator // margin.denominator


def _places(layout: Layout) -> tuple[str, ...]:
    return (LAST,) if layout.pipeline == 1 else (FIRST, LAST)


def _at_moments(layout: Layout, place: str) -> Iterator[Footprint]:
    """All moments of a rank of one stage, with their nonempty parts."""
    held, more = _held(layout, place), _activations(layout, place)
    between = {
        LOSS: more.at_loss(),
        LAST_BLOCK: more.at_last_block(),
        FIRST_BLOCK: more.at_first_block(),
    }
    words_of_place = "" if layout.pipeline == 1 else f"the {place} stage"
    for one in held.moments:
        parts = (*one.before, *between.get(one.moment, ()), *one.after)
        yield Footprint(
            one.moment,
            words_of_place,
            tuple(part for part in parts if part.bytes),
            held.host_bytes,
            held.disk_bytes,
        )


def _sizes(layout: Layout, place: str) -> Iterator[int]:
    """The bytes of the same moments."""
    more = _activations(layout, place)
    between = {
        LOSS: more.kept + more.scores,
        LAST_BLOCK: more.kept + more.again,
        FIRST_BLOCK: more.first + more.first_again,
    }
    for one in _held(layout, place).moments:
        yield one.bytes + between.get(one.moment, 0)


def _held(layout: Layout, place: str) -> HeldByStage:
    config = layout.config
    return held_by_stage(
        StageUnits(
            workload=layout.workload(place),
            experts=layout.experts(place),
            pieces=layout.pieces(place),
            keeps_gradients=config.accumulate > 1 or config.stage < 2,
            bucket=config.bucket_elements,
            is_alone=layout.data == 1,
        )
    )


def _activations(layout: Layout, place: str) -> StageActivations:
    kept = _kept_at_once(layout.pipeline, layout.chunks, layout.micro_batches, place)
    kinds = _kinds(layout.pieces(place))
    return activations(layout.computing, layout.keeping, kinds, kept)


@lru_cache(maxsize=1024)
def _kinds(pieces: tuple[AlikeUnits, ...]) -> tuple[tuple[str, int], ...]:
    """Kinds of blocks, and the number of each."""
    return tuple((one.name, one.times) for one in pieces if one.name in BLOCKS)


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
