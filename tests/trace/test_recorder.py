"""What one rank writes: order, times on an injected clock, failures, and rows at once."""

import threading

import pytest
import torch
import torch.distributed as dist

import zerosim
from zerosim.base.errors import CollectiveError
from zerosim.record import load, raw_rows
from zerosim.schema.events import Algorithm, Kind, Op, Phase, Purpose
from zerosim.trace import labels, templates
from zerosim.trace.sink import CollectiveRequest
from zerosim.train.collectives import InlineExecutor, Native, RankGroup

RING = CollectiveRequest(Op.REDUCE_SCATTER, Algorithm.RING, "0", (0,), "float32", 8, 32)


class Ticking:
    """A clock that moves by one at each look."""

    def __init__(self):
        self.now = 0
        self.lock = threading.Lock()

    def now_ns(self):
        with self.lock:
            self.now += 1
            return self.now

    def wall_ns(self):
        return 0


reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


def calls_of(rank):
    return [event for event in rank.events if event.kind is not Kind.WAIT]


def only(folder):
    (rank,) = load(folder).ranks
    return rank


@pytest.fixture(autouse=True)
def outside():
    yield
    labels.enter(-1, Phase.OUTSIDE)


def test_times_are_those_of_the_clock(tmp_path, clock):
    with zerosim.trace(tmp_path / "t", clock=clock):
        clock.now = 2000
        labels.enter(0, Phase.FORWARD)
        span = labels.begin_compute("blocks.0")
        clock.now = 2500
        labels.end(span)
        with labels.scope(unit="blocks.0"):
            taken = labels.snapshot()
        clock.now = 3000
        with labels.restored(taken), labels.collective(RING):
            clock.now = 3700
        clock.now = 4000
        labels.metric("loss", 2.5)
        clock.now = 5000
    rank = only(tmp_path / "t")
    assert (rank.header.clock_ns, rank.header.wall_ns) == (1000, 1_700_000_000_000_000_000)
    compute, collective = rank.events
    times = [(event.issue_ns, event.start_ns, event.end_ns) for event in rank.events]
    assert times == [(2000, 2000, 2500), (2500, 3000, 3700)]
    assert (compute.kind, compute.unit, compute.purpose) == (Kind.COMPUTE, "blocks.0", None)
    assert (collective.sent_bytes, collective.received_bytes) == (0, 0)
    (metric,) = rank.metrics
    assert (metric.iteration, metric.name, metric.value, metric.time_ns) == (0, "loss", 2.5, 4000)
    assert [sample.time_ns for sample in rank.wire_samples] == [1000, 2000, 5000]
    phases = [sample.phase for sample in rank.wire_samples]
    assert phases == [Phase.OUTSIDE, Phase.FORWARD, Phase.FORWARD]


def test_a_native_call_is_issued_then_starts_then_ends(tmp_path, alone):
    with zerosim.trace(tmp_path / "t", clock=Ticking()):
        for _ in range(20):
            dist.all_reduce(torch.ones(3))
            work = dist.all_reduce(torch.ones(3), async_op=True)
            work.wait()
    rank = only(tmp_path / "t")
    assert [event.id for event in rank.events] == list(range(len(rank.events)))
    waits = [event.parent for event in rank.events if event.kind is Kind.WAIT]
    assert len(set(waits)) == len(waits)
    assert set(waits) <= {event.id for event in calls_of(rank)}
    assert [event.sequence for event in calls_of(rank)] == list(range(40))
    for event in calls_of(rank):
        assert event.issue_ns < event.start_ns < event.end_ns
        assert event.source.startswith("trace/test_recorder.py:")
    assert rank.unfinished == ()


def test_an_asynchronous_call_ends_without_being_waited_for(tmp_path, alone):
    with zerosim.trace(tmp_path / "t"):
        work = dist.all_reduce(torch.ones(3), async_op=True)
        over = threading.Event()
        work.get_future().add_done_callback(lambda _: over.set())
        assert over.wait(60)
    (event,) = only(tmp_path / "t").events
    assert event.issue_ns <= event.start_ns <= event.end_ns


def test_a_call_that_works_while_it_is_waited_for_ends_with_the_wait(tmp_path, alone):
    """Gloo's reduce-scatter has no future."""
    own = torch.zeros(4)
    with zerosim.trace(tmp_path / "t"):
        reduce_scatter(own, torch.ones(4))
    assert own.tolist() == [1.0] * 4
    rank = only(tmp_path / "t")
    event, wait = rank.events
    assert (wait.kind, wait.parent) == (Kind.WAIT, event.id)
    assert event.start_ns <= wait.start_ns <= wait.end_ns <= event.end_ns
    assert rank.unfinished == ()


def test_a_call_whose_end_cannot_be_seen_is_closed_without_one(tmp_path, alone):
    with zerosim.trace(tmp_path / "t"):
        work = reduce_scatter(torch.zeros(4), torch.ones(4), async_op=True)
        reduce_scatter(torch.zeros(4), torch.ones(4))
    work.wait()
    rank = only(tmp_path / "t")
    unseen, _, _ = rank.events
    assert unseen.end_ns is None
    assert unseen.error == ""
    assert rank.unfinished == ()


def test_waits_take_their_own_way_again_after_a_trace(tmp_path, alone):
    before = dist.Work.wait
    with zerosim.trace(tmp_path / "t"):
        assert dist.Work.wait is not before
    assert dist.Work.wait is before


def test_a_call_that_the_backend_refuses_is_closed_with_its_error(tmp_path, alone):
    with zerosim.trace(tmp_path / "t"):
        outputs = [[torch.zeros(3)]]
        with pytest.raises(RuntimeError, match="invalid"):
            dist.distributed_c10d._get_default_group().allgather(outputs, [torch.zeros(4)]).wait()
        carrier = Native(RankGroup(0, (0, 1), dist.group.WORLD), InlineExecutor())
        with pytest.raises(CollectiveError):
            carrier.reduce_scatter(torch.zeros(2, 3))
    rank = only(tmp_path / "t")
    gather, reduce_scatter, wait = rank.events
    assert (wait.kind, wait.parent) == (Kind.WAIT, reduce_scatter.id)
    assert "invalid" in gather.error
    assert reduce_scatter.error
    for event in (gather, reduce_scatter):
        assert len(event.error.splitlines()) == 1
    assert rank.unfinished == ()
    assert rank.failure is None


def test_each_row_is_in_the_file_before_the_program_goes_on(tmp_path, alone):
    file = tmp_path / "t" / "rank-0.jsonl"

    def last():
        *_, row = raw_rows(file)
        return row

    with zerosim.trace(tmp_path / "t", wire=False, memory=False):
        assert last().name == "header"
        labels.metric("loss", 0.25)
        assert last().values["value"] == 0.25
        span = labels.begin_compute("blocks.0")
        assert last().name == "begin"
        assert last().values["unit"] == "blocks.0"
        labels.end(span)
        assert last().name == "close"
        dist.barrier()
        assert b'"op":"barrier"' in file.read_bytes()
        before = load(tmp_path / "t")
        assert not before.complete
        assert [e.kind for e in before.ranks[0].events][:2] == [Kind.COMPUTE, Kind.COLLECTIVE]
    assert last().name == "end"
    assert load(tmp_path / "t", strict=True).complete


def test_a_group_is_described_before_its_first_call(tmp_path, alone):
    with zerosim.trace(tmp_path / "t"):
        dist.barrier()
        dist.all_reduce(torch.ones(1))
    rank = only(tmp_path / "t")
    (group,) = rank.groups.values()
    assert (group.backend, group.ranks) == ("gloo", (0,))
    assert [event.group for event in calls_of(rank)] == [group.name] * 2
    assert [event.dtype for event in calls_of(rank)] == ["", "float32"]
    assert {event.algorithm for event in calls_of(rank)} == {Algorithm.GLOO}
    purposes = [event.purpose for event in calls_of(rank)]
    assert purposes == [Purpose.SYNCHRONIZE, Purpose.UNLABELLED]


def test_a_failure_names_what_the_rank_was_in(tmp_path):
    labels.enter(3, Phase.BACKWARD)
    with (
        pytest.raises(RuntimeError, match="peer"),
        zerosim.trace(tmp_path / "t"),
        labels.scope(unit="blocks.1", purpose=Purpose.REDUCE_GRADIENTS),
        labels.collective(RING),
    ):
        raise RuntimeError("peer is gone\nmore")
    rank = only(tmp_path / "t")
    failure = rank.failure
    assert failure.message == "RuntimeError: peer is gone"
    assert (failure.iteration, failure.phase) == (3, Phase.BACKWARD)
    assert (failure.unit, failure.op) == ("blocks.1", Op.REDUCE_SCATTER)
    assert (failure.purpose, failure.waiting_for) == (Purpose.REDUCE_GRADIENTS, (0,))
    assert not failure.peer_lost
    (event,) = rank.events
    assert event.error == "peer is gone"
    assert rank.complete


def test_a_failure_outside_of_any_collective_names_the_phase(tmp_path, alone):
    labels.enter(1, Phase.UPDATE)
    with pytest.raises(KeyError), zerosim.trace(tmp_path / "t"):  # noqa: PT012 - after a call
        dist.all_reduce(torch.ones(1))
        raise KeyError("momentum")
    failure = only(tmp_path / "t").failure
    assert failure.message == "KeyError: 'momentum'"
    assert (failure.phase, failure.op, failure.waiting_for) == (Phase.UPDATE, None, ())


def test_a_collective_that_began_under_another_trace_is_none_of_this_one(tmp_path, alone):
    """As a background thread meets it: the first block is left while it is in a collective."""
    first, second = zerosim.trace(tmp_path / "a"), zerosim.trace(tmp_path / "b")
    first.__enter__()
    with labels.collective(RING):
        first.__exit__(None, None, None)
        with second:
            dist.all_reduce(torch.ones(2))
    (event,) = calls_of(only(tmp_path / "b"))
    assert (event.kind, event.op, event.parent) == (Kind.COLLECTIVE, Op.ALL_REDUCE, None)
    assert only(tmp_path / "a").unfinished == (0,)


def rows_of(folder, name):
    return [row.values for row in raw_rows(folder / "rank-0.jsonl") if row.name == name]


def test_what_recurs_is_said_once(tmp_path, alone):
    with zerosim.trace(tmp_path / "t", wire=False):
        for iteration in range(3):
            for micro_step in range(2):
                labels.enter(iteration, Phase.FORWARD, micro_step)
                for unit in ("a", "b"):
                    labels.end(labels.begin_compute(unit))
                dist.all_reduce(torch.ones(4))
    said = rows_of(tmp_path / "t", "template")
    assert sorted(row["unit"] for row in said if row["kind"] == Kind.COMPUTE) == ["a", "b"]
    assert [row["op"] for row in said if row["kind"] == Kind.COLLECTIVE] == [Op.ALL_REDUCE]
    events = calls_of(only(tmp_path / "t"))
    where = [(event.iteration, event.micro_step, event.unit) for event in events]
    places = [(step, part) for step in range(3) for part in range(2)]
    assert where == [(*place, unit) for place in places for unit in ("a", "b", "")]
    calls = [event for event in events if event.kind is Kind.COLLECTIVE]
    assert [event.sequence for event in calls] == list(range(6))
    assert {event.payload_bytes for event in calls} == {16}


def test_of_what_recurs_not_all_is_remembered(tmp_path, monkeypatch):
    """It is said again, under another number."""
    monkeypatch.setattr(templates, "_MOST_REMEMBERED", 3)
    units = [f"blocks.{number % 5}" for number in range(20)]
    with zerosim.trace(tmp_path / "t", wire=False, memory=False) as recorder:
        for unit in units:
            labels.end(labels.begin_compute(unit))
            assert len(recorder._writer._templates._known) <= 3
    numbers = [row["number"] for row in rows_of(tmp_path / "t", "template")]
    assert numbers == list(range(20))
    assert [event.unit for event in only(tmp_path / "t").events] == units
