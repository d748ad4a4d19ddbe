"""Runs over NCCL on an H100, held against the theory: payload, framing and wire."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

import pytest

from tests.recorded_gpu import recorded_on_gpu
from zerosim.analysis.calls import cost_of, framing_of
from zerosim.record import Trace, load
from zerosim.schema.events import Kind
from zerosim.theory import Cause
from zerosim.theory.nccl import Protocol, Tuning
from zerosim.verify.verdicts import conservation_verdict
from zerosim.verify.verify import check, verify


def verdict_of(report, name):
    return next(one for one in report.verdicts if one.id == name)


@pytest.mark.parametrize(("stage", "framing"), [(0, 468), (3, 700)])
def test_rings_over_nccl_are_explained_to_the_byte(stage, framing, tmp_path):
    trace = load(recorded_on_gpu(f"stage-{stage}", tmp_path))
    report = verify(trace)
    assert report.holds
    wires = [wire for one in check(trace, (1, 2, 3)) for wire in one.step.wires]
    assert {(wire.framing, wire.under_way, wire.unexplained) for wire in wires} == {(framing, 0, 0)}
    assert verdict_of(report, "wire-is-trace").holds
    assert verdict_of(report, "sent-is-received").holds


def test_what_was_under_way_makes_no_claim_false(tmp_path):
    """Stage 2 gathers parameters last: the device had not sent all when the counters were read."""
    report = verify(load(recorded_on_gpu("stage-2", tmp_path)))
    assert report.holds
    wire = verdict_of(report, "wire-is-trace")
    assert wire.holds is None
    assert "855,872 B were still in flight" in wire.measured
    assert verdict_of(report, "sent-is-received").holds is None
    assert [one.framing for one in report.wires] == [468, 468]


@pytest.mark.parametrize(("name", "framing"), [("ddp", 224), ("fsdp2", 464)])
def test_native_calls_of_programs_are_explained_but_for_keep_alives(name, framing, tmp_path):
    report = verify(load(recorded_on_gpu(name, tmp_path)))
    assert report.holds
    assert [wire.framing for wire in report.wires] == [framing, framing]
    assert [wire.unexplained for wire in report.wires] == [60, 60]


def test_what_goes_over_no_socket_is_not_measured(tmp_path):
    """With NVLink the sockets carry what ranks tell each other as they meet, and no payload."""
    trace = load(recorded_on_gpu("stage-3", tmp_path))
    ranks = []
    for rank in trace.ranks:
        samples = [
            replace(
                sample,
                counters=tuple(
                    replace(one, sent_bytes=one.sent_bytes % 5000, received_bytes=0)
                    for one in sample.counters
                ),
            )
            for sample in rank.wire_samples
        ]
        ranks.append(replace(rank, wire_samples=samples))
    report = verify(replace(trace, ranks=tuple(ranks)))
    assert report.unexplained_wire is None
    assert verdict_of(report, "wire-is-trace").holds is None
    assert all(wire.wire is None for wire in report.wires)


def as_if_forced(trace: Trace, protocol: Protocol) -> Trace:
    """The counters as a protocol had left them, that `NCCL_PROTO` forced on all calls."""
    ranks = []
    for rank in trace.ranks:
        more = []
        for _, event in rank.events.of_kind(Kind.COLLECTIVE):
            moved = cost_of(rank, event)
            chosen = framing_of(rank, event, moved)
            forced = framing_of(rank, event, moved, Tuning(protocol=protocol))
            more.append((event.issue_ns, [a - b for a, b in zip(forced, chosen, strict=True)]))
        busiest = [
            max(rank.wire_samples[-1].counters, key=attrgetter(way)).socket
            for way in ("sent_bytes", "received_bytes")
        ]
        samples = []
        for sample in rank.wire_samples:
            ways = [sum(by[way] for at, by in more if at < sample.time_ns) for way in (0, 1)]
            counters = tuple(
                replace(
                    one,
                    sent_bytes=one.sent_bytes + ways[0] * (one.socket == busiest[0]),
                    received_bytes=one.received_bytes + ways[1] * (one.socket == busiest[1]),
                )
                for one in sample.counters
            )
            samples.append(replace(sample, counters=counters))
        ranks.append(replace(rank, wire_samples=samples))
    return replace(trace, ranks=tuple(ranks))


@pytest.mark.parametrize("protocol", [Protocol.LL, Protocol.LL128])
@pytest.mark.parametrize("name", ["ddp", "fsdp2"])
def test_the_wire_shows_which_protocol_was_forced(name, protocol, tmp_path):
    report = verify(as_if_forced(load(recorded_on_gpu(name, tmp_path)), protocol))
    assert report.holds
    assert [wire.unexplained for wire in report.wires] == [60, 60]
    assert any(f"NCCL used {protocol.upper()} for every call" in note for note in report.notes)


def test_quiet_borders_are_judged_to_the_byte(tmp_path):
    """Where a border waited for the device, bytes that are missing are missing."""
    trace = load(recorded_on_gpu("stage-2", tmp_path))
    quiet = replace(
        trace,
        ranks=tuple(
            replace(
                rank,
                wire_samples=[replace(one, is_quiet=True) for one in rank.wire_samples],
            )
            for rank in trace.ranks
        ),
    )
    report = verify(quiet)
    assert verdict_of(report, "wire-is-trace").holds is False
    assert conservation_verdict(quiet).holds is False
    assert not report.holds
    assert Cause.BACKEND_ALGORITHM.value not in {one.cause for one in report.causes}
