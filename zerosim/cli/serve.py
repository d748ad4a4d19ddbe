"""`zerosim serve`: the dashboard in a browser."""

from __future__ import annotations

import os
import signal
import sys
import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from zerosim.cli.options import integer
from zerosim.cli.pages import require_pages
from zerosim.errors import ConfigError

DEFAULT_FOLDER = Path("traces")
HIGHEST_PORT = 65535


def serve(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Traces, or folders that hold some; traces/ by default."),
    ] = None,
    *,
    host: Annotated[
        str, typer.Option(help="Address to serve on; this machine only by default.")
    ] = "127.0.0.1",
    port: Annotated[int, integer("Port to serve on; 0 for any free port.")] = 8050,
    open_browser: Annotated[
        bool, typer.Option("--open", help="Open a browser, if there is one.")
    ] = False,
) -> int:
    """Replay traces in a browser, until Ctrl-C; traces that are recorded meanwhile appear."""
    if not 0 <= port <= HIGHEST_PORT:
        raise ConfigError(f"port is {port}: expected 0 to {HIGHEST_PORT}")
    # Both end it with nothing left behind, also where a script started it in the background: there
    # a shell has it begin with Ctrl-C ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        _serve(folders, host, port, open_browser=open_browser)
    except KeyboardInterrupt:
        typer.echo("", err=True)  # Ctrl-C is how it ends, and leaves ^C on the line
    return 0


def _serve(given: list[Path] | None, host: str, port: int, *, open_browser: bool) -> None:
    require_pages()
    # The one import of a higher layer: this command starts the pages (pyproject.toml says so too).
    from zerosim.dashboards.guard import is_loopback
    from zerosim.dashboards.server import Server

    folders = given or [DEFAULT_FOLDER]
    server = Server(folders, host, port, may_come=not given)
    own = server.library.own()
    if not is_loopback(host):
        typer.echo(
            f"note: served on {host}: anyone who can reach this machine can read these traces, "
            f"at {server.public_url}",
            err=True,
        )
    if not any(not entry.problem for entry in own):
        shown = " ".join(map(str, folders))
        typer.echo(
            f"note: no trace in {shown} yet: runs appear here once recorded; until then the "
            "lessons' runs are shown",
            err=True,
        )
    typer.echo(f"serving {_count(len(own))} on {server.url} (Ctrl-C ends it)")
    if open_browser:
        _open(server.url)
    server.run()


def _count(number: int) -> str:
    return f"{number:,} trace{'' if number == 1 else 's'}"


def _open(url: str) -> None:
    """Open a browser with a window; one inside of this terminal would take the terminal."""
    if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        # some browsers come back when they are closed
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
