"""What a rank leaves that is killed at any moment: all that it had written down by then."""

import multiprocessing
import random
import signal
import time
from itertools import count

import pytest

import zerosim
from zerosim.record import load
from zerosim.trace import labels

NUM_UNITS = 7
LONGEST_S = 0.1
DEADLINE_S = 600


def compute_for_ever(folder, written):
    with zerosim.trace(folder, wire=False):
        for number in count():
            labels.end(labels.begin_compute(f"blocks.{number % NUM_UNITS}"))
            written.value = number + 1


def kill_at(folder, after_s):
    """Kill a rank so long after its first event; returns how many it was told are written."""
    # forked from a process without threads: a lock that one of ours holds would never be released
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    written = context.Value("Q", 0, lock=False)
    rank = context.Process(target=compute_for_ever, args=(folder, written), daemon=True)
    rank.start()
    begun = time.monotonic()
    while not written.value and time.monotonic() < begun + DEADLINE_S:
        time.sleep(0.001)
    time.sleep(after_s)
    rank.kill()
    rank.join()
    assert rank.exitcode == -signal.SIGKILL
    return written.value


def assert_all_is_there(folder, number):
    trace = load(folder)
    (rank,) = trace.ranks
    assert not rank.complete
    assert trace.warnings[0].startswith("rank 0: the trace stops after ")
    over = [event for event in rank.events if event.end_ns is not None]
    # the one after may have been written as well
    assert len(over) in (number, number + 1)
    assert [event.id for event in rank.events] == list(range(len(rank.events)))
    assert [event.unit for event in over] == [f"blocks.{at % NUM_UNITS}" for at in range(len(over))]
    assert len(rank.events) - len(over) in (0, 1)


def kill(folder, seeds):
    for seed in seeds:
        chance = random.Random(seed)  # noqa: S311 - any seed will do, but always the same
        home = folder / str(seed)
        number = kill_at(home, chance.random() * LONGEST_S)
        assert number > 0, seed
        assert_all_is_there(home, number)


def test_a_few_kills_lose_nothing(tmp_path):
    kill(tmp_path, range(8))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_kills_lose_nothing(tmp_path):
    kill(tmp_path, range(8, 108))
