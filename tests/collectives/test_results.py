"""Rings and native calls give the right result, the ring's to the last bit."""

from itertools import pairwise

import pytest
import torch

from tests.collectives import cases
from zerosim.events import Kind, Op
from zerosim.record import load

pytestmark = pytest.mark.ranks


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
