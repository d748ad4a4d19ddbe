"""What a step sends, row by row."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.workloads import (
    ALGORITHMS,
    UNITS,
    WORKLOADS,
    calls,
    rows,
    sent,
    thousand,
    traffic,
)
from tests.theory.workloads import workload as make
from zerosim.base.config import DType
from zerosim.base.errors import ConfigError
from zerosim.schema.events import STEP_PHASES, Algorithm, Op, Phase, Purpose
from zerosim.theory import (
    Cause,
    Cost,
    UnitSize,
    cost,
    deviations,
    law,
    planned,
)


@pytest.mark.parametrize(
    ("stage", "accumulate", "by_phase"),
    [
        (0, 1, (0, 3000, 0)),
        (0, 3, (0, 3000, 0)),
        (1, 1, (0, 1500, 1500)),
        (1, 3, (0, 1500, 1500)),
        (2, 1, (0, 1500, 1500)),
        (2, 3, (0, 4500, 1500)),
        (3, 1, (1500, 3000, 0)),
        (3, 3, (4500, 9000, 0)),
    ],
)
def test_a_thousand_bf16_parameters_on_four_ranks(stage, accumulate, by_phase):
    workload = thousand(stage, accumulate=accumulate)
    assert tuple(sent(workload, phase=phase) for phase in STEP_PHASES) == by_phase
    assert sent(workload) == sum(by_phase) == law(workload).sent_bytes
    assert tuple(law(workload, phase).sent_bytes for phase in STEP_PHASES) == by_phase
    assert deviations(workload, 0) == ()


def test_rows_say_what_is_sent_and_why():
    units = (UnitSize("a", 9), UnitSize("b", 4, trainable=False), UnitSize("c", 6))
    workload = make(
        3, 2, units, accumulate=2, bucket_elements=4, clip=1.0, dtype=DType.FP16,
        averages_loss=True,
    )  # fmt: skip
    gather, reduce = Purpose.GATHER_PARAMETERS, Purpose.REDUCE_GRADIENTS
    assert list(rows(workload, 1).items()) == [
        ((Phase.FORWARD, gather, Op.ALL_GATHER), (6, 80, Cost(40, 40, 6, 6))),
        ((Phase.BACKWARD, gather, Op.ALL_GATHER), (6, 80, Cost(40, 40, 6, 6))),
        ((Phase.BACKWARD, reduce, Op.REDUCE_SCATTER), (8, 64, Cost(32, 32, 8, 8))),
        ((Phase.UPDATE, Purpose.OVERFLOW_FLAG, Op.ALL_GATHER), (1, 8, Cost(4, 4, 1, 1))),
        ((Phase.UPDATE, Purpose.GRADIENT_NORM, Op.ALL_GATHER), (1, 16, Cost(8, 8, 1, 1))),
        ((Phase.UPDATE, Purpose.AVERAGE_LOSS, Op.ALL_GATHER), (1, 8, Cost(4, 4, 1, 1))),
    ]


def purposes(workload):
    return [call.purpose for call in calls(workload)]


def test_stage_0_agrees_on_the_loss_only():
    workload = thousand(0, clip=1.0, dtype=DType.FP16, averages_loss=True)
    assert purposes(workload) == [Purpose.REDUCE_GRADIENTS, Purpose.AVERAGE_LOSS]
    assert {d.cause: d.bytes for d in deviations(workload, 2)} == {Cause.AVERAGE_LOSS: 12}


@pytest.mark.parametrize("stage", [1, 2])
def test_a_skipped_update_gathers_nothing_and_computes_no_norm(stage):
    workload = thousand(stage, clip=1.0, dtype=DType.FP16, update_skipped=True)
    assert purposes(workload) == [Purpose.REDUCE_GRADIENTS, Purpose.OVERFLOW_FLAG]
    assert {d.cause: d.bytes for d in deviations(workload, 0)} == {
        Cause.SKIPPED_UPDATE: -1500,
        Cause.OVERFLOW_FLAG: 12,
    }


@pytest.mark.parametrize(("stage", "moved"), [(0, 0), (1, 0), (2, 0), (3, 2)])
def test_frozen_units_are_gathered_in_stage_3_only(stage, moved):
    units = (UnitSize("a", 400), UnitSize("frozen", 600, trainable=False))
    workload = make(stage, 4, units, averages_loss=False)
    passes = 3 if stage == 3 else 2
    assert sent(workload) == passes * 600 + moved * 900
    assert {d.cause: d.bytes for d in deviations(workload, 0)} == {
        Cause.FROZEN_PARAMETERS: (moved - passes) * 900
    }


@given(WORKLOADS, ALGORITHMS)
def test_ranks_receive_what_ranks_send(workload, algorithm):
    total = Cost()
    for rank in range(workload.num_ranks):
        total += traffic(workload, rank, algorithm)
    assert total.sent_bytes == total.received_bytes
    assert total.messages_sent == total.messages_received


@given(WORKLOADS, st.data())
def test_movements_are_in_the_order_of_the_phases_and_a_ring_sends_its_share(workload, data):
    rank = data.draw(st.integers(0, workload.num_ranks - 1))
    found = calls(workload, rank)
    order = [STEP_PHASES.index(one.phase) for one in found]
    assert order == sorted(order)
    # a ring of N sends (N-1)/N of each payload; all-reduce counts two
    for one in found:
        passes = 2 if one.op is Op.ALL_REDUCE else 1
        count = workload.num_ranks
        sent_bytes = one.cost(rank, Algorithm.RING).sent_bytes
        assert sent_bytes * count == passes * one.payload_bytes * (count - 1) > 0


@given(WORKLOADS)
def test_buckets_change_nothing_but_the_number_of_calls(workload):
    if workload.num_ranks == 1:
        return
    whole = replace(workload, config=replace(workload.config, bucket_elements=None))
    assert sent(workload) == sent(whole)


@given(st.integers(0, 3), UNITS, st.integers(1, 4), st.booleans())
def test_one_rank_sends_nothing(stage, units, accumulate, flag):
    workload = make(
        stage, 1, units, accumulate=accumulate, clip=1.0 if flag else None,
        dtype=DType.FP16 if flag else DType.BF16, averages_loss=True, update_skipped=flag,
    )  # fmt: skip
    assert planned(workload) == ()
    assert deviations(workload, 0, Algorithm.GLOO) == ()
    assert law(workload).sent_bytes == 0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: thousand(4),
        lambda: thousand(0, accumulate=0),
        lambda: thousand(0, bucket_elements=0),
        lambda: thousand(0, chunk_bytes=0),
        lambda: make(0, 0, (UnitSize("a", 1),)),
        lambda: make(0, 1, ()),
        lambda: make(0, 1, (UnitSize("a", 1),) * 2),
        lambda: planned(thousand(0), 4),
        lambda: deviations(thousand(0), -1),
        lambda: traffic(thousand(1), 0, Algorithm.OTHER),
    ],
)
def test_what_cannot_be_computed_is_refused(wrong):
    with pytest.raises(ConfigError, match="expected"):
        wrong()


def test_many_units_are_planned_once_and_like_calls_cost_once():
    workload = make(3, 2, [UnitSize(f"u{n}", 10) for n in range(300)])
    assert planned(workload, 0)[0] is planned(workload, 1)[0]
    cost.cache_clear()
    for rank in range(2):
        assert list(rows(workload, rank).values()) == [(300, 6000, Cost(3000, 3000, 300, 300))] * 3
    assert cost.cache_info().misses == 2 * 2  # gathers alike in forward and backward
    again = replace(workload, units=tuple(replace(unit) for unit in workload.units))
    assert (again, hash(again)) == (workload, hash(workload))
    assert replace(workload, num_ranks=4) != workload
