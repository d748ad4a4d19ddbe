"""A device that is host memory with a limit: what counts, for how long, and what if it is full."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext

import pytest
import torch

from tests.train.engine.samples import CONTEXT, gpt
from zerosim.base.config import EngineConfig
from zerosim.base.errors import OutOfMemory
from zerosim.schema.events import Phase
from zerosim.schema.memory import AddressBlock, MapMoment, Role
from zerosim.trace import labels
from zerosim.trace.allocations import AllocationRecord
from zerosim.trace.holdings import hold
from zerosim.trace.sink import Description, Labels, Position
from zerosim.train.device import (
    ALIGNMENT_BYTES,
    DeviceMemory,
    device_memory,
    on_device,
    on_host,
    resized,
)
from zerosim.train.engine import initialize

KB = 1024


@pytest.fixture(autouse=True)
def nothing_is_labelled(monkeypatch):
    """An engine that a test before left in the middle of a step says nothing here."""
    monkeypatch.setattr(labels._state, "position", Position())
    monkeypatch.setattr(labels._state, "description", Description())
    monkeypatch.setattr(labels._thread, "computing", "")


def _empty(num_bytes: int) -> torch.Tensor:
    return torch.empty(num_bytes, dtype=torch.uint8)


def test_a_storage_counts_once_and_for_as_long_as_anyone_holds_it() -> None:
    with DeviceMemory(64 * KB) as memory:
        whole = _empty(8 * KB)
        part = whole[: 2 * KB].view(2, KB)
        whole.add_(1)
        assert memory.used_bytes == 8 * KB
        del whole
        assert memory.used_bytes == 8 * KB
        del part
        assert memory.used_bytes == 0
        assert memory.peak_bytes == 8 * KB


def test_what_autograd_saved_counts_until_backward_is_over() -> None:
    with DeviceMemory(64 * KB) as memory:
        weight = torch.ones(KB, requires_grad=True)
        loss = weight.exp().square().sum()
        # the exponential is saved, its square is not
        assert memory.used_bytes == 2 * 4 * KB + ALIGNMENT_BYTES
        loss.backward()
        del loss
        assert weight.grad is not None
        assert memory.used_bytes == 2 * 4 * KB


def test_what_was_there_before_and_what_is_on_the_host_takes_no_room() -> None:
    before = torch.ones(8 * KB, dtype=torch.uint8)
    constant = torch.frombuffer(bytearray(8 * KB), dtype=torch.uint8)
    with DeviceMemory(4 * KB) as memory:
        views = [before.view(8, KB), before.unbind(0), constant.reshape(8, KB)]
        before.add_(constant[:1])
        with on_host():
            host = before + 1
            host.mul_(2)
        assert memory.used_bytes == 0
        assert host.sum() == 2 * (1 + 1) * 8 * KB
        del views
        assert torch.tensor([1.0]) == 1.0
        literal = torch.tensor([1.0] * 512)
        assert memory.used_bytes == 2 * KB
        del literal
        assert memory.used_bytes == 0


def test_a_resized_storage_gives_its_place_back_and_takes_another() -> None:
    with DeviceMemory(8 * KB) as memory:
        kept = _empty(6 * KB)
        kept.untyped_storage().resize_(0)
        resized(kept)
        assert memory.used_bytes == 0
        other = _empty(4 * KB)
        kept.untyped_storage().resize_(6 * KB)
        with pytest.raises(OutOfMemory, match=r"resize_ requested 6\.14 kB"):
            resized(kept)
        del other
        resized(kept)
        assert memory.used_bytes == 6 * KB
        kept.resize_(7 * KB)
        assert memory.used_bytes == 7 * KB


def test_what_does_not_fit_is_named_with_what_is_there_and_what_to_try() -> None:
    with DeviceMemory(16 * KB) as memory:
        pieces = [_empty(2 * KB) for _ in range(8)]
        hold(pieces[0], Role.MASTER, "blocks.0")
        del pieces[2], pieces[3]
        with pytest.raises(OutOfMemory) as caught, labels.scope(unit="blocks.1"):
            _empty(4 * KB)
        assert caught.value.exit_code == 3
        assert "\n" not in str(caught.value)
        expected = (
            r"out of device memory: empty for blocks.1 requested 4.10 kB during setup; 12.3 kB "
            r"of 16.4 kB is in use \(other 10.2 kB, fp32 master 2.05 kB\), 4.10 kB is free but in "
            r"pieces of at most 2.05 kB \(fragmentation\); try --contiguous-memory, .*--stage 1"
        )
        assert re.match(expected, str(caught.value)), caught.value
        with pytest.raises(OutOfMemory, match=r"4\.10 kB is free, the largest piece 2\.05 kB; try"):
            _empty(8 * KB)
        # what did not fit is gone, and the rest can be used
        assert memory.used_bytes == 12 * KB
        full, now = memory.places.maps(Position())
        assert (full.moment, now.moment) == (MapMoment.FULL, MapMoment.PHASE)
        assert (full.free_bytes, full.largest_free_bytes) == (4 * KB, 2 * KB)
        assert (full.largest_free_share, full.fragmentation) == (0.5, 0.5)
        assert full.blocks[0].role is Role.MASTER


def test_an_iteration_ends_with_the_map_of_its_largest_use() -> None:
    forward, update, after = (
        Position(4, 0, phase) for phase in (Phase.FORWARD, Phase.UPDATE, Phase.OUTSIDE)
    )
    with DeviceMemory(16 * KB) as memory:
        kept = _empty(2 * KB)
        hold(kept, Role.PARAMETERS, "head")
        maps = memory.places.maps(forward)
        with labels.restored(Labels(position=forward)):
            for size in (2, 6, 3):
                several = [_empty(size * KB) for _ in range(2)]
                hold(several[1], Role.GRADIENTS, "head")
                del several
        maps += memory.places.maps(update)
        maps += memory.places.maps(after)
    assert [(one.moment, one.phase) for one in maps] == [
        (MapMoment.PHASE, Phase.FORWARD),
        (MapMoment.PHASE, Phase.UPDATE),
        (MapMoment.PEAK, Phase.FORWARD),
        (MapMoment.PHASE, Phase.OUTSIDE),
    ]
    assert [one.used_bytes for one in maps] == [2 * KB, 2 * KB, 14 * KB, 2 * KB]
    assert maps[2].blocks == (
        AddressBlock(0, 2 * KB, Role.PARAMETERS, "head"),
        AddressBlock(2 * KB, 6 * KB, Role.OTHER, ""),
        AddressBlock(8 * KB, 6 * KB, Role.GRADIENTS, "head"),
    )


def test_another_thread_counts_if_it_says_so() -> None:
    def allocate(within: Callable[[], AbstractContextManager[None]]) -> torch.Tensor:
        with within():
            return _empty(2 * KB)

    with DeviceMemory(16 * KB) as memory, ThreadPoolExecutor(1) as thread:
        beside = thread.submit(allocate, nullcontext).result()
        assert memory.used_bytes == 0
        inside = thread.submit(allocate, on_device).result()
        assert memory.used_bytes == 2 * KB
        del beside, inside
        assert memory.used_bytes == 0
    with on_device():  # there is no limit any more
        _empty(2 * KB)


def test_without_a_limit_nothing_is_counted() -> None:
    with device_memory(None, torch.device("cpu")):
        resized(_empty(KB))
    with pytest.raises(AssertionError), DeviceMemory(KB), DeviceMemory(KB):
        pass


@pytest.mark.parametrize("stage", [0, 3])
def test_it_counts_what_pytorch_counts(stage: int) -> None:
    """At each phase border to the byte; at a peak but for what an operator holds while it runs."""
    gc.collect()  # else an engine of another test may be freed in this record
    batch = torch.randint(256, (2, CONTEXT + 1))
    with DeviceMemory(1 << 20) as memory:
        record = AllocationRecord()
        seen: list[int] = []

        def mark() -> None:
            record.mark(len(seen))
            seen.append(memory.allocated_bytes)

        with on_host():  # within the record: it would take what was there before for unknown
            model = gpt()
        engine = initialize(model, EngineConfig(stage=stage))
        for _ in range(2):
            loss = engine(batch)
            mark()
            engine.backward(loss)
            mark()
            engine.step()
            mark()
        counted = record.close()
        engine.close()
    assert seen == counted.allocated_bytes
    assert len(set(seen)) > 3
