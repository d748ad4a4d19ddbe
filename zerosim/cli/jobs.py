"""Shared by the commands that start ranks: how a job is launched, and how it ends."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from zerosim.base.config import EngineConfig, Offload
from zerosim.base.errors import DiskError, EnvironmentFault, RunError
from zerosim.cli.ending import diagnosis_of
from zerosim.cli.folders import RANK_FILES, reserve, trace_files
from zerosim.record import explain_failure
from zerosim.train.launch.forkserver import lent
from zerosim.train.launch.job import Job, RanksFailedError
from zerosim.verify.diagnosis import Wrong

_SAID_BY_CODES = (Wrong.DIED, Wrong.FAILED)


class InterruptedRun(RunError):
    """The user interrupted a run with Ctrl-C."""

    exit_code = 130


def launch_job(job: Job, held: ExitStack, port: int = 0, *, overwrite: bool = False) -> None:
    """Run a job on ranks of this host.

    Args:
        held: locks the job's folders until it is closed, after the recording has been read.
        port: the rendezvous port on loopback; 0 for a rendezvous in memory, without a port.
        overwrite: whether traces in the folders may be replaced.

    Raises:
        EnvironmentFault: a folder is not free, or this machine lacks a requirement.
        RunError: a rank failed; the message has the rank, its position, and the state of the
            others.
        InterruptedRun: the user interrupted it.
    """
    try:
        with lent() as server:  # imports PyTorch while this process does so
            from zerosim.train.launch.launcher import launch

            def prepare() -> None:
                for _, folder in job.engines:
                    reserve(folder, held, overwrite=overwrite)

            launch(job, server, port, prepare)
    except RanksFailedError as failed:
        raise RunError(_explain(job, failed)) from None
    except KeyboardInterrupt:
        begun = [folder for _, folder in job.engines if trace_files(folder)]
        shown = f"; the trace up to that point: zerosim show {begun[-1]}" if begun else ""
        raise InterruptedRun(f"interrupted: the ranks were stopped{shown}") from None


def _explain(job: Job, failed: RanksFailedError) -> str:
    begun = [folder for _, folder in job.engines if any(folder.glob(RANK_FILES))]
    folder = begun[-1] if begun else job.engines[0][1]
    words = explain_failure(
        folder, job.run.ranks, failed.exit_codes, job.run.timeout_s, failed.errors
    )
    words += _diagnosis(folder)
    who = next(who for who, path in job.engines if path == folder)
    return words + (_resumable(who, job.run.ranks) if isinstance(who, EngineConfig) else "")


def _diagnosis(folder: Path) -> str:
    """The trace's information besides the ranks' exit codes, in a separate line; "" if none.

    The exit code already shows that a rank died or failed.
    """
    found = diagnosis_of(folder)
    if found is None or not found.findings or found.findings[0].wrong in _SAID_BY_CODES:
        return ""
    return f"\n{found.headline}; zerosim diagnose {folder}"


def _resumable(config: EngineConfig, num_ranks: int) -> str:
    """The state from which a run can resume, in a separate line; "" if there is none."""
    if config.offload_optimizer is not Offload.NVME:
        return ""
    from zerosim.train.offload import DiskFiles

    try:
        state = DiskFiles.last_good(Path(config.nvme_path), num_ranks)
    except DiskError:
        return ""
    if state is None:
        return ""
    done = state.values["iteration"]
    return f"\nthe state after {done} steps is in {config.nvme_path}: --resume continues from it"


def require_state_free(config: EngineConfig, *, resumes: bool, overwrite: bool) -> None:
    """Check that no state of an earlier run is lost.

    Raises:
        EnvironmentFault: the folder for the disk has a state, and neither resume nor overwrite is
            set.
    """
    if config.offload_optimizer is not Offload.NVME or resumes or overwrite:
        return
    folder = Path(config.nvme_path)
    if any(folder.glob("rank-*/commit-*.json")):
        raise EnvironmentFault(
            f"{folder} holds the state of an earlier run: --resume to continue from it, "
            "--overwrite to start over, or give another --nvme-path"
        )
