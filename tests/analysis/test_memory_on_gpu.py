"""Memory of a GPU: its allocator is asked at phase borders, between them storages tell."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from tests.recorded_gpu import recorded_on_gpu
from zerosim.analysis.memory import peak_between, timeline
from zerosim.record import load
from zerosim.schema.memory import Moment


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
    assert (found.position, found.bytes) == (
        borders[5],
        123_000_000 + rank.memory_samples[borders[5]].unrecorded_bytes,
    )
