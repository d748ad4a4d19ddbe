"""What the commands that start ranks share: folders that may be written, and how a job ends."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from zerosim.config import EngineConfig, Offload
from zerosim.errors import DiskError, EnvironmentFault, RunError
from zerosim.launch.job import Job, RanksFailedError
from zerosim.launch.nursery import lent
from zerosim.record import explain_failure
from zerosim.rows import MANIFEST_NAME

RANK_FILES = "rank-*.jsonl"
NOTES = "note-*.txt"
"""What ranks had to say while they were traced, until it has been printed."""
ATTEMPTS = "attempt-*"
"""Folders of what torchrun's earlier attempts recorded."""
_OF_A_TRACE = (MANIFEST_NAME, RANK_FILES, "rank-*.error.txt", NOTES)
_TRACE_FILES = (*_OF_A_TRACE, *(f"{ATTEMPTS}/{name}" for name in (MANIFEST_NAME, RANK_FILES)))


class InterruptedRun(RunError):
    """Ctrl-C."""

    exit_code = 130


def launch_job(job: Job, port: int = 0) -> None:
    """Do a job on ranks of this host.

    Raises:
        RunError: a rank failed; the message says which, where, and what the others did.
        InterruptedRun: a person had enough.
    """
    try:
        with lent() as nursery:  # imports PyTorch while this process does so
            from zerosim.launch.launcher import launch

            launch(job, nursery, port, lambda: clear(job))
    except RanksFailedError as failed:
        raise RunError(_explain(job, failed.exit_codes)) from None
    except KeyboardInterrupt:
        begun = [folder for _, folder in job.engines if trace_files(folder)]
        shown = f"; what was recorded until then: zerosim show {begun[-1]}" if begun else ""
        raise InterruptedRun(f"interrupted: the ranks were ended{shown}") from None


def _explain(job: Job, exit_codes: Mapping[int, int]) -> str:
    from zerosim.launch.worker import last_errors

    begun = [folder for _, folder in job.engines if any(folder.glob(RANK_FILES))]
    folder = begun[-1] if begun else job.engines[0][1]
    words = explain_failure(folder, job.run.ranks, exit_codes, job.run.timeout_s, last_errors(job))
    who = next(who for who, path in job.engines if path == folder)
    return words + (_resumable(who, job.run.ranks) if isinstance(who, EngineConfig) else "")


def _resumable(config: EngineConfig, num_ranks: int) -> str:
    """From where a run can go on, in a line of its own; "" if there is no such state."""
    if config.offload_optimizer is not Offload.NVME:
        return ""
    from zerosim.offload import DiskStore

    try:
        state = DiskStore.last_good(Path(config.nvme_path), num_ranks)
    except DiskError:
        return ""
    if state is None:
        return ""
    done = state.values["iteration"]
    return f"\nthe state after {done} steps is in {config.nvme_path}: --resume goes on from it"


def moment() -> str:
    """Now, as part of a folder's name."""
    return datetime.now().strftime("%Y%m%d-%H%M%S")  # noqa: DTZ005 - the user's own clock


def trace_files(folder: Path) -> list[Path]:
    """The files of a trace that a folder holds."""
    return [path for pattern in _TRACE_FILES for path in folder.glob(pattern)]


def require_free(folder: Path, *, overwrite: bool) -> None:
    """See that a folder holds no trace, or one that may go.

    Raises:
        EnvironmentFault: it holds one.
    """
    try:
        occupied = bool(trace_files(folder)) and not overwrite
    except OSError as error:
        raise _no_folder(folder, error) from None
    if occupied:
        raise EnvironmentFault(
            f"{folder} already holds a trace: give another --out, or --overwrite"
        )


def clear(job: Job) -> None:
    """Make the folders that a job writes to free.

    Raises:
        EnvironmentFault: one of them cannot be written.
    """
    for _, folder in job.engines:
        make_free(folder)


def make_free(folder: Path) -> None:
    """Make a folder if there is none, and remove what it holds of an earlier trace.

    Raises:
        EnvironmentFault: it cannot be written.
    """
    # another host may be doing the same in a folder that they share
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".zerosim-{os.getpid()}"
        probe.touch()
        probe.unlink(missing_ok=True)
        for path in trace_files(folder):
            path.unlink(missing_ok=True)
        for path in folder.glob(ATTEMPTS):
            path.rmdir()
    except OSError as error:
        raise _no_folder(folder, error) from None


def _no_folder(folder: Path, error: OSError) -> EnvironmentFault:
    why = "it is not a folder" if isinstance(error, FileExistsError) else error.strerror
    return EnvironmentFault(f"cannot write to {folder}: {why}; give an --out that can be written")


def require_state_free(config: EngineConfig, *, resumes: bool, overwrite: bool) -> None:
    """See that no state of an earlier run is lost.

    Raises:
        EnvironmentFault: the folder for the disk holds one, which is neither gone on from nor may
            go.
    """
    if config.offload_optimizer is not Offload.NVME or resumes or overwrite:
        return
    folder = Path(config.nvme_path)
    if any(folder.glob("rank-*/commit-*.json")):
        raise EnvironmentFault(
            f"{folder} holds the state of an earlier run: --resume to go on from it, --overwrite "
            "to begin anew, or give another --nvme-path"
        )
