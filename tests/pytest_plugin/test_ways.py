"""Each way to record, as docs/pytest.md shows it; and what a person reads when a test fails."""

import re

import pytest

from tests.pytest_plugin.project import PAGE, examples, run_pytest, write

pytestmark = pytest.mark.ranks

FAILING = """
import os
import signal

import pytest
import torch.distributed as dist

from test_step import make_model
from test_step import test_my_step as shown_on_the_page


def fail():
    if dist.get_rank() == 1:
        raise ValueError("of my own")
    dist.barrier()


def test_traffic(zerosim_trace):
    shown_on_the_page(zerosim_trace)
    zerosim_trace.assert_traffic("3Psi")


def test_rank(zerosim_trace):
    zerosim_trace.run(fail, ranks=2)


def die():
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()


def test_killed_rank(zerosim_trace):
    zerosim_trace.run(die, ranks=2)


def test_local(zerosim_trace):
    zerosim_trace.run(lambda: None, ranks=2)


@pytest.mark.zerosim(wire="no")
def test_marker(zerosim_trace):
    pass


def test_nothing(zerosim_trace):
    zerosim_trace.assert_collectives({})
    zerosim_trace.assert_traffic(0)
    zerosim_trace.assert_traffic("0Psi", psi=make_model())


def test_own_failure(zerosim_trace):
    assert 1 == 2
"""
JOINS = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(100))
dist.destroy_process_group()
print("joined")
"""
PROGRAMS = """
import os
import sys

import pytest
import torch
import torch.distributed as dist

from zerosim.base.errors import ConfigError, EnvironmentFault, RunError

ONE = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "RANK": "0", "WORLD_SIZE": "1"}


def test_fake_group(zerosim_trace):
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=64, store=FakeStore())
    model = torch.nn.Linear(4, 4)
    model(torch.ones(1, 4)).sum().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    zerosim_trace.assert_traffic("2Psi")
    zerosim_trace.assert_collectives({"all-reduce": 2})
    with pytest.raises(ConfigError, match="with algorithm 'other' is not known"):
        zerosim_trace.assert_traffic("2Psi (N-1)/N")
    dist.destroy_process_group()


def test_programs(zerosim_trace):
    ended = zerosim_trace.command([sys.executable, "joins.py"], env=os.environ | ONE)
    assert "joined" in ended.stdout
    zerosim_trace.assert_collectives({"all-reduce": 1})
    assert zerosim_trace.recorded.verify().report.num_ranks == 1
    with zerosim_trace.recording():
        assert "ZEROSIM_TRACE" in os.environ
    assert "ZEROSIM_TRACE" not in os.environ
    with pytest.raises(EnvironmentFault, match="no process that was started joined"):
        zerosim_trace.assert_collectives({})
    with pytest.raises(RunError, match="ended with exit code 7: its output is below"):
        zerosim_trace.command([sys.executable, "-c", "raise SystemExit(7)"])
    with pytest.raises(RunError, match="did not end within 1 s"):
        zerosim_trace.command([sys.executable, "-c", "import time; time.sleep(60)"], timeout=1)
    with pytest.raises(EnvironmentFault, match="no process that was started joined"):
        zerosim_trace.command([sys.executable, "-c", "pass"])
    with pytest.raises(EnvironmentFault, match="no process that was started joined"):
        zerosim_trace.assert_collectives({})
    with pytest.raises(EnvironmentFault, match="cannot start no-such-program"):
        zerosim_trace.command(["no-such-program"])
"""
UNDER_TORCHRUN = """
from zerosim.base.errors import RunError


def test_cumulative(group, zerosim_trace):
    for number in (1, 2):
        dist.all_reduce(torch.ones(100))
        zerosim_trace.assert_collectives({"all-reduce": number})
        zerosim_trace.assert_traffic(number * 400)
        with pytest.raises(AssertionError, match="traffic is .* expected 3 B"):
            zerosim_trace.assert_traffic(3)


def test_absent(group, zerosim_trace):
    if dist.get_rank() == 1:
        raise ValueError("of my own")
    zerosim_trace.assert_collectives({})


@pytest.mark.zerosim(timeout_s=1)
def test_late(group, zerosim_trace):
    if dist.get_rank() == 0:
        with pytest.raises(RunError, match="rank 1 did not reach this assert within 1 s"):
            zerosim_trace.assert_collectives({})
    dist.barrier()
"""
# torchrun ends the other ranks as soon as one ends with an error, whatever they have yet to say
TOGETHER = """
import os
import time
from pathlib import Path


def pytest_unconfigure():
    Path(f"over-{os.environ['RANK']}").touch()
    for _ in range(600):
        if len(list(Path().glob("over-*"))) == int(os.environ["WORLD_SIZE"]):
            break
        time.sleep(0.1)
"""


SPAWNS = """
import os

import torch.multiprocessing

ONE = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "RANK": "0", "WORLD_SIZE": "1"}


def join(rank):
    os.environ.update(ONE)
    import joins


def test_recording(zerosim_trace):
    with zerosim_trace.recording() as folder:
        torch.multiprocessing.spawn(join, nprocs=1)
    assert zerosim_trace.folder == folder
    zerosim_trace.assert_collectives({"all-reduce": 1})
"""
LETS_GO_LATE = """
from collections import deque

from zerosim.trace.writer import EventWriter

held, uses = deque(maxlen=4), EventWriter.uses


def uses_for_long(writer, tensors):
    held.append(tensors)
    uses(writer, tensors)


EventWriter.uses = uses_for_long
"""
# else each of its tests that starts ranks would import PyTorch again
KEEPS = """
from zerosim.train.launch.forkserver import keep

keep()
"""


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    """The folder of a project whose tests fail, and the output of running them."""
    folder, step = tmp_path_factory.mktemp("failing"), examples()["test_step.py"]
    late = f'{LETS_GO_LATE}{step}    zerosim_trace.assert_peak_memory("24Psi")\n'
    write(folder, test_step=step, test_failing=FAILING, test_late=late, conftest=KEEPS)
    code, text = run_pytest(
        folder,
        *("-p", "xdist", "-n", "1", "--strict-markers", "--zerosim-traces", "kept"),
        *("test_failing.py", "test_late.py"),
    )
    assert code == 1, text
    assert "6 failed, 1 passed, 1 error" in text
    return folder, text


def test_the_test_starts_ranks_and_failures_are_readable(failing):
    folder, text = failing
    shown = text[text.index("= ERRORS") : text.index("short test summary")]
    assert "zerosim/pytest_plugin" not in shown, "no line of ours is in a traceback"
    page = re.search(r"<!-- failure -->\n```\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for line in page[1].splitlines():
        assert f"E       {line}".rstrip() in shown, shown
    assert "1 x all-reduce of 2,704 B float32 in backward, reduce gradients at" in shown
    assert re.search(r"backward +reduce gradients: all-reduce +1 +2,704 +2,704", shown)
    trace = re.search(r"zerosim show (\S+/kept/test_traffic-1/run-1/trace)", shown)
    assert trace is not None
    assert (folder / trace[1] / "rank-1.jsonl").exists()
    assert "rank 1 of 2 failed in fail:" in shown
    assert 'raise ValueError("of my own")' in shown
    assert "ValueError: of my own" in shown
    # on a busy machine the rank that only lost it may be ended before it has said so
    assert re.search("rank 0, later: RuntimeError|rank 0 was still running, and was ended", shown)
    assert "rank 1 of 2 was killed (SIGKILL) in die" in shown
    assert "or did not end" not in shown
    assert "cannot be passed to ranks, which are separate processes" in shown
    assert "the marker zerosim was given wire='no': expected True or False" in shown
    assert "assert 1 == 2" in shown


def test_the_example_has_room_for_a_backend_that_lets_go_late(failing):
    """As its thread does that was not given the processor: here of the last four calls none."""
    _, text = failing
    assert 'zerosim_trace.assert_peak_memory("24Psi")' in text
    assert re.search(r"peak memory is 16,3\d\d B, expected at most 24Ψ = 16,224 B", text), text
    assert re.search(r"^FAILED test_late.py::test_my_step", text, re.MULTILINE), text


def test_pytest_under_torchrun(tmp_path):
    write(tmp_path, test_ranks=examples()["test_ranks.py"] + UNDER_TORCHRUN, conftest=TOGETHER)
    code, text = run_pytest(tmp_path, "--tb=short", torchrun=2)
    assert code == 1, text
    assert text.count("1 failed, 3 passed") == 2, text
    assert "rank 1 ended this test before this assert" in text
    assert "ValueError: of my own" in text


def test_programs_that_a_test_starts(tmp_path):
    """One of them under torchrun."""
    shown = examples()
    program = shown["test_step.py"] + (
        "\n\nimport torch.distributed as dist\n"
        "dist.init_process_group('gloo')\ntrain(2)\ndist.destroy_process_group()\nprint('trained')\n"
    )
    write(tmp_path, test_programs=PROGRAMS, joins=JOINS)
    write(tmp_path, test_program=shown["test_program.py"] + SPAWNS, train=program)
    code, text = run_pytest(tmp_path, "--import-mode=importlib")
    assert code == 0, text
    assert "4 passed" in text
