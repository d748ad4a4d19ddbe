"""The device's clock beside the host's, with a device that a test lets go on."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

import zerosim
from zerosim.record import load
from zerosim.schema.events import Kind, Phase
from zerosim.schema.memory import Moment, Role
from zerosim.trace import device, labels, ledger
from zerosim.trace.holdings import holdings


class Device:
    """What is asked of it is done, later, at times that a test says.

    Attributes:
        done: how many of the marks it has come to.
    """

    def __init__(self, clock, times_ns):
        self.clock, self.times = clock, list(times_ns)
        self.done = 0
        self.left = 0

    def here(self):
        self.left += 1
        return Place(self, self.left - 1)

    def after(self, work):
        return self.here()

    def uncertainty_ns(self):
        return 7


class Place:
    def __init__(self, owner, number):
        self.owner, self.number = owner, number

    def is_over(self):
        return self.number < self.owner.done

    def time_ns(self):
        assert self.is_over(), "asked before the device had come to it"
        return self.owner.times[self.number]


@pytest.fixture
def made(monkeypatch, clock):
    """A device whose marks lie 100 ns apart, from 5000 on."""
    found = Device(clock, range(5000, 9000, 100))
    monkeypatch.setattr(device, "marks_of", lambda *_: found)
    monkeypatch.setattr(device, "_LONGEST_S", 0.0)
    return found


def compute(unit):
    labels.end(labels.begin_compute(unit))


def only(folder):
    (rank,) = load(folder).ranks
    return rank


def test_rows_say_when_the_device_did_what_was_asked(tmp_path, clock, made):
    with zerosim.trace(tmp_path / "t", clock=clock, memory=False):
        labels.enter(0, Phase.FORWARD)
        compute("blocks.0")
        compute("blocks.1")
        made.done = 2
        labels.enter(0, Phase.BACKWARD)
        made.done = 4
    rank = only(tmp_path / "t")
    times = [(one.unit, one.device_begin_ns, one.device_end_ns) for one in rank.events]
    assert times == [("blocks.0", 5000, 5100), ("blocks.1", 5200, 5300)]
    assert {one.end_ns for one in rank.events} == {1000}
    assert rank.device_clock.uncertainty_ns == 7


def test_what_the_device_never_did_has_no_times(tmp_path, clock, made):
    with zerosim.trace(tmp_path / "t", clock=clock, memory=False):
        labels.enter(0, Phase.FORWARD)
        compute("blocks.0")
        made.done = 1
    (event,) = only(tmp_path / "t").events
    assert (event.device_begin_ns, event.device_end_ns) == (None, None)
    assert only(tmp_path / "t").device_clock is None


def test_a_cpu_has_no_device_times(tmp_path, clock):
    with zerosim.trace(tmp_path / "t", clock=clock, memory=False):
        labels.enter(0, Phase.FORWARD)
        compute("blocks.0")
    assert b"device_" not in (tmp_path / "t" / "rank-0.jsonl").read_bytes()


def test_collectives_of_a_group_are_done_one_after_another(
    alone, tmp_path, clock, made, monkeypatch
):
    """Both were asked for before the first was over: the second begins when that is."""
    monkeypatch.setattr(torch.Tensor, "device", torch.device("cuda"), raising=False)
    made.times = [5000, 5400, 5010, 5900]
    with zerosim.trace(tmp_path / "t", clock=clock, memory=False):
        dist.all_reduce(torch.ones(4))
        dist.all_reduce(torch.ones(4))
        made.done = 4
    calls = [one for one in only(tmp_path / "t").events if one.kind is Kind.COLLECTIVE]
    found = [(one.device_begin_ns, one.device_end_ns) for one in calls]
    assert found == [(5000, 5400), (5400, 5900)]


def test_a_border_is_quiet_when_the_device_has_come_to_it(tmp_path, clock, made):
    with zerosim.trace(tmp_path / "t", clock=clock, memory=False):
        labels.enter(0, Phase.FORWARD)
        compute("blocks.0")
        labels.enter(0, Phase.OUTSIDE)
        made.done = 2
        labels.enter(1, Phase.FORWARD)
    quiet = {
        (one.iteration, one.phase): one.is_quiet
        for one in only(tmp_path / "t").wire_samples
        if one.iteration >= 0
    }
    assert not quiet[0, Phase.OUTSIDE]
    assert quiet[1, Phase.FORWARD]


def test_the_allocator_is_asked_at_phase_borders_alone(tmp_path, clock, made, monkeypatch):
    """To ask it takes longer than all else of a look."""
    asked = []
    monkeypatch.setattr(ledger, "_allocated_on_device", lambda: asked.append(1) or (7000, 9000))
    real = ledger.MemoryLedger
    monkeypatch.setattr(
        "zerosim.trace.recorder.MemoryLedger",
        lambda *args, **how: real(*args, **how | {"on_cuda": True}),
    )
    with zerosim.trace(tmp_path / "t", clock=clock):
        labels.enter(0, Phase.FORWARD)
        before = len(asked)
        held = torch.ones(100)
        holdings.hold(held, Role.PARAMETERS, "blocks.0")
        compute("blocks.0")
        assert len(asked) == before
        labels.enter(0, Phase.BACKWARD)
        assert len(asked) == before + 1
    samples = only(tmp_path / "t").memory_samples
    told = {one.moment: (one.allocated_bytes, one.peak_bytes) for one in samples}
    assert told[Moment.PHASE] == (7000, 9000)
    assert told[Moment.BEGIN] == (None, None)
