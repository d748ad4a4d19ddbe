"""The disk in a trace: copies with the kernel's own count, and the waits for them."""

import pytest
import torch

from tests.train.offload.stores import some_bytes, store
from zerosim.base.errors import DiskError
from zerosim.base.tiers import Tier
from zerosim.record import load
from zerosim.schema.events import Kind, Phase, Purpose
from zerosim.theory.disk import bytes_on_disk
from zerosim.trace import labels
from zerosim.trace.session import trace
from zerosim.train.offload.blocks import BLOCK_BYTES

SIZES = (0, 1, 4_064, 4_065, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES + 12)
UNITS = [f"blocks.{number}" for number in range(len(SIZES))]


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """Each size is written and read in a step, directly and through the kernel's cache."""
    folder = tmp_path_factory.mktemp("disk")
    with trace(folder / "trace"), store(folder, buffers=1, buffer_bytes=max(SIZES)) as disk:
        for step, direct in enumerate((disk.direct, False)):
            disk.direct = direct
            labels.enter(step, Phase.UPDATE)
            for unit, size in zip(UNITS, SIZES, strict=True):
                with labels.scope(unit=unit, purpose=Purpose.STORE_STATES):
                    buffer = disk.buffer(size)  # waits until the one before is written
                    disk.write(unit, buffer.tensor, on_done=buffer.release)
            for unit, size in zip(UNITS, SIZES, strict=True):
                buffer = disk.buffer(size)
                with labels.scope(unit=unit, purpose=Purpose.FETCH_STATES):
                    handle = disk.read(unit, buffer.tensor)
                handle.wait()
                buffer.release()
            disk.commit({})
        labels.enter(-1, Phase.OUTSIDE)
        with labels.scope(unit="float"):
            disk.write("float", torch.zeros(6, 5)).wait()
        with labels.scope(unit="lost"):
            disk.write("lost", some_bytes(5, 0)).wait()
            (disk.folder / "lost.slot-0").unlink()
            handle = disk.read("lost", torch.zeros(5, dtype=torch.uint8))
            with pytest.raises(DiskError):
                handle.wait()
    return load(folder / "trace").ranks[0].events


def copies_of(events, step):
    return [one for one in events if one.kind is Kind.COPY and one.iteration == step]


@pytest.mark.parametrize("step", [0, 1])
def test_the_kernel_counted_what_theory_says(events, step):
    written, read = copies_of(events, step)[: len(SIZES)], copies_of(events, step)[len(SIZES) :]
    for found, way, purpose in (
        (written, (Tier.HOST, Tier.DISK), Purpose.STORE_STATES),
        (read, (Tier.DISK, Tier.HOST), Purpose.FETCH_STATES),
    ):
        assert [one.payload_bytes for one in found] == list(SIZES)
        assert [one.counted_bytes for one in found] == [bytes_on_disk(size) for size in SIZES]
        assert [one.unit for one in found] == UNITS
        assert {(one.origin, one.target) for one in found} == {way}
        assert {(one.purpose, one.phase) for one in found} == {(purpose, Phase.UPDATE)}


def test_elements_are_those_of_the_tensor(events):
    (copy,) = (one for one in events if one.kind is Kind.COPY and one.unit == "float")
    assert (copy.dtype, copy.elements, copy.payload_bytes) == ("float32", 30, 120)


def test_a_wait_is_for_the_copy_that_ended_it(events):
    by_id = {one.id: one for one in events}
    waits = [one for one in events if one.kind is Kind.WAIT]
    assert waits
    for wait in waits:
        copy = by_id[wait.parent]
        assert copy.kind is Kind.COPY
        assert copy.end_ns <= wait.end_ns
    # with one buffer the second write waits for the first
    assert any(by_id[one.parent].purpose is Purpose.STORE_STATES for one in waits)


def test_a_copy_that_failed_says_why(events):
    last = [one for one in events if one.kind is Kind.COPY and one.unit == "lost"][-1]
    assert "lost.slot-0 is gone" in last.error
