"""`zerosim debug` as a person uses it: commands through a pipe, words on the terminal."""

from __future__ import annotations

import json
import os
import pty
import random
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.command import assert_one_line, command
from tests.deadlines import RANKS_S
from tests.signed import read_rows
from zerosim.base.errors import EnvironmentFault
from zerosim.cli.debug import command_line
from zerosim.debug import Controller, Door, Why
from zerosim.debug.commands import condition_of
from zerosim.debug.outcomes import of_ranks
from zerosim.schema.rows import rank_file_name

PAGE = Path(__file__).parents[2] / "docs" / "debug.md"
SIGN = "(zerosim) "
SMALL = ("--stage", "1", "--ranks", "2", "--model", "mlp", "--no-overlap", "--steps", "2")
GOES_BYTES = 2_000
"""What a rank that goes writes soon, and one that is held never."""


def start(*words: object) -> subprocess.Popen[str]:
    """Start it, for commands to be written to."""
    return subprocess.Popen(
        (sys.executable, "-m", "zerosim", "debug", "--no-browser", *map(str, words)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def session(commands: list[str], *words: object) -> tuple[int, str, str]:
    """All at once; exit code, and what it printed."""
    running = start(*words)
    out, err = running.communicate("".join(f"{one}\n" for one in commands), timeout=RANKS_S)
    return running.returncode, out, err


def steady(text: str) -> list[str]:
    """Lines without what depends on the processor's own way to add, and on a module's length."""
    text = re.sub(r"(\.py):\d+", r"\1", text)
    text = re.sub(r"\b[0-9a-f]{8}\b|-?\d\.\d+(e-\d+)?|[▁▂▃▄▅▆▇█]+", "~", text)
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.mark.ranks
def test_the_session_of_the_page_is_what_it_prints(tmp_path):
    printed = re.search(
        r"```\n\$ zerosim debug --no-browser (.*)\n((?:.*\n)*?)```", PAGE.read_text()
    )
    commands = re.findall(rf"^{re.escape(SIGN)}(.*)$", printed[2], re.MULTILINE)
    code, out, err = session(commands, *printed[1].split(), "--out", tmp_path / "run")
    assert (code, err) == (0, "")
    shown, _, report = out.partition("detached: the ranks run on\n")
    assert steady(f"{shown}detached: the ranks run on\n") == steady(printed[2])
    assert "✓ This run of ZeRO-2 sends" in report


@pytest.mark.ranks
def test_ranks_of_whose_steps_nobody_can_be_told_are_ended(tmp_path):
    words = ("debug", "--no-browser", *SMALL, "--out", tmp_path / "run")
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            (sys.executable, "-m", "zerosim", *map(str, words)),
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=RANKS_S,
        )
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("zerosim: standard output cannot be written: No space left")


@pytest.mark.ranks
def test_wrong_words_are_answered_in_a_line_and_the_run_goes_on(tmp_path):
    wrong = [
        ("bogus", "command is 'bogus': expected one of step, "),
        ("step 3", "step is '3': expected no argument"),
        ("only 9 into", "rank is 9: expected one of 0, 1"),
        ("only all", "only is 'all': expected a rank and a step"),
        ("break unit ==", "expected an expression"),
        ("break __import__('os')", "condition has __import__(...): expected one of param, "),
        ("delete 4", "delete is '4': expected a breakpoint (there is none)"),
        ("watch paint", "watch is 'paint': expected nonfinite, replicas, "),
        ("stack 5", "rank is '5': expected one of 0, 1"),
        ("look nothing", "look is 'nothing': expected a role (parameters, "),
    ]
    code, out, err = session([one for one, _ in wrong], *SMALL, "--out", tmp_path / "run")
    assert (code, err) == (0, "")
    for said, expected in wrong:
        answer = out.split(f"{SIGN}{said}\n")[1].partition("\n")[0]
        assert expected in answer, (said, answer)
    assert "end of input: the ranks run on" in out
    assert "✓ This run of ZeRO-1 sends" in out


@pytest.mark.ranks
def test_interrupted_the_ranks_stop_and_killed_they_go_on(tmp_path):
    running = start(*SMALL[:-1], "100", "--out", tmp_path / "run")
    running.stdin.write("iteration\ncontinue\n")
    running.stdin.flush()
    while f"{SIGN}continue" not in running.stdout.readline():
        pass
    file = tmp_path / "run" / "rank-0.jsonl"
    held = len(file.read_bytes().rstrip(b"\0"))
    while len(file.read_bytes().rstrip(b"\0")) < held + GOES_BYTES:  # else nothing could be paused
        assert running.poll() is None, running.communicate()
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    assert running.stdout.readline() == "paused\n"
    assert running.stdout.readline().strip()
    running.kill()
    running.communicate()
    deadline = time.monotonic() + RANKS_S
    while b'{"row":"end"' not in file.read_bytes().rstrip(b"\0")[-300:]:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def kill_while_held(folder, chance, *, typed):
    """Kill a rank, or what forks them, some steps after the first; what was said from then on.

    Nothing more is typed: what commands come from stays open.
    """
    ours, theirs = pty.openpty() if typed else os.pipe()[::-1]
    words = ("--stage", "2", "--ranks", "2", "--model", "mlp", "--out", folder)
    running = subprocess.Popen(
        (sys.executable, "-m", "zerosim", "debug", "--no-browser", *map(str, words)),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    os.close(theirs)
    for _ in range(1 + chance.randrange(20)):
        os.write(ours, b"into\n")
    os.write(ours, b"where\n")
    assert any(line.startswith("rank 1 before") for line in running.stdout)
    first = read_rows(folder / rank_file_name(1), 1)[0]
    forks = int(Path(f"/proc/{first['pid']}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(first["pid"] if chance.random() < 0.7 else forks, signal.SIGKILL)
    out, _ = running.communicate(timeout=RANKS_S)
    os.close(ours)
    return running.returncode, out, first["pid"]


def assert_told(code, out, pid):
    assert code == 3
    assert re.search(r"^(rank 1 is|ranks? 0.* (is|are)) gone", out, re.MULTILINE), out
    assert "to see the trace up to that point: zerosim replay " in out
    assert "Traceback" not in out
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.ranks
@pytest.mark.parametrize(
    "typed",
    [pytest.param(False, id="pipe", marks=pytest.mark.long), pytest.param(True, id="terminal")],
)
def test_a_rank_that_is_killed_while_it_is_held_is_told_at_once(tmp_path, typed):
    """The other rank is stopped at the gate, and no further command is given."""
    chance = random.Random(3)  # noqa: S311 - any seed will do, but always the same
    assert_told(*kill_while_held(tmp_path / "run", chance, typed=typed))


@pytest.mark.ranks
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_kills_while_ranks_are_held(tmp_path):
    for seed in range(30):
        chance = random.Random(seed)  # noqa: S311 - likewise
        assert_told(*kill_while_held(tmp_path / str(seed), chance, typed=seed % 2 == 0))


@pytest.mark.parametrize("gone", [(1,), (0, 1), (2,), (0, 1, 2)])
def test_who_is_gone_is_told_though_nobody_takes_a_step(gone):
    with ExitStack() as held:
        door = Door()
        held.callback(door.close)
        controller, told = Controller(door), []
        controller.listen(told.append)
        ranks = [held.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(3)]
        for rank, connection in enumerate(ranks):
            connection.connect(str(door.path))
            said = {"rank": rank, "num_ranks": 3, "pid": 1, "folder": "traces/run"}
            connection.sendall(json.dumps(said).encode() + b"\n")
        wait_until(controller.is_whole, controller)
        assert not controller.is_over
        for rank in gone:
            ranks[rank].close()
        wait_until(lambda: controller.lost == gone, controller)
        outcome = controller.wait_until_over()
        assert told == [outcome]
        assert (outcome.why, outcome.is_last) == (Why.LEFT, True)
        others = "; all others were released" if len(gone) < 3 else ""
        are = "is" if len(gone) == 1 else "are"
        assert outcome.said.startswith(
            f"{of_ranks(gone)} {are} gone{others}; to see the trace up to "
        )
        assert controller.wait_until_over() is None


def wait_until(holds, controller):
    deadline = time.monotonic() + RANKS_S
    while not holds():
        assert time.monotonic() < deadline
        controller.wait()


def test_a_run_that_cannot_begin_says_why(tmp_path):
    code, out, err = session([], "--stage", "7", "--out", tmp_path / "run")
    assert code == 2
    assert "stage is '7'" in err
    assert "the program ended with exit code 2" in out
    assert_one_line(command("debug", "--no-browser", "--", "torchrum"), "torchrum", "not found")


def test_what_is_held_is_an_ordinary_command():
    own = [sys.executable, "-m", "zerosim"]
    assert command_line(["--ranks", "2"], None, overwrite=False) == [
        *own, "run", "--stage", "3", "--ranks", "2"
    ]  # fmt: skip
    assert command_line(["--stage=1"], Path("a"), overwrite=True) == [
        *own, "run", "--stage=1", "--out", "a", "--overwrite"
    ]  # fmt: skip
    python = [sys.executable, "train.py", "--lr", "1"]
    assert command_line(python, Path("a"), overwrite=False) == [
        *own, "trace", "--out", "a", "--", *python
    ]  # fmt: skip
    with pytest.raises(EnvironmentFault, match="nothing-like-it"):
        command_line(["nothing-like-it"], None, overwrite=False)


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("phase=backward", 'phase == "backward"'),
        ("unit=blocks.1 rank=2 bytes>1e6", 'unit == "blocks.1" and rank == 2 and bytes > 1e6'),
        ('if grad("a").isnan().any()', 'grad("a").isnan().any()'),
        ("phase=update if memory() > 5", 'phase == "update" and (memory() > 5)'),
        ('unit == "a" or rank == 1', 'unit == "a" or rank == 1'),
    ],
)
def test_fields_are_read_as_an_expression(typed, read):
    assert condition_of(typed) == read
