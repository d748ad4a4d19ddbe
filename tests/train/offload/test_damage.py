"""Whatever happens to the files: a clear line, and the last good state is still there."""

import json
import os
import re
import resource
import subprocess

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.train.offload.stores import (
    NAMES,
    commit_step,
    last_step,
    read,
    resumed_holds,
    some_bytes,
    store,
    write_all,
)
from zerosim.base.errors import DiskError
from zerosim.train.offload import DiskFiles
from zerosim.train.offload.blocks import BLOCK_BYTES, PAGE_BYTES, checksums

TWO_BLOCKS = BLOCK_BYTES + 6_000


def one_line(problem):
    text = str(problem.value)
    assert "\n" not in text
    return text


def flip(path, bit):
    with path.open("r+b") as file:
        file.seek(bit // 8)
        old = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([old ^ 1 << bit % 8]))


@given(
    words=st.lists(
        st.tuples(st.integers(0, TWO_BLOCKS // 8 - 1), st.integers(1, 2**32)),
        min_size=1,
        max_size=3,
        unique_by=lambda change: change[0],
    )
)
def test_changed_words_change_the_checksum_of_their_block(words):
    size = TWO_BLOCKS // PAGE_BYTES * PAGE_BYTES
    data = some_bytes(TWO_BLOCKS, 5)
    last = torch.cat([data[size:], torch.zeros(size + PAGE_BYTES - TWO_BLOCKS, dtype=torch.uint8)])
    before = checksums(data[:size], last)
    for index, change in words:
        place, at = (data, index) if 8 * index < size else (last, index - size // 8)
        place.view(torch.int64)[at] += change
    changed = checksums(data[:size], last) != before
    expected = {8 * index // BLOCK_BYTES for index, _ in words}
    assert set(changed.nonzero().flatten().tolist()) == expected


def test_pages_that_are_exchanged_change_the_checksum():
    data = some_bytes(3 * PAGE_BYTES, 6)
    other = torch.cat([data[PAGE_BYTES : 2 * PAGE_BYTES], data[:PAGE_BYTES], data[-PAGE_BYTES:]])
    assert not torch.equal(checksums(data, data[:0]), checksums(other, data[:0]))


def test_a_flipped_bit_is_found_wherever_it_is(tmp_path):
    """In the data and in the trailer; the padding after it contains nothing."""
    num_bytes = 700
    with store(tmp_path) as made:
        made.write("x", some_bytes(num_bytes, 1)).wait()
        made.commit({})
    path, state = tmp_path / "rank-0" / "x.slot-0", DiskFiles.last_good(tmp_path, 1)
    for bit in range(0, 8 * (num_bytes + 40), 137):
        flip(path, bit)
        with (
            pytest.raises(DiskError, match=r"is damaged|is another file's") as problem,
            store(tmp_path, state=state, threads=1) as made,
        ):
            read(made, "x", num_bytes)
        assert str(path) in one_line(problem)
        flip(path, bit)
    with store(tmp_path, state=state) as made:
        assert torch.equal(read(made, "x", num_bytes), some_bytes(num_bytes, 1))


def test_damage_says_where(tmp_path):
    with store(tmp_path, buffer_bytes=TWO_BLOCKS) as made:
        made.write("x", some_bytes(TWO_BLOCKS, 1)).wait()
        flip(made.folder / "x.slot-0", 8 * (BLOCK_BYTES + 17))
        with pytest.raises(DiskError) as problem:
            read(made, "x", TWO_BLOCKS)
    assert re.search(
        r"rank-0/x\.slot-0 is damaged between byte 1,048,576 and 1,054,576: checksum [0-9a-f]{16}, "
        r"expected [0-9a-f]{16}; check the disk, then resume from the last good state$",
        one_line(problem),
    )


def test_a_file_that_was_cut_off(tmp_path):
    with store(tmp_path) as made:
        commit_step(made, 0)
        commit_step(made, 1)
        write_all(made, 2)
        os.truncate(made.folder / "head.slot-0", 4_096)
        with pytest.raises(DiskError) as problem:
            read(made, "head")
    assert one_line(problem).endswith(
        "head.slot-0 ends at byte 4,096: expected 8,192 bytes, of which 5,000 are data; it was cut "
        "off: resume from the last good state"
    )
    assert resumed_holds(tmp_path, 1)


@pytest.mark.parametrize("what", ["read", "write", "commit"])
def test_a_file_that_vanished(tmp_path, what):
    with store(tmp_path) as made:
        commit_step(made, 0)
        commit_step(made, 1)
        made.write("head", some_bytes(5_000, 77)).wait()
        (made.folder / "head.slot-0").unlink()
        with pytest.raises(DiskError) as problem:
            {
                "read": lambda: read(made, "head"),
                "write": lambda: made.write("head", some_bytes(5_000, 78)).wait(),
                "commit": lambda: made.commit({"iteration": 2}),
            }[what]()
        assert re.search(
            r"head\.slot-0 is gone: expected a file of 8,192 bytes to (read|write|flush); do not "
            r"change the files while zerosim runs, and resume from the last good state$",
            one_line(problem),
        )
        for later in (lambda: write_all(made, 3), lambda: made.commit({})):
            with pytest.raises(DiskError, match="is gone"):
                later()
    assert resumed_holds(tmp_path, 1)


def test_another_generation(tmp_path):
    with store(tmp_path) as made:
        commit_step(made, 0)
        commit_step(made, 1)
        older, newer = (made.folder / f"head.slot-{slot}" for slot in (0, 1))
        newer.write_bytes(older.read_bytes())
        with pytest.raises(DiskError) as problem:
            read(made, "head")
    assert re.search(
        r"head\.slot-1 belongs to another file or state, according to its trailer at byte 5,000: "
        r"generation 1, 5,000 bytes, name ([0-9a-f]{8}); expected generation 2, 5,000 bytes, "
        r"name \1;",
        one_line(problem),
    )
    assert last_step(tmp_path) == 0  # which is whole
    assert resumed_holds(tmp_path, 0)


def test_another_name_s_file(tmp_path):
    with store(tmp_path) as made:
        commit_step(made, 0)
        (made.folder / "head.slot-0").write_bytes((made.folder / "embedding.slot-0").read_bytes())
        with pytest.raises(DiskError, match=r"head\.slot-0 belongs to another file or state"):
            read(made, "head")


def test_another_model(tmp_path):
    with store(tmp_path) as made:
        commit_step(made, 0)
    state = DiskFiles.last_good(tmp_path, 1)
    with store(tmp_path, state=state) as made, pytest.raises(DiskError) as problem:
        read(made, "head", 6_000)
    assert one_line(problem).endswith(
        "rank-0 has 5,000 bytes of head: expected 6,000 bytes; resume with the same model and "
        "settings"
    )


# commits


def test_a_commit_that_is_cut_off_anywhere_leaves_the_one_before(tmp_path):
    with store(tmp_path) as made:
        commit_step(made, 0)
        commit_step(made, 1)
    path = tmp_path / "rank-0" / "commit-0.json"
    whole = path.read_bytes()
    assert json.loads(whole.splitlines()[0])["values"] == {"iteration": 1}
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert last_step(tmp_path) == 0, length
    assert resumed_holds(tmp_path, 0)


@given(data=st.data())
def test_a_commit_with_a_flipped_bit_leaves_the_one_before(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp() / "flipped"
    if not folder.exists():
        with store(folder) as made:
            commit_step(made, 0)
            commit_step(made, 1)
    path = folder / "rank-0" / "commit-0.json"
    bit = data.draw(st.integers(0, 8 * path.stat().st_size - 1))
    flip(path, bit)
    assert last_step(folder) == 0
    flip(path, bit)
    assert last_step(folder) == 1


def test_no_state_is_whole(tmp_path):
    with store(tmp_path) as made:
        commit_step(made, 0)
        commit_step(made, 1)
        write_all(made, 2)
    (tmp_path / "rank-0" / "head.slot-1").unlink()
    with pytest.raises(DiskError) as problem:
        DiskFiles.last_good(tmp_path, 1)
    assert re.search(
        r"^no state in .* is complete on all 1 ranks \(commits by rank: 0: \[\]\): .*head\.slot-1 "
        r"is gone.*\(and 1 more\); start over$",
        one_line(problem),
    )
    with pytest.raises(DiskError, match=r"has no commit 9: found 2, 1; start over"):
        store(tmp_path, state=type("State", (), {"sequence": 9})()).__enter__()


def test_ranks_with_no_commit_in_common(tmp_path):
    with store(tmp_path, 0, 2) as first, store(tmp_path, 1, 2) as second:
        commit_step(second, 0)
        for step in range(3):
            commit_step(first, step)
    with pytest.raises(DiskError, match=r"by rank: 0: \[2, 3\], 1: \[1\]\): expected one in"):
        DiskFiles.last_good(tmp_path, 2)


# a full disk


@pytest.mark.root
def test_a_full_disk(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("needs root, to mount a small disk")
    try:
        with store(place) as made:
            commit_step(made, 0)
            commit_step(made, 1)
            with pytest.raises(DiskError) as problem:
                write_all(made, 2, names=[*NAMES, "more", "and more", "and yet more"])
            assert re.search(
                r"no room for .*more\.slot-[01], which needs 8,192 bytes: the disk has too little "
                r"free space \([0-9,]+ bytes\) or does not allow a file that large; make room or "
                r"give another folder, then resume from the last good state$",
                one_line(problem),
            )
            with pytest.raises(DiskError, match="no room for"):
                made.commit({"iteration": 2})
        assert resumed_holds(place, 1)
        # a commit needs room as well
        with store(place, state=DiskFiles.last_good(place, 1)) as made:
            write_all(made, 2)
            fill(place)
            with pytest.raises(DiskError, match=r"cannot write .*commit-1\.json: No space left"):
                made.commit({"iteration": 2})
        (place / "filled").unlink()
        assert resumed_holds(place, 1)
    finally:
        subprocess.run(["umount", str(place)], check=True)  # noqa: S607


def fill(place):
    with (place / "filled").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4_096)):
                pass
        except OSError:
            pass


def test_a_limit_of_file_size(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with store(tmp_path) as made:
        commit_step(made, 0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8_192, before[1]))
        try:
            with pytest.raises(DiskError, match=r"no room for .*long\.slot-0, which needs 12,288"):
                made.write("long", some_bytes(9_000, 1)).wait()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert resumed_holds(tmp_path, 0)


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("pwritev", r"cannot write .*head\.slot-0: Input/output error; check the disk"),
        ("preadv", r"cannot read .*head\.slot-1: Input/output error; check the disk"),
        ("fdatasync", r"cannot flush .*slot-0: Input/output error; check the disk"),
        ("fsync", r"cannot write .*commit-1\.json: Input/output error; the previous state is kept"),
    ],
)
def test_a_disk_that_fails(tmp_path, monkeypatch, name, match):
    def fails(*_):
        raise OSError(5, "Input/output error")

    with store(tmp_path) as made:
        commit_step(made, 0)
        commit_step(made, 1)
        with monkeypatch.context() as patched:
            patched.setattr(os, name, fails)
            with pytest.raises(DiskError, match=match) as problem:
                whole_step(made)
        one_line(problem)
    assert resumed_holds(tmp_path, 1)


def whole_step(made):
    read(made, "head")
    write_all(made, 2, names=["head"])
    made.commit({"iteration": 2})


def test_a_disk_that_writes_less_than_it_was_given(tmp_path, monkeypatch):
    """The kernel may: another call writes the rest. Where nothing comes, there is no room."""
    real = os.pwritev

    def some(file, views, offset):
        return real(file, [views[0][:4_096]], offset)

    with store(tmp_path) as made:
        monkeypatch.setattr(os, "pwritev", some)
        commit_step(made, 0)
        monkeypatch.setattr(os, "pwritev", lambda *_: 0)
        with pytest.raises(DiskError, match=r"no room for .*head\.slot-1, which needs 8,192 bytes"):
            write_all(made, 1, names=["head"])
    assert resumed_holds(tmp_path, 0)
