"""The prompt of the debugger: commands and their output."""

from __future__ import annotations

import importlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator

import typer

from zerosim.base.errors import ZerosimError
from zerosim.base.tables import written_out
from zerosim.debug import Commands, Controller, Reply, StepEnd, Why
from zerosim.debug.outcomes import of_ranks
from zerosim.debug.stop_lines import lines_of

_SIGN = "(zerosim) "
_NOTHING_HELD = signal.SIGUSR1
"""Ends the reading of commands."""
_HELP = """\
step, over       to the next beat: gather a unit, compute it, reduce its gradient, update
into             to whatever comes next: a hop, a message, a computation
out              to the next unit
phase            to the next phase: forward, backward, update
iteration        to the forward of the next iteration
only RANK step   one rank alone (or into, out ...): it runs until it must wait for another
continue         run all ranks until a breakpoint or Ctrl-C
break CONDITION  stop where it is true: break phase=backward unit=blocks.1 bytes>1e6
                 break if grad("blocks.1").isnan().any(); break alone lists them
delete N         delete a breakpoint or a watch: delete replicas, delete slow
watch WHAT       nonfinite; replicas; memory>200e6 (bytes); slow>2 (seconds): a breakpoint, too
where            the next event of each rank, communication in flight, and the program's line
stack RANK       the Python stack of each thread of a rank
tensors RANK     the tensors of a rank by role and unit, with norms
look ROLE UNIT   one of these on all ranks, with histogram and first values
print EXPRESSION on all ranks: print grad("blocks.1").norm()
check            compare the replicas of all ranks
check sum        before a reduction: run to the next phase and check the sum
detach           let the program run on without the debugger
quit             end the program; after --attach, detach from it
An empty line repeats the last step; unambiguous prefixes work (s, i, o, c, w).
"""


class _NothingHeldError(Exception):
    """Raised when no more commands need to be read."""


_PRINTS_S = 2.0
"""Timeout for the last lines."""


class Prompt:
    """Reads and runs commands, until no rank is left to control.

    Attributes:
        ending: why no rank is left; None while there are some.
    """

    def __init__(
        self, controller: Controller, end: Callable[[], None], *, attaches: bool = False
    ) -> None:
        """Create a prompt.

        Args:
            end: ends the program, or releases it.
            attaches: whether the program was already running.
        """
        self._before = "their next iteration" if attaches else "the first event"
        self._controller = controller
        self._end = end
        self._last = "step"
        self._reads = False
        self.ending: StepEnd | None = None
        self._commands = Commands(
            controller, {"detach": self._detach, "quit": self._quit, "help": self._help}
        )
        controller.listen(self._stopped)

    def begin(self) -> bool:
        """Wait until the ranks have stopped; returns whether they have."""
        begun = self._controller.begin()
        if begun.why is Why.REACHED:
            here = of_ranks(self._controller.here)
            _say(f"{here} stopped before {self._before}; help lists all")
        for line in lines_of(self._controller, begun):
            _say(line)
        return self.ending is None

    def serve(self, *, lets_go: bool) -> None:
        """Run in the main thread until the program ends, or is no longer debugged.

        Args:
            lets_go: whether to release the ranks after the last command; else pages may still
                control them.
        """
        watching = threading.Thread(target=self._watch, name="zerosim-prompt", daemon=True)
        watching.start()
        signal.signal(_NOTHING_HELD, self._stop_reading)
        for line in self._lines():
            self._do(line)
            if self.ending is not None:
                break
        if self.ending is None and lets_go:
            _say("end of input: the ranks run on")
            self._controller.detach()
        elif self.ending is None:
            watching.join()
        if self._controller.is_over:
            watching.join(_PRINTS_S)  # if it printed while Python ends, Python would abort

    def _watch(self) -> None:
        """Report at once that no rank is controlled any more, even during typing."""
        outcome = self._controller.wait_until_over()
        if outcome is None or outcome is not self.ending:
            return
        if self._reads and sys.stdin.isatty():
            _say("")
        for line in lines_of(self._controller, outcome):
            _say(line)
        main = threading.main_thread().ident
        assert main is not None, "it runs"
        signal.pthread_kill(main, _NOTHING_HELD)

    def _stop_reading(self, *_: object) -> None:
        if self._reads:
            self._reads = False
            raise _NothingHeldError

    def _lines(self) -> Iterator[str]:
        """The typed commands, or those of a pipe, which are printed as if typed."""
        is_typed = sys.stdin.isatty()
        if is_typed:
            importlib.import_module("readline")  # from now on `input` has a history
        while self.ending is None:
            try:
                self._reads = True
                line = input(_SIGN) if is_typed else next(iter(sys.stdin.readline, ""))
            except (EOFError, StopIteration, _NothingHeldError):
                return
            finally:
                self._reads = False
            if not is_typed:
                _say(f"{_SIGN}{line.rstrip()}")
            yield line.strip()

    def _do(self, line: str) -> None:
        try:
            command = line or self._last
            if self._commands.moves(command):
                self._last = command
            reply = self._commands.do(command)
        except ZerosimError as error:
            _say(str(error))
            return
        for said in reply.lines():
            _say(said)

    def _stopped(self, outcome: StepEnd) -> None:
        if outcome.is_last and self.ending is None:
            self.ending = outcome

    def _help(self, _: str) -> Reply:
        return Reply(_HELP.rstrip().splitlines())

    def _detach(self, _: str) -> Reply:
        self._controller.detach()
        self._stopped(StepEnd(Why.DETACHED))
        return Reply(["detached: the ranks run on"])

    def _quit(self, _: str) -> Reply:
        self._stopped(StepEnd(Why.DETACHED))
        self._end()
        return Reply()


def _say(text: str) -> None:
    typer.echo(written_out(text))
    sys.stdout.flush()
