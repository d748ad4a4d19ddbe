"""The device's clock beside the host's, with a device that a test lets go on."""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

import zerosim
from zerosim.analysis.memory import timeline
from zerosim.record import load
from zerosim.schema.events import Phase
from zerosim.schema.memory import Moment, Role
from zerosim.trace import device, labels, ledger, workspaces
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


def test_collectives_of_a_group_are_done_one_after_another(made):
    """Both were asked for before the first was over: the second begins when that is."""
    made.times, written = [5000, 5010, 5400, 5900], []
    found = device.DeviceTimes(SimpleNamespace(append=written.append), made)
    for event in (1, 2):
        found.begins(event, group="0")
    for event in (1, 2):
        found.ends(event, work=object())
    assert found.first_call() == 1
    made.done = 3
    assert not found.write()
    assert found.first_call() == 2
    made.done = 4
    assert found.write()
    assert found.first_call() is None
    rows = [json.loads(row + "}") for row in written]
    assert [(row["event"], row["begin_ns"], row["end_ns"]) for row in rows] == [
        (1, 5000, 5400),
        (2, 5400, 5900),
    ]


def test_a_program_that_goes_far_ahead_loses_times_and_says_so(made, monkeypatch):
    monkeypatch.setattr(device, "_MOST", 1)
    written = []
    rows = SimpleNamespace(append=lambda row: None, write=lambda _, row: written.append(row))
    found = device.DeviceTimes(rows, made)
    for event in (1, 2, 3):
        found.begins(event)
        found.ends(event)
    made.done = 2
    found.close()
    assert written[0].num_lost == 2


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


class Event:
    """CUDA's, at the number of those before it, in ms."""

    recorded = 0

    def __init__(self, *, enable_timing):
        assert enable_timing

    def record(self):
        Event.recorded += 1
        self.at_ms = float(Event.recorded)

    def synchronize(self):
        pass

    def query(self):
        return True

    def elapsed_time(self, later):
        return later.at_ms - self.at_ms


@pytest.fixture
def cuda(monkeypatch):
    """What marks ask of CUDA; `streams` has those that were made current."""
    found = SimpleNamespace(streams=[])
    monkeypatch.setattr(Event, "recorded", 0)

    def stream(one):
        found.streams.append(one)
        return nullcontext()

    for name, value in {
        "Event": Event,
        "Stream": lambda: "ours",
        "stream": stream,
        "current_stream": lambda: SimpleNamespace(synchronize=lambda: None),
        "is_current_stream_capturing": lambda: False,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    return found


def work_with(*, is_done, waited):
    """A work whose end was, or was not, given to the device already."""

    def fail():
        pytest.fail("the work's tensors may be overwritten once it was waited for")

    future = SimpleNamespace(done=lambda: is_done, wait=lambda: waited.append(True))
    return SimpleNamespace(wait=fail, get_future=lambda: future)


def test_the_end_of_a_call_is_marked_without_waiting_for_it(cuda):
    """A wait of ours for NCCL's work would let the program's allocator have its tensors again."""
    waited, now = [], iter(range(0, 10_000, 500))
    marks = device.CudaMarks(lambda: next(now))
    begin, end = marks.here(), marks.after(work_with(is_done=True, waited=waited))
    assert (waited, cuda.streams) == ([True], ["ours"])
    assert end.is_over()
    assert end.time_ns() - begin.time_ns() == 1_000_000


def test_a_call_of_a_backend_that_the_host_would_wait_for_has_no_mark(cuda):
    waited = []
    assert device.CudaMarks(lambda: 0).after(work_with(is_done=False, waited=waited)) is None
    assert (waited, cuda.streams) == ([], [])


@pytest.fixture
def allocator(monkeypatch):
    """A GPU's allocator that says what a test wants it to; how often it was asked is in `asked`."""
    found = SimpleNamespace(asked=0, says=(7000, 9000, 7000))

    def ask():
        found.asked += 1
        return found.says

    monkeypatch.setattr(ledger, "_allocated_on_device", ask)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    real = ledger.MemoryLedger
    monkeypatch.setattr(
        "zerosim.trace.recorder.MemoryLedger",
        lambda *args, **how: real(*args, **how | {"on_cuda": True}),
    )
    return found


def test_the_allocator_is_asked_at_phase_borders_alone(tmp_path, clock, made, allocator):
    """To ask it takes longer than all else of a look."""
    with zerosim.trace(tmp_path / "t", clock=clock):
        labels.enter(0, Phase.FORWARD)
        before = allocator.asked
        held = torch.ones(100)
        holdings.hold(held, Role.PARAMETERS, "blocks.0")
        compute("blocks.0")
        assert allocator.asked == before
        labels.enter(0, Phase.BACKWARD)
        assert allocator.asked == before + 1
    samples = only(tmp_path / "t").memory_samples
    told = {one.moment: (one.allocated_bytes, one.peak_bytes) for one in samples}
    assert told[Moment.PHASE] == (7000, 9000)
    assert told[Moment.BEGIN] == (None, None)


def test_workspaces_of_cublas_have_a_name(tmp_path, clock, made, allocator, monkeypatch):
    """As on an H100: 32 MiB for forward's thread, as much for autograd's."""
    workspace = {"state": "active_allocated", "requested_size": 32 << 20}
    freed = workspace | {"state": "inactive"}
    blocks = [workspace, freed, {"state": "active_allocated", "requested_size": 100}]
    looked = []
    monkeypatch.setattr(workspaces, "_segments", lambda: looked.append(1) or [{"blocks": blocks}])
    with zerosim.trace(tmp_path / "t", clock=clock):
        allocator.says = (40 << 20) + 300, 41 << 20, 40 << 20
        labels.enter(0, Phase.FORWARD)
        blocks.append(workspace)
        allocator.says = (74 << 20) + 700, 75 << 20, 74 << 20
        labels.enter(0, Phase.BACKWARD)
        labels.enter(0, Phase.UPDATE)
    rank = only(tmp_path / "t")
    line = timeline(rank)
    sizes = {
        unit: held.tolist()
        for (role, unit), (_, held) in line.holders.items()
        if role is Role.WORKSPACES
    }
    assert sizes == {"cuBLAS": [32 << 20, 64 << 20], "blocks rounded to 512 B": [300, 700]}
    assert line.other(len(rank.memory_samples) - 1) == 10 << 20
    assert len(looked) == 2  # and not at each border


@pytest.mark.parametrize(
    ("told", "capability", "size"),
    [
        ("", 9, 33_554_432),
        ("", 8, 8_519_680),
        ("", 10, 33_554_432),
        ("", 12, 33_554_432),
        (":16:8", 9, 131_072),
        (":4096:2:16:8", 9, 8_519_680),
        ("nonsense", 9, 33_554_432),
    ],
)
def test_a_workspace_is_as_large_as_pytorch_makes_it(told, capability, size):
    found = workspaces.workspace_bytes(capability, {"CUBLAS_WORKSPACE_CONFIG": told})
    assert found == size
