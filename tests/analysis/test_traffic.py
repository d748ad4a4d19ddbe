"""The one place that sums what calls move, held against the ledgers of a verification."""

from __future__ import annotations

from functools import cache

import pytest

from tests.lessons.committed import but_later
from zerosim.analysis.traffic import split, sums, total, traced_calls
from zerosim.lessons.recordings import COMMITTED, committed
from zerosim.record import iterations, load, num_nodes
from zerosim.schema.events import STEP_PHASES
from zerosim.schema.manifest import Source
from zerosim.verify import verify

WITHOUT = ["full/stage-2"]
"""It failed before its first iteration. Each process that collects the tests reads this."""
ON_NODES = [f"{name}/stage-3" for name in ("nodes", "qwz", "hpz", "qgz", "plusplus")]
RUNS = [run for run in committed() if run not in WITHOUT]


@cache
def trace_of(run):
    return load(COMMITTED / run)


def is_on_a_wire(run):
    """A dry run has none, and NCCL does not say which link carries what."""
    return trace_of(run).manifest.source is not Source.SIMULATED


@cache
def calls_of(run):
    return tuple(traced_calls(trace_of(run)))


@pytest.mark.parametrize("run", but_later(RUNS))
def test_sums_by_reason_are_those_of_the_verification(run):
    report = verify(trace_of(run))
    found = sums(
        (call for call in calls_of(run) if call.event.iteration == report.iteration),
        lambda call: (call.rank, call.event.phase, call.purpose, call.event.op),
    )
    expected = {}
    for row in report.rows:
        for sent, received, calls in zip(row.sent, row.received, row.calls, strict=True):
            if calls:  # several systems may have called for one reason
                cells = expected.setdefault((sent.rank, row.phase, row.purpose, row.op), [])
                cells.append((sent, received, calls))
    in_steps = {key for key in found if key[1] in STEP_PHASES or key in expected}
    assert in_steps == expected.keys()
    for key, cells in expected.items():
        moved = found[key]
        assert moved.calls == sum(calls for *_, calls in cells)
        assert moved.sent_bytes == sum(sent.trace for sent, *_ in cells)
        assert moved.received_bytes == sum(received.trace for _, received, _ in cells)
        if report.wire_by_call and is_on_a_wire(run):
            assert moved.wire_sent_bytes == sum(sent.kernel for sent, *_ in cells)
            assert moved.wire_received_bytes == sum(received.kernel for _, received, _ in cells)


@pytest.mark.parametrize("run", but_later(RUNS))
def test_what_a_call_adds_on_the_wire_is_what_the_verification_says(run):
    report = verify(trace_of(run))
    calls = [call for call in calls_of(run) if call.event.iteration == report.iteration]
    for place, rank in enumerate(trace_of(run).ranks):
        shares = [
            share
            for call in calls
            if call.rank == rank.rank and call.event.phase in STEP_PHASES
            for share in call.shares
        ]
        added = sum(share.moved.sent_bytes - share.asked.sent_bytes for share in shares)
        cells = [row.sent[place] for row in report.rows if row.phase in STEP_PHASES]
        assert added == sum(cell.algorithm for cell in cells)
        if report.wire_by_call and all(cell.framing is not None for cell in cells):
            framing = sum(share.framing[0] for share in shares)
            assert framing == sum(cell.framing for cell in cells)


def test_which_runs_are_which():
    assert [run for run in committed() if not iterations(trace_of(run))] == WITHOUT
    several = [run for run in RUNS if is_on_a_wire(run) and num_nodes(trace_of(run)) > 1]
    assert set(several) == set(ON_NODES)


@pytest.mark.parametrize("run", ON_NODES)
def test_links_add_up_to_the_whole(run):
    calls = calls_of(run)
    by_link = sums(
        (part for call in calls for part in split(call)), lambda part: part.shares[0].link
    )
    assert sum(moved.sent_bytes for moved in by_link.values()) == total(calls).sent_bytes
