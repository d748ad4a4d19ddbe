"""Runs programs for pages on this machine: one after another, with a deadline.

These are a lesson's runs, recorded again, a student's program to check, or a layout to simulate.
Each is a process of its own, `python -m zerosim.dashboards.workbench`, so that it can be ended
together with its ranks. Its files are in a temporary folder, accessible by name. A simulation also
has limits of memory and file size.
"""

from __future__ import annotations

import json
import os
import queue
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from zerosim.base.config.huggingface import FILE
from zerosim.base.errors import ConfigError, RunError, ZerosimError, first_line
from zerosim.dashboards import trial
from zerosim.dashboards.shelf import Shelf
from zerosim.dashboards.trial import TrialResult
from zerosim.lessons.recordings import DEADLINE_S, record

MOST_WAITING = 3
MOST_KEPT = 8
"""Recordings that can be inspected; the oldest is forgotten."""
_GRACE_S = 5.0
_LOOK_EVERY_S = 1.0
_LONGEST_REASON = 400
PLAN = "plan"
"""The page whose layouts are simulated, and the prefix of these runs' names."""
MOST_MEMORY, LARGEST_FILE = 4 << 30, 256 << 20
"""Limit in bytes of the memory of each of a simulation's processes, and of each file."""


class State(StrEnum):
    """The state of a recording."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(slots=True, kw_only=True)
class WorkbenchJob:
    """A recording, the check of a program, or a simulation.

    Attributes:
        ticket: its id in requests.
        page: the requesting page: "lessons/zero3", "puzzles/zero-3", `PLAN`.
        runs: by name; a puzzle's is that of the puzzle.
        changes: options besides those of the runs' settings; for a layout all words of the command.
        program: the program to check; None for others.
        model: a configuration that the words of a command call `FILE`; "" if they name a model.
        tried: the outcome of the program; None before that.
        problem: why it failed, in one line.
        seconds: time since its start, or its duration.
        folders: the folder of each run's trace.
    """

    ticket: str
    page: str
    runs: tuple[str, ...]
    changes: tuple[str, ...] = ()
    program: str | None = None
    model: str = ""
    tried: TrialResult | None = None
    state: State = State.WAITING
    problem: str = ""
    begun: float = 0.0
    ended: float = 0.0
    folders: Mapping[str, Path]

    @property
    def seconds(self) -> float:
        """The time since its start."""
        end = self.ended or time.monotonic()
        return end - self.begun if self.begun else 0.0

    def name_of(self, run: str) -> str:
        """The name of its trace of a run in requests."""
        return name_of(run, self.ticket, self.page.partition("/")[0])


class Workbench:
    """Runs programs for the pages of one server."""

    def __init__(
        self,
        shelf: Shelf,
        *,
        deadline_s: float = DEADLINE_S,
        command: Sequence[str] = (sys.executable, "-m", "zerosim.dashboards.workbench"),
    ) -> None:
        """Start without recordings.

        Args:
            shelf: makes the recordings available.
            deadline_s: limit of one recording.
            command: the command to run; it gets a folder and a job as JSON.
        """
        self._shelf = shelf
        self._deadline_s, self._command = deadline_s, tuple(command)
        self._lock = threading.Lock()
        self._jobs: dict[str, WorkbenchJob] = {}
        self._waiting: queue.Queue[WorkbenchJob | None] = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._is_closed = False

    def submit(
        self, lesson_id: str, runs: Sequence[str], changes: Sequence[str] = ()
    ) -> WorkbenchJob:
        """Record runs of a lesson when it is their turn.

        Raises:
            ConfigError: too many jobs are queued already.
        """
        return self._submit(f"lessons/{lesson_id}", runs, changes, None)

    def check(self, puzzle: str, program: str) -> WorkbenchJob:
        """Check a program as soon as it is its turn.

        Raises:
            ConfigError: too many jobs are queued already.
        """
        return self._submit(f"puzzles/{puzzle}", [puzzle], (), program)

    def simulate(self, run: str, words: Sequence[str], model: str = "") -> WorkbenchJob:
        """Simulate a layout as soon as it is its turn; `words` are those of the command.

        Args:
            model: a configuration that they call `FILE`.

        Raises:
            ConfigError: too many jobs are queued already.
        """
        return self._submit(PLAN, [run], words, None, model)

    def _submit(
        self,
        page: str,
        runs: Sequence[str],
        changes: Sequence[str],
        program: str | None,
        model: str = "",
    ) -> WorkbenchJob:
        """Queue a job.

        Raises:
            ConfigError: too many jobs are queued already.
        """
        with self._lock:
            if self._is_closed:
                raise ConfigError("the server is ending")
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="zerosim-lessons-"))
            ticket = secrets.token_urlsafe(9)
            folders = {run: self._folder / ticket / run for run in runs}
            job = WorkbenchJob(
                ticket=ticket,
                page=page,
                runs=tuple(runs),
                changes=tuple(changes),
                program=program,
                model=model,
                folders=folders,
            )
            try:
                self._waiting.put_nowait(job)
            except queue.Full:
                raise ConfigError(
                    f"{MOST_WAITING} checks are queued already: try again in a minute"
                ) from None
            self._jobs[ticket] = job
            self._forget_old()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
        return job

    def find(self, ticket: str) -> WorkbenchJob | None:
        """A recording; None if it does not exist, or no longer exists."""
        with self._lock:
            return self._jobs.get(ticket)

    def num_before(self, job: WorkbenchJob) -> int:
        """The number of recordings ahead of a queued one."""
        with self._lock:
            before = []
            for each in self._jobs.values():
                if each is job:
                    break
                before.append(each)
            return sum(each.state in (State.WAITING, State.RUNNING) for each in before)

    def state_of(self, job: WorkbenchJob) -> dict[str, Any]:
        """The progress of a recording, as JSON."""
        return {
            "ticket": job.ticket,
            "state": job.state.value,
            "seconds": round(job.seconds, 1),
            "before": self.num_before(job),
            "problem": job.problem,
        }

    def close(self) -> None:
        """End the current recording and remove its files."""
        with self._lock:
            self._is_closed = True
            process, folder, thread = self._process, self._folder, self._thread
        if process is not None:
            _end(process)
        if thread is not None:
            while not self._waiting.empty():
                self._waiting.get_nowait()
            self._waiting.put(None)
            thread.join(_GRACE_S)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _forget_old(self) -> None:
        over = [job for job in self._jobs.values() if job.state in (State.DONE, State.FAILED)]
        for job in over[: max(0, len(over) - MOST_KEPT)]:
            del self._jobs[job.ticket]
            for run in job.runs:
                self._shelf.remove(job.name_of(run))
            assert self._folder is not None
            shutil.rmtree(self._folder / job.ticket, ignore_errors=True)

    def _work(self) -> None:
        while (job := self._waiting.get()) is not None:
            job.begun, job.state = time.monotonic(), State.RUNNING
            try:
                job.problem = self._run(job)
            except OSError as error:
                job.problem = first_line(error)
            for run, folder in job.folders.items() if not job.problem else ():
                if job.program is None or folder.is_dir():  # a program may leave no trace
                    self._shelf.add(job.name_of(run), folder)
            job.ended = time.monotonic()
            job.state = State.FAILED if job.problem else State.DONE

    def _run(self, job: WorkbenchJob) -> str:
        """Why it failed; "" if it did not."""
        assert self._folder is not None
        own, deadline_s = self._folder / job.ticket, self._deadline_s
        plain: dict[str, Any] = {"runs": job.runs, "changes": job.changes, "dry": job.page == PLAN}
        if job.program is not None:
            trial.put(own, job.program)
            plain, deadline_s = {"puzzle": job.runs[0]}, max(deadline_s, trial.LONGEST_S)
        if job.model:
            own.mkdir(parents=True, exist_ok=True)
            (own / FILE).write_text(job.model, encoding="utf-8")
        with tempfile.TemporaryFile() as said:
            with self._lock:
                if self._is_closed:
                    return "the server is ending"
                process = self._process = subprocess.Popen(  # noqa: S603 - our own program
                    [*self._command, str(own), json.dumps(plain)],
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    cwd=Path(__file__).parents[2],
                    start_new_session=True,
                )
            try:
                code = process.wait(deadline_s)
            except subprocess.TimeoutExpired:
                _end(process)
                return f"it did not end within {deadline_s:g} s"
            finally:
                self._process = None
            if code == 0:
                job.tried = None if job.program is None else trial.read(own)
                return ""
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines()
        return " ".join(lines[-1:])[:_LONGEST_REASON] or f"it ended with code {code}"


def name_of(run: str, ticket: str = "", pages: str = "lessons") -> str:
    """The name of a run of the lessons or puzzles in requests."""
    return f"{pages}/{ticket}/{run}" if ticket else f"{pages}/{run}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a recording and the ranks that it started."""
    for number, wait_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _GRACE_S)):
        try:
            os.killpg(process.pid, number)
            process.wait(wait_s)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def main(arguments: Sequence[str], make: Callable[..., object] = record) -> int:
    """Do one job: a folder, and the job as JSON."""
    folder, plain = Path(arguments[0]), json.loads(arguments[1])
    threading.Thread(target=_end_with_server, args=(os.getppid(),), daemon=True).start()
    try:
        if "puzzle" in plain:
            trial.judge(plain["puzzle"], folder)
            return 0
        if plain.get("dry"):
            resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
            resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
            make = simulate
        make(plain["runs"], folder, plain["changes"])
    except (ZerosimError, subprocess.TimeoutExpired, OSError) as error:
        print(first_line(error))  # noqa: T201 - it is read by the server
        return 1
    return 0


def simulate(runs: Sequence[str], folder: Path, words: Sequence[str]) -> None:
    """Simulate a layout by a dry run.

    Args:
        folder: it may have the configuration of a model, as `FILE`.
        words: the command's arguments, without `zerosim` and its output folder.

    Raises:
        RunError: it failed; with its output.
    """
    (run,) = runs
    model = folder / FILE
    words = [str(model) if word == FILE and model.is_file() else word for word in words]
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "zerosim", *words, "--out", str(folder / run)],
        capture_output=True,
        check=False,
        text=True,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"it ended with code {done.returncode}"]
        raise RunError(lines[-1].removeprefix("zerosim: "))


def _end_with_server(server: int) -> None:
    """End with the server: a killed one cannot end its children, so they detect its end."""
    while os.getppid() == server:
        time.sleep(_LOOK_EVERY_S)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
