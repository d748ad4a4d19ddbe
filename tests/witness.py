"""Every number that zerosim says of the committed traces, to be held against itself later.

    python -m tests.witness record DIR       one file for each trace and reading command
    python -m tests.witness compare OLD NEW  exit 1 if a number changed

A change that alters no result is shown by two such sets without a difference. In JSON no number may
be lost, wherever it stands; in text they are compared in their order; other words are counted
apart, because words may change where numbers may not.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import itertools
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TRACES = Path("lessons/traces")
PER_TRACE = {
    "verify": ("verify", "-v"),
    "verify-received": ("verify", "-v", "--received"),
    "memory": ("memory", "-v"),
    "graph": ("graph",),
    "show": ("show", "--hops"),
}
"""Reading commands of one trace, as text and with --json."""
TABLES = ("paper",)
WIDTH = "200"
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
_SHOWN = 12


def record(folder: Path) -> None:
    """Write a set."""
    os.chdir(ROOT)
    os.environ |= {"COLUMNS": WIDTH, "NO_COLOR": "1", "TERM": "dumb"}
    folder.mkdir(parents=True)
    jobs = [("trace", str(path.parent)) for path in sorted(TRACES.rglob("manifest.json"))]
    groups = sorted({Path(name).parent for _, name in jobs})
    jobs += [("group", str(group)) for group in groups]
    jobs += [("course", "")]
    with ProcessPoolExecutor(2) as pool:
        for found in pool.map(_said, jobs):
            for name, text in found.items():
                (folder / name).write_text(text, encoding="utf-8")


def _said(job: tuple[str, str]) -> dict[str, str]:
    kind, name = job
    return dict({"trace": _of_trace, "group": _of_group, "course": _of_course}[kind](name))


def _of_trace(name: str) -> Iterator[tuple[str, str]]:
    from zerosim.record import iterations, load
    from zerosim.view.replay import MOST_RANKS, replay_document

    stem = "-".join(Path(name).relative_to(TRACES).parts)
    for command, words in PER_TRACE.items():
        for end, options in ((".txt", ()), (".json", ("--json",))):
            yield f"{stem}-{command}{end}", _command([*words, name, *options])
    trace = load(Path(name))
    complete = iterations(trace)
    for iteration in complete[:-1]:
        words = ["verify", name, "--iteration", str(iteration), "--json"]
        yield f"{stem}-verify-{iteration}.json", _command(words)
    if trace.manifest.num_ranks <= MOST_RANKS:
        yield f"{stem}-replay.json", json.dumps(replay_document(trace, name=name), indent=1)


def _of_group(name: str) -> Iterator[tuple[str, str]]:
    folders = [str(path) for path in sorted(Path(name).iterdir()) if path.is_dir()]
    stem = "-".join(Path(name).relative_to(TRACES).parts)
    if len(folders) > 1:
        yield f"{stem}-compare.txt", _command(["compare", *folders])
        yield f"{stem}-compare.json", _command(["compare", *folders, "--json"])


def _of_course(_: str) -> Iterator[tuple[str, str]]:
    from zerosim.lessons.claims import claims, judge
    from zerosim.lessons.course import course
    from zerosim.lessons.expressions import evaluate
    from zerosim.lessons.facts import Facts
    from zerosim.lessons.questions import explanation, right_answer, wording
    from zerosim.lessons.recordings import LessonRecordings
    from zerosim.lessons.views import view

    facts = Facts(LessonRecordings())
    names = facts.names()
    for lesson in course():
        said = [f"{name} = {evaluate(words, names)}" for name, words in lesson.figures.items()]
        for question in lesson.questions.values():
            said += [
                wording(question, names),
                str(right_answer(question, names)),
                explanation(question, names),
            ]
        for call in lesson.calls("show"):
            said.append(f"{call.args}: {view(facts, *call.args)}")
        yield f"lesson-{lesson.id}.txt", "\n".join(said)
    found = [f"{name}: {judge(claim, names)}" for name, claim in claims().items()]
    yield "claims.txt", "\n".join(found)
    for name in TABLES:
        yield f"{name}.txt", _command(["table", name])
        yield f"{name}.json", _command(["table", name, "--json"])


def _command(words: Sequence[str]) -> str:
    """What a command prints, and how it ends."""
    from zerosim.cli import app

    said, complained = io.StringIO(), io.StringIO()
    before = sys.argv
    sys.argv = ["zerosim", *words]
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
            try:
                app.main()
            except SystemExit as end:
                code = end.code
    finally:
        sys.argv = before
    if "--json" in words and not complained.getvalue() and said.getvalue():
        return json.dumps({"exit": code, "said": json.loads(said.getvalue())}, indent=1)
    return f"{said.getvalue()}{complained.getvalue()}exit {code}\n"


def compare(old: Path, new: Path) -> int:
    """Print what differs; 1 if a number does."""
    names = sorted({path.name for folder in (old, new) for path in folder.iterdir()})
    changed = reworded = 0
    for name in names:
        texts = [(folder / name) for folder in (old, new)]
        if not all(path.exists() for path in texts):
            there = next(path for path in texts if path.exists())
            print(f"{name}: only in {there.parent}")
            changed += 1
            continue
        before, after = (path.read_text(encoding="utf-8") for path in texts)
        if before == after:
            continue
        numbers = list(_differences(name, before, after))
        changed += bool(numbers)
        reworded += not numbers
        for line in numbers[:_SHOWN]:
            print(f"{name}: {line}")
        if len(numbers) > _SHOWN:
            print(f"{name}: and {len(numbers) - _SHOWN} more")
    print(
        f"{len(names)} files: in {changed} a number differs, in {reworded} only words or places, "
        f"{len(names) - changed - reworded} are the same"
    )
    return int(changed > 0)


def _differences(name: str, before: str, after: str) -> Iterator[str]:
    if name.endswith(".json") and all(text.startswith("{") for text in (before, after)):
        was, now = (list(_leaves(json.loads(text), "")) for text in (before, after))
        # a number that is elsewhere now is no other number, and one that joined is no lost one
        there = Counter(number for _, value in now for number in _numbers(str(value)))
        for place, value in was:
            for number in _numbers(str(value)):
                there[number] -= 1
                if there[number] < 0:
                    yield f"{place} was {value}"
        return
    was_said, now_said = _numbers(before), _numbers(after)
    if was_said != now_said:
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
        yield from itertools.islice(lines, 2, None)


def _leaves(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Numbers, and texts with numbers in them, by their place."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{place}.{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{place}[{number}]")
    elif value is not None and _numbers(str(value)):
        yield place, value


def _numbers(text: str) -> list[str]:
    return _NUMBER.findall(text)


def main(words: Sequence[str]) -> int:
    """Record a set, or compare two."""
    match words:
        case ["record", folder]:
            record(Path(folder).absolute())
            return 0
        case ["compare", old, new]:
            return compare(Path(old), Path(new))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
