"""The commands, and the handling of errors: one line and an exit code, never a traceback."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from zerosim.base.errors import EnvironmentFault, ZerosimError, cannot_load
from zerosim.base.language import VARIABLE, Language, chosen, speak
from zerosim.base.version import VERSION
from zerosim.cli.calibrate import calibrate
from zerosim.cli.compare import compare_traces
from zerosim.cli.console import ASCII_STANDS_IN
from zerosim.cli.debug import debug
from zerosim.cli.diagnose import diagnose
from zerosim.cli.doctor import doctor
from zerosim.cli.export import export
from zerosim.cli.fit import fit
from zerosim.cli.graph import graph
from zerosim.cli.importing import import_
from zerosim.cli.memory import memory
from zerosim.cli.notebook import notebook
from zerosim.cli.plan import plan
from zerosim.cli.profiles import profiles
from zerosim.cli.puzzle import puzzle
from zerosim.cli.run import run
from zerosim.cli.serve import replay, serve
from zerosim.cli.show import show
from zerosim.cli.simulate import simulate
from zerosim.cli.streams import own_streams
from zerosim.cli.systems import systems
from zerosim.cli.table import table
from zerosim.cli.trace import trace
from zerosim.cli.verify import verify
from zerosim.cli.whatif import whatif
from zerosim.cli.wording import said

INTERRUPTED = 130
_QUOTED_OPTION = re.compile(r"'(--?[\w-]+)'")
_USAGE_ERROR: type[Exception] = typer.BadParameter.mro()[1]
"""Every error of the parser. It is click's, or typer's own copy of it in later versions, without a
common public name."""

_FIRST_COMMANDS = {
    "run": "zerosim run --stage 3",
    "serve": "zerosim serve",
    "trace": "zerosim trace -- python train.py",
}
"""The commands to begin with."""

_RECORD = "Record"
_READ = "Read a trace"
_WATCH = "Watch"
_TABLES = "Tables of many runs"
_PLAN = "Plan"
_LEARN = "Learn"
_MACHINE = "This machine"

app = typer.Typer(
    pretty_exceptions_enable=False,
    help=(
        "Train with ZeRO, record every byte that ranks communicate, and check it against "
        "the papers."
    ),
)
app.command(rich_help_panel=_RECORD)(run)
app.command(rich_help_panel=_RECORD, context_settings={"allow_interspersed_args": False})(trace)
app.command(rich_help_panel=_RECORD)(simulate)
app.command("import", rich_help_panel=_RECORD)(import_)
app.command(
    rich_help_panel=_RECORD,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True},
)(debug)
app.command(rich_help_panel=_READ)(verify)
app.command(rich_help_panel=_READ)(diagnose)
app.command(rich_help_panel=_READ)(memory)
app.command(rich_help_panel=_READ)(graph)
app.command(rich_help_panel=_READ)(whatif)
app.command("compare", rich_help_panel=_READ)(compare_traces)
app.command(rich_help_panel=_READ)(show)
app.command(rich_help_panel=_WATCH)(replay)
app.command(rich_help_panel=_WATCH)(serve)
app.command(rich_help_panel=_WATCH)(export)
app.command(rich_help_panel=_TABLES)(profiles)
app.command(rich_help_panel=_TABLES)(systems)
app.command(rich_help_panel=_TABLES)(fit)
app.command(rich_help_panel=_TABLES)(table)
app.command(rich_help_panel=_PLAN)(plan)
app.command(rich_help_panel=_LEARN)(puzzle)
app.command(rich_help_panel=_LEARN)(notebook)
app.command(rich_help_panel=_MACHINE)(doctor)
app.command(rich_help_panel=_MACHINE)(calibrate)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"zerosim {VERSION}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
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
    language: Annotated[
        str | None,
        typer.Option(
            help=f"Language of the output: {', '.join(Language)}. The default is {VARIABLE}.",
            metavar="NAME",
        ),
    ] = None,
) -> None:
    """Train with ZeRO, record every byte, and check it against the papers."""
    speak(chosen(language))
    if context.invoked_subcommand is None:
        typer.echo("\n".join(_first_words()))
        raise typer.Exit(2)


def _first_words() -> Iterator[str]:
    """The text of `zerosim` without arguments."""
    yield f"{said('start.what')}\n\n{said('start.begin')}"
    width = max(map(len, _FIRST_COMMANDS.values()))
    for name, line in _FIRST_COMMANDS.items():
        yield f"  {line:{width}}  {said(f'start.{name}')}"
    yield f"\n{said('start.help')}"


def main() -> None:
    """Run a command; end the process with its exit code.

    0 success; 1 a claim is false; 2 the input is unusable; 3 a rank failed; 130 interrupted.
    """
    own_streams(ASCII_STANDS_IN)
    sys.exit(_run())


def _run() -> int:
    code: object
    try:
        code = app(prog_name="zerosim", standalone_mode=False)
        sys.stdout.flush()
    except ZerosimError as error:
        return _complain(str(error), error.exit_code)
    except (ImportError, MemoryError) as error:
        return _complain(cannot_load(error), EnvironmentFault.exit_code)
    except _USAGE_ERROR as error:
        return _complain(_usage(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:  # later versions of typer return it
        return _complain("interrupted", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _usage(error: Any) -> str:
    """The parser's error, as one line in our words."""
    context = getattr(error, "ctx", None)
    path = "zerosim" if context is None else context.command_path
    message = " ".join(error.format_message().split()).rstrip(".")
    if isinstance(error, typer.BadParameter) and error.param is not None and error.message:
        message = f"{str(error.param.name).replace('_', '-')} is {error.message}"
    for option in _QUOTED_OPTION.findall(message):
        message = message.replace(f"'{option}'", option)
    return f"{message[0].lower()}{message[1:]}; try {path} --help"


def _complain(message: str, code: int) -> int:
    with contextlib.suppress(EnvironmentFault):
        sys.stdout.flush()  # earlier output
    typer.echo(f"zerosim: {message}", err=True)
    return code
