"""`zerosim debug`: stop the ranks of a run, and step through it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from zerosim.base.errors import ConfigError, EnvironmentFault, RunError
from zerosim.cli.prompt import Prompt
from zerosim.cli.serve import open_page, served_beside
from zerosim.debug import Controller, Door, Steering, Why
from zerosim.debug.calling import called
from zerosim.schema.stands import DEBUG_VARIABLE
from zerosim.train.launch.command import require_startable, start_command

_END_S = 15.0
"""Timeout for the ranks to end properly after they were told to."""


def debug(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN OPTIONS | -- COMMAND]",
            help="Options of zerosim run, such as --stage 3 --ranks 4, or a command after --.",
        ),
    ] = None,
    *,
    out: Annotated[Path | None, typer.Option(help="Folder for the trace.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the trace that is already in the folder.")
    ] = False,
    browser: Annotated[
        bool,
        typer.Option(
            "--browser/--no-browser",
            help="Serve a page with the replay so far and the same controls as the prompt.",
        ),
    ] = True,
    attach: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help=(
                "Stop a run that was started with --debuggable and writes its trace to "
                "this folder; detaching resumes it."
            ),
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help=(
                "With --attach: address of this machine for ranks on other hosts; none by default."
            ),
        ),
    ] = "",
) -> int:
    """Step through a run whose ranks pause before each event; exit with its exit code.

    Commands are read from the terminal or from a pipe; the command help lists them.
    """
    if attach is not None:
        _require_nothing_to_start(words or [], out, overwrite=overwrite)
        return _attach(attach, host, browser=browser)
    if host:
        raise ConfigError(f"host is {host} without --attach: expected --attach FOLDER with it")
    door = Door()
    controller = Controller(door)
    try:
        process = _start(words or [], out, door, overwrite=overwrite)
        threading.Thread(
            target=lambda: controller.program_ended(_ending(process.wait())), daemon=True
        ).start()
        _hear_interrupts(controller, process)
        prompt = Prompt(controller, lambda: _end(process))
        with _ended_with_output(process), _steered(controller, prompt, browser=browser):
            return _code(process)
    finally:
        door.close()


@contextmanager
def _ended_with_output(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End the program if output can no longer be written, because nobody would see it."""
    try:
        yield
    except EnvironmentFault:
        _kill(process)
        raise


@contextmanager
def _steered(controller: Controller, prompt: Prompt, *, browser: bool) -> Iterator[None]:
    """Wait until the ranks have paused, and step them here and on the page, which stays open."""
    with ExitStack() as pages:
        if prompt.begin() and browser:
            folder = controller.links[0].folder
            address = pages.enter_context(served_beside(Steering(controller), folder))
            typer.echo(f"the page: {address}")
            open_page(address)
        prompt.serve(lets_go=not browser)
        yield


def _require_nothing_to_start(words: list[str], out: Path | None, *, overwrite: bool) -> None:
    said = [*words, *(["--out"] if out else []), *(["--overwrite"] if overwrite else [])]
    if said:
        raise ConfigError(
            f"{' '.join(said)} with --attach: that run is already started: expected "
            "--attach FOLDER alone"
        )


def _attach(folder: Path, host: str, *, browser: bool) -> int:
    """Debug a run that was started elsewhere, until detached or over."""
    with called(folder, host) as door:
        controller = Controller(door, attaches=True)
        _hear_interrupts(controller, None)
        prompt = Prompt(controller, controller.detach, attaches=True)
        with _steered(controller, prompt, browser=browser):
            ending = prompt.ending
    return RunError.exit_code if ending is not None and ending.why is Why.LEFT else 0


def command_line(words: list[str], out: Path | None, *, overwrite: bool) -> list[str]:
    """The command that starts the program to debug: `run` or `trace`."""
    own = [sys.executable, "-m", "zerosim"]
    common = (["--out", str(out)] if out else []) + (["--overwrite"] if overwrite else [])
    if words and not words[0].startswith("-"):
        require_startable(words)
        return [*own, "trace", *common, "--", *words]
    given = any(word == "--stage" or word.startswith("--stage=") for word in words)
    return [*own, "run", *([] if given else ["--stage", "3"]), *words, *common]


def _start(
    words: list[str], out: Path | None, door: Door, *, overwrite: bool
) -> subprocess.Popen[bytes]:
    return start_command(
        command_line(words, out, overwrite=overwrite),
        os.environ | {DEBUG_VARIABLE: str(door.path)},
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C stops the ranks at the gate and does not end them
    )


def _hear_interrupts(controller: Controller, process: subprocess.Popen[bytes] | None) -> None:
    """Ctrl-C pauses controlled ranks at their next events, and ends a program without control."""

    def interrupt(*_: object) -> None:
        if controller.is_attached:
            controller.pause()
        elif process is not None:
            process.terminate()

    signal.signal(signal.SIGINT, interrupt)


def _ending(code: int) -> str:
    return "the program ended" if code == 0 else f"the program ended with exit code {code}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program, normally if possible."""
    process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _code(process: subprocess.Popen[bytes]) -> int:
    code = process.wait()
    return code if code >= 0 else 128 - code
