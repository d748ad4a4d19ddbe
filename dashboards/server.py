"""The application on a port."""

from __future__ import annotations

import errno
import gc
import logging
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waitress import create_server, wasyncore

from zerosim.base.errors import EnvironmentFault, TraceError, ZerosimError
from zerosim.dashboards.addresses import EVERYWHERE, class_addresses, shown
from zerosim.dashboards.app import make_app
from zerosim.dashboards.classroom import Classroom, lesson_shelf
from zerosim.dashboards.documents import Documents
from zerosim.dashboards.guard import OWN, hosts_of
from zerosim.dashboards.library import Library
from zerosim.dashboards.pages import compare, replay, room
from zerosim.dashboards.perfetto import AT, origin_of
from zerosim.dashboards.roomapi import HERE
from zerosim.dashboards.roompages import ADDRESSES
from zerosim.dashboards.rooms import Rooms
from zerosim.dashboards.workbench import Workbench
from zerosim.debug import Steering
from zerosim.lessons.course import course

THREADS = 32
"""Number of threads; each request that waits for a document occupies one."""
SWEEP_EVERY_S = 60
_END_S = 5.0
"""Timeout for closing the connections."""
_LARGEST_REQUEST = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The maximum number of connections, and their idle timeout.

    Waitress accepts no more at the maximum: requests that are begun and never finished would
    exclude all others. A browser whose idle connection was closed opens another.

    Attributes:
        most_connections: over all clients.
        idle_s: a connection without a complete request is closed after this time.
        look_every_s: interval of that check.
    """

    most_connections: int = 1000
    idle_s: int = 10
    look_every_s: int = 1


class Server:
    """Serves the traces of some folders until it is stopped.

    Attributes:
        url: the address for a browser on this machine.
        public_url: the address for a browser on another machine.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        host: str,
        port: int,
        *,
        may_come: bool = False,
        patience: Patience | None = None,
        perfetto: str = "",
        steering: Steering | None = None,
    ) -> None:
        """Take the port; nothing is answered before `run`.

        Args:
            port: 0 for any free one.
            may_come: a folder need not exist yet.
            patience: the limits of connections.
            perfetto: address of a Perfetto that pages offer to open; none by default.
            steering: access to paused ranks, which then have a page.

        Raises:
            ConfigError: a folder does not exist.
            EnvironmentFault: the port is taken, or the host is none of this machine's.
        """
        origin = origin_of(perfetto) if perfetto else ""
        self.library = Library(folders, shelf=lesson_shelf(), may_come=may_come)
        self.documents = Documents()
        self.workbench = Workbench(self.library.shelf)
        self.classroom = Classroom(self.library, self.documents, self.workbench)
        self.rooms = Rooms()
        self._ended = threading.Event()
        self._open: dict[int, Any] = {}
        """The sockets that waitress reads and listens on, by file descriptor."""
        self._answering = threading.Thread(target=self._answer, daemon=True)
        self.app = make_app(
            self.library, self.documents, hosts_of(host), self.rooms, self.classroom, steering
        )
        # more requests than threads need no warning each: they are queued
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        self._socket = _take(host, port)
        number, port = self._socket.getsockname()[:2]
        self.url = f"http://{shown(host, '127.0.0.1')}:{port}"
        self.public_url = f"http://{shown(host, socket.gethostname())}:{port}"
        self.app.config[AT] = origin
        self.app.config[ADDRESSES] = class_addresses(host, port)
        self.app.config[HERE] = f"{self.url}{room.PATH}"
        if host not in EVERYWHERE:
            self.app.config[OWN] = (host.lower(), number)
        patience = patience or Patience()
        self._server = create_server(
            self.app,
            map=self._open,
            sockets=[self._socket],
            threads=THREADS,
            ident=None,
            connection_limit=patience.most_connections,
            channel_timeout=patience.idle_s,
            cleanup_interval=patience.look_every_s,
            asyncore_use_poll=True,  # select supports only the first 1,024 file descriptors
            max_request_body_size=_LARGEST_REQUEST,
            clear_untrusted_proxy_headers=True,
        )

    def url_of(self, iteration: int) -> str:
        """The address of an iteration's replay for the default trace."""
        first = self.library.default()
        trace = "" if first is None else first.name
        return f"{self.url}{replay.address_of(trace)}&iteration={iteration}"

    def run(self) -> None:
        """Serve until Ctrl-C.

        This thread only waits for Ctrl-C, which may cut off an unfinished response.
        """
        self._answering.start()
        threading.Thread(target=self._sweep, daemon=True).start()
        warming = threading.Thread(target=warm, args=(self,), daemon=True)
        warming.start()
        try:
            self._ended.wait()
        finally:
            self._ended.set()
            self._server.task_dispatcher.shutdown()  # responses in progress are cut off
            self.close()
            warming.join()  # a process that exits while a thread computes may be aborted

    @property
    def has_ended(self) -> bool:
        """Whether the server has stopped."""
        return self._ended.is_set()

    def _answer(self) -> None:
        try:
            self._server.run()
        except (OSError, ValueError):  # its socket has been closed
            if not self._ended.is_set():
                raise
        finally:
            self._ended.set()

    def _sweep(self) -> None:
        """Rooms are also forgotten in time without further requests."""
        while not self._ended.wait(SWEEP_EVERY_S):
            self.rooms.sweep()

    def close(self) -> None:
        """Release the port, and close the connections."""
        self._ended.set()
        self.workbench.close()
        if self._answering.is_alive():
            with suppress(OSError):  # the server is stopping
                self._server.trigger.pull_trigger(self._hang_up)
            self._answering.join(_END_S)
        self._server.close()
        self._socket.close()

    def _hang_up(self) -> None:
        """Close idle connections, which browsers keep open; called in the thread reading them."""
        wasyncore.close_all(self._open, ignore_all=True)


def warm(server: Server) -> None:
    """Compute the first browser's responses in advance, while the server runs."""
    with server.app.test_client() as client:
        client.get(replay.PATH)
    entry = server.library.default()
    beside = () if entry is None else compare.siblings(entry, server.library.entries())
    for one in sorted(beside, key=lambda sibling: sibling is not entry):  # Replay's comes first
        if server.has_ended:
            return
        # the client of a failing request gets the reason
        with suppress(TraceError, OSError):
            server.documents.get(one)
    with suppress(ZerosimError, OSError):
        for lesson in course():
            if server.has_ended:
                return
            server.classroom.teach(lesson.id)
    settle()


_COLLECTS = (2_000, 10, 500)
"""Thresholds of the garbage collector's three generations. Python's own (700, 10, 10) would collect
in the middle of a plan, and all generations before it."""


def settle() -> None:
    """Exclude existing objects from garbage collection: no collection interrupts a response for
    them, and few interrupt one for objects that pages keep, such as the layouts of a plan.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTS)


def _take(host: str, port: int) -> socket.socket:
    """A socket on the port, on which waitress then listens.

    Raises:
        EnvironmentFault: see `Server`.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise EnvironmentFault(
            f"host is {host!r}: expected a name or IP address of this machine"
        ) from None
    family, kind, protocol, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    taken = socket.socket(family, kind, protocol)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
        # two binds of the same port only conflict when they listen
        taken.listen()
    except OSError as error:
        taken.close()
        raise EnvironmentFault(_why(error, host, port)) from None
    return taken


def _why(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use: give another --port, or --port 0 for any free one"
    if error.errno == errno.EACCES:
        return f"port {port} needs more privileges: give a --port of 1024 or more"
    return f"host is {host!r}: {error.strerror}: expected a name or IP address of this machine"
