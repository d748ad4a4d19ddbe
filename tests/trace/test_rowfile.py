"""A rank's file: whole rows, at once, one file a rank, and a full disk said in one line.

Mapped, and written as where a file system cannot keep what was allocated.
"""

import os
import threading
from pathlib import Path

import pytest

from zerosim.base.errors import EnvironmentFault
from zerosim.schema.events import Metric
from zerosim.schema.rows import check_line, row_text
from zerosim.trace import mapped
from zerosim.trace.mapped import _ROOM, _identity
from zerosim.trace.rowfile import RowFile


@pytest.fixture(params=["mapped", "written"], autouse=True)
def way(request, monkeypatch):
    if request.param == "written":
        monkeypatch.setattr(mapped, "_KEEP_WHAT_IS_ALLOCATED", frozenset())
    return request.param


def metric(value=0.5, name="loss"):
    return Metric(iteration=0, name=name, value=value, time_ns=1)


def names(path):
    crc, found = 0, []
    for line in path.read_bytes().rstrip(b"\0").splitlines():
        name, crc = check_line(line, crc)
        found.append(name)
    return found


def fill_disk(rows):
    """From now on the kernel answers whatever the file needs with "no space left"."""
    file = rows._file
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, file._file)
    os.close(full)
    file._identity = _identity(file._file)
    file._room = 0


def test_each_row_is_in_the_file_when_write_returns(tmp_path):
    path = tmp_path / "rank-0.jsonl"
    rows = RowFile(path)
    for number in range(1, 4):
        rows.write("metric", metric())
        assert names(path) == ["metric"] * number
    rows.close(7)
    assert names(path) == ["metric"] * 3 + ["end"]
    assert b'"num_rows":3' in path.read_bytes().splitlines()[-1]


def test_after_close_nothing_is_written(tmp_path):
    rows = RowFile(tmp_path / "rank-0.jsonl")
    rows.close(1)
    rows.write("metric", metric())
    rows.close(2)
    assert names(tmp_path / "rank-0.jsonl") == ["end"]


def test_rows_of_several_threads_stay_whole(tmp_path):
    rows = RowFile(tmp_path / "rank-0.jsonl")

    def write():
        for number in range(200):
            rows.write("metric", metric(value=number, name="x" * 300))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows.close(1)
    assert len(names(tmp_path / "rank-0.jsonl")) == 801


def test_a_file_that_exists_is_not_written_over(tmp_path):
    path = tmp_path / "rank-0.jsonl"
    path.write_text("mine")
    with pytest.raises(EnvironmentFault, match=r"cannot create .*rank-0.jsonl: File exists; give"):
        RowFile(path)
    assert path.read_text() == "mine"


def test_a_full_disk_is_said_at_every_row_in_one_line(tmp_path):
    path = tmp_path / "rank-0.jsonl"
    rows = RowFile(path)
    rows.write("metric", metric())
    fill_disk(rows)
    for attempt in (lambda: rows.write("metric", metric()),) * 2 + (lambda: rows.close(1),):
        with pytest.raises(EnvironmentFault) as caught:
            attempt()
        assert str(caught.value) == (
            f"cannot write to {path}: No space left on device; free disk space"
        )
    rows.close(1)
    assert names(path) == ["metric"]


@pytest.mark.parametrize("way", ["written"], indirect=True)
def test_half_a_row_is_a_full_disk_too(tmp_path, monkeypatch):
    path = tmp_path / "rank-0.jsonl"
    rows = RowFile(path)
    rows.write("metric", metric())
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, line, at: write(file, line[:20], at))
    with pytest.raises(EnvironmentFault, match="the disk is full; free disk space"):
        rows.write("metric", metric())
    monkeypatch.undo()
    with pytest.raises(EnvironmentFault):
        rows.write("metric", metric())
    whole, torn = path.read_bytes().splitlines()
    assert check_line(whole, 0)[0] == "metric"
    assert len(torn) == 20


def test_the_descriptor_is_given_back(tmp_path):
    before = sorted(Path("/proc/self/fd").iterdir())
    for full in (False, True):
        rows = RowFile(tmp_path / f"rank-{full}.jsonl")
        if full:
            fill_disk(rows)
            with pytest.raises(EnvironmentFault):
                rows.write("metric", metric())
        else:
            rows.close(1)
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_a_program_that_closes_what_it_does_not_know_gets_no_row_in_its_own_file(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    path = Path("rank-0.jsonl")
    rows = RowFile(path)
    rows.write("metric", metric())
    os.close(rows._file._file)
    own = os.open("own.txt", os.O_WRONLY | os.O_CREAT)
    assert own == rows._file._file, "the number is given to the next that opens a file"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    os.chdir(elsewhere)
    for _ in range(3):
        rows.write("metric", metric(name="x" * _ROOM))
    os.write(own, b"mine")
    rows.close(1)
    os.close(own)
    assert (tmp_path / "own.txt").read_text() == "mine"
    assert names(tmp_path / "rank-0.jsonl") == ["metric"] * 4 + ["end"]


def test_a_file_that_was_closed_and_moved_is_not_written(tmp_path):
    path = tmp_path / "rank-0.jsonl"
    rows = RowFile(path)
    os.close(rows._file._file)
    path.rename(tmp_path / "moved")
    path.write_text("mine")
    with pytest.raises(EnvironmentFault, match="another file has taken its place"):
        rows.write("metric", metric(name="x" * _ROOM))
    assert path.read_text() == "mine"


def test_two_rows_stay_together_and_count_as_two(tmp_path):
    path = tmp_path / "rank-0.jsonl"
    rows = RowFile(path)
    rows.append(row_text("metric", metric()), row_text("metric", metric(2.0)))
    rows.close(1)
    assert names(path) == ["metric", "metric", "end"]
    assert b'"num_rows":2' in path.read_bytes().splitlines()[-1]
    rows.append(row_text("metric", metric()))
    assert len(names(path)) == 3


def test_a_file_longer_than_what_is_mapped_at_a_time(tmp_path, way):
    path = tmp_path / "rank-0.jsonl"
    rows = RowFile(path)
    for number in range(1, 1500):
        rows.write("metric", metric(number, name="x" * (number % 199)))
    assert names(path) == ["metric"] * 1499
    room = len(path.read_bytes()) - len(path.read_bytes().rstrip(b"\0"))
    assert (room == 0) == (way == "written")
    assert room <= _ROOM
    rows.write("metric", metric(name="x" * (3 * _ROOM)))
    rows.close(1)
    assert names(path) == ["metric"] * 1500 + ["end"]
    assert path.read_bytes().endswith(b"\n")


@pytest.mark.parametrize("way", ["mapped"], indirect=True)
@pytest.mark.parametrize("after", [0, 1])
def test_a_file_for_which_no_room_can_be_kept_is_written(tmp_path, monkeypatch, after):
    path = tmp_path / "rank-0.jsonl"
    allocate, granted = os.posix_fallocate, iter(range(after))

    def refuse(file, begin, size):
        if next(granted, None) is None:
            raise OSError(95, "Operation not supported")
        allocate(file, begin, size)

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    rows = RowFile(path)
    for _ in range(1000):
        rows.write("metric", metric())
    assert path.read_bytes().endswith(b"\n")
    rows.close(1)
    assert names(path) == ["metric"] * 1000 + ["end"]


@pytest.mark.parametrize("way", ["mapped"], indirect=True)
def test_a_file_that_cannot_be_mapped_is_written(tmp_path, monkeypatch):
    class NoMemory:
        def mmap(self, *_):
            mapped.ctypes.set_errno(12)
            return 2**64 - 1

    monkeypatch.setattr(mapped, "_libc", NoMemory())
    rows = RowFile(tmp_path / "rank-0.jsonl")
    rows.write("metric", metric())
    assert (tmp_path / "rank-0.jsonl").read_bytes().endswith(b"\n")
    rows.close(1)
    assert names(tmp_path / "rank-0.jsonl") == ["metric", "end"]


@pytest.mark.parametrize("way", ["mapped"], indirect=True)
def test_rows_outlive_the_descriptor_and_the_name_of_their_file(tmp_path):
    """The last rows of a window need neither; zeros after the end row contain no data."""
    path = tmp_path / "rank-0.jsonl"
    rows = RowFile(path)
    rows.write("metric", metric())
    os.close(rows._file._file)
    path.rename(tmp_path / "moved")
    rows.write("metric", metric())
    rows.close(1)
    assert names(tmp_path / "moved") == ["metric", "metric", "end"]
