"""Tracing does not change what is trained, and the engine's labels say what each event is for."""

from collections import Counter

import pytest

from tests.ranks import run_ranks
from tests.trace import training
from zerosim.base.config import STAGES
from zerosim.record import load, match_collectives
from zerosim.schema.events import Algorithm, Kind, Op, Phase, Purpose

pytestmark = pytest.mark.ranks

BLOCK_UNITS = ("blocks.0", "blocks.1")
SETUP = (Phase.SETUP, Purpose.BROADCAST_STATE, Op.BROADCAST)
FORWARD_GATHER = (Phase.FORWARD, Purpose.GATHER_PARAMETERS, Op.ALL_GATHER)
BACKWARD_GATHER = (Phase.BACKWARD, Purpose.GATHER_PARAMETERS, Op.ALL_GATHER)
UPDATE_GATHER = (Phase.UPDATE, Purpose.GATHER_PARAMETERS, Op.ALL_GATHER)
REDUCE = (Phase.BACKWARD, Purpose.REDUCE_GRADIENTS, Op.ALL_REDUCE)
SCATTER = (Phase.BACKWARD, Purpose.REDUCE_GRADIENTS, Op.REDUCE_SCATTER)
NORM = (Phase.UPDATE, Purpose.GRADIENT_NORM, Op.ALL_GATHER)
LOSS = (Phase.UPDATE, Purpose.AVERAGE_LOSS, Op.ALL_GATHER)
EXPECTED = {
    0: {SETUP, REDUCE, LOSS},
    1: {SETUP, SCATTER, UPDATE_GATHER, NORM, LOSS},
    2: {SETUP, SCATTER, UPDATE_GATHER, NORM, LOSS},
    3: {SETUP, FORWARD_GATHER, BACKWARD_GATHER, SCATTER, NORM, LOSS},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("training")
    return folder, run_ranks(training.train_all, 2, str(folder))


def engine_trace(trained, stage, dtype="fp32"):
    return load(trained[0] / f"stage {stage}, {dtype}", strict=True)


def collectives(rank):
    return [event for event in rank.events if event.kind is Kind.COLLECTIVE]


def test_weights_are_bit_equal_with_tracing_on_and_off(trained):
    names = list(training.runs())
    assert len(names) == len(STAGES) * len(training.DTYPES)
    for differ, moved in trained[1]:
        assert differ == []
        assert moved == names


def test_the_traces_are_whole_and_all_ranks_agree(trained):
    for name in training.runs():
        trace = load(trained[0] / name, strict=True)
        matching = match_collectives(trace)
        assert matching.mismatches == ()
        assert all(call.complete for call in matching.collectives)
        assert len(matching.collectives) >= 2
        for rank in trace.ranks:
            assert [event.id for event in rank.events] == list(range(len(rank.events)))
            numbers = [event.sequence for event in collectives(rank)]
            assert numbers == list(range(len(numbers)))
            assert rank.unfinished == ()


@pytest.mark.parametrize("stage", STAGES)
def test_each_collective_says_when_and_why(trained, stage):
    for rank in engine_trace(trained, stage).ranks:
        calls = collectives(rank)
        inside = [call for call in calls if call.phase is not Phase.OUTSIDE]
        assert {(c.phase, c.purpose, c.op) for c in inside} == EXPECTED[stage]
        outside = {(c.purpose, c.op) for c in calls if c.phase is Phase.OUTSIDE}
        gathers = {(Purpose.GATHER_PARAMETERS, Op.ALL_GATHER)}
        assert outside == (gathers if stage == 3 else set())
        for call in calls:
            assert call.algorithm is Algorithm.RING
            assert call.peers == (1 - rank.rank,)
            assert call.issue_ns <= call.start_ns <= call.end_ns
            if call.phase is Phase.SETUP:
                assert call.iteration == -1
            elif call.phase is not Phase.OUTSIDE:
                assert call.iteration in range(training.STEPS)
                assert call.micro_step in (0, 1)
            if call.purpose in (Purpose.GATHER_PARAMETERS, Purpose.REDUCE_GRADIENTS):
                assert call.unit
        steps = {c.iteration for c in calls if c.purpose is Purpose.REDUCE_GRADIENTS}
        assert steps == set(range(training.STEPS))


@pytest.mark.parametrize("stage", STAGES)
def test_each_message_belongs_to_its_collective(trained, stage):
    for rank in engine_trace(trained, stage).ranks:
        calls = {call.id: call for call in collectives(rank)}
        sums = Counter()
        messages = [event for event in rank.events if event.kind is Kind.TRANSFER]
        for event in messages:
            call = calls[event.parent]
            assert event.id > call.id
            assert event.hop is not None
            assert event.shard is not None
            assert (event.phase, event.unit, event.purpose) == (
                call.phase,
                call.unit,
                call.purpose,
            )
            assert call.start_ns <= event.start_ns <= event.end_ns <= call.end_ns
            sums[call.id, event.op] += event.payload_bytes
        assert messages
        for call in calls.values():
            assert call.sent_bytes == sums[call.id, Op.SEND]
            assert call.received_bytes == sums[call.id, Op.RECEIVE]


def test_the_source_is_the_line_of_the_training_loop(trained):
    for rank in engine_trace(trained, 3).ranks:
        gathers = [
            call
            for call in collectives(rank)
            if (call.phase, call.purpose) == (Phase.FORWARD, Purpose.GATHER_PARAMETERS)
        ]
        assert gathers
        place = f"trace/training.py:{training.line_of(training.CALL)} in train_engine"
        own = [call for call in gathers if call.source == place]
        forward = "trace/training.py:"
        assert own
        assert all(call.source.startswith(forward) for call in gathers)


@pytest.mark.parametrize("stage", STAGES)
def test_units_compute_in_their_phases(trained, stage):
    for rank in engine_trace(trained, stage).ranks:
        spans = [event for event in rank.events if event.kind is Kind.COMPUTE]
        assert {span.purpose for span in spans} == {None}
        for unit in BLOCK_UNITS:
            mine = [span for span in spans if span.unit == unit]
            count = Counter(span.phase for span in mine)
            micro_steps = 2 * training.STEPS
            assert count == {
                Phase.FORWARD: micro_steps,
                Phase.BACKWARD: micro_steps,
                Phase.UPDATE: training.STEPS,
            }
            assert all(span.start_ns <= span.end_ns for span in mine)


@pytest.mark.parametrize("dtype", training.DTYPES)
def test_payloads_are_in_the_compute_dtype(trained, dtype):
    wanted = {"fp32": "float32", "bf16": "bfloat16"}[dtype]
    for stage in STAGES:
        for rank in engine_trace(trained, stage, dtype).ranks:
            parameters = (Purpose.GATHER_PARAMETERS, Purpose.REDUCE_GRADIENTS)
            found = {c.dtype for c in collectives(rank) if c.purpose in parameters}
            assert found == {wanted}


def test_the_manifest_describes_the_engine(trained):
    manifest = engine_trace(trained, 2).manifest
    assert manifest.config["stage"] == 2
    assert {unit.name for unit in manifest.units} >= {*BLOCK_UNITS, "head"}
    assert sum(unit.elements for unit in manifest.units) == 2 * 90 + 50 + 3
    assert manifest.buckets
    metrics = engine_trace(trained, 2).ranks[0].metrics
    assert Counter(metric.name for metric in metrics) == {
        "loss": training.STEPS,
        "gradient norm": training.STEPS,
    }
