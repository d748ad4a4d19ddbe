"""Rings and native calls give the right result, the ring's to the last bit, and send what theory
says: the trace and the kernel's counters agree with it to the byte.

One launch for each number of ranks serves all tests.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.ranks import run_ranks
from tests.train.collectives import cases
from zerosim.record import load, match_collectives, match_sockets, phase_wire
from zerosim.schema.events import Algorithm, Kind, Op
from zerosim.theory import Cost, cost, framing

pytestmark = pytest.mark.ranks


@dataclass(frozen=True)
class Launch:
    num_ranks: int
    folder: Path
    answers: list[Any]
    cases: list[cases.Case]


@pytest.fixture(
    scope="module",
    params=[2, pytest.param(3, marks=pytest.mark.long), 5],  # the engine trains on three
    ids="{} ranks".format,
)
def launch(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("collectives")
    answers = run_ranks(cases.run_all, request.param, str(folder))
    return Launch(request.param, folder, answers, cases.draw_cases(request.param))


def test_the_cases_reach_every_corner(launch):
    drawn = launch.cases
    assert {case.op for case in drawn} == set(cases.OPS)
    assert {case.dtype for case in drawn} == set(cases.DTYPES)
    for op in cases.OPS:
        lengths = {case.columns for case in drawn if case.op is op}
        assert {0, 1, launch.num_ranks - 1, launch.num_ranks + 1} <= lengths
    roots = {case.root for case in drawn if case.op is Op.BROADCAST and case.columns}
    assert roots == set(range(launch.num_ranks))
    reduced = [case for case in drawn if case.op is Op.ALL_REDUCE and case.columns > 9]
    assert {case.is_matrix for case in reduced} == {True, False}
    rows = [case for case in drawn if case.is_matrix]
    assert any(case.columns * case.element_bytes > 3 * case.chunk_bytes for case in rows)


def test_every_way_ends_with_the_bits_of_the_stated_order(launch):
    for rank, (wrong, _) in enumerate(launch.answers):
        assert wrong == [], f"rank {rank} of {launch.num_ranks}"


def test_a_sum_has_the_same_bits_on_every_rank(launch):
    _, first = launch.answers[0]
    assert len(first) == sum(case.op is Op.ALL_REDUCE for case in launch.cases)
    for _, results in launch.answers[1:]:
        for one, other in zip(first, results, strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_another_order_of_additions_would_be_seen(dtype):
    case = cases.Case(0, Op.ALL_REDUCE, True, 200, dtype, 64, 0)
    ring = cases.folded(case, 4, rounds=True)
    parts = [cases.inner(case, cases.content(case, rank, 4)) for rank in range(4)]
    by_rank = parts[0] + parts[1] + parts[2] + parts[3]
    assert not torch.equal(ring, by_rank)
    torch.testing.assert_close(ring, by_rank, rtol=0.1, atol=0.1)


def test_several_in_flight_are_carried_out_one_after_the_other(launch):
    for rank in load(launch.folder / "in-flight", strict=True).ranks:
        calls = [event for event in rank.events if event.kind is Kind.COLLECTIVE]
        assert len(calls) == cases.NUM_IN_FLIGHT
        assert [call.sequence for call in calls] == list(range(cases.NUM_IN_FLIGHT))
        assert [call.issue_ns for call in calls] == sorted(call.issue_ns for call in calls)
        for call, after in pairwise(calls):
            assert call.issue_ns <= call.start_ns <= call.end_ns <= after.start_ns


def theory(algorithm, case, rank, num_ranks):
    op = case.op
    if op is Op.SEND:
        if rank not in (case.root, (case.root + 1) % num_ranks):
            return Cost()
        op = Op.SEND if rank == case.root else Op.RECEIVE
    return cost(
        algorithm,
        op,
        num_ranks,
        rank,
        case.elements(num_ranks),
        case.element_bytes,
        case.root,
        case.chunk_bytes,
    )


def traced(events):
    """Bytes and messages of the calls of one case, from what was intercepted."""
    messages = [e for e in events if e.parent is not None or e.op in (Op.SEND, Op.RECEIVE)]
    calls = [event for event in events if event.parent is None]
    return Cost(
        sum(event.sent_bytes for event in calls),
        sum(event.received_bytes for event in calls),
        sum(event.op is Op.SEND for event in messages),
        sum(event.op is Op.RECEIVE for event in messages),
    )


def test_the_ring_is_asked_to_send_what_theory_says(launch):
    trace = load(launch.folder / "ring", strict=True)
    assert match_collectives(trace).mismatches == ()
    for rank in trace.ranks:
        for case in launch.cases:
            events = [event for event in rank.events if event.iteration == case.number]
            said = theory(Algorithm.RING, case, rank.rank, launch.num_ranks)
            assert traced(events) == said, (rank.rank, case)


@pytest.mark.parametrize("carrier", [Algorithm.RING, Algorithm.GLOO])
def test_the_kernel_counts_payload_and_framing_and_nothing_else(launch, carrier):
    name = "ring" if carrier is Algorithm.RING else "native"
    trace = load(launch.folder / name, strict=True)
    peers = match_sockets(trace)
    for rank in trace.ranks:
        phases = {phase.iteration: phase for phase in phase_wire(rank, peers)}
        for case in launch.cases:
            said = theory(carrier, case, rank.rank, launch.num_ranks)
            frames = framing("gloo", said)
            wire = phases[case.number]
            assert wire.sent_bytes == said.sent_bytes + frames.sent_bytes, (rank.rank, case)
            assert wire.received_bytes == said.received_bytes + frames.received_bytes, (
                rank.rank,
                case,
            )


def test_each_hop_carries_the_row_that_the_module_says(launch):
    num_ranks = launch.num_ranks
    for rank in load(launch.folder / "ring", strict=True).ranks:
        calls = {event.id: event for event in rank.events if event.kind is Kind.COLLECTIVE}
        hops = [event for event in rank.events if event.kind is Kind.TRANSFER]
        assert hops
        for event in hops:
            call = calls[event.parent]
            if call.op in (Op.BROADCAST, Op.REDUCE):
                continue
            reduces = event.hop < num_ranks - 1 and call.op is not Op.ALL_GATHER
            first = rank.rank - 1 if reduces else rank.rank
            index = event.hop % (num_ranks - 1)
            behind = 0 if event.op is Op.SEND else 1
            assert event.shard == (first - index - behind) % num_ranks
            beside = 1 if event.op is Op.SEND else -1
            assert event.peers == ((rank.rank + beside) % num_ranks,)
            assert call.start_ns <= event.start_ns <= event.end_ns <= call.end_ns
