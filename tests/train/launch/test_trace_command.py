"""`zerosim trace`: a program runs as if it were not traced, and its ranks leave their traces."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest

from tests.cli.command import assert_one_line, command
from tests.deadlines import RANKS_S
from tests.ranks import free_port
from zerosim.base.errors import EnvironmentFault, TraceError
from zerosim.cli.folders import make_free
from zerosim.record import iterations, load
from zerosim.schema.events import Kind, Op
from zerosim.trace import bootstrap, guard
from zerosim.verify import Outcome, verify

pytestmark = pytest.mark.ranks

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(__file__).parent / "programs"

TWICE = [Op.ALL_REDUCE, Op.ALL_REDUCE]
WAYS: dict[str, tuple[list[int], list[list[Op]], list[bool]]] = {
    # exit codes by rank; what each rank called; whether its trace has an end
    "returns": ([0, 0], [[Op.ALL_REDUCE]] * 2, [True, True]),
    "returns_without_destroying": ([0, 0], [[Op.ALL_REDUCE, Op.BARRIER]] * 2, [True, True]),
    "raises": ([1, 1], [TWICE, [Op.ALL_REDUCE]], [True, True]),
    "raises_in_backward": ([1, 1], [[Op.ALL_REDUCE]] * 2, [True, True]),
    "refuses_a_wrong_shape": ([1, 1], [[Op.ALL_REDUCE, Op.ALL_GATHER]] * 2, [True, True]),
    "exits_with_7": ([7, 7], [[Op.ALL_REDUCE]] * 2, [True, True]),
    "leaves_at_once": ([3, 3], [[Op.ALL_REDUCE]] * 2, [False, False]),
    "is_killed": ([9, -9], [TWICE, [Op.ALL_REDUCE]], [False, False]),
    "hangs_until_sigterm": ([-15, -15], [TWICE, [Op.ALL_REDUCE]], [False, False]),
    "hangs_until_sigint": ([-2, -2], [[Op.ALL_REDUCE]] * 2, [True, True]),
    "destroys_twice": ([1, 1], [[Op.ALL_REDUCE]] * 2, [True, True]),
    "joins_twice": ([0, 0], [TWICE] * 2, [True, True]),
    "joins_twice_with_other_groups": ([0, 0], [TWICE, [Op.ALL_REDUCE]], [True, False]),
    "joins_as_another": ([0, 0], [[Op.ALL_REDUCE]] * 2, [True, True]),
    "joins_without_leaving": ([1, 1], [[Op.ALL_REDUCE]] * 2, [True, True]),
    "loads_with_workers": ([0, 0], [TWICE] * 2, [True, True]),
    "forks": ([0, 0], [TWICE] * 2, [True, True]),
    "trains": ([0, 0], [], [True, True]),
    "fails_before_it_trains": ([1, 1], [], [True, True]),
    "fills_the_disk": ([0, 0], [], [False, False]),
}
LOOKED_INTO = ("fails_before_it_trains", "hangs_until_sigterm", "joins_twice", "raises", "trains")
"""Ways whose traces are read further."""
FAILURES = {
    "raises": ["RuntimeError: [", "RuntimeError: rank 1 is not well"],
    "raises_in_backward": ["RuntimeError: Trying to backward through the graph a second time"] * 2,
    "refuses_a_wrong_shape": ["RuntimeError: ProcessGroupGloo::allgather: invalid tensor size"] * 2,
    "hangs_until_sigint": ["KeyboardInterrupt"] * 2,
    "fails_before_it_trains": ["RuntimeError: there are no data"] * 2,
    "destroys_twice": ["AssertionError: Process group cannot be None"] * 2,
    "joins_without_leaving": ["ValueError: trying to initialize the default process group"] * 2,
}
NOTES = {
    "joins_twice_with_other_groups": "tracing stopped: group 1 now has ranks (1,), but had",
    "joins_as_another": "joined again as rank 1 of 2: its trace ends there",
    "fills_the_disk": "tracing stopped: cannot write to",
}


@dataclass(frozen=True)
class Done:
    """What a command printed and how it ended; `own` are the lines that `zerosim trace` added."""

    code: int
    out: str
    err: str
    own: tuple[str, ...] = ()


@pytest.fixture(scope="module")
def captured():
    """Where the programs of a test write, as standard streams of this process."""
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2)]
        kept = [os.dup(number) for number in (1, 2)]

        @contextmanager
        def capture():
            for file, number in zip(files, (1, 2), strict=True):
                file.seek(0)
                file.truncate()
                os.dup2(file.fileno(), number)
            try:
                yield lambda: [os.pread(file.fileno(), 1 << 20, 0).decode() for file in files]
            finally:
                for number, original in zip((1, 2), kept, strict=True):
                    os.dup2(original, number)

        yield capture
        for number in kept:
            os.close(number)


@pytest.fixture(scope="module")
def run():
    """Run a command as a person would."""

    def run_(*words: object, **environment: str) -> Done:
        done = subprocess.run(
            [str(word) for word in words],
            check=False,
            capture_output=True,
            text=True,
            timeout=RANKS_S,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run_


@pytest.fixture(scope="module")
def trace(captured):
    """Run it under `zerosim trace`, inside this process: what it says itself is apart."""

    def trace_(folder, *words: object, **environment: str) -> Done:
        with captured() as read, mock.patch.dict(os.environ, OMP_NUM_THREADS="1", **environment):
            answer = command("trace", "--out", folder, "--", *words)
            assert answer.out == ""
            return Done(answer.code, *read(), tuple(answer.err.splitlines()))

    return trace_


def steady(text: str) -> str:
    """Without what differs from run to run: process ids, ports, times."""
    text = re.sub(r"\d{2,4}[-:]\d{2}[-:_][\d:.-]+", "TIME", text)
    text = re.sub(r"((?:pid|PID|process)[: ]+)\d+", r"\1PID", text)
    return re.sub(r"(?<=\]):\d+|(?<=TIME )\d+", "NUMBER", text)


def called(rank) -> list[Op]:
    return [event.op for event in rank.events if event.kind is Kind.COLLECTIVE]


@pytest.fixture(scope="module")
def ways(request, tmp_path_factory, run, trace):
    """Every way, in two processes: one as it is and one traced; what each printed, by folder."""
    plain, traced = (tmp_path_factory.mktemp(name) for name in ("plain", "traced"))
    asked = {item.callspec.params["way"] for item in request.session.items if is_of_ways(item)}
    program, names = (sys.executable, PROGRAMS / "ways.py"), sorted(asked | {*LOOKED_INTO})
    ports = [" ".join(str(free_port()) for _ in range(2 * len(names))) for _ in range(2)]
    with ThreadPoolExecutor() as aside:
        left_later = aside.submit(run, *program, plain, *names, FREE_PORTS=ports[0])
        right = trace(traced / "command", *program, traced, *names, FREE_PORTS=ports[1])
        left = left_later.result()
    assert (left.code, left.out, left.err) == (right.code, right.out, right.err) == (0, "", "")
    return plain, traced


def is_of_ways(item) -> bool:
    return item.path == Path(__file__) and "way" in getattr(item, "fixturenames", ())


LIKE_OTHERS = ("destroys_twice", "loads_with_workers", "raises_in_backward")
"""An error of Python's ends them, as `raises`, or they fork, as `forks`."""
each_way = pytest.mark.parametrize(
    "way", [pytest.param(way, marks=[pytest.mark.long] * (way in LIKE_OTHERS)) for way in WAYS]
)


@each_way
def test_a_program_ends_as_if_it_were_not_traced(ways, way):
    plain, traced = ways
    codes, _, _ = WAYS[way]
    assert json.loads((plain / f"{way}.codes").read_text()) == codes
    assert json.loads((traced / f"{way}.codes").read_text()) == codes
    for rank in range(2):
        for name in ("out", "err"):
            texts = [(folder / f"{way}.{rank}.{name}").read_text() for folder in ways]
            assert steady(texts[0]) == steady(texts[1])
            assert "zerosim" not in texts[1]


@each_way
def test_each_rank_is_traced_up_to_its_end(ways, way):
    _, traced = ways
    _, operations, complete = WAYS[way]
    loaded = load(traced / way)
    assert [rank.rank for rank in loaded.ranks] == [0, 1]
    if operations:
        assert [called(rank) for rank in loaded.ranks] == operations
    assert [rank.complete for rank in loaded.ranks] == complete
    wanted = FAILURES.get(way, [None, None])
    for rank, words in zip(loaded.ranks, wanted, strict=True):
        message = None if rank.failure is None else rank.failure.message
        assert message is None if words is None else message.startswith(words)
    notes = "".join(path.read_text() for path in (traced / way).glob("note-*.txt"))
    assert NOTES.get(way, "") in notes
    assert bool(notes) == (way in NOTES)


def test_what_a_rank_was_in_when_it_ended_is_there(ways):
    _, traced = ways
    waiting, hanging = load(traced / "hangs_until_sigterm").ranks
    assert len(waiting.unfinished) == 1
    assert hanging.unfinished == ()
    gone, own = (rank.failure for rank in load(traced / "raises").ranks)
    assert gone.peer_lost
    assert gone.op is Op.ALL_REDUCE
    assert not own.peer_lost
    assert own.op is None


def test_training_is_recorded_whole_and_its_weights_are_the_same_bits(ways):
    plain, traced = ways
    weights = (plain / "trains.0.out").read_text()
    assert len(weights.splitlines()) == 3 + 4
    assert weights == (traced / "trains.0.out").read_text()
    for rank in load(traced / "trains", strict=True).ranks:
        gradients = 4 * (4 * 8 + 8 + 8 * 2 + 2)
        reduced = [event for event in rank.events if event.op is Op.ALL_REDUCE]
        assert [event.payload_bytes for event in reduced] == [gradients] * 3


def test_the_counters_are_read_before_the_connections_are_closed(ways):
    """After the first join as after the second; a backend closes what its peer has closed, so of
    two ranks only the first that leaves is sure to read in time.
    """
    _, traced = ways
    ranks = load(traced / "joins_twice", strict=True).ranks
    sent = [
        {
            counter.socket: counter.sent_bytes
            for one in rank.wire_samples
            for counter in one.counters
        }
        for rank in ranks
    ]
    for connection in range(2):
        assert max(of_rank.get(connection, 0) for of_rank in sent) > 4 * 4
    assert [len(rank.sockets) for rank in ranks] == [2, 2]


def test_a_crash_before_training_proves_nothing_and_says_so(ways):
    _, traced = ways
    answer = command("verify", traced / "fails_before_it_trains")
    assert (answer.code, answer.err) == (0, "")
    headline, standing, *_ = answer.out.splitlines()
    failed = "rank 0 failed with RuntimeError: there are no data."
    assert headline == f"- No iteration was finished: {failed}"
    assert standing.startswith("  nothing predicted ")


def torchrun(*words: object) -> tuple[object, ...]:
    """Two ranks of a training program that ends early."""
    options = ("--standalone", "--nproc-per-node", 2)
    path = Path(sys.executable).parent / "torchrun"
    return (path, *options, *words)


@pytest.mark.long  # the next one is started again as well, but does not come through
def test_the_attempt_that_came_through_is_the_trace(tmp_path, trace):
    folder = tmp_path / "t"
    program = (PROGRAMS / "ending.py", "once", tmp_path / "meeting")
    done = trace(folder, *torchrun("--max-restarts", 1, *program))
    # two processes write to one pipe, and a line's end may come behind the other's line
    assert (done.code, done.out.replace("\n", "")) == (0, "donedone"), done
    aside = folder / "attempt-0"
    assert done.own[0] == f"zerosim: 2 ranks recorded in {folder}"
    again = "zerosim: torchrun started the ranks again: attempt 1 is recorded here, and "
    assert done.own[1] == f"{again}attempt 0 in {aside}"
    last = verify(load(folder, strict=True))
    assert (last.outcome, last.iterations) == (Outcome.AS_PREDICTED, (0, 1, 2, 3))
    assert_proved_until_it_failed(load(aside))


def assert_proved_until_it_failed(first):
    """What an attempt finished before one of its ranks was gone."""
    assert not first.ranks[1].complete
    report = verify(first)
    assert report.outcome is Outcome.AS_PREDICTED
    assert report.iterations == (0, 1)
    assert "the run ended early: the checks cover iterations 0 to 1" in " ".join(report.notes)


def test_ctrl_c_in_a_second_attempt_leaves_what_both_finished_proved(tmp_path):
    """In the first a rank is killed."""
    folder = tmp_path / "t"
    aside = folder / "attempt-0"
    command_line = (sys.executable, "-m", "zerosim", "trace", "--out", folder, "--")
    program = (PROGRAMS / "ending.py", "never", tmp_path / "meeting")
    words = (*command_line, *torchrun("--max-restarts", 1, *program))
    with subprocess.Popen(
        [str(word) for word in words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        start_new_session=True,  # a terminal would interrupt the ranks as well
    ) as started:
        try:
            until = time.monotonic() + RANKS_S
            for before in (folder, aside):  # the first attempt's trace lies aside in the second
                is_there = before / "rank-0.jsonl"
                while not (is_there.exists() and is_waiting(folder, iteration=2)):
                    assert time.monotonic() < until
                    assert started.poll() is None, started.communicate()
                    time.sleep(0.1)
                if before is folder:
                    os.kill(load(folder).ranks[1].header.pid, signal.SIGKILL)
        finally:
            started.send_signal(signal.SIGINT)
            _, err = started.communicate(timeout=RANKS_S)
    assert started.returncode == 1
    assert f"zerosim: 2 ranks recorded in {folder}\n" in err
    again = "zerosim: torchrun started the ranks again: attempt 1 is recorded here, and "
    assert f"{again}attempt 0 in {aside}\n" in err
    assert_proved_until_it_failed(load(aside))
    report = verify(load(folder))
    assert (report.outcome, report.iterations) == (Outcome.AS_PREDICTED, (0, 1))
    [matching] = [one for one in report.verdicts if one.id == "matched"]
    assert "1 cut short: " in matching.measured
    for words in (
        "the run ended early: the checks cover iterations 0 to 1, which all ranks finished",
        "rank 0 failed: KeyboardInterrupt",
        "rank 1 failed: KeyboardInterrupt",
    ):
        assert words in report.notes
    assert command("verify", folder).code == 0


def is_waiting(folder: Path, iteration: int) -> bool:
    """Whether rank 0 has called what rank 1 never will, and both have finished what was before."""
    with suppress(TraceError, OSError):
        trace = load(folder)
        first = trace.ranks[0]
        return iterations(trace) == tuple(range(iteration)) and any(
            (event.iteration, event.op) == (iteration, Op.ALL_REDUCE)
            for event in first.events
            if event.id in first.unfinished
        )
    return False


def test_torchrun_is_traced_and_says_no_word_more(tmp_path, trace):
    program = ("torchrun", "--nproc-per-node", 1, PROGRAMS / "joined.py")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    folder = tmp_path / "t"
    traced = trace(folder, *program, PATH=path)
    assert (traced.code, traced.out, traced.err) == (0, "[0.0, 0.0, 0.0, 0.0, 0.0]\n", "")
    assert traced.own == (
        f"zerosim: 1 rank recorded in {folder}",
        *(f"next: zerosim {name} {folder}" for name in ("verify", "show", "graph", "replay")),
    )
    loaded = load(folder, strict=True)
    assert [called(rank) for rank in loaded.ranks] == [[Op.ALL_REDUCE, Op.BARRIER]]
    assert loaded.manifest.program == " ".join(map(str, program))
    assert loaded.manifest.backend == "gloo"


@pytest.mark.parametrize(
    "method",
    # tests/pytest_plugin spawns a rank too; here each of them imports PyTorch
    ["fork", pytest.param("spawn", marks=pytest.mark.long)],
)
def test_ranks_that_a_program_makes_itself(tmp_path, trace, method):
    program = (sys.executable, PROGRAMS / "spawning.py", method)
    traced = trace(tmp_path / "t", *program, PYTHONPATH=str(ROOT))
    assert traced.code == 1, traced
    assert traced.out == "[3.0, 3.0, 3.0]\n" * 2
    assert "ArithmeticError: rank 1 cannot count\n" in traced.err
    assert not re.search(r"/zerosim/(trace|launch)/", traced.err)
    assert traced.own[0] == f"zerosim: 2 ranks recorded in {tmp_path / 't'}"
    good, bad = load(tmp_path / "t").ranks
    assert called(good) == called(bad) == [Op.ALL_REDUCE]
    assert bad.complete
    assert bad.failure.message == "ArithmeticError: rank 1 cannot count"
    # the store is at no port that the environment names
    assert {len(rank.sockets) for rank in (good, bad)} == {1}


def test_a_program_that_traces_itself_keeps_its_trace(tmp_path, trace):
    own = tmp_path / "own"
    program = (sys.executable, PROGRAMS / "own_trace.py", own)
    traced = trace(tmp_path / "t", *program, PYTHONPATH=str(ROOT))
    assert (traced.code, traced.out) == (0, "done\n"), traced
    gave_way = f"zerosim: the program began a trace of its own in {own}: this one ends there"
    assert gave_way in traced.own
    (outer,) = load(tmp_path / "t", strict=True).ranks
    assert called(outer) == [Op.BARRIER]
    (inner,) = load(own, strict=True).ranks
    assert load(own).manifest.units
    assert inner.complete


def test_what_an_attempt_before_recorded_lies_beside_the_last(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    names = ("manifest.json", "rank-0.jsonl", "rank-1.jsonl")
    for name in names:
        (tmp_path / name).write_text("first")
    said = []
    process = bootstrap._Process(os.getpid(), said.append)
    for rank in range(2):  # the second to come finds the first one's file, which stays
        bootstrap._set_earlier_attempts_aside(process, tmp_path)
        (tmp_path / names[rank + 1]).write_text("second")
    aside = tmp_path / "attempt-0"
    assert sorted(path.name for path in aside.iterdir()) == sorted(names)
    assert {path.read_text() for path in aside.iterdir()} == {"first"}
    assert {path.read_text() for path in tmp_path.glob("rank-*.jsonl")} == {"second"}
    [line] = said
    assert line.endswith(f"attempt 1 is recorded here, and attempt 0 in {aside}")
    # a folder that is written over loses them too
    make_free(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "left"), [(AssertionError, []), (EnvironmentFault, ["rank-0.jsonl"])]
)
def test_a_rank_that_cannot_be_traced_leaves_no_trace(tmp_path, monkeypatch, error, left):
    def fails(folder, **_):
        (folder / "rank-0.jsonl").write_text("of this process, or of another")
        raise error("no luck")

    monkeypatch.setattr(bootstrap, "Session", fails)
    said = []
    process = bootstrap._Process(os.getpid(), said.append, identity=(0, 1))
    bootstrap._begin(process, {"folder": str(tmp_path), "program": "p", "memory": True})
    assert [path.name for path in tmp_path.iterdir()] == left
    assert len(said) == 1
    assert said[0].startswith("rank 0 is not traced: ")


# without PyTorch: what the command does with any command


def test_streams_arguments_and_exit_code_pass_through(tmp_path):
    script = "read line; echo out $line $1; echo err >&2; exit 5"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "zerosim", "trace", "--out", str(tmp_path / "t")),
            *("--", "sh", "-c", script, "sh", "--overwrite"),
        ],
        check=False,
        capture_output=True,
        text=True,
        input="in\n",
        timeout=RANKS_S,
    )
    assert (done.returncode, done.stdout) == (5, "out in --overwrite\n")
    first, *own = done.stderr.splitlines()
    assert first == "err"
    assert len(own) == 1
    assert own[0].startswith("zerosim: nothing was recorded: ")
    assert not (tmp_path / "t").exists()


def test_a_command_that_a_signal_killed_gives_128_and_its_number(tmp_path, trace):
    assert trace(tmp_path / "t", "sh", "-c", "kill -KILL $$").code == 137


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        *(pytest.param(one, marks=pytest.mark.long) for one in (signal.SIGTERM, signal.SIGUSR1)),
    ],
)
def test_signals_are_passed_on_once(tmp_path, number):
    name = number.name.removeprefix("SIG")
    script = f"trap 'echo got; ended=1' {name}; echo ready; until [ $ended ]; do sleep 0.05; done"
    started = subprocess.Popen(
        [
            *(sys.executable, "-m", "zerosim", "trace", "--out", str(tmp_path / "t")),
            *("--", "sh", "-c", f"{script}; sleep 0.2; exit 9"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stdout.readline() == "ready\n"
    started.send_signal(number)
    out, _ = started.communicate(timeout=RANKS_S)
    assert (started.returncode, out) == (9, "got\n")


def test_ctrl_c_twice_ends_everything(tmp_path):
    """At a terminal, where the command has got the first one itself and takes no notice."""
    stubborn = "trap '' INT; setsid sleep 60 & echo $! >apart; echo ready; wait; wait"
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        words = ("-m", "zerosim", "trace", "--out", "t", "--", "sh", "-c", stubborn)
        os.execv(sys.executable, (sys.executable, *words))  # noqa: S606
    seen = b""
    while b"ready" not in seen:
        seen += os.read(terminal, 1000)
    for _ in range(2):
        os.write(terminal, b"\x03")
        time.sleep(0.5)
        while has_pending(child, signal.SIGINT):  # two that are pending would be one
            time.sleep(0.02)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 128 + signal.SIGKILL
    apart = int((tmp_path / "apart").read_text())
    while Path(f"/proc/{apart}/exe").exists():  # the test's own timeout is the limit
        time.sleep(0.02)
    os.close(terminal)


def has_pending(pid: int, number: signal.Signals) -> bool:
    """Whether a process has been sent a signal that it has not got yet."""
    status = Path(f"/proc/{pid}/status").read_text()
    masks = re.findall(r"^S[hi][dg]Pnd:\s*([0-9a-f]+)", status, re.MULTILINE)
    assert len(masks) == 2
    return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)


def test_a_program_finds_its_own_sitecustomize_and_path(tmp_path, run, trace):
    (tmp_path / "sitecustomize.py").write_text("print('mine')\nVALUE = 3\n")
    look = "import sys; print(sys.path); import sitecustomize as s; print(s.__file__, s.VALUE)"
    for path in ("", str(tmp_path)):
        plain = run(sys.executable, "-c", look, PYTHONPATH=path)
        traced = trace(tmp_path / "t", sys.executable, "-c", look, PYTHONPATH=path)
        assert (plain.code, plain.out, plain.err) == (traced.code, traced.out, traced.err)
        assert ("mine" in plain.out) == bool(path)


def test_a_broken_sitecustomize_is_as_broken_as_before(tmp_path, run, trace):
    for broken in ("import nothing_like_this", "raise ValueError(3)", "1 +"):
        (tmp_path / "sitecustomize.py").write_text(broken)
        plain = run(sys.executable, "-c", "print(1)", PYTHONPATH=str(tmp_path))
        traced = trace(tmp_path / "t", sys.executable, "-c", "print(1)", PYTHONPATH=str(tmp_path))
        assert (plain.code, plain.out, plain.err) == (traced.code, traced.out, traced.err)
        assert "Error in sitecustomize" in plain.err


def test_an_isolated_python_is_not_seen_and_that_is_said(tmp_path, trace):
    traced = trace(tmp_path / "t", sys.executable, "-I", "-c", "print(1)")
    assert (traced.code, traced.out, traced.err) == (0, "1\n", "")
    (line,) = traced.own
    assert "python -I" in line


def test_a_pytorch_in_which_nothing_can_be_traced_runs_untraced(tmp_path, trace):
    """This one is a stub: it has only the function that tells which ranks join."""
    home = tmp_path / "torch" / "distributed"
    home.mkdir(parents=True)
    for folder in (home.parent, home):
        (folder / "__init__.py").write_text("")
    (home / "distributed_c10d.py").write_text("def _update_default_pg(group): print(group)\n")
    join = "import torch.distributed.distributed_c10d as c; c._update_default_pg(7)"
    traced = trace(tmp_path / "t", sys.executable, "-c", join, PYTHONPATH=str(tmp_path))
    assert (traced.code, traced.out, traced.err) == (0, "7\n", "")
    (line,) = traced.own
    assert re.match(r"zerosim: \w+Error: ", line)


def test_what_cannot_be_started_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")
    Path("noexec.bin").write_text("x")
    Path("noexec.bin").chmod(0o755)
    assert_one_line(command("trace"), "no command", "zerosim trace -- torchrun")
    assert_one_line(command("trace", "--", "nosuchthing"), "nosuchthing", "not found")
    assert_one_line(command("trace", "--", "train.py", "-x"), "try -- python train.py -x")
    assert_one_line(command("trace", "--", "./train.py"), "is not executable")
    assert_one_line(command("trace", "--", "./noexec.bin"), "Exec format error", "bash ./noexec")
    assert_one_line(command("trace", "--", "/"), "it is a folder")
    assert_one_line(command("trace", "--outt", "x", "--", "true"), "--outt")
    Path("file").write_text("")
    assert_one_line(command("trace", "--out", "file", "--", "true"), "it is not a folder")
    assert list(Path().glob("traces/*")) == []


def test_a_folder_with_a_trace_is_refused_before_the_program_starts(tmp_path):
    folder = tmp_path / "t"
    folder.mkdir()
    (folder / "rank-0.jsonl").write_text('{"row":"header"')  # an earlier trace
    mark = tmp_path / "started"
    refused = command("trace", "--out", folder, "--", "touch", mark)
    assert_one_line(refused, "already contains a trace", "--overwrite")
    assert not mark.exists()
    assert command("trace", "--out", folder, "--overwrite", "--", "touch", mark).code == 0
    assert mark.exists()
    assert list(folder.iterdir()) == []


def test_a_default_folder_is_named_after_the_script(tmp_path, monkeypatch, captured):
    monkeypatch.chdir(tmp_path)
    Path("learn.py").write_text("import os; print(os.environ['ZEROSIM_TRACE'])")
    with captured() as read:
        command("trace", "--", sys.executable, "learn.py")
        settings = json.loads(read()[0])
    folder = Path(settings["folder"])
    assert folder.parent == tmp_path / "traces"
    assert re.fullmatch(r"learn-\d{8}-\d{6}", folder.name)


def test_a_guard_hands_the_first_error_on_and_is_silent_after_it():
    errors = []

    @guard.guarded
    def fails() -> int:
        raise KeyError(len(errors))

    with pytest.raises(KeyError):
        fails()
    try:
        guard.arm(errors.append)
        assert fails() is None
        assert fails() is None
        assert [str(error) for error in errors] == ["0"]
        said = []
        guard.arm(errors.append, said.append)
        guard.say("something")
        assert said == ["something"]
    finally:
        guard.arm(None)
