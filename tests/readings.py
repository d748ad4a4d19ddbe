"""Everything that reads a trace: each command that does, and each page of the server."""

from __future__ import annotations

import contextlib
import io
import resource
import shutil
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from types import FrameType

from tests.cli.command import Answer, command
from tests.dashboards.samples import make_site

HANGS_S = 20
ROOM_BYTES = 10**9
"""What a reading of a small trace may take at most."""
PAGES = (
    "/api/traces",
    "/runs",
    "/replay?trace=signed",
    "/graph?trace=signed",
    "/api/replay?trace=signed",
    "/api/graph?trace=signed",
    "/verify?trace=signed",
    "/compare?trace=signed&trace=other",
    "/api/compare?trace=signed&trace=other",
    "/api/replay?trace=signed&iteration=0",
    "/api/graph?trace=signed&iteration=0",
)


def commands(folder: Path, other: Path, out: Path) -> Iterator[tuple[object, ...]]:
    """The words of every command that reads a trace, without those that need a browser."""
    yield ("verify", folder)
    yield ("verify", folder, "-v", "--received")
    yield ("verify", folder, "--json")
    yield ("diagnose", folder)
    yield ("diagnose", folder, "--json")
    yield ("memory", folder, "-v")
    yield ("memory", folder, "--json")
    yield ("graph", folder, "--rank", "0")
    yield ("graph", folder, "--json", "--graphml", out / "graph", "--nodelink", out / "nodes")
    yield ("whatif", folder, "--bandwidth", "x10", "--slow", "0=x2", "--jitter", "0.1")
    yield ("whatif", folder, "--serial", "--no-straggler", "--json")
    yield ("whatif", folder, "--overlap", "--latency", "x2", "--out", out / "predicted")
    yield ("verify", out / "predicted")
    yield ("calibrate", folder, "--out", out / "machine.toml", "--json")
    yield ("compare", folder, other)
    yield ("compare", other, folder, "--json")
    yield ("show", folder, "--rank", "all", "--iteration", "all", "--hops")
    yield ("show", folder, "--json")
    yield ("show", folder, "--raw", "--rank", "all")
    yield ("--language", "zh", "show", folder, "--tour")
    yield ("export", folder, "--html", out / "replay.html")
    yield ("export", folder, "--page", "verify", "--html", out / "verify.html")
    yield ("export", folder, other, "--html", out / "compare.html")
    yield ("export", folder, "--perfetto", out / "perfetto", "--csv", out / "csv")
    yield ("export", folder, "--chakra", out / "chakra")
    yield ("export", folder, "--hta", out / "hta")


def problem_of(answer: Answer) -> str:
    """Why an answer is none: an exit code that there is not, or more than a line of complaint."""
    lines = answer.err.splitlines()
    complaints = [line for line in lines if line.startswith("zerosim: ")]
    if answer.code not in (0, 1, 2):
        return f"exit code {answer.code}"
    if "MemoryError" in answer.err:
        return "too little memory"
    if answer.code == 2 and len(complaints) != 1:
        return f"{len(complaints)} complaints"
    return "" if answer.code != 2 or len(complaints) == len(lines) else f"more lines: {lines}"


@contextmanager
def bounded() -> Iterator[None]:
    """A reading that hangs is interrupted, and one that wants too much memory gets none."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise TimeoutError(f"it reads for {HANGS_S} s")

    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    handler = signal.signal(signal.SIGPROF, interrupt)
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM_BYTES, before[1]))
    signal.setitimer(signal.ITIMER_PROF, HANGS_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


class Readers:
    """Every command, and a server's pages, of traces called "signed" beside one called "other"."""

    def __init__(self, home: Path, other: Path) -> None:
        self.out, self.served = home / "out", home / "served"
        shutil.copytree(other, self.served / "other")
        self.site = make_site(self.served)

    def problems(self, trace: Path) -> Iterator[str]:
        """What they make of a trace: whatever is neither an answer nor one line of complaint."""
        folder = self.served / "signed"
        for one in (folder, self.out):
            shutil.rmtree(one, ignore_errors=True)
        trace.rename(folder)
        self.out.mkdir()
        for words in commands(folder, self.served / "other", self.out):
            yield from self._problems(words)
        self.site.later()
        for path in PAGES:
            yield from self._problems((path,))

    def _problems(self, words: tuple[object, ...]) -> Iterator[str]:
        said = " ".join(str(word) for word in words if not isinstance(word, Path))
        try:
            with bounded():
                problem = self._problem(words)
        except Exception:  # noqa: BLE001 - whatever reaches a user is what is looked for
            problem = traceback.format_exc()
        if problem:
            yield f"{said}: {problem}"

    def _problem(self, words: tuple[object, ...]) -> str:
        path = str(words[0])
        if not path.startswith("/"):
            return problem_of(command(*words))
        with contextlib.redirect_stderr(io.StringIO()) as told:
            answer = self.site.client.get(path)
        return told.getvalue() if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR else ""
