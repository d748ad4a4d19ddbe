"""A rank's side of the debugger: operates the gate, reports paused threads, answers queries.

The debugger listens on a socket in the file system, which only this user can open, and passes its
path in a variable; each rank connects when its trace begins. Both sides exchange lines of JSON. If
the other side is gone, the gate opens and the run continues: nothing here may outlast it.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zerosim.base.errors import ConfigError, ZerosimError, first_line
from zerosim.schema.events import Header, Kind
from zerosim.schema.memory import Role
from zerosim.schema.stands import DEBUG_VARIABLE, FORWARD, Stand, read_stand
from zerosim.trace import guard, labels, looking
from zerosim.trace.conditions import Condition
from zerosim.trace.doings import MACHINERY, computed, stack_of
from zerosim.trace.gate import gate
from zerosim.trace.patience import TimeoutsFarOff
from zerosim.trace.threads import is_computing
from zerosim.trace.writer import EventWriter

_LOOK_S = 0.008
_QUIET_NS = 300_000
"""A process is waiting if its threads compute less than this between two checks."""
_A_QUESTION_FAILS = (
    *(ZerosimError, RuntimeError, ValueError, TypeError, LookupError, AttributeError),
    *(NotImplementedError, ArithmeticError, MemoryError),
)
"""Errors of a query: the reply reports them; any other error releases the ranks."""


@dataclass(slots=True)
class _Standing:
    """A thread at the closed gate."""

    thread: int
    stand: Stand
    computes: bool
    is_free: bool = False


class SocketKeeper:
    """A `gate.Gatekeeper` controlled by the debugger at a socket."""

    def __init__(
        self,
        connection: socket.socket,
        header: Header,
        writer: EventWriter,
        *,
        attaches: bool = False,
    ) -> None:
        """Start with no paused thread.

        Args:
            attaches: the program is already running: pause it when its next iteration begins.
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
        self._patience = TimeoutsFarOff()
        self._thread = threading.Thread(target=self._listen, name="zerosim-debug", daemon=True)

    @property
    def is_over(self) -> bool:
        """The debugger detached from this process."""
        return self._is_over

    def wait_until_over(self, longest_s: float) -> bool:
        """Wait until it has detached; returns whether it has."""
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
            contents: the tensors of a program without labels.
            proof: shows that this rank was summoned.
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
        """The trace ends: no debugger can pause this process any more."""
        if os.getpid() == self._pid:
            self._tell("bye")
            self._let_all_go()
            looking.look_through(None)
            with suppress(OSError):  # a forked child leaves it to its parent
                self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    # the program's threads

    def arrives(self, thread: int, stand: Stand) -> None:
        """See `gate.Gatekeeper`."""
        self._patience.take()
        self._moves += 1
        computes = is_computing()
        why = self._why_here(stand, computes)
        own = _Standing(thread, stand, computes)
        with self._changed:
            # it was released before it got here, so it does not pause after all
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
        """The condition that is true before this event; "" if none is."""
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
        """Whether all threads wait, according to the kernel."""
        before, moves = computed(), self._moves
        time.sleep(_LOOK_S)
        after = computed()
        is_quiet = (
            after.is_waiting
            and after.nanoseconds - before.nanoseconds < _QUIET_NS
            and moves == self._moves
        )
        return {"quiet": is_quiet, "moves": self._moves, "standing": list(self._standing)}

    def _where(self, _: dict[str, Any]) -> dict[str, Any]:
        """The stacks of threads that have met an event, and the open events."""
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
                    "stack": stack_of(frames[thread]),
                    "line": next(iter(stack_of(frames[thread], without=MACHINERY)), ""),
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
        """Whether this rank has passed an event, or pauses before it."""
        stand = read_stand(said["stand"])
        if stand.sequence is not None:
            return {"met": self._writer.num_called(stand.group) > stand.sequence}
        return {"met": gate.has_met(stand)}

    def _num_called(self, said: dict[str, Any]) -> dict[str, Any]:
        return {"num_called": self._writer.num_called(said["group"])}

    def _check(self, said: dict[str, Any]) -> dict[str, Any]:
        """The condition that is true where a thread pauses; "" if none is."""
        own = self._standing.get(said["number"])
        self._conditions = [(one["number"], Condition(one["text"])) for one in said["breakpoints"]]
        return {"why": "" if own is None else self._why_here(own.stand, own.computes)}

    def _values(self, said: dict[str, Any]) -> dict[str, Any]:
        found = looking.values(Role(said["role"]), said["unit"])
        return {"values": b64encode(found).decode()}

    def _evaluate(self, said: dict[str, Any]) -> dict[str, Any]:
        """The current value of an expression."""
        stand = next((one.stand for one in self._standing.values()), None)
        if stand is None:
            raise ConfigError("it is not paused at an event")
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


def keep(
    header: Header,
    folder: Path,
    writer: EventWriter,
    contents: Callable[[], list[looking.Content]],
) -> SocketKeeper | None:
    """Close the gate of this process if a debugger controls its ranks; None if none does.

    Args:
        contents: the tensors of a program without labels.
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
        guard.say(f"rank {header.rank} cannot reach the debugger: {first_line(error)}; it goes on")
        return None
    return keeper
