"""The connections to paused ranks: a socket in a folder that only this user can enter.

Each rank has a thread here that reads its messages; all state of the ranks changes under one
condition variable, which waiters use.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import struct
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from zerosim.base.errors import EnvironmentFault, RunError
from zerosim.schema.attach import LONGEST_LINE, is_proved
from zerosim.schema.stands import Stand, read_stand

_ANSWER_S = 60.0
"""Timeout for a rank's answer: it may have to inspect a large tensor."""
_CREDENTIALS = struct.Struct("3i")
_NONCE_BYTES = 16


@dataclass(frozen=True, slots=True)
class HeldThread:
    """A thread of a rank that is paused at its gate.

    Attributes:
        number: its id, for releasing it.
        computes: whether it is the computing thread.
        why: the breakpoint that stopped it; "" if none did.
        arrival: its index among the arrivals of all ranks; heard_s: when it was reported.
    """

    rank: int
    number: int
    thread: int
    computes: bool
    stand: Stand
    why: str
    arrival: int
    heard_s: float


@dataclass(slots=True)
class RankConnection:
    """One rank.

    Attributes:
        standing: paused threads by number.
        threads: threads that have paused before.
        is_here: whether it is connected; left_in_order: whether its trace had ended when it left.
    """

    rank: int
    num_ranks: int
    pid: int
    folder: Path
    connection: socket.socket
    standing: dict[int, HeldThread] = field(default_factory=dict)
    threads: set[int] = field(default_factory=set)
    is_here: bool = True
    left_in_order: bool = False
    answers: dict[int, dict[str, Any]] = field(default_factory=dict)

    @property
    def is_elsewhere(self) -> bool:
        """Whether it connected over a network, and so records on another host."""
        return self.connection.family != socket.AF_UNIX


class Door:
    """The socket at which ranks connect.

    Attributes:
        path: path of the socket.
        changed: notified at every message of a rank.
        links: by rank.
        lets_all_go: whether ranks that connect from now on run without pausing.
    """

    def __init__(self, token: str = "") -> None:
        """Listen for ranks of this machine.

        Args:
            token: the token that each rank must have; "" for ranks that were started under the
                debugger.
        """
        self._token = token
        self.nonce = secrets.token_urlsafe(_NONCE_BYTES)
        self._elsewhere: socket.socket | None = None
        self._accepting: list[threading.Thread] = []
        self._folder = Path(tempfile.mkdtemp(prefix="zerosim-"))
        self.path = self._folder / "ranks"
        self.changed = threading.Condition()
        self.links: dict[int, RankConnection] = {}
        self.lets_all_go = False
        self._arrivals = 0
        self._questions = 0
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listening.bind(str(self.path))
        except OSError as error:
            self._listening.close()
            shutil.rmtree(self._folder, ignore_errors=True)
            raise EnvironmentFault(
                f"cannot create a socket in {self._folder}: {error.strerror or error}: expected a "
                f"short path to a folder that can be written; try TMPDIR=/tmp"
            ) from None
        self.path.chmod(0o600)
        self._listening.listen(128)
        self._begin(self._listening)

    def listen_at(self, host: str) -> str:
        """Also listen for ranks of other machines.

        Args:
            host: an address of this machine that they can reach.

        Returns:
            Host and port.

        Raises:
            EnvironmentFault: this machine has no such address.
        """
        assert self._token, "a connection over a network proves that it knows the token"
        try:
            self._elsewhere = socket.create_server((host, 0))
        except OSError as error:
            raise EnvironmentFault(
                f"host is {host}: {error.strerror or error}: expected an address of this machine"
            ) from None
        self._begin(self._elsewhere)
        return f"{host}:{self._elsewhere.getsockname()[1]}"

    def close(self) -> None:
        """Open the gates of all ranks, and close the socket."""
        for listening in (self._listening, self._elsewhere):
            if listening is not None:
                with suppress(OSError):  # otherwise a waiter for a rank waits forever
                    listening.shutdown(socket.SHUT_RDWR)
                listening.close()
        for accepting in self._accepting:
            accepting.join()
        for link in list(self.links.values()):
            with suppress(OSError):
                link.connection.shutdown(socket.SHUT_RDWR)
        shutil.rmtree(self._folder, ignore_errors=True)

    def tell(self, link: RankConnection, say: str, **more: Any) -> None:
        """Send a message to a rank; no effect for one that has left."""
        with suppress(OSError):
            link.connection.sendall(json.dumps({"say": say, **more}).encode() + b"\n")

    def let_through(self, chosen: list[HeldThread]) -> None:
        """Let threads continue."""
        for link in list(self.links.values()):
            numbers = [one.number for one in chosen if one.rank == link.rank]
            if numbers:
                with self.changed:
                    for number in numbers:
                        link.standing.pop(number, None)
                self.tell(link, "go", numbers=numbers)

    def ask(self, what: str, ranks: list[int], **more: Any) -> dict[int, dict[str, Any]]:
        """Send the same query to some ranks; returns the answers of connected ones, by rank.

        Raises:
            RunError: a rank did not answer in time.
        """
        with self.changed:
            self._questions += 1
            number = self._questions
            links = [self.links[rank] for rank in ranks if self.links[rank].is_here]
        for link in links:
            self.tell(link, "ask", what=what, id=number, **more)
        deadline = time.monotonic() + _ANSWER_S
        with self.changed:
            while missing := [
                link.rank for link in links if link.is_here and number not in link.answers
            ]:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise RunError(f"rank {missing[0]} did not answer for {_ANSWER_S:g} s")
                self.changed.wait(left)
            return {link.rank: link.answers.pop(number) for link in links if number in link.answers}

    def _begin(self, listening: socket.socket) -> None:
        accepting = threading.Thread(
            target=self._accept, args=(listening,), name="zerosim-door", daemon=True
        )
        accepting.start()
        self._accepting.append(accepting)

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            if listening is self._elsewhere:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            elif not _is_own(connection):
                connection.close()
                continue
            threading.Thread(target=self._hear, args=(connection,), daemon=True).start()

    def _is_expected(self, said: dict[str, Any]) -> bool:
        """Whether a connecting rank was summoned; a connected rank cannot connect again."""
        if not self._token:
            return True
        rank = int(said["rank"])
        return rank not in self.links and is_proved(said["proof"], self._token, self.nonce, rank)

    def _hear(self, connection: socket.socket) -> None:
        link: RankConnection | None = None
        with suppress(OSError, ValueError, KeyError, TypeError), connection.makefile("r") as lines:
            # from an unknown peer, read at most the length of a rank's first message
            for line in chain([lines.readline(LONGEST_LINE)], lines):
                said = json.loads(line)
                with self.changed:
                    if link is None:
                        if not self._is_expected(said):
                            break
                        link = _met(said, connection)
                        self.links[link.rank] = link
                        if self.lets_all_go:
                            self.tell(link, "open")
                    else:
                        self._take_in(link, said)
                    self.changed.notify_all()
        connection.close()
        with self.changed:
            if link is not None:
                link.is_here = False
                link.standing.clear()
            self.changed.notify_all()

    def _take_in(self, link: RankConnection, said: dict[str, Any]) -> None:
        match said["row"]:
            case "stands":
                self._arrivals += 1
                link.threads.add(said["thread"])
                link.standing[said["number"]] = HeldThread(
                    rank=link.rank,
                    number=said["number"],
                    thread=said["thread"],
                    computes=said["computes"],
                    stand=read_stand(said["stand"]),
                    why=said["why"],
                    arrival=self._arrivals,
                    heard_s=time.monotonic(),
                )
            case "answer":
                link.answers[said["id"]] = said
            case "bye":
                link.left_in_order = True


def _is_own(connection: socket.socket) -> bool:
    """Whether a process of this user has connected."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(peer)[1] == os.getuid())


def _met(said: dict[str, Any], connection: socket.socket) -> RankConnection:
    return RankConnection(
        rank=int(said["rank"]),
        num_ranks=int(said["num_ranks"]),
        pid=int(said["pid"]),
        folder=Path(said["folder"]),
        connection=connection,
    )
