"""`make test`, `make test-long`: all parts of the tests, one summary, one exit code.

A part is one start of pytest, which says what it finds as it finds it. Ctrl-C ends the part that is
running, in pytest's own way, and no other begins. The summary says what was skipped and why, and
which files took longest: they are where to begin when the whole takes too long.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

INTERRUPTED = 130
_END_S = 60.0
"""How long pytest may take to end what its tests started."""
_NO_TESTS = 5
"""What pytest ends with if nothing was chosen."""
_COMPILES_ANEW = "PYTHONDONTWRITEBYTECODE"
"""With it each of the hundreds of processes that tests start compiles all of zerosim."""
_NUM_SLOWEST = 10
"""Files that the summary names."""


@dataclass(frozen=True, slots=True)
class Part:
    """Tests that are run beside each other.

    Attributes:
        arguments: pytest's own.
        mark: that they have; each start of pytest reads all files that it is given, so it is given
            those that name the mark.
    """

    name: str
    arguments: tuple[str, ...]
    mark: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """Those that pytest is given; none if it finds them itself."""
        found = sorted(Path(__file__).parent.rglob("test_*.py")) if self.mark else ()
        return tuple(str(path) for path in found if f"mark.{self.mark}" in path.read_text())


# Ranks wait more than they compute, and so do pages: three at a time on two cores. What they share
# is made once for a file.
_BESIDE = ("-n", "3", "--dist", "loadfile", "--no-loadscope-reorder")
PARTS = (
    # Apart from each other: tests of memory look at all that their process has alive.
    Part(
        "one process, browser",
        (*_BESIDE, "-m", "(not ranks or browser) and not quiet and not long"),
    ),
    Part("ranks", (*_BESIDE, "-m", "ranks and not browser and not quiet and not long"), "ranks"),
    Part("quiet", ("-m", "quiet and not long"), "quiet"),
)
LONG = (
    Part(
        "soaks, longer fuzzing",
        (
            *("-n", "2", "--dist", "loadfile", "-m", "long or hypothesis"),
            *("--hypothesis-profile", "long", "--timeout", "3600"),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a part.

    Attributes:
        code: pytest's exit status; negative for the signal that killed it.
        failed: tests that failed, or whose set-up or end did; 1 if pytest itself came to no end.
        reasons: why tests were skipped, and how many for each reason.
        files: the seconds that the tests of a file took, set-up included; beside each other.
    """

    code: int
    passed: int
    failed: int
    skipped: int
    seconds: float
    reasons: Counter[str] = field(default_factory=Counter)
    files: Counter[str] = field(default_factory=Counter)


class Interrupted(Exception):
    """Somebody has had enough."""

    def __init__(self, result: Result) -> None:
        self.result = result


def run_part(part: Part) -> Result:
    """Run one part, whose words go where ours go.

    Raises:
        Interrupted: Ctrl-C, or a signal that asks to end.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "results.xml")
        # a group of its own: Ctrl-C reaches us alone, and is passed on once
        process = subprocess.Popen(
            (sys.executable, "-m", "pytest", *part.arguments, f"--junit-xml={file}", *part.files),
            env={name: value for name, value in os.environ.items() if name != _COMPILES_ANEW},
            process_group=0,
        )
        try:
            code = process.wait()
        except KeyboardInterrupt:
            _end(process)
            raise Interrupted(_read(file, process.returncode, began)) from None
        finally:
            with contextlib.suppress(ProcessLookupError):  # whatever is left, however it ended
                os.killpg(process.pid, signal.SIGKILL)
        return _read(file, code, began)


def _end(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(_END_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):  # or it was pressed once more
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _read(file: Path, code: int, began: float) -> Result:
    counts = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    reasons: Counter[str] = Counter()
    files: Counter[str] = Counter()
    with contextlib.suppress(OSError, ET.ParseError):  # pytest came to no end
        for suite in ET.parse(file).iter("testsuite"):  # noqa: S314 - pytest wrote it
            for name in counts:
                counts[name] += int(suite.get(name, 0))
            for case in suite.iter("testcase"):
                files[case.get("classname", "").replace(".", "/") + ".py"] += float(
                    case.get("time", 0)
                )
                reasons.update(one.get("message", "") for one in case.iter("skipped"))
    failed = counts["failures"] + counts["errors"]
    passed = max(0, counts["tests"] - failed - counts["skipped"])
    failed = failed or int(code not in (0, _NO_TESTS))
    seconds = time.monotonic() - began
    return Result(code, passed, failed, counts["skipped"], seconds, reasons, files)


def run(parts: Sequence[Part]) -> int:
    """Run parts one after the other and say what became of them.

    Returns:
        0 if all passed, 1 if something failed, 130 if it was interrupted.
    """
    results: dict[str, Result] = {}
    code = 0
    with _interruptible():
        try:
            for part in parts:
                print(f"== {part.name}: pytest {' '.join(part.arguments)}", flush=True)
                results[part.name] = run_part(part)
        except Interrupted as end:
            results[part.name], code = end.result, INTERRUPTED
    print(*_summary(parts, results), sep="\n", flush=True)
    return code or int(any(result.failed for result in results.values()))


def _summary(parts: Sequence[Part], results: dict[str, Result]) -> Iterator[str]:
    yield f"\n{'part':<24}{'passed':>8}{'failed':>8}{'skipped':>8}{'minutes':>9}"
    for part in parts:
        result = results.get(part.name)
        if result is None:
            yield f"{part.name:<24}  not run"
            continue
        # 0, and 1 for failed tests, are pytest's usual ends
        note = "" if result.code in (0, 1, _NO_TESTS) else f"  pytest ended with {result.code}"
        yield _row(part.name, result) + note
    reasons: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for one in results.values():
        reasons.update(one.reasons)
        files.update(one.files)
    total = Result(
        code=0,
        passed=sum(one.passed for one in results.values()),
        failed=sum(one.failed for one in results.values()),
        skipped=sum(one.skipped for one in results.values()),
        seconds=sum(one.seconds for one in results.values()),
        reasons=reasons,
        files=files,
    )
    yield _row("all", total)
    if total.reasons:
        yield f"\n{'skipped':>8}  why"
        yield from (f"{count:>8,}  {reason}" for reason, count in total.reasons.most_common())
    yield f"\n{'seconds':>8}  slowest files"
    yield from (f"{s:>8.1f}  {name}" for name, s in total.files.most_common(_NUM_SLOWEST))
    yield ""
    yield f"{total.passed} passed, {total.failed} failed"


def _row(name: str, result: Result) -> str:
    numbers = f"{result.passed:>8,}{result.failed:>8,}{result.skipped:>8,}"
    return f"{name:<24}{numbers}{result.seconds / 60:>9.1f}"


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C ends us also where we were started in the background; a request to end is one."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(run(LONG if sys.argv[1:] == ["long"] else PARTS))
