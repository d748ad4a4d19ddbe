"""The block `with zerosim.trace(folder)`: what it needs, and what it leaves behind."""

import gc
import json
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
import torch.distributed as dist

import zerosim
from tests.cli.command import assert_one_line, command
from tests.trace.test_rowfile import fill_disk
from tests.trace.test_wire import pair
from zerosim.base.errors import ConfigError, EnvironmentFault
from zerosim.record import load
from zerosim.schema.c10d import OPERATORS
from zerosim.schema.events import Kind, Op, Phase
from zerosim.trace import labels
from zerosim.trace.calls import Calls
from zerosim.trace.holdings import holdings
from zerosim.trace.intercept import Interception
from zerosim.trace.operators import c10d_operators
from zerosim.trace.rowfile import RowFile
from zerosim.trace.sink import Description
from zerosim.trace.wire import Connections
from zerosim.verify import Outcome, verify

ROOT = str(Path(__file__).parents[2])


def python(code, *, ok=True):
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
    )
    assert (done.returncode == 0) == ok, done.stderr
    return done.stdout


def is_intercepted():
    key = torch._C.DispatchKey.BackendSelect
    return [
        name
        for name in c10d_operators()
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, key)
    ]


def assert_at_rest():
    assert labels.attached() is None
    assert is_intercepted() == []


OF_LATER_RELEASES = {"c10d::gather_into_tensor_"}
"""What PyTorch 2.14 and later have and some release before has not."""


def test_every_operator_of_this_pytorch_is_in_the_table():
    names = {name.partition(".")[0] for name in c10d_operators()}
    assert set(OPERATORS) - OF_LATER_RELEASES <= names <= set(OPERATORS)
    assert len(names) >= 20


def test_an_operator_that_is_not_in_the_table_is_recorded_as_unknown(tmp_path, monkeypatch, alone):
    monkeypatch.delitem(OPERATORS, "c10d::broadcast_")
    with zerosim.trace(tmp_path / "t"):
        dist.broadcast(torch.ones(3), 0)
        dist.all_reduce(torch.ones(3))
    assert_at_rest()
    (rank,) = load(tmp_path / "t", strict=True).ranks
    unknown, known = (event for event in rank.events if event.kind is Kind.COLLECTIVE)
    assert (unknown.op, unknown.operator) == (Op.UNKNOWN, "c10d::broadcast_")
    assert (unknown.payload_bytes, unknown.sent_bytes) == (0, None)
    assert unknown.end_ns is not None
    assert (known.op, known.operator) == (Op.ALL_REDUCE, "")
    report = verify(load(tmp_path / "t"))
    assert report.outcome is Outcome.UNEXPLAINED
    assert "c10d::broadcast_ was called" in report.headline


def test_a_trace_of_nothing_is_not_verified(tmp_path, alone):
    with zerosim.trace(tmp_path / "t"):
        pass
    assert_one_line(command("verify", tmp_path / "t"), "no collective and no training step")


def test_all_operators_are_intercepted_inside_and_none_after(tmp_path):
    assert_at_rest()
    with zerosim.trace(tmp_path / "t"):
        assert set(is_intercepted()) == set(c10d_operators()) - {"c10d::check_for_nan"}
    assert_at_rest()


def test_a_call_that_is_over_is_ended_at_the_border_though_its_thread_did_not_come_round(
    tmp_path, monkeypatch, alone
):
    """Whoever waited for it may go on, and even exit, before the backend's thread runs."""
    monkeypatch.setattr(Calls, "_is_over", lambda *given, **more: None)
    with zerosim.trace(tmp_path / "t") as recorder:
        work = dist.all_reduce(torch.ones(3), async_op=True)
        work.wait()
        assert load(tmp_path / "t").ranks[0].unfinished
        recorder.read()
        (rank,) = load(tmp_path / "t").ranks
        assert not rank.unfinished
    (rank,) = load(tmp_path / "t", strict=True).ranks
    (call,) = (event for event in rank.events if event.kind is Kind.COLLECTIVE)
    assert call.end_ns is not None
    assert call.error == ""


def test_after_the_block_nothing_is_written_and_another_can_follow(tmp_path, alone):
    for name in ("a", "b"):
        dist.all_reduce(torch.ones(1))
        with zerosim.trace(tmp_path / name):
            dist.barrier()
        dist.all_reduce(torch.ones(1))
        (rank,) = load(tmp_path / name, strict=True).ranks
        assert [event.op for event in rank.events][:1] == [Op.BARRIER]
        assert {event.kind for event in rank.events[1:]} <= {Kind.WAIT}


def test_one_trace_at_a_time(tmp_path):
    with zerosim.trace(tmp_path / "a") as recorder:
        with pytest.raises(ConfigError) as caught, zerosim.trace(tmp_path / "b"):
            pass
        assert labels.attached() is recorder
    assert str(caught.value) == "a trace is already being recorded: leave its block first"
    assert not (tmp_path / "b").exists()
    assert_at_rest()


def test_removing_twice_is_removing_once():
    interception = Interception(Mock())
    interception.install()
    with pytest.raises(AssertionError, match="already installed"):
        interception.install()
    interception.remove()
    interception.remove()
    assert_at_rest()


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt, SystemExit])
def test_an_exception_passes_through_and_is_written_down(tmp_path, error):
    with pytest.raises(error), zerosim.trace(tmp_path / "t"):
        raise error("loss is nan")
    assert_at_rest()
    (rank,) = load(tmp_path / "t", strict=True).ranks
    assert rank.failure.message.startswith(f"{error.__name__}: ")
    assert "loss is nan" in rank.failure.message


def test_a_trace_that_exists_is_not_written_over(tmp_path):
    with zerosim.trace(tmp_path / "t"):
        pass
    before = {path: path.read_bytes() for path in (tmp_path / "t").iterdir()}
    with pytest.raises(EnvironmentFault) as caught, zerosim.trace(tmp_path / "t"):
        pass
    assert str(caught.value) == (
        f"{tmp_path}/t already contains a trace of rank 0; give another folder"
    )
    assert {path: path.read_bytes() for path in (tmp_path / "t").iterdir()} == before


def test_a_folder_that_cannot_be_created(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFault) as caught, zerosim.trace(tmp_path / "file" / "t"):
        pass
    message = str(caught.value)
    assert message == (
        f"cannot create the folder {tmp_path}/file/t: Not a directory; give a writable one"
    )
    assert_at_rest()


def test_a_manifest_that_cannot_be_written(tmp_path):
    (tmp_path / "t" / "manifest.json").mkdir(parents=True)
    with pytest.raises(EnvironmentFault) as caught, zerosim.trace(tmp_path / "t"):
        pass
    assert str(caught.value).startswith(f"cannot write {tmp_path}/t/manifest.json: ")
    assert len(str(caught.value).splitlines()) == 1
    assert_at_rest()


FULL = "No space left on device; free disk space"


def test_a_full_disk_ends_the_program_in_one_line(tmp_path, alone):
    with (  # noqa: PT012 - the disk fills up in the middle
        pytest.raises(EnvironmentFault, match=FULL) as caught,
        zerosim.trace(tmp_path / "t") as recorder,
    ):
        dist.barrier()
        fill_disk(recorder._writer.rows)
        dist.barrier()
        pytest.fail("the second barrier was not written, and nothing was said")
    assert len(str(caught.value).splitlines()) == 1
    assert_at_rest()
    (rank,) = load(tmp_path / "t").ranks
    assert [event.kind for event in rank.events][:1] == [Kind.COLLECTIVE]
    assert {event.kind for event in rank.events[1:]} <= {Kind.WAIT}
    dist.barrier()


@pytest.mark.parametrize("wire", [True, False])
def test_a_disk_that_is_full_at_the_end_is_said(tmp_path, wire):
    with (
        pytest.raises(EnvironmentFault, match=FULL),
        zerosim.trace(tmp_path / "t", wire=wire) as recorder,
    ):
        fill_disk(recorder._writer.rows)
    assert_at_rest()


def test_a_full_disk_does_not_hide_what_went_wrong_first(tmp_path):
    with (  # noqa: PT012 - the disk is full before it goes wrong
        pytest.raises(ZeroDivisionError),
        zerosim.trace(tmp_path / "t") as recorder,
    ):
        fill_disk(recorder._writer.rows)
        raise ZeroDivisionError
    assert_at_rest()


def test_a_start_that_fails_leaves_the_programs_connections_open(tmp_path, monkeypatch):
    write = RowFile.write

    def failing(self, name, record):
        if name == "socket":
            raise EnvironmentFault("cannot write")
        write(self, name, record)

    with pair() as (here, there):
        monkeypatch.setattr(RowFile, "write", failing)
        with pytest.raises(EnvironmentFault), zerosim.trace(tmp_path / "t"):
            pass
        here.sendall(b"x")
        assert there.recv(1) == b"x"
    assert_at_rest()
    # autograd saves nothing for it either, and no journal of holdings is kept
    assert torch._C._autograd._top_saved_tensors_default_hooks(True) is None
    assert holdings._journals == ()


def test_no_descriptor_is_left_open(tmp_path, alone):
    with zerosim.trace(tmp_path / "warm"):
        dist.barrier()
    gc.collect()  # what tests before this one left
    before = set(Path("/proc/self/fd").iterdir())
    for name in ("a", "b"):
        with zerosim.trace(tmp_path / name):
            dist.barrier()
    assert set(Path("/proc/self/fd").iterdir()) <= before


def test_the_manifest_says_what_was_run(tmp_path, alone):
    with zerosim.trace(tmp_path / "t", run={"model": "mine", "steps": 3}):
        labels.describe(Description(config={"stage": 2}))
    labels.describe(Description())
    manifest = load(tmp_path / "t").manifest
    assert manifest.run == {"model": "mine", "steps": 3}
    assert manifest.config == {"stage": 2}
    assert (manifest.num_ranks, manifest.backend, manifest.device) == (1, "gloo", "cpu")
    assert manifest.versions["torch"] == torch.__version__
    assert [path.name for path in sorted((tmp_path / "t").iterdir())] == [
        "manifest.json",
        "rank-0.jsonl",
    ]


def test_before_torch_distributed_the_environment_says_which_rank(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_RANK", "0")
    with zerosim.trace(tmp_path / "t"):
        pass
    (rank,) = load(tmp_path / "t").ranks
    assert (rank.header.rank, rank.header.num_ranks, rank.header.local_rank) == (2, 4, 0)


def test_importing_zerosim_is_enough(tmp_path):
    code = f"import zerosim\nwith zerosim.trace({str(tmp_path / 't')!r}): print('inside')"
    assert python(code) == "inside\n"
    assert load(tmp_path / "t", strict=True).complete


def test_the_tracer_needs_torch_and_nothing_else():
    code = """
import json, sys
import torch, torch.distributed
before = set(sys.modules)
import zerosim.trace
own = [m for m in set(sys.modules) - before if not m.startswith(("zerosim", "torch."))]
print(json.dumps(sorted(m.partition(".")[0] for m in own)))
"""
    tops = set(json.loads(python(code)))
    assert tops <= set(sys.stdlib_module_names)
    heavy = python("import sys, zerosim; print('torch' in sys.modules, 'msgspec' in sys.modules)")
    assert heavy == "False False\n"


KILLED = """
import os, signal, sys
import torch, torch.distributed as dist, zerosim
from zerosim.schema.events import Phase
from zerosim.trace import labels
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
with zerosim.trace(sys.argv[1] if len(sys.argv) > 1 else FOLDER):
    for iteration in range(5):
        labels.enter(iteration, Phase.FORWARD)
        dist.all_reduce(torch.ones(10))
    labels.begin_compute("doomed")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_all_that_happened(tmp_path):
    python(f"FOLDER = {str(tmp_path / 't')!r}\n{KILLED}", ok=False)
    trace = load(tmp_path / "t")
    (rank,) = trace.ranks
    assert not rank.complete
    assert len(trace.warnings) == 1
    calls = [event for event in rank.events if event.kind is not Kind.WAIT]
    assert [event.iteration for event in calls] == [0, 1, 2, 3, 4, 4]
    assert rank.events[-1].unit == "doomed"
    assert rank.events[-1].id in rank.unfinished
    # the last end is written by a thread of Gloo's
    assert set(rank.unfinished) <= {call.id for call in calls[4:]}
    assert rank.failure is None


# Who frees DDP's reducer frees the last reference to the group, and waits for the group's threads.
DESTROYS_AT_ONCE = """
import threading
import time

import torch
import torch.distributed as dist

import zerosim
from zerosim.trace.writer import EventWriter

end = EventWriter.end


def slowly(self, *args, **kwargs):
    if threading.current_thread() is not threading.main_thread():
        EventWriter.end = end
        time.sleep(1)  # the backend's thread, while the program goes on
    return end(self, *args, **kwargs)


def hold_back(module, given, result):
    result.register_hook(lambda gradient: time.sleep(0.3))


def train():
    layers = torch.nn.Sequential(torch.nn.Linear(600, 600), torch.nn.Linear(600, 600))
    model = torch.nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=1)
    # the last layer's bucket is reduced, and being said to be, before the first one's is begun
    layers[0].register_forward_hook(hold_back)
    EventWriter.end = slowly
    model(torch.ones(1, 600)).sum().backward()
    if {within}:
        dist.destroy_process_group()
    else:
        traced.__exit__(None, None, None)
        dist.destroy_process_group()


dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
traced = zerosim.trace({folder!r})
traced.__enter__()
train()
if {within}:
    traced.__exit__(None, None, None)
print("ended")
"""


@pytest.mark.parametrize("within", [False, True])
def test_a_group_is_destroyed_while_its_thread_says_that_a_call_is_over(tmp_path, within):
    code = DESTROYS_AT_ONCE.format(folder=str(tmp_path / "t"), within=within)
    assert python(code) == "ended\n"
    (rank,) = load(tmp_path / "t", strict=True).ranks
    assert all(event.end_ns for event in rank.events if event.kind is Kind.COLLECTIVE)


def test_connections_are_looked_for_when_there_may_be_new_ones(tmp_path, alone, clock, monkeypatch):
    scans, scan = [], Connections.scan

    def counted(wire, *, wholly=True):
        scans.append(wholly)
        return scan(wire, wholly=wholly)

    def num_scans(steps=10):
        before = len(scans)
        for _ in range(steps):
            iteration = labels.position().iteration + 1
            for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE, Phase.OUTSIDE):
                labels.enter(iteration, phase)
        return len(scans) - before

    monkeypatch.setattr(Connections, "scan", counted)
    with zerosim.trace(tmp_path / "t", clock=clock):
        assert num_scans() == 4, "as a trace begins, at each border of a step"
        assert num_scans() == 0
        dist.all_reduce(torch.zeros(100))
        assert num_scans() == 4, "after a call of a new kind"
        dist.all_reduce(torch.zeros(100))
        assert num_scans() == 0, "a call like another"
        dist.broadcast(torch.zeros(100), 0)
        assert num_scans() == 4
        clock.now += 100_000_000
        assert num_scans() == 1, "now and then in any case"
        before = len(scans)
    assert len(scans) == before + 1, "as it ends"
