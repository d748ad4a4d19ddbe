"""Which traces there are: new ones appear, broken ones are named, nothing outside is read."""

from __future__ import annotations

import mmap
import os
from dataclasses import replace

import pytest

from tests.cli.traces import engine_trace, manifest_of, write
from tests.dashboards.samples import HOSTILE, Clock, put_trace
from zerosim.base.errors import ConfigError, TraceError
from zerosim.base.language import Language, speaking
from zerosim.dashboards.entry import title_of
from zerosim.dashboards.library import Library, NoSuchTraceError
from zerosim.dashboards.shelf import FRESH_S, Shelf


@pytest.fixture
def clock():
    return Clock()


def names(library):
    return [entry.name for entry in library.entries()]


def test_traces_at_any_depth_are_named_by_their_place(tmp_path):
    put_trace(tmp_path / "stage-3")
    put_trace(tmp_path / "monday" / "run 10")
    put_trace(tmp_path / "monday" / "run 9")
    put_trace(tmp_path / "a" / "b" / "c", stage=0)
    put_trace(tmp_path / "a" / "b" / "d" / "too deep")
    put_trace(tmp_path / ".hidden")
    (tmp_path / "notes.txt").write_text("mine")
    library = Library([tmp_path])
    assert names(library) == ["a/b/c", "monday/run 9", "monday/run 10", "stage-3"]
    entry = library.find("a/b/c")
    assert entry.folder == tmp_path / "a" / "b" / "c"
    assert entry.title == "gpt-tiny · data parallel · 2 ranks · bf16"
    with speaking(Language.CHINESE):
        assert entry.title == "gpt-tiny · 数据并行 · 2 个 rank · bf16"
    assert (entry.stage, entry.complete, entry.problem) == (0, True, "")


def test_a_row_that_takes_room_that_was_kept_is_seen(tmp_path, clock):
    """As a rank writes it: neither the size of the file nor its time change."""
    file = put_trace(tmp_path / "t") / "rank-0.jsonl"
    whole = file.read_bytes()
    room = bytes(-len(whole) % mmap.PAGESIZE + mmap.PAGESIZE)
    last = whole[:-1].rindex(b"\n") + 1
    file.write_bytes(whole[:last] + bytes(len(whole) - last) + room)
    status = file.stat()
    library = Library([tmp_path], clock)
    before = library.find("t")
    file.write_bytes(whole + room)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    clock.now += 100
    assert library.find("t").signature != before.signature


def test_who_knows_that_something_was_written_need_not_wait(tmp_path, clock):
    library = Library([tmp_path], clock)
    assert library.entries() == ()
    put_trace(tmp_path / "t")
    assert names(library) == []
    library.look_again()
    assert names(library) == ["t"]


def test_a_given_folder_may_be_a_trace(tmp_path):
    put_trace(tmp_path / "one")
    assert names(Library([tmp_path / "one"])) == ["one"]


def test_several_folders_never_share_a_name(tmp_path):
    for place in ("x/demo/stage-3", "y/demo/stage-3", "alone"):
        put_trace(tmp_path / place)
    folders = [tmp_path / "x/demo", tmp_path / "y/demo", tmp_path / "alone", tmp_path / "x"]
    library = Library(folders)
    assert names(library) == ["alone", "demo (2)/stage-3", "demo/stage-3"]
    assert library.find("demo (2)/stage-3").folder == tmp_path / "y/demo/stage-3"


def test_a_new_trace_appears_and_one_that_grows_changes(tmp_path, clock):
    library = Library([tmp_path], clock)
    assert library.entries() == ()
    assert library.default() is None
    folder = put_trace(tmp_path / "t")
    assert library.entries() == ()  # looked at a moment ago
    clock.now = 1
    (before,) = library.entries()
    file = folder / "rank-1.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[: whole[:-1].rfind(b"\n") + 1])
    clock.now = 2
    (cut,) = library.entries()
    assert before.complete
    assert not cut.complete
    assert before.signature != cut.signature
    clock.now = 3
    assert library.entries()[0] is cut  # not read again
    file.unlink()
    (folder / "manifest.json").unlink()
    clock.now = 4
    assert library.entries() == ()


def test_the_default_is_the_newest_whole_run_of_stage_3(tmp_path, clock):
    library = Library([tmp_path], clock)
    found = []
    for age, (name, stage) in enumerate([("old", 3), ("new", 3), ("other", 1)]):
        for file in put_trace(tmp_path / name, stage).iterdir():
            os.utime(file, (1000 + age, 1000 + age))
        clock.now += 1
        found.append(library.default().name)
    assert found == ["old", "new", "new"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "manifest.json cannot be read"),
        (b"{", "manifest.json cannot be read"),
        (b'{"schema": 99}', "checksum"),
        (b"\xff\xfe", "manifest.json cannot be read"),
        (b"[" * 100_000, "nested too deep"),
    ],
)
def test_a_broken_manifest_is_named_in_one_line(tmp_path, content, words):
    folder = put_trace(tmp_path / "t")
    (folder / "manifest.json").write_bytes(content)
    library = Library([tmp_path])
    (entry,) = library.entries()
    assert words in entry.problem
    assert entry.problem.startswith("t: ")
    assert len(entry.problem.splitlines()) == 1
    assert library.default() is None
    with pytest.raises(TraceError, match="t: "):
        library.find("t")


def test_what_is_outside_is_never_read(tmp_path):
    served = tmp_path / "served"
    outside = put_trace(tmp_path / "outside")
    put_trace(served / "good")
    (served / "folder").symlink_to(outside)
    (served / "circle").symlink_to(served)
    half = put_trace(served / "half")
    (half / "rank-0.jsonl").unlink()
    (half / "rank-0.jsonl").symlink_to(outside / "rank-0.jsonl")
    (served / "file").mkdir()
    (served / "file" / "manifest.json").symlink_to(outside / "manifest.json")
    pipe = put_trace(served / "pipe")
    (pipe / "manifest.json").unlink()
    os.mkfifo(pipe / "manifest.json")
    library = Library([served])
    problems = {entry.name: entry.problem for entry in library.entries()}
    assert list(problems) == ["file", "good", "half", "pipe"]
    assert problems["good"] == ""
    assert "is a link out" in problems["file"]
    assert "is a link out" in problems["half"]
    assert "not a file" in problems["pipe"]


def test_a_link_within_what_is_served_is_followed(tmp_path):
    folder = put_trace(tmp_path / "served" / "t")
    (folder / "rank-0.jsonl").rename(tmp_path / "served" / "kept.jsonl")
    (folder / "rank-0.jsonl").symlink_to(tmp_path / "served" / "kept.jsonl")
    (tmp_path / "link").symlink_to(tmp_path / "served")
    assert names(Library([tmp_path / "link"])) == ["t"]
    assert Library([tmp_path / "link"]).find("t").complete


@pytest.mark.parametrize(
    "name", ["../outside", "..", "/etc/passwd", "", ".", "T", "t/", "t/../t", "t\0", "%2e%2e/x"]
)
def test_only_names_of_the_list_are_known(tmp_path, name):
    put_trace(tmp_path / "served" / "t")
    put_trace(tmp_path / "outside")
    with pytest.raises(NoSuchTraceError, match="there is no trace"):
        Library([tmp_path / "served"]).find(name)


def test_names_of_any_kind_stay_names(tmp_path):
    hostile = [name for name in HOSTILE if "/" not in name]
    for name in hostile:
        put_trace(tmp_path / name)
    put_trace(tmp_path / os.fsdecode(b"no \xff text"))
    found = names(Library([tmp_path]))
    assert set(found) == {*hostile, "no \ufffd text"}


def test_folders_that_are_none(tmp_path):
    (tmp_path / "file").write_text("")
    for folder, words in (("gone", "no such folder"), ("file", "this is a file")):
        with pytest.raises(ConfigError, match=words):
            Library([tmp_path / folder])


def test_titles():
    good = replace(manifest_of(2, 4, dtype="fp32"), run={"model": "mlp"})
    assert title_of(good) == "mlp · ZeRO-2 · 4 ranks · fp32"
    native = manifest_of(2, 1, collectives="native")
    assert title_of(native) == "ZeRO-2 · 1 rank · bf16 · native"
    foreign = replace(good, config={}, program="train.py\n--lr 1")
    assert title_of(foreign) == "train.py --lr 1 · 4 ranks"
    odd = replace(good, config={"stage": "3", "dtype": 7}, program="x" * 500)
    assert len(title_of(odd)) == 90
    assert title_of(replace(good, run={"model": ["x"]}, config={"stage": 2, "dtype": {}})) == (
        "ZeRO-2 · 4 ranks"
    )


def test_a_trace_without_all_its_ranks_is_not_complete(tmp_path):
    folder = write(tmp_path / "t", engine_trace(1, num_ranks=3))
    (folder / "rank-2.jsonl").unlink()
    assert not Library([tmp_path]).find("t").complete


def test_the_shelf_is_looked_at_once_in_a_while(tmp_path, monkeypatch):
    looked, now = [], [0.0]
    monkeypatch.setattr(Shelf, "_look", lambda _, name, place: looked.append(name) or place.entry)
    shelf = Shelf({name: tmp_path / name for name in "ab"}, lambda: now[0])
    assert [entry.name for entry in shelf.entries() + shelf.entries()] == ["a", "b", "a", "b"]
    assert looked == ["a", "b"]
    shelf.add("c", tmp_path / "c")
    shelf.entries()
    now[0] = FRESH_S
    shelf.entries()
    assert looked == ["a", "b"] * 3
