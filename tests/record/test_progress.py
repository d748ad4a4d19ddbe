"""Which iterations count as finished."""

import dataclasses

from tests.record.samples import call, stop, write_calls
from zerosim.record import iterations, load
from zerosim.schema.events import Failure, Phase, WireSample


def steps(rank, *numbers):
    return [call(rank, place, iteration=number) for place, number in enumerate(numbers)]


def update(iteration):
    """Samples of an update phase that was entered and left."""
    return [
        (
            "wire",
            WireSample(iteration=iteration, micro_step=0, phase=phase, time_ns=0, counters=()),
        )
        for phase in (Phase.UPDATE, Phase.OUTSIDE)
    ]


def failure(iteration):
    return (
        "failure",
        Failure(
            message="",
            iteration=iteration,
            phase=Phase.BACKWARD,
            unit="",
            op=None,
            purpose=None,
            waiting_for=(),
            peer_lost=False,
            time_ns=0,
        ),
    )


def test_iterations_of_a_whole_run(tmp_path):
    folder = write_calls(tmp_path, [steps(0, -1, 0, 0, 1, 2), steps(1, -1, 0, 1, 2)])
    assert iterations(load(folder)) == (0, 1, 2)


def test_an_iteration_counts_only_if_every_rank_has_it(tmp_path):
    assert iterations(load(write_calls(tmp_path, [steps(0, 0, 1, 2), steps(1, 1, 2)]))) == (1, 2)


def test_the_last_iteration_of_a_killed_rank_is_not_finished(tmp_path):
    folder = write_calls(tmp_path, [steps(0, 0, 1, 2), steps(1, 0, 1, 2)])
    stop(folder, 1, 5)  # header, group, three calls
    assert iterations(load(folder)) == (0, 1)


def test_unless_its_update_was_left(tmp_path):
    folder = write_calls(tmp_path, [steps(0, 0, 1), steps(1, 0, 1)], more={1: update(1)})
    stop(folder, 1, 5)  # header, group, two calls, the update's begin
    assert iterations(load(folder)) == (0,)
    folder = write_calls(tmp_path, [steps(0, 0, 1), steps(1, 0, 1)], more={1: update(1)})
    stop(folder, 1, 6)
    assert iterations(load(folder)) == (0, 1)


def test_what_failed_is_not_finished(tmp_path):
    whole = [steps(0, 0, 1, 2), steps(1, 0, 1, 2)]
    assert iterations(load(write_calls(tmp_path, whole, more={0: [failure(1)]}))) == (0,)
    whole[1][1] = dataclasses.replace(whole[1][1], error="lost")
    assert iterations(load(write_calls(tmp_path, whole))) == (0, 2)


def test_what_was_left_open_is_not_finished(tmp_path):
    left_open = [("open", call(0, 9, iteration=1))]
    whole = [steps(0, 0, 1, 2), steps(1, 0, 1, 2)]
    assert iterations(load(write_calls(tmp_path, whole, more={0: left_open}))) == (0, 2)


def test_without_all_ranks_no_iteration_is_known(tmp_path):
    folder = write_calls(tmp_path, [steps(0, 0, 1), steps(1, 0, 1)])
    (folder / "rank-1.jsonl").unlink()
    assert iterations(load(folder)) == ()


def test_a_run_without_iterations(tmp_path):
    assert iterations(load(write_calls(tmp_path, [steps(0, -1), []]))) == ()
