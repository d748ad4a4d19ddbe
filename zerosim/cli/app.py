"""The commands, and what becomes of an error: one line and an exit code, never a traceback."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import click
import typer

from zerosim.cli.doctor import doctor
from zerosim.cli.run import run
from zerosim.cli.show import show
from zerosim.cli.verify import verify
from zerosim.errors import ZerosimError
from zerosim.version import VERSION

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Run ZeRO for real, record what it sends, prove it.",
)
app.command()(run)
app.command()(verify)
app.command()(show)
app.command()(doctor)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"zerosim {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version.",
            is_eager=True,
            callback=lambda value: _print_version(wanted=value),
        ),
    ] = False,
) -> None:
    """Run ZeRO for real, record what it sends, prove it."""


def main() -> None:
    """Run a command; end the process with its exit code.

    0 it worked; 1 a claim is false; 2 the input is no use; 3 a rank failed; 130 interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.exit(_run())


def _run() -> int:
    code: object = 0
    try:
        code = app(standalone_mode=False)
    except ZerosimError as error:
        code = _complain(str(error), error.exit_code)
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        typer.echo(error.format_message())
        code = 2
    except click.ClickException as error:
        message = " ".join(error.format_message().split())
        code = _complain(f"{message.rstrip('.')}; try zerosim --help", 2)
    except (KeyboardInterrupt, click.Abort):
        code = _complain("interrupted", 130)
    except BrokenPipeError:
        # who reads us has read enough; do not complain at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code if isinstance(code, int) else 0


def _complain(message: str, code: int) -> int:
    typer.echo(f"zerosim: {message}", err=True)
    return code
