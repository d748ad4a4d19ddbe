"""A run has its folder for itself, and other files are not touched."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.command import assert_one_line, command, contents
from tests.cli.traces import engine_trace, write
from tests.ranks import free_port
from zerosim.base.errors import EnvironmentFault
from zerosim.cli import folders, run
from zerosim.cli.folders import make_free, require_free, reserve
from zerosim.train.launch import launcher

RUN = ("run", "--model", "mlp", "--ranks", 2, "--steps", 1, "--stage", 1)
RESERVES = (
    "import sys; from contextlib import ExitStack; from pathlib import Path;"
    "from zerosim.cli.folders import reserve;"
    "held = ExitStack(); reserve(Path(sys.argv[1]), held, overwrite=True);"
    "print('held', flush=True); sys.stdin.read()"
)


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "t", engine_trace(1))


@pytest.mark.parametrize("words", [RUN, ("trace",)], ids=lambda words: words[0])
def test_a_folder_that_a_run_is_recorded_in_is_refused(tmp_path, monkeypatch, no_ranks, words):
    monkeypatch.setattr(run, "require_free", lambda *_, **__: None)  # it looked before the other
    folder, rest = tmp_path / "t", ("--", "true") if words[0] == "trace" else ()
    with ExitStack() as held:
        reserve(folder, held, overwrite=False)
        write(folder, engine_trace(1))
        before = contents(folder)
        for more in ((), ("--overwrite",)):
            answer = command(*words, "--out", folder, *more, *rest)
            assert_one_line(answer, f"{folder}: a run is being recorded there", "another --out")
            who = re.search(r" \(process (\d+), since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\)", answer.err)
            assert who is not None
            assert int(who[1]) == os.getpid()
        assert contents(folder) == before
    if words == RUN:  # the other has ended in between
        assert_one_line(command(*words, "--out", folder), "already contains a trace")
        assert contents(folder) == before


def test_a_folder_is_kept_until_the_verdict(tmp_path, monkeypatch):
    """The verdict is on the recorded run, so no other run may write there before it."""
    refused = []

    def report(folders, *, is_whole, as_json):
        for each in folders:
            with ExitStack() as held, pytest.raises(EnvironmentFault) as caught:
                reserve(each, held, overwrite=True)
            refused.append(str(caught.value))
        return 0

    monkeypatch.setattr(run, "_report", report)
    monkeypatch.setattr(launcher, "run_ranks", lambda *_: {0: 0, 1: 0})
    assert command(*RUN[:-1], "0,1", "--out", tmp_path).code == 0
    assert len(refused) == 2
    assert all("a run is being recorded there" in each for each in refused)
    for name in ("stage-0", "stage-1"):
        with ExitStack() as held:
            reserve(tmp_path / name, held, overwrite=False)


def test_one_that_was_killed_keeps_no_folder(tmp_path):
    words = (sys.executable, "-c", RESERVES, str(tmp_path))
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        with ExitStack() as held, pytest.raises(EnvironmentFault, match=f"process {other.pid},"):
            reserve(tmp_path, held, overwrite=True)
        other.send_signal(signal.SIGKILL)
        other.wait()
        with ExitStack() as held:
            reserve(tmp_path, held, overwrite=True)
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_locks_or_proc_keeps_nobody_out(tmp_path, monkeypatch):
    def fails(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(folders.fcntl, "flock", fails)
    with ExitStack() as held:
        reserve(tmp_path, held, overwrite=False)
    monkeypatch.setattr(Path, "read_text", fails)
    assert folders._recorder(tmp_path) == ""


@pytest.mark.ranks
@pytest.mark.parametrize("local_rank", [0, 1])
def test_under_torchrun_nobody_touches_a_folder_before_rank_0_is_there(
    folder, monkeypatch, local_rank
):
    """Rank 0 was refused and is gone; another rank of its node, or of another, gives up."""
    before = contents(folder)
    for name, value in {
        "RANK": "1", "LOCAL_RANK": str(local_rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
        "TORCH_CPP_LOG_LEVEL": "ERROR",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    answer = command("run", "--model", "mlp", "--out", folder, "--overwrite", "--timeout", 1)
    assert answer.code == 3
    assert "rank 1: the other ranks did not join" in answer.err
    assert contents(folder) == before


def test_under_torchrun_rank_0_is_refused(folder, monkeypatch):
    for name, value in {
        "RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "TORCH_CPP_LOG_LEVEL": "ERROR",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    with ExitStack() as held:
        reserve(folder, held, overwrite=True)
        before = contents(write(folder, engine_trace(1)))
        answer = command("run", "--model", "mlp", "--stage", 1, "--out", folder, "--overwrite")
    assert_one_line(answer, "a run is being recorded there")
    assert contents(folder) == before


OTHERS = {
    "a text": {"thesis.txt": "mine"},
    "a folder": {"src/main.py": "mine"},
    "a manifest of something else": {"manifest.json": '{"manifest_version": 3}'},
    "rows of something else": {"rank-0.jsonl": '{"score": 1}\n'},
    "one such beside a trace": {"manifest.json": '{\n  "schema": 1', "rank-9.jsonl": "mine"},
    "notes": {"note-1.txt": "mine", "todo": "mine"},
    "attempts": {"attempt-1/photo.jpg": "mine"},
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_no_folder_of_a_trace_is_left_alone(tmp_path, no_ranks, kind):
    for name, text in OTHERS[kind].items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    before = contents(tmp_path)
    for more in ((), ("--overwrite",)):
        answer = command(*RUN, "--out", tmp_path, *more)
        assert_one_line(answer, f"{tmp_path} is not a trace folder: it contains ", "new or empty")
        answer = command("trace", "--out", tmp_path, *more, "--", "true")
        assert_one_line(answer, "is not a trace folder")
    assert contents(tmp_path) == before


def test_nor_is_the_root(no_ranks):
    assert_one_line(command(*RUN, "--out", "/", "--overwrite"), "/ is not a trace folder")


def test_of_a_trace_only_its_own_files_are_removed(folder):
    mine = {
        "notes.txt", "note-to-self.txt", "rank-one.jsonl", "attempt-1/photo.jpg",
        "attempt-2x/manifest.json", "my-manifest.json",
    }  # fmt: skip
    own = {
        "rank-2.jsonl": "", "rank-3.jsonl": '{"row":"hea', "rank-1.error.txt": "ours",
        "note-77.txt": "ours", ".manifest.json.77": "ours", "attempt-0/rank-0.jsonl": "",
        "attempt-1/manifest.json": '{\n  "schema": 1',
    }  # fmt: skip
    for name, text in {**dict.fromkeys(mine, "mine"), **own}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    require_free(folder, overwrite=True)
    make_free(folder)
    assert set(contents(folder)) == mine
    assert not (folder / "attempt-0").exists()
