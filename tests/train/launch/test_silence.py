"""A launcher ends ranks that hang, whatever the backend does."""

from __future__ import annotations

import pytest

from tests.recorded_gpu import recorded_on_gpu
from tests.train.launch import hanging
from zerosim.base.config import EngineConfig, RunConfig
from zerosim.record import explain_failure
from zerosim.schema.events import End, Standstill
from zerosim.schema.faults import Fault
from zerosim.schema.rows import encode_row
from zerosim.train.launch import command, launcher
from zerosim.train.launch.forkserver import lent
from zerosim.train.launch.job import Job, RanksFailedError
from zerosim.train.launch.silence import Silence

STANDS = Standstill(since_ns=1, time_ns=2, stack=("train.py:8 in step",), call=3)
WORKS = Standstill(since_ns=1, time_ns=2, stack=("train.py:8 in step",))
GOES_ON = End(time_ns=1, num_rows=0)


def write(folder, *rows):
    for rank, record in enumerate(rows):
        name = "end" if isinstance(record, End) else "standstill"
        line, _ = encode_row(name, record, 0)
        (folder / f"rank-{rank}.jsonl").write_bytes(line + bytes(70_000))


@pytest.mark.parametrize(
    ("rows", "ended", "is_over"),
    [
        ((STANDS, WORKS), (), True),
        ((STANDS, STANDS), (), True),
        ((WORKS, WORKS), (), False),  # no rank is in a call: they compute for long
        ((STANDS, GOES_ON), (), False),
        ((STANDS,), (), False),  # the other has not begun
        ((STANDS, GOES_ON), (1,), True),
    ],
)
def test_ranks_are_given_up_that_stand_still_in_a_call(rows, ended, is_over, tmp_path):
    write(tmp_path, *rows)
    silence = Silence([tmp_path], 2, longest_s=15)
    assert not silence.is_over(100, ended)
    assert not silence.is_over(114, ended)
    assert silence.is_over(115, ended) is is_over


def test_who_goes_on_is_given_its_time_again(tmp_path):
    write(tmp_path, STANDS, STANDS)
    silence = Silence([tmp_path], 2, longest_s=15)
    assert not silence.is_over(0)
    write(tmp_path, STANDS, Standstill(since_ns=5, time_ns=7, stack=(), call=4))
    assert not silence.is_over(16)
    assert silence.is_over(31)


def test_a_traced_program_that_hangs_is_told_of_and_left_alone(tmp_path):
    silences = {}
    assert not command.hanging(tmp_path, silences, 0)
    write(tmp_path, STANDS, WORKS)
    assert not command.hanging(tmp_path, silences, 1)
    assert not command.hanging(tmp_path, silences, 60)
    said = command.hanging(tmp_path, silences, 61)
    assert said.startswith("zerosim: no rank has written a row for 60 s during a call")
    assert f"zerosim diagnose {tmp_path}" in said


def test_the_culprit_of_a_run_on_a_device_is_named(tmp_path):
    """Its host had gone on from a call that never was over: it is rank 1 that had not come."""
    folder = recorded_on_gpu("fault-hang", tmp_path)
    lines = explain_failure(folder, 2, {}, 15).splitlines()
    place = "in forward of iteration 1"
    call = "the all-gather of embedding (gather parameters)"
    assert lines[:2] == [
        f"rank 1 did not respond for 15 s, {place}, at models/gpt.py:116 in GPT.logits",
        f"rank 0 was waiting in {call}, {place}",
    ]


@pytest.mark.ranks
def test_a_run_that_hangs_ends(tmp_path, monkeypatch):
    """Its backend would wait for a day: without a look from outside this never ends."""
    monkeypatch.setattr(launcher, "_WORK", f"{hanging.__name__}:work")
    run = RunConfig(model="mlp", ranks=2, steps=3, timeout_s=3)
    faults = (Fault.read("hang,rank=1"),)
    folder = tmp_path / "run"
    job = Job(run, ((EngineConfig(stage=2), folder),), faults=faults)
    with lent() as server, pytest.raises(RanksFailedError) as caught:
        launcher.launch(job, server)
    assert not any(caught.value.exit_codes.values())
    first = explain_failure(folder, 2, caught.value.exit_codes, run.timeout_s).splitlines()[0]
    assert first.startswith("rank 1 did not respond for 3 s")
