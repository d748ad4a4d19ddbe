"""A rank to which a debugger can attach later: it trains with an open gate until summoned.

A separate thread polls the run's store over a separate connection. The first rank of each host also
listens for debuggers (`zerosim.schema.attach`).
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch.distributed as dist

from zerosim.base.errors import ConfigError, ZerosimError, first_line
from zerosim.schema.attach import (
    ATTACH_VARIABLE,
    LONGEST_LINE,
    AttachPoint,
    Summons,
    is_proved,
    machine,
    proof,
)
from zerosim.schema.events import Header
from zerosim.trace import guard
from zerosim.trace.keeper import SocketKeeper
from zerosim.trace.looking import Content
from zerosim.trace.writer import EventWriter

_LOOK_S = 0.25
_CONNECT_S = 10.0
_CREDENTIALS = struct.Struct("3i")
_NUM_CALLS, _CALL, _RANK = "zerosim: calls", "zerosim: call {}", "zerosim: rank {}"
"""Keys of the store: number of summons; the summons; the address of a rank."""


class Attachable:
    """A rank to which a debugger can attach."""

    def __init__(
        self,
        header: Header,
        folder: Path,
        writer: EventWriter,
        contents: Callable[[], list[Content]],
        token: str,
    ) -> None:
        self._header, self._folder, self._writer = header, folder, writer
        self._contents, self._token = contents, token
        self._pid = os.getpid()
        self._keeper: SocketKeeper | None = None
        self._over = threading.Event()
        self._called = threading.Event()
        self._own_call: Summons | None = None
        self._door: _HostDoor | None = None
        self._thread = threading.Thread(target=self._look, name="zerosim-attach", daemon=True)

    def begin(self) -> None:
        """Start listening for summonses."""
        if self._header.local_rank == 0:
            place = _HostDoor(self._header.rank, self._folder, self._token, self._call)
            place.begin()
            self._door = place
        self._thread.start()

    def end(self) -> None:
        """Stop listening: no debugger can attach to this rank any more."""
        is_own = os.getpid() == self._pid  # False in a forked child
        self._over.set()
        self._called.set()
        if is_own:
            self._thread.join(timeout=_CONNECT_S)
            if self._door is not None:
                self._door.end()
        if self._keeper is not None:
            self._keeper.end()

    # the address in the summons

    def _look(self) -> None:
        store, heard = None, 0
        while not self._over.is_set():
            try:
                if not dist.is_initialized():
                    store = None
                elif store is None:
                    store, heard = self._met()
                if store is not None and store.check([_CALL.format(heard + 1)]):
                    heard += 1
                    self._heed(store.get(_CALL.format(heard)).decode())
            except RuntimeError:  # the store is gone: the run ended, or creates another store
                store = None
            if self._own_call is not None:
                call, self._own_call = self._own_call, None
                self._come(call)
            self._called.wait(_LOOK_S)
            self._called.clear()

    def _met(self) -> tuple[Any, int]:
        """The run's store over a separate connection, and the number of earlier summonses."""
        store = _own_store()
        where = machine()
        said = {"machine": where, "host": self._header.host, "proof": proof(self._token, where)}
        store.set(_RANK.format(self._header.rank), json.dumps(said))
        return store, store.add(_NUM_CALLS, 0)

    def _heed(self, text: str) -> None:
        call = Summons.decode(text, self._token)
        if call is not None and (call.machine == machine() or call.address):
            self._come(call)

    def _come(self, call: Summons) -> None:
        if self._keeper is not None:
            # the first rank admitted a summons, so the previous debugger is about to disconnect
            # here too
            if not self._keeper.wait_until_over(_CONNECT_S):
                return
            self._keeper.end()
        try:
            connection = _connected(call)
            if connection.family != socket.AF_UNIX:
                self._writer.ignore_port(connection.getpeername()[1])
            self._keeper = SocketKeeper(connection, self._header, self._writer, attaches=True)
            self._keeper.begin(
                self._header,
                self._folder,
                self._contents,
                proof(self._token, call.nonce, self._header.rank),
            )
        except (OSError, ZerosimError) as error:
            guard.say(
                f"rank {self._header.rank} was summoned but could not connect: {first_line(error)}"
            )

    # serving debuggers

    def _call(self, call: Summons) -> dict[str, Any]:
        """Summon all ranks; returns the reply.

        Raises:
            ConfigError: the ranks cannot be summoned, or a debugger is already attached.
        """
        if self._keeper is not None and not self._keeper.is_over:
            raise ConfigError("another debugger is attached to the ranks: detach it first")
        if not dist.is_initialized():
            if self._header.num_ranks > 1:
                raise ConfigError("the ranks have left their process group, and cannot be summoned")
            self._own_call = call
            self._called.set()
            return {"num_ranks": 1}
        store = _own_store()
        self._require_able(store, call)
        number = store.add(_NUM_CALLS, 1)
        store.set(_CALL.format(number), call.encode(self._token))
        self._called.set()
        return {"num_ranks": self._header.num_ranks}

    def _require_able(self, store: Any, call: Summons) -> None:
        away, strangers, late = [], [], []
        for rank in range(self._header.num_ranks):
            if not store.check([_RANK.format(rank)]):
                late.append(rank)
                continue
            said = json.loads(store.get(_RANK.format(rank)))
            if not is_proved(said["proof"], self._token, said["machine"]):
                strangers.append(rank)
            elif said["machine"] != call.machine and not call.address:
                away.append((rank, said["host"]))
        if late:
            raise ConfigError(
                f"rank {_names(late)} cannot be stopped: expected all to be started with "
                "--debuggable; if they are, try again in a moment"
            )
        if strangers:
            raise ConfigError(
                f"rank {_names(strangers)} have a different token: expected {ATTACH_VARIABLE} to "
                "be the same secret on all hosts"
            )
        if away:
            hosts = ", ".join(dict.fromkeys(host for _, host in away))
            raise ConfigError(
                f"rank {_names([rank for rank, _ in away])} cannot connect from {hosts}: expected "
                "--host with an address of this machine that they can reach"
            )


def _own_store() -> Any:
    """The run's store over a separate connection: the program's own is blocked while it waits."""
    store: Any = dist.distributed_c10d._get_default_store()
    return store.clone()


def _names(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks))


def _connected(call: Summons) -> socket.socket:
    if call.machine == machine():
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(call.path)
        return connection
    host, _, port = call.address.rpartition(":")
    connection = socket.create_connection((host, int(port)), _CONNECT_S)
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class _HostDoor:
    """A socket on which this user's processes on this host can summon the ranks."""

    def __init__(
        self, rank: int, folder: Path, token: str, call: Callable[[Summons], dict[str, Any]]
    ) -> None:
        self._rank, self._trace, self._token, self._call = rank, folder, token, call
        self._folder = Path(tempfile.mkdtemp(prefix="zerosim-"))
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._file: Path | None = None

    def begin(self) -> None:
        """Listen, and publish the address.

        Raises:
            OSError: a socket cannot be created, or the trace's folder cannot be written.
        """
        path = self._folder / "call"
        self._listening.bind(str(path))
        path.chmod(0o600)
        self._listening.listen(8)
        place = AttachPoint(str(path), self._token, machine(), socket.gethostname())
        self._file = place.write(self._trace, self._rank)
        threading.Thread(target=self._accept, name="zerosim-attach-door", daemon=True).start()

    def end(self) -> None:
        """Stop listening."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._file is not None:
            self._file.unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection, suppress(OSError, ValueError, TypeError, KeyError):
                connection.settimeout(_CONNECT_S)
                peer = connection.getsockopt(
                    socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
                )
                if _CREDENTIALS.unpack(peer)[1] == os.getuid():
                    line = connection.makefile("r").readline(LONGEST_LINE)
                    connection.sendall(json.dumps(self._answer(line)).encode() + b"\n")

    def _answer(self, line: str) -> dict[str, Any]:
        call = Summons.decode(line, self._token)
        if call is None:
            return {"error": "the token is wrong: expected that of this run"}
        try:
            return self._call(call)
        except (ZerosimError, RuntimeError) as error:
            return {"error": first_line(error)}


def attachable(
    header: Header,
    folder: Path,
    writer: EventWriter,
    contents: Callable[[], list[Content]],
) -> Attachable | None:
    """Let this rank wait for a debugger, if the run is debuggable; None if it is not."""
    token = os.environ.get(ATTACH_VARIABLE)
    if not token:
        return None
    found = Attachable(header, folder, writer, contents, token)
    try:
        found.begin()
    except OSError as error:
        guard.say(
            f"rank {header.rank} cannot be attached to later: {first_line(error)}; it goes on"
        )
        return None
    return found
