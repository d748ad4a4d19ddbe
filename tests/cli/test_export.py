"""`zerosim export`: a replay as one file; what is there is kept unless told otherwise."""

from __future__ import annotations

import pytest

from tests.cli.command import assert_one_line, command, process
from tests.cli.traces import engine_trace, write
from zerosim.lessons.course import course


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "t", engine_trace(3))


def test_it_writes_a_page_and_says_what_next(folder, tmp_path):
    file = tmp_path / "replay.html"
    answer = command("export", folder, "--html", file)
    assert (answer.code, answer.err) == (0, "")
    first, second = answer.out.splitlines()
    assert first.startswith(f"wrote {file}: iteration 1 of {folder}, ")
    assert second.startswith(f"next: open {file} in a browser")
    assert '"iteration":1,' in file.read_text()
    assert command("export", folder, "--html", file, "--overwrite", "--iteration", 0).code == 0
    assert '"iteration":0,' in file.read_text()


def test_a_file_that_is_there_is_kept(folder, tmp_path):
    file = tmp_path / "mine.html"
    file.write_text("mine")
    answer = command("export", folder, "--html", file)
    assert_one_line(answer, f"{file} already exists", "--overwrite")
    assert file.read_text() == "mine"


def test_files_for_other_tools_are_written_all_or_none(folder, tmp_path):
    trace, prefix = tmp_path / "run.pftrace", tmp_path / "et"
    args = ("export", folder, "--perfetto", trace, "--chakra", prefix)
    taken = tmp_path / "et.1.et"
    taken.write_text("mine")
    assert_one_line(command(*args), f"{taken} already exists", "--chakra")
    assert (trace.exists(), taken.read_text()) == (False, "mine")
    taken.unlink()
    answer = command(*args)
    assert (answer.code, answer.err) == (0, "")
    written = [line.split(":")[0] for line in answer.out.splitlines()]
    files = [trace, *(tmp_path / f"et.{rank}.et" for rank in range(2)), tmp_path / "et.groups.json"]
    assert written == [f"wrote {file}" for file in files]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), ("nothing to write", "--html")),
        (("--html", "x.html", "--iteration", 9), ("iteration 9", "0 to 1")),
        (("--html", "x.html", "--iteration", "x"), ("iteration is 'x'", "whole number")),
        (("--html", "/proc/zerosim/x.html"), ("cannot write /proc/zerosim/x.html",)),
        (("--html", "t"), ("t already exists", "--overwrite")),
        (("--html", "t", "--overwrite"), ("cannot write t",)),
    ],
)
def test_what_cannot_be_written(folder, tmp_path, monkeypatch, args, words):
    monkeypatch.chdir(tmp_path)
    assert_one_line(command("export", folder, *args), *words)
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--lesson", 99), ("lesson is 99", f"0 to {len(course()) - 1}")),
        (("t", "--lesson", 5), ("lesson is 5", "no trace")),
        (("--lesson", 5, "--page", "verify"), ("page is 'verify'", "slides")),
        (("--lesson", 5, "--png", "x.png"), ("lesson is 5", "--pdf FILE")),
        ((), ("no trace is given", "--lesson")),
        (("t", "--page", "dance"), ("page is 'dance'", "replay, verify, compare")),
        (("t", "--page", "compare"), ("page is compare", "2 to 4 different traces, 1 given")),
        (("t", "no", "--page", "verify"), ("page is verify", "one trace, 2 given")),
        (("t", "--page", "verify", "--iteration", 9), ("iteration", "9")),
        (("t", "--page", "verify", "--png", "x.png"), ("show one run",)),
        (("t", "t"), ("2 to 4 different traces, 1 given",)),
        (("a", "b", "c", "d", "e"), ("2 to 4 different traces, 5 given",)),
        (("t", "no"), ("no such folder",)),
    ],
)
def test_pages_that_cannot_be_written(folder, tmp_path, monkeypatch, args, words):
    monkeypatch.chdir(tmp_path)
    assert_one_line(command("export", *args, "--html", "x.html"), *words)
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--at", "beat:0"), ("beat is '0'", "from 1 to")),
        (("--at", "#beat=1&rank=9"), ("rank is '9'", "0, 1")),
        (("--at", "colour:red"), ("colour:red", "beat, tour, at, step")),
        (("--at", "backward dance"), ("no step 'backward dance'",)),
        (("--at", "tour:99"), ("tour is '99'", "from 1 to")),
        (("--tour", "--beats", "1-2"), ("--tour and --beats",)),
        (("--beats", "5-2"), ("beats is '5-2'", "as in 1-3")),
        (("--figure", "ring"), ("figure is 'ring'", "stage, timeline, traffic, memory")),
        (("--theme", "pink"), ("theme is 'pink'", "light, dark")),
        (("--rank", 7), ("rank is 7", "0, 1")),
        (("--size", "9x9"), ("size is '9x9'", "1280x720")),
        (("--speed", 3), ("speed is 3", "0.25, 0.5, 1, 2, 4")),
    ],
)
def test_what_cannot_be_drawn(folder, tmp_path, args, words):
    assert_one_line(command("export", folder, "--png", tmp_path / "x.png", *args), *words)
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_what_is_not_installed_is_named(folder, tmp_path, monkeypatch):
    file = tmp_path / "x.png"
    nowhere = {"PATH": str(tmp_path), "CHROMIUM": "", "PLAYWRIGHT_BROWSERS_PATH": str(tmp_path)}
    answer = process("export", folder, "--png", file, **nowhere)
    assert_one_line(answer, "pictures need a Chromium", "apt install chromium")
    monkeypatch.setattr("zerosim.view.export.browser.find_spec", lambda name: None)
    answer = command("export", folder, "--png", file, "--gif", tmp_path / "x.gif")
    assert_one_line(answer, "pictures need playwright and pillow", "pip install 'zerosim[images]'")
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_what_is_no_trace(tmp_path):
    file = tmp_path / "x.html"
    assert_one_line(command("export", tmp_path / "no", "--html", file), "no such folder")
    for stage in (0, 3):
        write(tmp_path / "all" / f"stage-{stage}", engine_trace(stage))
    answer = command("export", tmp_path / "all", "--html", file)
    assert_one_line(answer, "stage-0, stage-3", f"try {tmp_path / 'all' / 'stage-3'}")
    assert not file.exists()


def test_a_trace_cut_short_is_exported_with_a_note(folder, tmp_path):
    file = folder / "rank-1.jsonl"
    file.write_bytes(file.read_bytes()[:-60])
    answer = command("export", folder, "--html", tmp_path / "x.html")
    assert answer.code == 0
    assert answer.err.startswith("note: rank 1")
