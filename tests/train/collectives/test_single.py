"""A group of one does nothing; a wrong buffer is refused in one line; executors keep order."""

import threading

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from zerosim.base.config import CollectivesKind
from zerosim.base.errors import CollectiveError, ConfigError
from zerosim.schema.events import Op, Phase, Purpose
from zerosim.trace import labels
from zerosim.train.collectives import (
    BackgroundExecutor,
    InlineExecutor,
    Native,
    RankGroup,
    Ring,
    make_collectives,
    world,
)

CPU = torch.device("cpu")


OF_ALL, OF_A_ROOT = ("all_reduce", "reduce_scatter", "all_gather"), ("broadcast", "reduce")


class Refusing:
    """An executor for collectives that must not run."""

    def submit(self, work):
        raise AssertionError("a collective was carried out")

    def close(self):
        pass


@pytest.mark.parametrize("kind", CollectivesKind)
@pytest.mark.parametrize("name", [*OF_ALL, *OF_A_ROOT])
def test_a_group_of_one_does_nothing(kind, name):
    collectives = make_collectives(kind, world(), Refusing(), 64)
    assert collectives.group.size == 1
    buffer = torch.arange(5.0).view(1, 5)
    arguments = (0,) if name in OF_A_ROOT else ()
    getattr(collectives, name)(buffer, *arguments).wait()
    assert torch.equal(buffer, torch.arange(5.0).view(1, 5))


@pytest.mark.parametrize("kind", [Ring, Native])
@pytest.mark.parametrize("op", [Op.REDUCE_SCATTER, Op.ALL_GATHER])
@pytest.mark.parametrize("shape", [(6,), (2, 3), (3, 2, 1), ()])
def test_a_buffer_without_a_row_for_each_rank_is_refused(kind, op, shape):
    group = RankGroup(1, (0, 1, 2))
    collectives = kind(group, Refusing(), *([64] if kind is Ring else []))
    call = collectives.reduce_scatter if op is Op.REDUCE_SCATTER else collectives.all_gather
    with pytest.raises(ConfigError) as caught:
        call(torch.zeros(shape))
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert message == (
        f"{op} got a buffer of shape {shape}: expected (3, columns), a row for each rank"
    )


def test_neighbours_in_a_ring_are_global_ranks():
    group = RankGroup(2, (7, 3, 5))
    assert (group.size, group.next, group.previous, group.name) == (3, 7, 3, "")


@pytest.fixture(params=["inline", "background"])
def executor(request):
    made = InlineExecutor() if request.param == "inline" else BackgroundExecutor(CPU)
    yield made
    made.close()


def test_work_runs_in_the_order_of_asking_without_gradients_under_the_labels(executor):
    done = []

    def work(number):
        def run():
            here = labels.current()
            done.append((number, here.unit, here.purpose, torch.is_grad_enabled()))

        return run

    handles = []
    for number in range(20):
        with labels.scope(unit=f"unit {number}", purpose=Purpose.REDUCE_GRADIENTS):
            handles.append(executor.submit(work(number)))
    for handle in handles:
        handle.wait()
    assert done == [(n, f"unit {n}", Purpose.REDUCE_GRADIENTS, False) for n in range(20)]
    assert torch.is_grad_enabled()
    assert labels.current().unit == ""


def test_the_background_returns_before_the_work_is_over():
    executor, gate, done = BackgroundExecutor(CPU), threading.Event(), []
    first = executor.submit(gate.wait)
    second = executor.submit(lambda: done.append(threading.current_thread().name))
    assert done == []
    gate.set()
    second.wait()
    first.wait()
    assert done == ["zerosim-collectives"]
    executor.close()
    assert "zerosim-collectives" not in {thread.name for thread in threading.enumerate()}


def test_when_a_native_call_is_over_its_tensors_are_the_callers_alone(executor, monkeypatch):
    """Gloo's thread lets go of them after it has said that it is done."""

    def keep_a_while(buffer, dst, group):
        threading.Timer(0.05, buffer.numel).start()

    monkeypatch.setattr("zerosim.train.collectives.native.dist.reduce", keep_a_while)
    buffer = torch.zeros(4)
    reference = StorageWeakRef(buffer.untyped_storage())
    handle = Native(RankGroup(1, (0, 1, 2)), executor).reduce(buffer, 0)
    del buffer
    handle.wait()
    del handle
    assert reference.expired()


def failing():
    raise RuntimeError("Connection closed by peer [127.0.0.1]:4711\nsecond line")


EXPECTED = (
    "reduce gradients of blocks.1 did not complete in backward of iteration 3: "
    "Connection closed by peer [127.0.0.1]:4711"
)


@pytest.fixture
def in_backward():
    before = labels.position()
    labels.enter(3, Phase.BACKWARD)
    with labels.scope(unit="blocks.1", purpose=Purpose.REDUCE_GRADIENTS):
        yield
    labels.enter(before.iteration, before.phase, before.micro_step)


def test_a_failure_says_what_did_not_complete(in_backward):
    with pytest.raises(CollectiveError) as caught:
        InlineExecutor().submit(failing)
    assert str(caught.value) == EXPECTED
    assert caught.value.exit_code == 3
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_after_a_failure_everything_asked_for_later_fails_too(in_backward):
    executor, done = BackgroundExecutor(CPU), []
    good = executor.submit(lambda: done.append("before"))
    bad = executor.submit(failing)
    later = [executor.submit(lambda: done.append("after")) for _ in range(3)]
    good.wait()
    for handle in [bad, *later, bad]:
        with pytest.raises(CollectiveError) as caught:
            handle.wait()
        assert str(caught.value) == EXPECTED
    executor.close()
    assert done == ["before"]


def test_an_error_without_words_has_a_name():
    def silent():
        raise ValueError

    with pytest.raises(CollectiveError, match=r"unlabelled did not complete in .*: ValueError$"):
        InlineExecutor().submit(silent)
