"""What a step sends, row by row."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.workloads import ALGORITHMS, PHASES, UNITS, WORKLOADS, sent, thousand
from zerosim.errors import ConfigError
from zerosim.events import Algorithm, Op, Phase, Purpose
from zerosim.theory import (
    Call,
    Cause,
    TrafficRow,
    UnitSize,
    Workload,
    deviations,
    expected_traffic,
    law,
    planned_calls,
    total_received_bytes,
    total_sent_bytes,
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
    assert tuple(sent(workload, phase=phase) for phase in PHASES) == by_phase
    assert sent(workload) == sum(by_phase) == law(workload).sent_bytes
    assert tuple(law(workload, phase).sent_bytes for phase in PHASES) == by_phase
    assert deviations(workload, 0) == ()


def test_rows_say_what_is_sent_and_why():
    units = (UnitSize("a", 9), UnitSize("b", 4, trainable=False), UnitSize("c", 6))
    workload = Workload(
        stage=3,
        num_ranks=2,
        units=units,
        accumulate=2,
        bucket_elements=4,
        clips=True,
        scales_loss=True,
        averages_loss=True,
    )
    assert expected_traffic(workload, 1) == (
        row(Phase.FORWARD, Purpose.GATHER_PARAMETERS, Op.ALL_GATHER, 6, 80, 40, 6),
        row(Phase.BACKWARD, Purpose.GATHER_PARAMETERS, Op.ALL_GATHER, 6, 80, 40, 6),
        row(Phase.BACKWARD, Purpose.REDUCE_GRADIENTS, Op.REDUCE_SCATTER, 8, 64, 32, 8),
        row(Phase.UPDATE, Purpose.OVERFLOW_FLAG, Op.ALL_GATHER, 1, 8, 4, 1),
        row(Phase.UPDATE, Purpose.GRADIENT_NORM, Op.ALL_GATHER, 1, 16, 8, 1),
        row(Phase.UPDATE, Purpose.AVERAGE_LOSS, Op.ALL_GATHER, 1, 8, 4, 1),
    )


def row(phase, purpose, op, num_collectives, payload_bytes, moved_bytes, num_messages):
    return TrafficRow(
        phase=phase,
        purpose=purpose,
        op=op,
        num_collectives=num_collectives,
        payload_bytes=payload_bytes,
        sent_bytes=moved_bytes,
        received_bytes=moved_bytes,
        messages_sent=num_messages,
        messages_received=num_messages,
    )


def purposes(workload):
    return [call.purpose for call in planned_calls(workload)]


def test_stage_0_agrees_on_the_loss_only():
    workload = thousand(0, clips=True, scales_loss=True, averages_loss=True)
    assert purposes(workload) == [Purpose.REDUCE_GRADIENTS, Purpose.AVERAGE_LOSS]
    assert {d.cause: d.bytes for d in deviations(workload, 2)} == {Cause.AVERAGE_LOSS: 12}


@pytest.mark.parametrize("stage", [1, 2])
def test_a_skipped_update_gathers_nothing_and_computes_no_norm(stage):
    workload = thousand(stage, clips=True, scales_loss=True, update_skipped=True)
    assert purposes(workload) == [Purpose.REDUCE_GRADIENTS, Purpose.OVERFLOW_FLAG]
    assert {d.cause: d.bytes for d in deviations(workload, 0)} == {
        Cause.SKIPPED_UPDATE: -1500,
        Cause.OVERFLOW_FLAG: 12,
    }


@pytest.mark.parametrize(("stage", "moved"), [(0, 0), (1, 0), (2, 0), (3, 2)])
def test_frozen_units_are_gathered_in_stage_3_only(stage, moved):
    units = (UnitSize("a", 400), UnitSize("frozen", 600, trainable=False))
    workload = Workload(stage=stage, num_ranks=4, units=units, averages_loss=False)
    passes = 3 if stage == 3 else 2
    assert sent(workload) == passes * 600 + moved * 900
    assert {d.cause: d.bytes for d in deviations(workload, 0)} == {
        Cause.FROZEN_PARAMETERS: (moved - passes) * 900
    }


@given(WORKLOADS, ALGORITHMS)
def test_ranks_receive_what_ranks_send(workload, algorithm):
    of_ranks = [expected_traffic(workload, rank, algorithm) for rank in range(workload.num_ranks)]
    sent_bytes = sum(map(total_sent_bytes, of_ranks))
    assert sent_bytes == sum(map(total_received_bytes, of_ranks))
    if algorithm is not Algorithm.NCCL:
        messages = [
            (sum(r.messages_sent for r in rows), sum(r.messages_received for r in rows))
            for rows in of_ranks
        ]
        assert sum(s for s, _ in messages) == sum(r for _, r in messages)


@given(WORKLOADS, st.data())
def test_one_row_for_each_reason_in_the_order_of_the_phases(workload, data):
    rank = data.draw(st.integers(0, workload.num_ranks - 1))
    rows = expected_traffic(workload, rank)
    keys = [(r.phase, r.purpose, r.op) for r in rows]
    assert len(set(keys)) == len(keys)
    order = [PHASES.index(r.phase) for r in rows]
    assert order == sorted(order)
    assert all(r.num_collectives > 0 and r.payload_bytes > 0 and r.sent_bytes > 0 for r in rows)
    # a ring of N sends (N-1)/N of each payload; all-reduce counts two
    for r in rows:
        passes = 2 if r.op is Op.ALL_REDUCE else 1
        assert r.sent_bytes * workload.num_ranks == (
            passes * r.payload_bytes * (workload.num_ranks - 1)
        )


@given(WORKLOADS)
def test_buckets_change_nothing_but_the_number_of_calls(workload):
    if workload.num_ranks == 1:
        return
    whole = Workload(
        **{name: getattr(workload, name) for name in Workload.__slots__} | {"bucket_elements": None}
    )
    assert sent(workload) == sent(whole)


@given(st.integers(0, 3), UNITS, st.integers(1, 4), st.booleans())
def test_one_rank_sends_nothing(stage, units, accumulate, flag):
    workload = Workload(
        stage=stage,
        num_ranks=1,
        units=units,
        accumulate=accumulate,
        clips=flag,
        scales_loss=flag,
        averages_loss=True,
        update_skipped=flag,
    )
    assert expected_traffic(workload, 0) == ()
    assert deviations(workload, 0, Algorithm.GLOO) == ()
    assert law(workload).sent_bytes == 0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: thousand(4),
        lambda: thousand(0, accumulate=0),
        lambda: thousand(0, element_bytes=0),
        lambda: thousand(0, bucket_elements=0),
        lambda: thousand(0, chunk_bytes=0),
        lambda: Workload(stage=0, num_ranks=0, units=(UnitSize("a", 1),)),
        lambda: Workload(stage=0, num_ranks=1, units=()),
        lambda: Workload(stage=0, num_ranks=1, units=(UnitSize("a", 1),) * 2),
        lambda: expected_traffic(thousand(0), 4),
        lambda: deviations(thousand(0), -1),
        lambda: expected_traffic(thousand(1), 0, Algorithm.OTHER),
    ],
)
def test_what_cannot_be_computed_is_refused(wrong):
    with pytest.raises(ConfigError, match="expected"):
        wrong()


def test_many_units_are_planned_once_and_like_calls_cost_once(monkeypatch):
    workload = Workload(stage=3, num_ranks=2, units=[UnitSize(f"u{n}", 10) for n in range(300)])
    costed = []
    cost = Call.cost

    def counted(call, *args):
        costed.append(call)
        return cost(call, *args)

    monkeypatch.setattr(Call, "cost", counted)
    assert planned_calls(workload, 0) is planned_calls(workload, 1)
    for _ in range(2):
        for rank in range(2):
            rows = expected_traffic(workload, rank)
            assert [row.num_collectives for row in rows] == [300, 300, 300]
            assert [row.sent_bytes for row in rows] == [300 * 5 * 2] * 3
    assert len(costed) == 2 * 3
    again = replace(workload, units=tuple(replace(unit) for unit in workload.units))
    assert (again, hash(again)) == (workload, hash(workload))
    assert replace(workload, num_ranks=4) != workload
