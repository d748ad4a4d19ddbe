"""A rank's end of the debugger: keeps the gate, says who stands before what, answers questions.

Whoever holds the ranks listens at a socket in the file system, which only this user can open, and
names it in a variable; each rank connects as its trace begins. Both sides say lines of JSON. If the
other side is gone the gate opens and the run goes on: nothing here may outlast it. While ranks are
held no timeout of PyTorch's may end them, so those of all groups and of the store are set far off,
and put back when the gate opens.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
import traceback
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist

from zerosim.base.errors import ConfigError, ZerosimError, first_line
from zerosim.schema.events import Header, Kind
from zerosim.schema.memory import Role
from zerosim.schema.stands import DEBUG_VARIABLE, FORWARD, Stand, read_stand
from zerosim.trace import guard, labels, looking
from zerosim.trace.conditions import Condition
from zerosim.trace.gate import PATIENCE, gate
from zerosim.trace.threads import is_computing
from zerosim.trace.writer import EventWriter

_LOOK_S = 0.008
_QUIET_NS = 300_000
"""A process whose threads compute less than this between two looks waits for something."""
_MOST_FRAMES = 24
_A_QUESTION_FAILS = (
    *(ZerosimError, RuntimeError, ValueError, TypeError, LookupError, AttributeError),
    *(NotImplementedError, ArithmeticError, MemoryError),
)
"""The run goes on, whatever the answer."""
_PYTHONS_OWN = {"threading.py", "contextlib.py", "torch"}
_OWN = str(Path(__file__).parent)
_MACHINERY = (
    _OWN,
    *(str(Path(__file__).parents[1] / "train" / one) for one in ("engine", "collectives")),
)
"""What no program's author has written."""


@dataclass(slots=True)
class _Standing:
    """A thread at the closed gate."""

    thread: int
    stand: Stand
    computes: bool
    is_free: bool = False


class SocketKeeper:
    """Implements `gate.Keeper` by asking whoever listens at a socket."""

    def __init__(
        self,
        connection: socket.socket,
        header: Header,
        writer: EventWriter,
        *,
        attaches: bool = False,
    ) -> None:
        """Keep nothing yet.

        Args:
            attaches: the program runs already: it is stopped as its next iteration begins.
        """
        self._connection = connection
        self._rank = header.rank
        self._writer = writer
        self._pid = os.getpid()
        self._sending = threading.Lock()
        self._changed = threading.Condition()
        self._standing: dict[int, _Standing] = {}
        self._names: dict[int, str] = {}
        self._conditions = [(0, Condition(FORWARD))] if attaches else []
        self._stops = not attaches
        self._moves = 0
        self._numbers = 0
        self._is_over = False
        self._patience = _Patience()
        self._thread = threading.Thread(target=self._listen, name="zerosim-debug", daemon=True)

    @property
    def is_over(self) -> bool:
        """Nobody holds this process by it any more."""
        return self._is_over

    def wait_until_over(self, longest_s: float) -> bool:
        """Wait until nobody does; returns whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: self._is_over, longest_s)

    def begin(
        self,
        header: Header,
        folder: Path,
        contents: Callable[[], list[looking.Content]],
        proof: str = "",
    ) -> None:
        """Close the gate, and listen.

        Args:
            contents: what the program holds, if it says nothing of itself.
            proof: that this rank was called.
        """
        looking.look_through(contents)
        self._tell(
            "hello",
            rank=header.rank,
            num_ranks=header.num_ranks,
            pid=header.pid,
            folder=str(folder.absolute()),
            proof=proof,
        )
        gate.close(self)
        self._thread.start()

    def end(self) -> None:
        """The trace ends: nobody can hold this process any more."""
        if os.getpid() == self._pid:
            self._tell("bye")
            self._let_all_go()
            looking.look_through(None)
            with suppress(OSError):  # a child that was forked leaves it to its parent
                self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    # the program's threads

    def arrives(self, thread: int, stand: Stand) -> None:
        """See `gate.Keeper`."""
        self._patience.take()
        self._moves += 1
        computes = is_computing()
        why = self._why_here(stand, computes)
        own = _Standing(thread, stand, computes)
        with self._changed:
            # let go while it was on its way here, it is not stopped after all
            if self._is_over or not (self._stops or why):
                return
            self._stops = True
            number = self._numbers
            self._numbers += 1
            self._standing[number] = own
            self._names[thread] = threading.current_thread().name
        self._tell(
            "stands",
            number=number,
            thread=self._names[thread],
            computes=computes,
            stand=stand.to_plain(),
            why=why,
        )
        with self._changed:
            try:
                self._changed.wait_for(lambda: own.is_free or self._is_over)
            finally:
                self._standing.pop(number, None)
                self._moves += 1

    def _why_here(self, stand: Stand, computes: bool) -> str:
        """Which condition holds before this event; "" if none does."""
        for number, condition in list(self._conditions):
            if condition.needs_tensors and not computes:
                continue
            try:
                if condition.holds(self._rank, stand):
                    return f"breakpoint {number}: {condition.text}"
            except ConfigError as error:
                return f"breakpoint {number}: {error}"
        return ""

    # the other side

    def _listen(self) -> None:
        with suppress(OSError, ValueError), self._connection.makefile("r") as lines:
            for line in lines:
                said = json.loads(line)
                try:
                    self._heed(said)
                except _A_QUESTION_FAILS as error:
                    self._tell("answer", id=said.get("id"), error=first_line(error))
        self._let_all_go()

    def _heed(self, said: dict[str, Any]) -> None:
        match said["say"]:
            case "go":
                self._go(said["numbers"])
            case "stop":
                self._stops = True
            case "run":
                self._run(said["breakpoints"])
            case "open":
                self._let_all_go()
            case "ask":
                answer = _QUESTIONS[said["what"]](self, said)
                self._tell("answer", id=said["id"], **answer)

    def _go(self, numbers: list[int]) -> None:
        with self._changed:
            for number in numbers:
                if number in self._standing:
                    self._standing[number].is_free = True
            self._changed.notify_all()

    def _run(self, breakpoints: list[dict[str, Any]]) -> None:
        self._conditions = [(one["number"], Condition(one["text"])) for one in breakpoints]
        with self._changed:
            self._stops = False
            numbers = list(self._standing)
        self._go(numbers)

    def _let_all_go(self) -> None:
        with self._changed:
            self._is_over = True
            if gate.is_closed:
                gate.open()
            self._changed.notify_all()
        self._patience.give_back()

    def _tell(self, row: str, **more: Any) -> None:
        line = json.dumps({"row": row, **more}).encode() + b"\n"
        try:
            with self._sending:
                self._connection.sendall(line)
        except OSError:
            if threading.current_thread() is not self._thread:
                self._let_all_go()

    # questions

    def _settled(self, _: dict[str, Any]) -> dict[str, Any]:
        """Whether nothing happens here but waiting, as far as the kernel says so."""
        before, moves = _computed(), self._moves
        time.sleep(_LOOK_S)
        after = _computed()
        is_quiet = (
            after.is_waiting
            and after.nanoseconds - before.nanoseconds < _QUIET_NS
            and moves == self._moves
        )
        return {"quiet": is_quiet, "moves": self._moves, "standing": list(self._standing)}

    def _where(self, _: dict[str, Any]) -> dict[str, Any]:
        """Where the threads that have met an event are, and what has begun and is not over."""
        position = labels.position()
        frames = sys._current_frames()
        standing = {one.thread: number for number, one in self._standing.items()}
        names = dict(self._names)
        main = threading.main_thread()
        names.setdefault(main.ident or 0, main.name)
        return {
            "position": [position.iteration, position.micro_step, position.phase.value],
            "threads": [
                {
                    "name": name,
                    "stands": standing.get(thread),
                    "stack": _stack(frames[thread]),
                    "line": next(iter(_stack(frames[thread], without=_MACHINERY)), ""),
                }
                for thread, name in names.items()
                if thread in frames
            ],
            "in_flight": [
                {
                    "kind": one.template.kind.value,
                    "op": one.template.op,
                    "unit": one.template.unit,
                    "purpose": one.template.purpose,
                    "group": one.template.group,
                    "ranks": self._writer.ranks_of(one.template.group),
                    "peers": one.template.peers,
                    "sequence": one.sequence,
                    "since_s": (self._writer.now_ns() - one.start_ns) / 1e9,
                    "source": one.template.source,
                }
                for one in self._writer.all_begun()
                if one.template.kind in (Kind.COLLECTIVE, Kind.COPY)
            ],
        }

    def _tensors(self, said: dict[str, Any]) -> dict[str, Any]:
        role = Role(said["role"]) if said.get("role") else None
        return {"tensors": looking.describe(role, said.get("unit"))}

    def _has_met(self, said: dict[str, Any]) -> dict[str, Any]:
        """Whether this rank is past an event, or stands before it."""
        stand = read_stand(said["stand"])
        if stand.sequence is not None:
            return {"met": self._writer.num_called(stand.group) > stand.sequence}
        return {"met": gate.has_met(stand)}

    def _num_called(self, said: dict[str, Any]) -> dict[str, Any]:
        return {"num_called": self._writer.num_called(said["group"])}

    def _check(self, said: dict[str, Any]) -> dict[str, Any]:
        """Which of some conditions holds where a thread stands; "" if none does."""
        own = self._standing.get(said["number"])
        self._conditions = [(one["number"], Condition(one["text"])) for one in said["breakpoints"]]
        return {"why": "" if own is None else self._why_here(own.stand, own.computes)}

    def _values(self, said: dict[str, Any]) -> dict[str, Any]:
        found = looking.values(Role(said["role"]), said["unit"])
        return {"values": b64encode(found).decode()}

    def _evaluate(self, said: dict[str, Any]) -> dict[str, Any]:
        """What a condition's expression comes to here and now."""
        stand = next((one.stand for one in self._standing.values()), None)
        if stand is None:
            raise ConfigError("it stands at no event")
        return {"value": Condition(said["text"]).show(self._rank, stand)}


_QUESTIONS = {
    "settled": SocketKeeper._settled,
    "where": SocketKeeper._where,
    "tensors": SocketKeeper._tensors,
    "has_met": SocketKeeper._has_met,
    "read": lambda _, said: {"text": Condition(said["text"]).text},
    "num_called": SocketKeeper._num_called,
    "values": SocketKeeper._values,
    "check": SocketKeeper._check,
    "evaluate": SocketKeeper._evaluate,
}


class _Patience:
    """Timeouts of PyTorch's that are set far off, and what they were."""

    def __init__(self) -> None:
        self._groups: dict[str, tuple[Any, timedelta]] = {}
        self._store: tuple[Any, timedelta] | None = None
        self._num_groups = -1
        self._lock = threading.Lock()

    def take(self) -> None:
        """Have patience with all groups there are by now."""
        groups = dist.distributed_c10d._world.pg_map
        if len(groups) == self._num_groups:
            return
        with self._lock:
            self._num_groups = len(groups)
            for group in list(groups):
                if group.group_name not in self._groups:
                    self._take_group(group)
            if self._store is None and dist.is_initialized():
                store = dist.distributed_c10d._get_default_store()
                self._store = store, cast("Any", store).timeout
                store.set_timeout(PATIENCE)

    def _take_group(self, group: Any) -> None:
        for device in group._device_types:
            with suppress(RuntimeError, AttributeError):  # a backend that knows of no timeout
                backend = group._get_backend(torch.device(device))
                before = backend.options._timeout
                backend._set_default_timeout(PATIENCE)
                self._groups.setdefault(group.group_name, (backend, before))

    def give_back(self) -> None:
        """Put them back as they were."""
        with self._lock, suppress(RuntimeError, AttributeError):
            for backend, before in self._groups.values():
                backend._set_default_timeout(before)
            if self._store is not None:
                self._store[0].set_timeout(self._store[1])
            self._groups.clear()
            self._store = None


@dataclass(frozen=True, slots=True)
class _Computed:
    """What the threads of this process but the asking one have computed, and whether all wait."""

    nanoseconds: int
    is_waiting: bool


def _computed() -> _Computed:
    own, nanoseconds, is_waiting = threading.get_native_id(), 0, True
    for task in Path("/proc/self/task").iterdir():
        if int(task.name) == own:
            continue
        with suppress(OSError, IndexError, ValueError):  # it has just ended
            nanoseconds += int((task / "schedstat").read_text().split()[0])
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            is_waiting &= state not in "RD"
    return _Computed(nanoseconds, is_waiting)


def _stack(frame: Any, without: tuple[str, ...] = (_OWN,)) -> list[str]:
    """The frames of a thread, the innermost first, without those of the tracing.

    Args:
        without: folders whose files are left out as well.
    """
    summary = traceback.StackSummary.extract(traceback.walk_stack(frame), lookup_lines=False)
    found = []
    for one in summary:  # the innermost first
        path = Path(one.filename)
        if not one.filename.startswith(without) and not _PYTHONS_OWN & {path.name, *path.parts}:
            found.append(f"{path.parent.name}/{path.name}:{one.lineno} in {one.name}")
    return found[:_MOST_FRAMES]


def keep(
    header: Header,
    folder: Path,
    writer: EventWriter,
    contents: Callable[[], list[looking.Content]],
) -> SocketKeeper | None:
    """Close the gate of this process if somebody holds its ranks; None if nobody does.

    Args:
        contents: what the program holds, if it says nothing of itself.
    """
    path = os.environ.get(DEBUG_VARIABLE)
    if not path:
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(path)
        keeper = SocketKeeper(connection, header, writer)
        keeper.begin(header, folder, contents)
    except (OSError, ZerosimError) as error:
        connection.close()
        guard.say(f"nobody holds rank {header.rank}: {first_line(error)}; it goes on")
        return None
    return keeper
