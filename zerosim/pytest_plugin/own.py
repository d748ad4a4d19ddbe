"""The trace of the test's own process, from the fixture's beginning to its end.

An assert reads it while it is still being written: the current contents are copied and closed, so
an assert covers everything since the start of the test.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import torch.distributed as dist

from zerosim.base.errors import ConfigError
from zerosim.pytest_plugin.meeting import AssertMeeting
from zerosim.pytest_plugin.options import Options
from zerosim.record.lines import Lines
from zerosim.schema.events import End
from zerosim.schema.rows import MANIFEST_NAME, encode_row
from zerosim.trace import labels
from zerosim.trace.extent import Extent
from zerosim.trace.session import Session


class OwnTrace:
    """Records this process until it is closed."""

    def __init__(self, home: Path, name: str, options: Options) -> None:
        """Begin to record, unless a trace is already being recorded.

        Args:
            home: a folder of this test alone.
            name: of the test, the same on all ranks.
        """
        self._home = home
        self._folder = home / "this-process"
        self._num_looks = 0
        self._session: Session | None = None
        self._taken_by: Path | None = None
        self.rank, self.num_ranks = 0, 1
        if labels.attached() is None:
            extent = Extent(
                memory=options.memory, wire=options.wire, allocations=options.allocations
            )
            self._session = Session(self._folder, extent, program=f"pytest {name}")
            self._session.gives_way = self._give_way
            _OwnSession.session = self._session
            self._file = next(self._folder.glob("rank-*.jsonl"))
            with self._file.open("rb") as rows:
                header = json.loads(rows.readline())
            self.rank, self.num_ranks = header["rank"], header["num_ranks"]
        self._meeting = AssertMeeting(name, self.rank, self.num_ranks, options.timeout_s)

    def look(self) -> Path:
        """Everything recorded so far, of all ranks, as a trace of its own.

        Raises:
            ConfigError: this process is not recorded, or its rank has changed.
            RunError: a rank did not reach this assert.
        """
        if self._taken_by is not None:
            raise ConfigError(
                f"the test began a trace of its own in {self._taken_by}, so zerosim_trace stopped "
                f"recording: read that trace, or omit zerosim.trace"
            )
        if self._session is None:
            raise ConfigError(
                "this process was already traced when the test began: read that trace, or run "
                "pytest without zerosim trace"
            )
        self._require_same_rank()
        self._session.recorder.read()
        self._num_looks += 1
        own = self._home / f"until-assert-{self._num_looks}"
        own.mkdir()
        folder = self._meeting.share(own)
        if self.rank == 0:
            shutil.copyfile(self._folder / MANIFEST_NAME, folder / MANIFEST_NAME)
        (folder / self._file.name).write_bytes(close_rows(self._file.read_bytes()))
        self._meeting.wait_for_all("wrote")
        return folder

    def close(self) -> None:
        """Stop recording, and notify the other ranks."""
        if self._session is not None:
            _OwnSession.session = None
            self._session.end()
        self._meeting.leave()

    def _give_way(self, folder: Path) -> None:
        """The test itself begins a trace; there can be only one at a time."""
        assert self._session is not None, "only a trace that was begun gives way"
        self._taken_by = folder
        _OwnSession.session = None
        self._session.end()

    def _require_same_rank(self) -> None:
        if not dist.is_initialized() or dist.get_backend() == "fake":
            return
        rank, num_ranks = dist.get_rank(), dist.get_world_size()
        if (rank, num_ranks) != (self.rank, self.num_ranks):
            raise ConfigError(
                f"this process is rank {rank} of {num_ranks}, but was rank {self.rank} "
                f"of {self.num_ranks} when the test began: start pytest with torchrun, or join "
                f"the ranks in a fixture before zerosim_trace"
            )


class _OwnSession:
    """The recording of this process for a test."""

    session: Session | None = None


def _forget() -> None:
    """Called in a child that a test forked."""
    session, _OwnSession.session = _OwnSession.session, None
    if session is not None:
        session.abandon()


os.register_at_fork(after_in_child=_forget)


def close_rows(rows: bytes) -> bytes:
    """The complete rows of a file that is still being written, and the closing row of a trace."""
    lines = Lines(Path(), rows)
    for _ in lines:
        pass
    whole = rows[: lines.num_bytes]
    if lines.is_over:
        return whole
    end = End(time_ns=time.monotonic_ns(), num_rows=lines.number)
    return whole + encode_row("end", end, lines.crc)[0]
