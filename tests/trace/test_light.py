"""A light trace: some iterations whole, and nothing of time and memory."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

import zerosim
from tests.bench.programs import PROGRAMS
from tests.ranks import run_ranks
from zerosim.base.errors import ConfigError, TraceError
from zerosim.record import iterations, load, match_collectives
from zerosim.schema.events import Kind
from zerosim.trace import Light
from zerosim.verify.memory_check import verify_memory
from zerosim.verify.outcome import Outcome
from zerosim.verify.verify import verify

pytestmark = pytest.mark.ranks

SYSTEMS = ["DDP", "FSDP2", "engine, stage 3"]
NUM_STEPS = 11
EVERY = 4
RECORDED = (0, 4, 8)


def record(folder):
    """Each system's steps, once with all that there is and once light."""
    for name in SYSTEMS:
        make, sizes = PROGRAMS[name]
        for way, light in (
            ("whole", False),
            ("light", Light(every=EVERY)),
            ("window", Light(every=2, keep=2)),
        ):
            torch.manual_seed(0)
            with (
                zerosim.trace(f"{folder}/{way} {name}", light=light),
                make(sizes[0]) as step,
            ):
                for _ in range(NUM_STEPS):
                    step()
                dist.barrier()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("light")
    run_ranks(record, 2, str(folder))
    return folder


def calls(trace, iteration):
    """What each rank called in an iteration, without its times."""
    return {
        rank.rank: [
            (e.phase, e.unit, e.purpose, e.op, e.payload_bytes, e.sent_bytes, e.tensors, e.source)
            for e in rank.events
            if e.kind is Kind.COLLECTIVE and e.iteration == iteration and e.parent is None
        ]
        for rank in trace.ranks
    }


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_iterations_that_are_recorded_are_whole(recorded, name):
    light, whole = (load(recorded / f"{way} {name}", strict=True) for way in ("light", "whole"))
    assert iterations(light) == RECORDED
    for iteration in RECORDED:
        assert calls(light, iteration) == calls(whole, iteration)
    assert {e.iteration for rank in light.ranks for e in rank.events} <= {-1, *RECORDED}


@pytest.mark.parametrize("name", SYSTEMS)
def test_nothing_of_time_and_memory_is_recorded(recorded, name):
    trace = load(recorded / f"light {name}")
    kinds = {event.kind for rank in trace.ranks for event in rank.events}
    assert kinds <= {Kind.COLLECTIVE, Kind.TRANSFER}
    assert not any(rank.memory_samples for rank in trace.ranks)
    with pytest.raises(TraceError, match="record it again without --light"):
        verify_memory(trace)


@pytest.mark.parametrize("name", SYSTEMS)
def test_verify_judges_them_as_it_judges_all(recorded, name):
    light, whole = (verify(load(recorded / f"{way} {name}")) for way in ("light", "whole"))
    assert light.iterations == RECORDED
    assert light.outcome is whole.outcome is not Outcome.UNEXPLAINED
    assert light.unexplained_trace == light.unexplained_wire == 0
    assert light.headline == whole.headline
    assert [one.id for one in light.verdicts] == [one.id for one in whole.verdicts]
    assert any("one iteration in 4 was recorded" in note for note in light.notes)
    assert not any("light" in note for note in whole.notes)


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_window_of_the_last_ones_is_judged_as_all_are(recorded, name):
    window, whole = (load(recorded / f"{way} {name}", strict=True) for way in ("window", "whole"))
    assert iterations(window) == (4, 6, 8, 10)
    for iteration in iterations(window)[:-1]:  # in the last one of all, ranks meet at the end
        assert calls(window, iteration) == calls(whole, iteration)
    report = verify(window)
    assert report.outcome is verify(whole).outcome
    assert report.unexplained_trace == report.unexplained_wire == 0
    assert any("starts at iteration 4" in note for note in report.notes)


@pytest.mark.parametrize("name", SYSTEMS)
def test_calls_of_all_ranks_are_matched(recorded, name):
    matching = match_collectives(load(recorded / f"light {name}"))
    assert not matching.mismatches
    assert all(one.complete for one in matching.collectives)


def test_a_replay_says_what_is_not_known(recorded):
    document = zerosim.load(recorded / "light engine, stage 3").replay().document
    assert document["broken"] is None
    assert document["cells"] == ""
    assert any("computations were not recorded" in note for note in document["notes"])


def test_a_trace_of_no_iterations_is_refused():
    with pytest.raises(ConfigError, match="every is 0: expected a whole number of 1 or more"):
        Light(every=0)
