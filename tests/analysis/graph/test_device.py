"""The graph of a run whose device has times: what it did, not what its host asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.recorded_gpu import recorded_on_gpu
from zerosim.analysis.answer import report
from zerosim.analysis.budget import budgets
from zerosim.analysis.graph import build_graph
from zerosim.analysis.path import TimeCause, critical_path
from zerosim.record import load
from zerosim.record.eventrows import Events
from zerosim.schema.events import DeviceClock, Kind
from zerosim.view.replay.subject import Subject
from zerosim.view.replay.timeline import launches_of

COMPUTES_NS, MOVES_NS = 200_000, 2_000_000


def on_a_slow_link(trace):
    """Each unit computes for 0.2 ms, each collective takes 2 ms, one after another."""
    return replace(trace, ranks=tuple(map(_timed, trace.ranks)))


def _timed(rank):
    computed = moved = 0
    over, found = {}, {}
    events = (one for one in rank.events if one.kind is not Kind.TRANSFER)
    for event in sorted(events, key=lambda one: one.issue_ns):
        if event.kind is Kind.COLLECTIVE:
            begin = max(moved, computed, event.issue_ns)
            end = moved = over[event.id] = begin + MOVES_NS
        elif event.kind is Kind.COMPUTE:
            begin = max(computed, event.issue_ns)
            end = computed = begin + COMPUTES_NS
        elif event.kind is Kind.WAIT:
            begin = max(computed, event.issue_ns)
            end = computed = max(begin, over.get(event.parent, begin))
        else:
            continue
        found[event.id] = replace(event, device_begin_ns=begin, device_end_ns=end)
    return replace(
        rank,
        events=Events(found.get(one.id, one) for one in rank.events),
        device_clock=DeviceClock(uncertainty_ns=12_000),
    )


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    return load(recorded_on_gpu("stage-3", tmp_path_factory.mktemp("gpu")))


def test_a_step_over_a_slow_link_is_communication(host):
    graph = build_graph(on_a_slow_link(host))
    found = critical_path(graph).by_cause()
    assert max(found, key=found.get) is TimeCause.COMMUNICATION
    on_host = critical_path(build_graph(host)).by_cause()
    assert found[TimeCause.COMMUNICATION] > 2 * on_host[TimeCause.COMMUNICATION]


def test_each_unit_computes_for_as_long_as_the_device_did(host):
    trace = on_a_slow_link(host)
    found = budgets(build_graph(trace))
    for rank in trace.ranks:
        count = sum(1 for _ in rank.events.of_kind(Kind.COMPUTE))
        assert found.of(rank=rank.rank).compute_ns == count * COMPUTES_NS


def test_an_answer_says_whose_times_they_are(host):
    notes = " ".join(report(build_graph(host)).notes)
    assert "times are those of the host: the times of the device's work" in notes
    notes = report(build_graph(on_a_slow_link(host))).notes
    assert "times are those of the device, aligned with the host's to ± 12.0 µs" in notes


def test_a_replay_shows_when_the_host_launched_what_the_device_executed(host):
    trace = on_a_slow_link(host)
    subject = Subject(trace, 1)
    zero_ns = subject.steps.zero_ns
    found = launches_of(trace, subject.graph, 1, zero_ns)
    launched = [
        (place, event.issue_ns - zero_ns + subject.graph.clocks.offset_ns(rank.rank))
        for place, rank in enumerate(host.ranks)
        for event in rank.events
        if event.iteration == 1 and event.kind in (Kind.COMPUTE, Kind.COLLECTIVE)
    ]
    assert list(zip(found[::4], found[2::4], strict=True)) == launched
    assert all(begin <= end for begin, end in zip(found[2::4], found[3::4], strict=True))
    assert launches_of(host, Subject(host, 1).graph, 1, zero_ns) == []
