"""Memory of a GPU: its allocator is asked at phase borders, between them storages tell."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tests.recorded_gpu import recorded_on_gpu
from zerosim.analysis.memory import NOT_MEASURED, in_training, peak, peak_between, timeline
from zerosim.record import load
from zerosim.schema.events import Phase
from zerosim.schema.memory import Moment
from zerosim.verify.peaks import rank_peak


def at_borders(rank, peaks=None):
    """The rank as if its allocator had been asked at borders alone."""
    samples, told = [], iter(peaks or ())
    for sample in rank.memory_samples:
        at_border = sample.moment is Moment.PHASE
        samples.append(
            replace(
                sample,
                allocated_bytes=sample.allocated_bytes if at_border else None,
                peak_bytes=next(told, None) if at_border else None,
            )
        )
    return replace(rank, memory_samples=tuple(samples))


def test_between_borders_what_no_role_explains_stays_as_it_was(tmp_path):
    rank = load(recorded_on_gpu("stage-3", tmp_path)).ranks[0]
    asked, line = timeline(rank), timeline(at_borders(rank))
    borders = [n for n, one in enumerate(rank.memory_samples) if one.moment is Moment.PHASE]
    assert (line.allocated[borders] == asked.allocated[borders]).all()
    for first, after in pairwise(borders):
        rest = line.allocated[first:after] - line.known[first:after]
        assert len(set(rest.tolist())) == 1


def test_the_peak_is_pytorchs(tmp_path):
    """It says the most that ever was: where that grew, it was reached since the border before."""
    rank = load(recorded_on_gpu("stage-3", tmp_path)).ranks[0]
    borders = [n for n, one in enumerate(rank.memory_samples) if one.moment is Moment.PHASE]
    peaks = [100] * 5 + [123_000_000] * (len(borders) - 5)
    found = peak_between(timeline(at_borders(rank, peaks)), np.array(borders))
    assert (found.position, found.bytes) == (borders[5], 123_000_000)


@pytest.mark.parametrize("stage", [0, 2, 3])
def test_a_gpu_s_allocator_counts_for_all_threads(stage, tmp_path):
    """Autograd's thread allocates gradients: they are in what PyTorch says already."""
    rank = load(recorded_on_gpu(f"stage-{stage}", tmp_path)).ranks[0]
    assert max(one.unrecorded_bytes for one in rank.memory_samples) > 7_000_000
    line = timeline(rank)
    top = peak(line, in_training(line))
    assert top.bytes == max(one.allocated_bytes for one in rank.memory_samples)


@pytest.mark.parametrize("more", [-200_000, 0, 300_000])
def test_between_borders_the_peak_is_pytorchs(more, tmp_path):
    """Roles miss the rounding of blocks and what an operator frees again, or what no role explains
    was freed since the border before.
    """
    rank = load(recorded_on_gpu("stage-3", tmp_path)).ranks[0]
    told, most = [], 0
    for sample in rank.memory_samples:
        most = max(most, sample.allocated_bytes)
        told += [most] * (sample.moment is Moment.PHASE)
    without = timeline(at_borders(rank))
    before = peak(without, in_training(without))
    told = [before.bytes + more if one == most else one for one in told]
    line = timeline(at_borders(rank, told))
    assert peak(line, in_training(line)).bytes == before.bytes + more
    top = rank_peak(line, None)
    assert (top.bytes, top.between_bytes) == (before.bytes + more, None)


def test_a_program_may_reset_the_allocators_peak(tmp_path):
    """What it was before is true of before; afterwards it may be reached again."""
    rank = load(recorded_on_gpu("stage-3", tmp_path)).ranks[0]
    borders = [one for one in rank.memory_samples if one.moment is Moment.PHASE]
    peaks = [90_000_000 + 10_000_000 * (one.phase is Phase.BACKWARD) for one in borders]
    line, without = timeline(at_borders(rank, peaks)), timeline(at_borders(rank))
    found = [int(line.between[one]) for one in np.flatnonzero(line.between != NOT_MEASURED)]
    assert found == [90_000_000] + [100_000_000] * 4
    after = [n for n, one in enumerate(rank.memory_samples) if one.phase is Phase.BACKWARD]
    assert (line.allocated[after] == without.allocated[after]).all()
