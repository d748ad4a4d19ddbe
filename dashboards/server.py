"""The application on a port.

Imports the standard library, waitress and its siblings.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Sequence
from pathlib import Path

from waitress import create_server

from dashboards.app import make_app
from dashboards.documents import Documents
from dashboards.guard import hosts_of
from dashboards.library import Library
from dashboards.pages import replay
from zerosim.errors import EnvironmentFault, TraceError

THREADS = 32
"""Those who wait for a document that is being made each hold one."""
_LARGEST_REQUEST = 64 * 1024
_MOST_CONNECTIONS = 1000


class Server:
    """Serves the traces of some folders until it is told to stop."""

    def __init__(self, folders: Sequence[Path], host: str, port: int) -> None:
        """Take the port; nothing is answered before `run`.

        Args:
            port: 0 for any free one.

        Raises:
            ConfigError: a folder does not exist.
            EnvironmentFault: the port is taken, or the host is none of this machine's.
        """
        self.library = Library(folders)
        self.documents = Documents()
        self.app = make_app(self.library, self.documents, hosts_of(host))
        # more requests than threads are no reason for a warning each: they wait their turn
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        try:
            self._server = create_server(
                self.app,
                host=host,
                port=port,
                threads=THREADS,
                ident=None,
                connection_limit=_MOST_CONNECTIONS,
                max_request_body_size=_LARGEST_REQUEST,
                clear_untrusted_proxy_headers=True,
            )
        except (OSError, ValueError, OverflowError) as error:
            raise EnvironmentFault(_why(error, host, port)) from None
        self.url = f"http://{_shown(host)}:{_port_of(self._server)}"

    def run(self) -> None:
        """Answer until Ctrl-C."""
        threading.Thread(target=warm, args=(self,), daemon=True).start()
        self._server.run()

    def close(self) -> None:
        """Give the port back, and end `run` in another thread."""
        self._server.close()


def warm(server: Server) -> None:
    """Make what the first browser asks for before it asks."""
    entry = server.library.default()
    with server.app.test_client() as client:
        client.get(replay.PATH)
    if entry is not None:
        try:
            server.documents.get(entry)
        except (TraceError, OSError):
            return  # who asks for it is told why


def _why(error: Exception, host: str, port: int) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return f"port {port} is in use: give another --port, or --port 0 for any free one"
    if isinstance(error, OSError) and error.errno == errno.EACCES:
        return f"port {port} is not ours to take: give a --port of 1024 or more"
    reason = error.strerror if isinstance(error, OSError) else None
    return (
        f"cannot serve on host {host}: {reason or error}; expected a name or number of this machine"
    )


def _port_of(server: object) -> int:
    port = getattr(server, "effective_port", None)
    if port is None:  # a name with several numbers is served on all of them
        port = getattr(server, "effective_listen")[0][1]  # noqa: B009 - waitress has no types
    return int(port)


def _shown(host: str) -> str:
    """A host as it stands in an address that a browser here can open."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 - it is compared, not bound
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
