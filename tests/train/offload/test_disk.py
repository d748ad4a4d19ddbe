"""The disk store while nothing goes wrong: bytes, versions, order, buffers, and what is counted."""

import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.train.offload.stores import (
    BUFFER_BYTES,
    NAMES,
    commit_step,
    holds_step,
    last_step,
    read,
    resumed_holds,
    some_bytes,
    store,
    write_all,
)
from zerosim.base.errors import DiskError, EnvironmentFault
from zerosim.base.tiers import Tier
from zerosim.schema.memory import Role
from zerosim.theory import disk as theory
from zerosim.trace.holdings import holdings
from zerosim.train.offload import DiskFiles, layout
from zerosim.train.offload.blocks import BLOCK_BYTES
from zerosim.train.offload.pool import pool_bytes

SIZES = st.one_of(
    st.integers(0, 3 * 4096 + 1),
    st.sampled_from([BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES - 4096]),
)


@given(num_bytes=st.integers(0, 2**40), buffers=st.integers(1, 99), threads=st.integers(1, 9))
def test_theory_says_what_a_file_and_a_pool_take(num_bytes, buffers, threads):
    assert layout.bytes_on_disk(num_bytes) == theory.bytes_on_disk(num_bytes)
    assert pool_bytes(buffers, num_bytes, threads) == theory.pool_bytes(buffers, num_bytes, threads)


@pytest.mark.parametrize("direct", [True, False])
def test_what_is_written_is_read(tmp_path, direct):
    with store(tmp_path, buffer_bytes=4 * BLOCK_BYTES) as disk:
        if direct and not disk.direct:
            pytest.skip(f"the file system of {tmp_path} knows no O_DIRECT")
        disk.direct = direct

        @settings(max_examples=25)
        @given(num_bytes=SIZES, offset=st.sampled_from([None, 0, 1, 8]), seed=st.integers(0, 9))
        def check(num_bytes, offset, seed):
            content = some_bytes(num_bytes, seed)
            if offset is None:
                buffer = disk.buffer(num_bytes)
                buffer.tensor.copy_(content)
                disk.write("x", buffer.tensor, on_done=buffer.release).wait()
                buffer = disk.buffer(num_bytes)
                buffer.tensor.zero_()
                disk.read("x", buffer.tensor).wait()
                found = buffer.tensor.clone()
                buffer.release()
            else:  # at any address
                disk.write("x", torch.cat([torch.zeros(offset), content]).byte()[offset:]).wait()
                found = torch.zeros(offset + num_bytes, dtype=torch.uint8)[offset:]
                disk.read("x", found).wait()
            assert torch.equal(found, content)
            sizes = {path.stat().st_size for path in disk.folder.glob("x.slot-*")}
            assert sizes == {theory.bytes_on_disk(num_bytes)}

        check()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_tensors_of_every_shape_and_dtype(tmp_path, dtype):
    with store(tmp_path) as disk:
        for source in (torch.randn(7, 31).to(dtype), torch.tensor(1.5, dtype=dtype)):
            into = torch.zeros_like(source)
            disk.write("x", source).wait()
            disk.read("x", into).wait()
            assert torch.equal(into, source)


def test_a_read_comes_after_the_write_that_was_asked_for_before(tmp_path):
    contents = [some_bytes(5_000, seed) for seed in range(20)]
    found = [torch.zeros(5_000, dtype=torch.uint8) for _ in contents]
    with store(tmp_path) as disk:
        handles = []
        for content, into in zip(contents, found, strict=True):
            handles += [disk.write("x", content), disk.read("x", into)]
        for handle in handles:
            handle.wait()
    assert all(map(torch.equal, contents, found))


def test_writes_after_a_commit_leave_it_alone(tmp_path):
    with store(tmp_path) as disk:
        for step in range(5):
            commit_step(disk, step)
            write_all(disk, 77)
            write_all(disk, 78)  # replaces what was written since the commit
            assert holds_step(disk, 78)
            assert last_step(tmp_path) == step
    assert resumed_holds(tmp_path, 4)


def test_what_is_not_written_again_stays_part_of_the_state(tmp_path):
    with store(tmp_path) as disk:
        commit_step(disk, 0)
        for step in range(1, 5):
            disk.write("head", some_bytes(5_000, step)).wait()
            disk.commit({"iteration": step})
    with store(tmp_path, state=DiskFiles.last_good(tmp_path, 1)) as disk:
        assert holds_step(disk, 0, names=NAMES[:2])
        assert torch.equal(read(disk, "head"), some_bytes(5_000, 4))


def test_a_name_may_change_its_size(tmp_path):
    sizes = (5_000, 9_000, 100, 0, 4_096)
    with store(tmp_path) as disk:
        for step, num_bytes in enumerate(sizes):
            write_all(disk, step, num_bytes)
            if step:
                assert last_step(tmp_path) == step - 1
            disk.commit({"iteration": step})
            assert holds_step(disk, step, num_bytes)


def test_a_run_goes_on_from_its_last_good_state(tmp_path):
    with store(tmp_path) as disk:
        commit_step(disk, 0)
        write_all(disk, 1)
    for step in range(1, 4):
        state = DiskFiles.last_good(tmp_path, 1)
        again = DiskFiles(tmp_path, 0, 1, state=state, buffers=2, buffer_bytes=BUFFER_BYTES)
        assert holds_step(again, step - 1)
        commit_step(again, step)
        write_all(again, 99)
        again.close()
    assert resumed_holds(tmp_path, 3)


def test_names_of_every_kind(tmp_path):
    names = ["a/b", "..", "", "ä ö", "x" * 400, "x" * 399 + "y", "commit-0.json", "a.slot-0"]
    with store(tmp_path) as disk:
        commit_step(disk, 3, names=names)
    with store(tmp_path, state=DiskFiles.last_good(tmp_path, 1)) as disk:
        assert holds_step(disk, 3, names=names)
    assert {path.parent for path in tmp_path.rglob("*")} == {tmp_path, tmp_path / "rank-0"}


def test_the_older_state_where_a_rank_has_not_committed(tmp_path):
    assert DiskFiles.last_good(tmp_path, 2) is None
    with store(tmp_path, 0, 2) as first, store(tmp_path, 1, 2) as second:
        commit_step(first, 0)
        assert DiskFiles.last_good(tmp_path, 2) is None
        commit_step(second, 0)
        commit_step(first, 1)
        commit_step(second, 1)
        commit_step(first, 2)  # and then the second was killed
        write_all(second, 2)
    assert last_step(tmp_path, 2) == 1
    state = DiskFiles.last_good(tmp_path, 2)
    with (
        store(tmp_path, 0, 2, state=state) as first,
        store(tmp_path, 1, 2, state=state) as second,
    ):
        assert holds_step(first, 1)
        assert holds_step(second, 1)
        assert last_step(tmp_path, 2) == 1
        commit_step(second, 3)
        assert last_step(tmp_path, 2) == 1
        commit_step(first, 3)
        assert last_step(tmp_path, 2) == 3


def test_another_number_of_ranks(tmp_path):
    with store(tmp_path, 0, 2) as first, store(tmp_path, 1, 2) as second:
        commit_step(first, 0)
        commit_step(second, 0)
    with pytest.raises(DiskError, match=r"on 2 ranks, but this run has 1: resume with 2"):
        DiskFiles.last_good(tmp_path, 1)


def test_a_new_run_begins_with_nothing_and_leaves_others_files(tmp_path):
    (tmp_path / "rank-0").mkdir()
    (tmp_path / "rank-0" / "mine.txt").write_text("mine")
    with store(tmp_path) as disk:
        commit_step(disk, 0)
    with store(tmp_path) as disk, pytest.raises(DiskError, match=r"has nothing of head"):
        read(disk, "head")
    assert DiskFiles.last_good(tmp_path, 1) is None
    assert (tmp_path / "rank-0" / "mine.txt").read_text() == "mine"


def test_a_folder_is_one_process_s(tmp_path):
    with store(tmp_path), pytest.raises(EnvironmentFault, match="used by another process"):
        DiskFiles(tmp_path, 0, 1, buffers=1, buffer_bytes=1)
    with store(tmp_path):
        pass


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFault, match=r"cannot keep files in .*rank-0: Not a directory"):
        DiskFiles(tmp_path / "file", 0, 1, buffers=1, buffer_bytes=1)


# buffers


def test_no_more_buffers_than_were_asked_for(tmp_path):
    with store(tmp_path, buffers=2) as disk:
        first, second = disk.buffer(BUFFER_BYTES), disk.buffer(10)
        assert disk.try_buffer(10) is None
        assert first.tensor.shape == (BUFFER_BYTES,)
        assert second.tensor.shape == (10,)
        assert first.tensor.data_ptr() % 4096 == second.tensor.data_ptr() % 4096 == 0
        got = []
        waiting = threading.Thread(target=lambda: got.append(disk.buffer(10)))
        waiting.start()
        assert disk.try_buffer(10) is None
        disk.write("x", first.tensor, on_done=first.release).wait()
        waiting.join()
        first.release()  # twice is once
        assert disk.try_buffer(10) is None
        got[0].release()
        assert disk.try_buffer(10) is not None


def test_the_pool_is_said_to_be_buffers_of_the_host(tmp_path):
    def pools():
        return [
            held.bytes()
            for held in holdings
            if (held.role, held.tier) == (Role.BUFFERS, Tier.HOST) and not held.is_left
        ]

    before = pools()
    with store(tmp_path, buffers=3, threads=2) as disk:
        assert sorted(pools()) == sorted([*before, theory.pool_bytes(3, BUFFER_BYTES, 2)])
        assert disk.try_buffer(1) is not None
    assert pools() == before


def test_a_write_that_fails_gives_its_buffer_back(tmp_path):
    with store(tmp_path, buffers=1) as disk:
        buffer = disk.buffer(5)
        disk.write("x", buffer.tensor, on_done=buffer.release).wait()
        (disk.folder / "x.slot-0").unlink()
        buffer = disk.buffer(5)
        with pytest.raises(DiskError, match="is gone"):
            disk.write("x", buffer.tensor, on_done=buffer.release).wait()
        assert disk.try_buffer(5) is not None
        with pytest.raises(DiskError, match="is gone"):
            disk.commit({})
