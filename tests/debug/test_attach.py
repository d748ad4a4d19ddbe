"""Runs that train until a debugger attaches: held as an iteration begins, released, held again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress

import pytest

from tests.cli.command import assert_one_line, command
from tests.deadlines import RANKS_S
from tests.debug import programs
from tests.debug.programs import until
from tests.ranks import run_ranks
from tests.train.launch.test_nodes import cabled, unable
from zerosim.base.errors import ConfigError, EnvironmentFault
from zerosim.debug import Controller, Goal, Why
from zerosim.debug.calling import called
from zerosim.record import load
from zerosim.schema.attach import ATTACH_VARIABLE, FILES, Summons, machine, new_token, proof
from zerosim.schema.events import Kind, Phase

pytestmark = pytest.mark.ranks

SECRET = new_token()
ZERO_3 = {"stage": 3, "overlap": True, "chunk_bytes": 1024}


@contextmanager
def running(function, num_ranks, folder, *arguments):
    """Ranks that train until the file `enough` is in the folder, and can be held."""
    results = []

    def work():
        environment = {ATTACH_VARIABLE: SECRET}
        found = run_ranks(function, num_ranks, str(folder), *arguments, environment=environment)
        results.extend(found)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        until(lambda: any(folder.glob(FILES)), RANKS_S)
        yield results
    finally:
        enough(folder)
        thread.join(RANKS_S)


def enough(folder):
    (folder / "enough").touch()


def held_again(folder):
    """Attach as soon as all ranks can be called; the context to leave, and the door."""
    found = []

    def is_able():
        context = called(folder)
        with suppress(ConfigError):  # a rank has not begun
            found.extend((context, context.__enter__()))
        return bool(found)

    until(is_able, RANKS_S)
    return found


@pytest.mark.parametrize(
    ("function", "num_ranks", "arguments"),
    [
        (programs.engine_until, 2, (ZERO_3,)),
        # DDP is attached to below as well, and `test_held` has its bits
        pytest.param(programs.ddp_until, 3, (), marks=pytest.mark.long),
    ],
    ids=["ZeRO-3 with overlap", "DDP"],
)
def test_attached_to_twice_a_run_ends_with_the_bits_of_one_never_held(
    function, num_ranks, arguments, tmp_path
):
    folder = tmp_path / "held"
    with running(function, num_ranks, folder, *arguments) as results:
        context, door = held_again(folder)
        controller = Controller(door, attaches=True)
        controller.pause()  # they stop where they are
        assert controller.begin().why is Why.PAUSED
        assert controller.standing()
        context.__exit__(None, None, None)  # as if it were killed
        begun = []
        for _ in range(2):
            context, door = held_again(folder)
            controller = Controller(door, attaches=True)
            assert controller.begin().why is Why.REACHED
            stand = controller.steps()[0].stand
            assert (stand.kind, stand.phase) == (Kind.MARK, Phase.FORWARD)
            assert len(controller.steps()[0].standing) == num_ranks
            begun.append(stand.iteration)
            with pytest.raises(ConfigError, match="another debugger is attached to the ranks"):
                called(folder).__enter__()
            assert controller.step(Goal.OVER).why is Why.REACHED
            assert not controller.steps()[0].missing
            assert controller.step(Goal.ITERATION).why is Why.REACHED
            assert controller.steps()[0].stand.iteration == begun[-1] + 1
            if len(begun) == 2:
                controller.add_breakpoint('phase == "update"')
                assert controller.run().why is Why.BREAKPOINT
                enough(folder)
            controller.detach()
            context.__exit__(None, None, None)
        assert begun[0] < begun[1]
    steps, weights = {one[0] for one in results}, {one[1] for one in results}
    assert len(results) == num_ranks
    assert len(steps) == 1
    free = run_ranks(function, num_ranks, str(tmp_path / "free"), *arguments, *steps)
    assert {one[1] for one in free} == weights
    assert not any(folder.glob(FILES))
    assert len(load(folder, strict=True).ranks) == num_ranks


def test_a_program_of_torchruns_is_held_from_the_terminal_and_goes_on(tmp_path):
    folder = tmp_path / "run"
    words = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "tests.debug.agent")
    rest = ("60", "ddp_until", str(folder))
    running_ = subprocess.Popen(
        (
            *(sys.executable, "-m", "zerosim", "trace", "--debuggable", "--out", str(folder)),
            *("--", sys.executable, *words, *rest),
        ),
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        until(lambda: (folder / "rank-1.jsonl").exists() and any(folder.glob(FILES)), RANKS_S)
        context, _ = held_again(folder)  # all have begun
        context.__exit__(None, None, None)
        attached = subprocess.run(
            (sys.executable, "-m", "zerosim", "debug", "--no-browser", "--attach", str(folder)),
            input="over\nphase\nwhere\nquit\n",
            capture_output=True,
            check=False,
            text=True,
            timeout=RANKS_S,
        )
        assert (attached.returncode, attached.stderr) == (0, ""), attached
        assert "ranks 0, 1 stopped before their next iteration" in attached.stdout
        assert re.search(r"the backward begins\n  ranks 0, 1 before the backward", attached.stdout)
        assert running_.poll() is None
        file = next(folder.glob(FILES))
        said = json.loads(file.read_text())
        assert file.stat().st_mode & 0o777 == 0o600
        wrong = tmp_path / "wrong"
        wrong.mkdir()
        (wrong / file.name).write_text(json.dumps(said | {"token": "guessed"}))
        answer = command("debug", "--no-browser", "--attach", wrong)
        assert_one_line(answer, "token is wrong", "expected that of this run")
    finally:
        enough(folder)
        _, err = running_.communicate(timeout=RANKS_S)
    assert running_.returncode == 0, err
    (wrong / file.name).write_text(json.dumps(said))
    assert_one_line(command("debug", "--no-browser", "--attach", wrong), "has ended", "expected")


def test_where_nothing_runs_there_is_a_line(tmp_path):
    attach = ("debug", "--no-browser", "--attach")
    assert_one_line(command(*attach, tmp_path / "none"), "does not exist", "expected the folder")
    assert_one_line(command(*attach, tmp_path), "can be attached to", "--debuggable")
    (tmp_path / "attach-0.json").write_text("[]")
    assert_one_line(command(*attach, tmp_path), "attach-0.json", "as its ranks wrote it")
    assert_one_line(command(*attach, tmp_path, "--", "true"), "true", "already started")
    assert_one_line(command("debug", "--host", "10.0.0.1"), "host is 10.0.0.1", "--attach")
    said = {"path": "", "token": "", "machine": "another", "host": "there"}
    (tmp_path / "attach-0.json").write_text(json.dumps(said))
    with pytest.raises(EnvironmentFault, match="run this command there"):
        called(tmp_path).__enter__()


def test_a_call_that_another_has_changed_is_none():
    call = Summons("/nowhere/door", machine(), "10.0.0.1:5", "nonce")
    assert Summons.decode(call.encode(SECRET), SECRET) == call
    said = json.loads(call.encode(SECRET))
    assert Summons.decode(json.dumps(said | {"address": "10.6.6.6:5"}), SECRET) is None
    assert Summons.decode(call.encode("another"), SECRET) is None
    assert Summons.decode(json.dumps({"proof": proof(SECRET, {})}), SECRET) is None
    assert Summons.decode("null", SECRET) is None


@pytest.mark.root
def test_ranks_of_two_hosts_come_over_a_cable_if_they_are_asked_to(tmp_path):
    if why := unable():
        pytest.skip(why)
    with cabled() as nodes:
        started = [_on(node, tmp_path / str(node.number)) for node in nodes]
        try:
            folder = tmp_path / "0"
            until(lambda: any(folder.glob(FILES)), RANKS_S)
            until(lambda: any((tmp_path / "1").glob(FILES)), RANKS_S)
            attach = (*("debug", "--no-browser", "--attach"), str(folder))
            before = _listening(nodes[0])
            alone = _said(nodes[0], "", *attach)
            while "try again in a moment" in alone.stderr:
                alone = _said(nodes[0], "", *attach)
            assert alone.returncode == 2, alone
            assert "rank 1 cannot connect from " in alone.stderr
            assert "expected --host with an address" in alone.stderr
            held = _said(nodes[0], "over\nphase\ndetach\n", *attach, "--host", "10.0.0.1")
            assert (held.returncode, held.stderr) == (0, ""), held
            assert "ranks 0, 1 stopped before their next iteration" in held.stdout
            assert "ranks 0, 1 before the backward" in held.stdout
            other = _said(nodes[1], "", *("debug", "--no-browser", "--attach"), str(folder))
            assert other.returncode == 2
            assert "run this command there" in other.stderr
            assert _listening(nodes[0]) == before
        finally:
            for node in nodes:
                enough(tmp_path / str(node.number))
            ends = [one.communicate(timeout=RANKS_S) for one in started]
        assert [one.returncode for one in started] == [0, 0], ends
    results = [(tmp_path / str(rank) / f"result-{rank}").read_text() for rank in range(2)]
    assert results[0] == results[1]


def _on(node, folder):
    """One of two ranks, on a node of its own."""
    folder.mkdir()
    return subprocess.Popen(
        (
            *node.prefix,
            *(sys.executable, "-m", "zerosim", "trace", "--debuggable", "--out", str(folder)),
            *("--", sys.executable, "-m", "tests.debug.agent", "60", "ddp_until", str(folder)),
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={
            **os.environ,
            "RANK": str(node.number),
            "WORLD_SIZE": "2",
            "LOCAL_RANK": "0",
            "MASTER_ADDR": "10.0.0.1",
            "MASTER_PORT": "29411",
            "OMP_NUM_THREADS": "1",
            ATTACH_VARIABLE: SECRET,
            **node.environment,
        },
    )


def _said(node, typed, *words):
    return subprocess.run(
        (*node.prefix, sys.executable, "-m", "zerosim", *words),
        input=typed,
        capture_output=True,
        check=False,
        text=True,
        timeout=RANKS_S,
    )


def _listening(node):
    """TCP ports with a listener there."""
    return {line.split()[3] for line in node.says("ss", "-Htln").splitlines()}
