"""Every lesson as a script: it runs, says all of its answers, and records what is committed."""

import contextlib
import io
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from unittest import mock

import pytest

from tests.cli.command import completed
from tests.deadlines import RANKS_S
from tests.lessons.committed import LESSONS, LIKE_OTHERS, as_given, but_later, facts, right, same
from zerosim.base.config import EngineConfig, RunConfig
from zerosim.base.errors import ConfigError
from zerosim.base.tiers import Tier
from zerosim.lessons import lab, recordings
from zerosim.lessons.expressions import evaluate
from zerosim.lessons.facts import Facts
from zerosim.lessons.questions import wording
from zerosim.lessons.recordings import HERE, LessonRecordings, command_of
from zerosim.schema.events import Kind
from zerosim.schema.memory import MODEL_STATES, Moment
from zerosim.train.launch.forkserver import Work, lent
from zerosim.train.launch.ranks import RankTimeouts, run_ranks
from zerosim.train.launch.rendezvous import open_rendezvous

REPOSITORY = HERE.parent
WITHOUT_TORCH = (
    "import sys, runpy; sys.modules['torch'] = None; runpy.run_path({!r}, run_name='__main__')"
)

VARIED = [
    (lesson, value)
    for lesson in LESSONS
    # numbers of ranks change all numbers; of what else is varied, one is enough
    for value in lesson.vary.values[: None if lesson.vary.option == "--ranks" else 1]
    if command_of(lesson.vary.run, (lesson.vary.option, value)) != command_of(lesson.vary.run)
]
"""What `test_it_really_runs` does not run already."""
each_value = pytest.mark.parametrize(
    ("lesson", "value"), VARIED, ids=[f"{lesson.id}-{value}" for lesson, value in VARIED]
)


def run(arguments, folder):
    """Python's output, with traces in a folder of the test."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=REPOSITORY,
        env=os.environ | {"TMPDIR": str(folder), "COLUMNS": "100", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=RANKS_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout, done.stderr


def recorded(folder):
    """The facts of the traces that a script left."""
    fresh = {
        "/".join(manifest.parent.parts[-2:]): manifest.parent
        for manifest in folder.glob("zerosim-lesson-*/*/*/manifest.json")
    }
    return Facts(LessonRecordings(fresh)), set(fresh)


def check_output(lesson, text, names):
    plain = " ".join(text.split())
    assert text.count("\nAnswer:") == len(list(lesson.calls("reveal")))
    for question in lesson.questions.values():
        assert " ".join(wording(question, names).split()) in plain, question.id
    for call in lesson.calls("record"):
        assert all(f"$ {command_of(run)[:12]}" in text for run in call.args), call
    assert max(map(len, re.findall(r"^(?![$ ]).*$", text, re.MULTILINE))) <= 100


@pytest.mark.parametrize(
    "lesson",
    [
        # the same lines run with PyTorch below: of those that might need it here, every fourth
        pytest.param(lesson, id=lesson.id, marks=[pytest.mark.long] * (place % 4 > 0))
        for place, lesson in enumerate(LESSONS[2::3])
    ],
)
def test_without_torch_it_runs_from_the_committed_traces(lesson, tmp_path):
    code, output, errors = run(["-c", WITHOUT_TORCH.format(str(lesson.path))], tmp_path)
    assert (code, errors) == (0, "")
    check_output(lesson, output, facts().names())
    if list(lesson.calls("record")):
        assert "from the committed trace" in output


def test_a_new_run_needs_torch(tmp_path):
    lesson = LESSONS[0]
    arguments = [str(lesson.path), "--recorded", "--vary", lesson.vary.values[0]]
    code, output, errors = run(arguments, tmp_path)
    assert (code, output) == (2, "")
    assert "--vary records a new run" in errors


def test_a_change_stands_in_place_of_what_it_replaces():
    assert command_of("ring/stage-1") == "zerosim run --stage 1 --ranks 4 --steps 2"
    changed = command_of("ring/stage-1", ("--ranks", "3"))
    assert changed == "zerosim run --stage 1 --ranks 3 --steps 2"
    added = command_of("ring/stage-1", ("--batch", "8"))
    assert added == "zerosim run --stage 1 --ranks 4 --steps 2 --batch 8"
    other = command_of("parallel/gpipe", ("--ranks", "2"))
    assert other == "zerosim profiles --only gpipe --ranks 2 --steps 2 --batch 2"


@pytest.mark.parametrize("name", ["ring", "ring/ddp", "parallel/stage-0", "lost/ddp", ""])
def test_a_run_that_there_is_not_is_refused(name):
    with pytest.raises(ConfigError, match=f"run is '{name}': expected"):
        command_of(name)


def test_what_was_recorded_on_a_card_is_not_replaced(tmp_path):
    with pytest.raises(ConfigError, match="run is 'host-clock/ddp': it was recorded on a GPU"):
        recordings.record(["large-buckets/stage-2", "host-clock/ddp"], tmp_path)
    assert not [*tmp_path.iterdir()]


@pytest.fixture
def asking(tmp_path, monkeypatch):
    """A script of the lesson on ZeRO-3, and what is typed into its terminal."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["lesson05_zero3.py", "--recorded"])
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)

    def ask(question, *typed):
        lines = iter(typed)
        for stream in (sys.stdin, sys.stdout):
            monkeypatch.setattr(stream, "isatty", lambda: True)
        monkeypatch.setattr("builtins.input", lambda _: next(lines))
        lab.Lab("lesson05_zero3").ask(question)
        assert not [*lines]

    return ask


def test_a_script_asks_again_until_it_is_an_answer(asking, capsys):
    asking("sent", "much", "2,25", "225%")
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("expected a number, such as 2.25, 9/4, 75%") == 2
    assert said.endswith("noted; the run will show")


def test_a_script_takes_no_answer_for_an_answer(asking, capsys):
    asking("sent", "")
    said = capsys.readouterr().out
    assert "noted" not in said
    assert "expected" not in said


def test_a_list_to_be_put_in_order_does_not_stand_in_order(asking, capsys):
    question = next(one for one in LESSONS if one.id == "zero3").questions["life"]
    keys = right(question, facts().names())
    asking("life", " ".join(keys))
    said = capsys.readouterr().out
    shown = sorted(keys, key=lambda key: said.index(f"  {key}: "))
    assert shown != keys
    assert "noted; the run will show" in said


# ------------------------------------------------------------------------------- real runs


BY_TORCHRUN = "hugging-face/stage-1"
"""The run of a program whose ranks torchrun really starts; ten seconds each."""


def be_program(words):
    """Be a rank of a program as torchrun would start it; returns the exit code."""
    sys.argv[:] = json.loads(words)
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        except SystemExit as end:
            return end.code or 0
    return 0


def start_ranks(words):
    """As torchrun would, but the ranks need not import PyTorch."""
    assert words[:2] == ["--standalone", "--nproc-per-node"]
    work = Work(f"{__name__}:{be_program.__name__}", json.dumps(words[3:]))
    timeouts = RankTimeouts(stopped_s=RANKS_S, grace_s=10, deadline_s=RANKS_S)
    with lent() as server, open_rendezvous(0) as place:
        codes = run_ranks(server, work, int(words[2]), place, timeouts)
        said = "\n".join(server.errors().values())
    return subprocess.CompletedProcess(words, int(any(codes.values())), "", said)


@pytest.fixture(scope="module")
def record_once(tmp_path_factory):
    """As `recordings.record`, but a run that was recorded is there already.

    Commands run in this process, where ranks need not import PyTorch.
    """
    folder, places, start = tmp_path_factory.mktemp("recorded"), {}, recordings._start

    def start_here(words, said=""):
        module, *arguments = words
        if said or any(word.endswith(BY_TORCHRUN) for word in words):
            return start(words, said)
        if module != "zerosim":
            return start_ranks(arguments)
        return completed(words)

    def record_missing(runs, folder_of_lesson=None, changes=()):
        missing = [name for name in runs if name not in places]
        with mock.patch.object(recordings, "_start", start_here):
            places.update(recordings.record(missing, folder, changes))
        return {name: places[name] for name in runs}

    return record_missing


RECORDED = sorted(
    {name for lesson in LESSONS for call in lesson.calls("record") for name in call.args}
)


@pytest.mark.ranks
@pytest.mark.parametrize(
    "name",
    but_later(RECORDED),
)
def test_what_a_lesson_records_is_what_is_committed(name, record_once):
    new, old = LessonRecordings(record_once([name])).run(name).trace, facts()._run(name).trace
    if is_trained_otherwise(new, old):
        pytest.skip("this Python's text, or this processor, has other losses: other steps overflow")
    assert what_does_not_depend_on_time(new) == what_does_not_depend_on_time(old)


def is_trained_otherwise(new, old):
    """Whether other steps overflow in fp16, because what is trained had other losses before."""
    (losses, scales), (old_losses, old_scales) = (
        [
            [metric.value for metric in trace.ranks[0].metrics if metric.name == name]
            for name in ("loss", "loss scale")
        ]
        for trace in (new, old)
    )
    return scales != old_scales and _first_other(losses, old_losses) <= _first_other(
        scales, old_scales
    )


def _first_other(some, others):
    pairs = enumerate(zip(some, others, strict=True))
    return next((place for place, (one, other) in pairs if one != other), len(some))


@pytest.mark.ranks
@pytest.mark.parametrize("lesson", LESSONS, ids=attrgetter("id"))
def test_it_really_runs(lesson, record_once, tmp_path, capsys, monkeypatch):
    """With new runs; of those that are like others, with the committed ones."""

    def record(runs, *rest):
        new = record_once([name for name in runs if name not in LIKE_OTHERS], *rest)
        return {name: new.get(name, recordings.COMMITTED / name) for name in runs}

    monkeypatch.setattr(lab, "record", record)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(lesson.path)])
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # a lesson has its own
    monkeypatch.setenv("COLUMNS", "100")
    ran = runpy.run_path(str(lesson.path), run_name="__main__")
    output, errors = capsys.readouterr()
    assert errors == ""
    names = {name for call in lesson.calls("record") for name in call.args}
    recorded = Facts(ran["lab"].recordings)
    others = [
        name
        for name in names
        if is_trained_otherwise(recorded._run(name).trace, facts()._run(name).trace)
    ]
    check_output(lesson, output, (recorded if others else facts()).names())
    assert set(ran["lab"].recordings.fresh) == names


@pytest.mark.ranks
def test_a_script_records_by_itself(tmp_path):
    lesson = LESSONS[0]
    code, output, errors = run([str(lesson.path)], tmp_path)
    assert (code, errors) == (0, "")
    check_output(lesson, output, facts().names())
    fresh, names = recorded(tmp_path)
    assert names == {"one/stage-0"}
    new, old = fresh._run("one/stage-0").trace, facts()._run("one/stage-0").trace
    assert what_does_not_depend_on_time(new) == what_does_not_depend_on_time(old)


def what_does_not_depend_on_time(trace):
    """Layout, collectives with their bytes, computations, and model states where phases begin."""
    manifest = trace.manifest
    return {
        "manifest": (
            configured(manifest),
            RunConfig.from_plain({k: v for k, v in manifest.run.items() if k != "faults"}),
            manifest.run.get("faults"),
            # most were recorded before a unit said its module's class
            [replace(unit, module="") for unit in manifest.units],
            manifest.buckets,
        ),
        "ranks": [of_rank(rank, failed_in(trace)) for rank in trace.ranks],
    }


def configured(manifest):
    """What is not said is as it is by default; a program has no engine to be configured."""
    return EngineConfig.from_plain(manifest.config) if manifest.config else None


OF_A_COLLECTIVE = attrgetter(
    *("group", "sequence", "iteration", "micro_step", "phase", "unit", "purpose", "op"),
    *("algorithm", "dtype", "elements", "payload_bytes", "sent_bytes", "received_bytes"),
)


def failed_in(trace):
    """The iteration and phase in which a rank failed; None if none did."""
    failures = (rank.failure for rank in trace.ranks if rank.failure is not None)
    return next(((one.iteration, one.phase) for one in failures), None)


def of_rank(rank, failed):
    # how far a rank came in the phase in which another failed is a matter of time
    events = [event for event in rank.events if (event.iteration, event.phase) != failed]
    collectives = [event for event in events if event.kind is Kind.COLLECTIVE]
    # what two ranks send each other has no place in the order of a group
    collectives.sort(key=lambda event: (event.group, event.sequence or 0, event.unit, event.op))
    computations = [
        (event.iteration, event.micro_step, event.phase, event.unit)
        for event in sorted(events, key=lambda event: event.id)
        if event.kind is Kind.COMPUTE
    ]
    computations.sort(key=lambda one: one[:3])  # a late update goes on beside the next forward
    held, states = {}, []
    for sample in rank.memory_samples:
        held |= {
            (change.role, change.unit): change.bytes
            for change in sample.changes
            if change.tier is Tier.DEVICE  # a disk's threads come and go as they can
        }
        if sample.moment is Moment.PHASE and sample.iteration >= 0:
            own = {key: size for key, size in held.items() if key[0] in MODEL_STATES and size}
            states.append((sample.iteration, sample.phase, own))
    if failed is not None:
        states = [state for state in states if state[0] < failed[0]]
    return list(map(OF_A_COLLECTIVE, collectives)), computations, states


@pytest.mark.ranks
@pytest.mark.long
@each_value
def test_varied_it_runs_and_keeps_right_and_wrong_apart(lesson, value, tmp_path):
    code, output, errors = run([str(lesson.path), "--vary", value], tmp_path)
    assert (code, errors) == (0, "")
    fresh, names = recorded(tmp_path)
    assert lesson.vary.run in names
    varied = fresh.names()
    check_output(lesson, output, varied)
    for question in lesson.questions.values():
        answer = right(question, varied)
        for wrong in question.wrong:
            given = as_given(question, evaluate(wrong.when, varied))
            assert not same(question, given, answer), (question.id, wrong.when)
