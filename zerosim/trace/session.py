"""`with zerosim.trace(folder):` in any program."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import torch.distributed as dist

from zerosim.base.config import Light
from zerosim.base.errors import ConfigError, EnvironmentFault
from zerosim.schema.faults import Fault
from zerosim.schema.rows import MANIFEST_NAME, rank_file_name
from zerosim.trace import device, dry, guard, labels, process
from zerosim.trace.attached import attachable
from zerosim.trace.autolabel.labeler import AutoLabeler
from zerosim.trace.clock import Clock, SystemClock
from zerosim.trace.extent import Extent
from zerosim.trace.faulty import Faults
from zerosim.trace.guard import guarded
from zerosim.trace.intercept import Interception
from zerosim.trace.keeper import keep
from zerosim.trace.recorder import Recorder
from zerosim.trace.sink import Description
from zerosim.trace.source import raised_below
from zerosim.trace.watch import watching
from zerosim.trace.wire import Connections
from zerosim.trace.wire import supported as wire_supported

_LONGEST_S = 10.0
"""How long the tracer waits for the calls of a group that is being destroyed."""


@contextmanager
def trace(  # noqa: PLR0913 - each controls one aspect of the recording
    out_dir: str | os.PathLike[str],
    *,
    program: str | None = None,
    run: dict[str, object] | None = None,
    wire: bool = True,
    memory: bool = True,
    allocations: bool = False,
    light: Light | bool = False,
    faults: Sequence[Fault] = (),
    check_replicas: int = 0,
    clock: Clock | None = None,
) -> Iterator[Recorder]:
    """Record every collective of this process while the `with` block runs.

    Every rank of a program enters the block and writes `rank-N.jsonl` into the same folder; the
    first rank of each host also writes `manifest.json`. The rank is that of `torch.distributed` if
    it is initialized, else that of the environment (RANK, WORLD_SIZE).

    Args:
        out_dir: the trace's folder; created if missing.
        program: the command recorded in the manifest; that of this process by default.
        run: facts about the program for the manifest: model, steps, seed.
        wire: read the kernel's byte counters of this process's TCP connections.
        memory: record the bytes of live tensors, by role, at each event.
        allocations: also record this thread's CPU allocations as reported by PyTorch's profiler.
            The program cannot run a profiler of its own at the same time.
        light: record only collectives and their bytes, in some iterations, in files of bounded
            size, for jobs that run for days. Memory, computations and waits are not recorded.
            `Light(every=50)` chooses the iterations; True means `Light()`.
        faults: faults to inject, each on its rank; they are listed in the manifest.
        check_replicas: interval, in iterations, of checksums of the tensors that a rank keeps,
            sends and receives, from which `zerosim diagnose` finds where ranks diverge; 0 for none.
        clock: source of timestamps, in ns; the kernel's monotonic clock by default.

    Yields:
        The recorder of this rank.

    Raises:
        ConfigError: this process is already recording a trace.
        EnvironmentFault: the folder cannot be written, or already has a trace of this rank.
    """
    extent = Extent(
        wire=wire,
        memory=memory,
        allocations=allocations,
        light=Light() if light is True else light or None,
        check_replicas=check_replicas,
    )
    session = Session(Path(out_dir), extent, program=program, run=run, faults=faults, clock=clock)
    try:
        yield session.recorder
    except BaseException as error:
        # the program's error matters more than a failure to record it
        with suppress(EnvironmentFault):
            session.fail(error)
            session.recorder.read()
        with suppress(EnvironmentFault):
            session.recorder.finish()
        with suppress(EnvironmentFault):
            session.end()
        raise
    try:
        session.recorder.read()
    finally:
        session.end()


class Session:
    """A trace of this process; its constructor begins the recording.

    Attributes:
        recorder: the recorder of this rank.
        gives_way: called with the folder of a trace that the program itself begins; it ends this
            trace. None if no other trace can begin meanwhile.
    """

    def __init__(
        self,
        folder: Path,
        extent: Extent,
        *,
        program: str | None = None,
        run: dict[str, object] | None = None,
        faults: Sequence[Fault] = (),
        clock: Clock | None = None,
    ) -> None:
        """Begin to record; arguments and errors are those of `trace`."""
        if _OpenSession.session is not None and _OpenSession.session.gives_way is not None:
            _OpenSession.session.gives_way(folder)
        if labels.attached() is not None:
            raise ConfigError("a trace is already being recorded: leave its block first")
        self.gives_way: Callable[[Path], None] | None = None
        dry_run = dry.installed()
        clock = clock or (SystemClock() if dry_run is None else dry_run.clock)
        header = process.header(clock)
        said = (run or {}) | ({"faults": [str(one) for one in faults]} if faults else {})
        prepare_folder(folder, header.rank)

        def write_manifest(description: Description) -> None:
            # some launchers give no rank of a host local rank 0: the first to arrive writes it
            if header.local_rank == 0 or not (folder / MANIFEST_NAME).exists():
                process.write_manifest(folder, header, description, program, said, extent.light)

        with ExitStack() as undo:
            connections = (
                Connections(process.store_ports())
                if extent.wire and wire_supported() and dry_run is None
                else None
            )
            self._connections = connections
            if connections is not None:
                undo.callback(connections.close)
            self.recorder = recorder = Recorder(
                folder,
                header,
                clock,
                connections,
                write_manifest,
                extent,
                marks=None
                if dry_run or extent.light
                else device.marks_of(header.device, clock.now_ns),
            )
            undo.callback(recorder.finish)
            recorder.begin()
            write_manifest(labels.description())
            interception = Interception(recorder.calls)
            undo.callback(interception.remove)
            interception.install()
            undo.callback(labels.attach, None)
            labels.attach(recorder)
            if faults:
                own = Faults(faults, header.rank)
                own.tear = recorder.tear
                own.install()
                undo.callback(own.remove)
            labeler = AutoLabeler(recorder, memory=extent.looks_at_memory)
            undo.callback(labeler.remove)
            labeler.install()
            undo.callback(self._look_before_groups_end())
            if dry_run is None:
                undo.enter_context(watching(recorder))
            recorder.read()
            keeper = keep(header, folder, recorder._writer, labeler.contents)
            if keeper is not None:
                undo.callback(keeper.end)
            waiting = (
                None
                if keeper or dry_run
                else attachable(header, folder, recorder._writer, labeler.contents)
            )
            if waiting is not None:
                undo.callback(waiting.end)
            self._undo = undo.pop_all()
        _OpenSession.session = self

    def fail(self, error: BaseException) -> None:
        """Record the error with which this rank failed.

        Raises:
            EnvironmentFault: it cannot be written.
        """
        message = process.describe_failure(error)
        self.recorder.failure(
            message,
            peer_lost=process.is_lost_peer(error),
            source=raised_below(error.__traceback__),
        )

    def _look_before_groups_end(self) -> Callable[[], None]:
        """Read the connections' counters before they close; returns a function that undoes it."""
        # from the class's dict: `getattr` would bind it
        shutdown: Any = vars(dist.ProcessGroup)["shutdown"]
        look = guarded(self.recorder.read)

        def shut_down(group: Any) -> Any:
            self.recorder.calls.settle(longest_s=_LONGEST_S)
            look()
            return shutdown(group)

        def restore() -> None:
            dist.ProcessGroup.shutdown = shutdown  # type: ignore[method-assign]

        dist.ProcessGroup.shutdown = shut_down  # type: ignore[assignment,method-assign]
        return restore

    def rejoined(self) -> None:
        """The process left its groups and joined again, so groups and connections are new."""
        if self._connections is not None:
            self._connections.ignore(process.store_ports())
        self.recorder._writer.forget_groups()
        self.recorder.read()

    def end(self) -> None:
        """Write the last row and release everything; later calls do nothing.

        Raises:
            EnvironmentFault: it cannot be written.
        """
        if _OpenSession.session is self:
            _OpenSession.session = None
        self._undo.close()

    def abandon(self) -> None:
        """Abandon the trace in a forked child: trace and file belong to the parent."""
        guard.trip()
        self.end()
        guard.arm(None)


class _OpenSession:
    """The trace that this process is recording."""

    session: Session | None = None


def prepare_folder(folder: Path, rank: int) -> None:
    """Create a trace's folder if needed, and check that it has no trace of this rank.

    Raises:
        EnvironmentFault: the folder cannot be created or written, or the rank's file exists.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentFault(
            f"cannot create the folder {folder}: {error.strerror}; give a writable one"
        ) from None
    if (folder / rank_file_name(rank)).exists():
        raise EnvironmentFault(
            f"{folder} already contains a trace of rank {rank}; give another folder"
        )
