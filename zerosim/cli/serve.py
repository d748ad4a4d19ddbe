"""`zerosim serve` and `zerosim replay`: the dashboard in a browser."""

from __future__ import annotations

import os
import signal
import sys
import threading
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from zerosim.base.errors import ConfigError
from zerosim.cli.options import OpenBrowser, TraceFolder, integer, open_run
from zerosim.cli.pages import require_pages
from zerosim.debug import Steering
from zerosim.record import require_times
from zerosim.view.replay import replay_document, shown_iterations
from zerosim.view.replay.addresses import read_moment

DEFAULT_FOLDER = Path("traces")
HIGHEST_PORT = 65535
COMPARE = "/compare"


def serve(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Traces, or folders of traces; traces/ by default."),
    ] = None,
    *,
    host: Annotated[
        str, typer.Option(help="Address to serve on; by default, only this machine can connect.")
    ] = "127.0.0.1",
    port: Annotated[int, integer("Port to serve on; 0 for any free port.")] = 8050,
    open_browser: OpenBrowser = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Open the Compare page instead of a replay.")
    ] = False,
    perfetto: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Show a button that opens runs in this Perfetto, such as https://ui.perfetto.dev.",
        ),
    ] = "",
) -> int:
    """Serve replays, lessons and puzzles until Ctrl-C; new traces appear by themselves."""
    first = FirstPage(COMPARE) if compare else FirstPage()
    serve_until_stopped(folders, host, port, opens=open_browser, first=first, perfetto=perfetto)
    return 0


def replay(
    folder: TraceFolder,
    *,
    iteration: Annotated[
        int | None, integer("Iteration to replay; the last complete one by default.")
    ] = None,
    at: Annotated[
        str, typer.Option(help='Moment to start at: step:12, or "backward reduce blocks.1".')
    ] = "",
    port: Annotated[int, integer("Port to serve on; any free one by default.")] = 0,
    open_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open a browser, if there is one.")
    ] = True,
) -> int:
    """Replay one trace in a browser, until Ctrl-C."""
    trace = open_run(folder).trace
    require_times(trace, "a replay shows")
    known = shown_iterations(trace)
    if iteration is not None and iteration not in known:
        there = f"expected one of {known[0]} to {known[-1]}" if known else "there is none"
        raise ConfigError(f"iteration is {iteration}: {there} in {folder}")
    step = None
    if at:
        document = replay_document(trace, iteration)
        iteration, step = document["run"]["iteration"], read_moment(document, at).step
    first = FirstPage(iteration=iteration, step=step)
    serve_until_stopped([folder], port=port, opens=open_browser, first=first)
    return 0


def file_of_lesson(number: int, *, as_slides: bool) -> str:
    """A lesson, or its slides, as one file.

    Raises:
        ConfigError: there is no such lesson.
        EnvironmentFault: the pages are not installed.
    """
    require_pages()
    from zerosim.dashboards.away import StandalonePages

    return StandalonePages([]).lesson(number, as_slides=as_slides)


def file_of_page(page: str, folders: Sequence[Path], iteration: int | None) -> str:
    """A page of the server as one file that needs no server.

    Args:
        page: verify or compare.
        iteration: of Verify; the last complete one by default.

    Raises:
        EnvironmentFault: the pages are not installed.
        TraceError: the traces cannot be shown.
    """
    require_pages()
    from zerosim.dashboards.away import StandalonePages

    away = StandalonePages(folders)
    return away.compare() if page == "compare" else away.verify(iteration)


def site_in(folder: Path) -> tuple[int, int]:
    """Write the course and the documentation as a site; return its number of files and bytes.

    Raises:
        EnvironmentFault: the pages or the documentation are not installed.
    """
    require_pages()
    from zerosim.dashboards.published.writing import write_site

    return write_site(folder)


def is_site(folder: Path) -> bool:
    """Whether a folder has an earlier site."""
    return (folder / "parts" / "site.js").is_file()


class FirstPage(NamedTuple):
    """The page that a browser shows first.

    Attributes:
        path: path of the page; "" for the newest trace.
        iteration: iteration of that trace; None for the last complete one.
        step: step of that iteration, from 0; None for its beginning.
    """

    path: str = ""
    iteration: int | None = None
    step: int | None = None


def serve_until_stopped(
    folders: list[Path] | None,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    opens: bool,
    first: FirstPage | None = None,
    perfetto: str = "",
) -> None:
    """Serve traces until Ctrl-C.

    Args:
        folders: traces, or folders of traces; traces/ by default.
        port: 0 for any free one.
        opens: whether to open a browser, if there is one; the address is printed in any case.
        first: the page to show first; by default the newest trace.
        perfetto: address of a Perfetto that pages offer to open; none by default.

    Raises:
        ConfigError: there is no such port or folder, or the pages are not installed.
        EnvironmentFault: the port is taken.
    """
    if not 0 <= port <= HIGHEST_PORT:
        raise ConfigError(f"port is {port}: expected 0 to {HIGHEST_PORT}")
    # Both end it without leftovers, also if a script started it in the background: there a shell
    # starts it with Ctrl-C ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        _serve(folders, host, port, opens=opens, first=first or FirstPage(), perfetto=perfetto)
    except KeyboardInterrupt:
        typer.echo("", err=True)  # Ctrl-C is how it ends, and leaves ^C on the line


@contextmanager
def served_beside(steering: Steering, folder: Path) -> Iterator[str]:
    """Serve the page of paused ranks from another thread.

    Args:
        folder: folder of the trace that is being recorded.

    Yields:
        The page's address, with its key.
    """
    require_pages()
    from zerosim.dashboards.holding import PATH
    from zerosim.dashboards.server import Server

    server = Server([folder], "127.0.0.1", 0, steering=steering)
    threading.Thread(target=server.run, name="zerosim-pages", daemon=True).start()
    try:
        yield f"{server.url}{PATH}?key={steering.key}"
    finally:
        server.close()


def open_page(url: str) -> None:
    """Open a graphical browser, if there is one."""
    _open(url)


def _serve(
    given: list[Path] | None,
    host: str,
    port: int,
    *,
    opens: bool,
    first: FirstPage,
    perfetto: str,
) -> None:
    require_pages()
    # The only import of a higher layer: this command starts the pages (listed in pyproject.toml).
    from zerosim.dashboards.guard import is_loopback
    from zerosim.dashboards.server import Server

    folders = given or [DEFAULT_FOLDER]
    server = Server(folders, host, port, may_come=not given, perfetto=perfetto)
    own = server.library.own()
    if not is_loopback(host):
        typer.echo(
            f"note: served on {host}: anyone who can reach this machine can read these traces, "
            f"at {server.public_url}",
            err=True,
        )
    if not any(not entry.problem for entry in own):
        places = " ".join(map(str, folders))
        typer.echo(
            f"note: no trace in {places} yet: runs appear here once recorded; the lessons' runs "
            "are shown until then",
            err=True,
        )
    number = first.iteration
    address = server.url + first.path if number is None else server.url_of(number)
    address += "" if first.step is None else f"#at={first.step + 1}"
    typer.echo(f"serving {_count(len(own))} on {address} (Ctrl-C ends it)")
    if opens:
        _open(address)
    server.run()


def _count(number: int) -> str:
    return f"{number:,} trace{'' if number == 1 else 's'}"


def _open(url: str) -> None:
    """Open a browser with a window; one inside of this terminal would take the terminal."""
    if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        # some browsers return when they are closed
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
