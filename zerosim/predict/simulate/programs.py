"""A dry run of a user's program: each different rank in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from zerosim.base.errors import RunError, UnknownValue, ZerosimError, first_line
from zerosim.predict.placement import place
from zerosim.predict.placement.machine import Machine
from zerosim.predict.simulate.lasting import Lasting
from zerosim.predict.simulate.post import Letters, NotSentYet
from zerosim.predict.simulate.rank import SimulatedRank
from zerosim.predict.simulate.script import Script, run_script
from zerosim.predict.simulate.turns import in_turn
from zerosim.record import load, write
from zerosim.record.lines import Lines
from zerosim.record.schema import decode_manifest
from zerosim.record.shortrows import SHORT
from zerosim.schema.manifest import EACH, Alike
from zerosim.schema.rows import MANIFEST_NAME, encode_manifest, rank_file_name

_NOT_THE_PROGRAM = (
    f"{Path(torch.__file__).parent}{os.sep}",
    f"{Path(__file__).parents[2]}{os.sep}",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DryProgram:
    """The dry run of a program.

    Attributes:
        memory: whether to record live tensors, by role.
    """

    script: Script
    num_ranks: int
    memory: bool


@dataclass(slots=True)
class _Told:
    """The outcome of a rank's process.

    Attributes:
        waits_for: the rank that it waits for; None if it has finished.
        error: the reason of its failure; "" if it succeeded.
        exit_code: exit code of that error.
        asked: as in `Known`.
    """

    letters: Letters
    waits_for: int | None = None
    error: str = ""
    exit_code: int = 0
    asked: dict[str, str] = field(default_factory=dict)


def simulate_program(program: DryProgram, folder: Path, machine: Machine) -> dict[str, str]:
    """Dry-run all different ranks, and write the predicted times of their events.

    Returns:
        Unknown values that the program read, by line, with the answers.

    Raises:
        UnknownValue: it needed an unknown value to continue.
        RunError: it ended with an error of its own.
    """
    asked: dict[str, str] = {}
    with TemporaryDirectory(prefix="zerosim-dry-") as name:
        dry = Path(name)

        def do(rank: int, letters: Letters) -> None:
            told = _in_a_process(program, dry, _place_of(program, rank, machine), letters)
            letters.sent.update(told.letters.sent)
            asked.update(told.asked)
            if told.waits_for is not None:
                raise NotSentYet(told.waits_for)
            if told.error:
                raise _error_of(told, rank)
            if not (dry / rank_file_name(rank)).exists():
                raise RunError(
                    f"rank {rank} never joined a process group: expected a program that calls "
                    "init_process_group in the process that is started"
                )

        _do_those_that_differ(program.num_ranks, dry, do)
        write(place(load(dry, strict=True), Lasting(machine)), folder)
    return asked


def _do_those_that_differ(num_ranks: int, folder: Path, do: Callable[[int, Letters], None]) -> None:
    """All ranks, or if there are many, the first of each set of equal ones."""
    if num_ranks <= EACH:
        in_turn(range(num_ranks), folder, do)
        return
    some = [0, 1, num_ranks // 2, num_ranks - 1]
    in_turn(some, folder, do)
    if len({_what_it_did(folder / rank_file_name(rank)) for rank in some}) == 1:
        for rank in some[1:]:
            (folder / rank_file_name(rank)).unlink()
        path = folder / MANIFEST_NAME
        manifest = decode_manifest(path.read_bytes())
        alike = (Alike(rank=0, first=1, last=num_ranks - 1),)
        path.write_bytes(encode_manifest(replace(manifest, alike=alike)))
        return
    for rank in some:
        (folder / rank_file_name(rank)).unlink()
    in_turn(range(num_ranks), folder, do)


def _what_it_did(path: Path) -> tuple[object, ...]:
    """The contents of a rank's file, except its identity."""
    _, *rows = Lines(path)
    return tuple(row if name == SHORT else row.rpartition(b',"crc"')[0] for name, row in rows)


def _place_of(program: DryProgram, rank: int, machine: Machine) -> SimulatedRank:
    size = min(program.num_ranks, machine.ranks_per_node or program.num_ranks)
    backend = "nccl" if machine.generation else "gloo"
    return SimulatedRank(rank, program.num_ranks, size, backend, machine.name)


def _in_a_process(
    program: DryProgram, folder: Path, where: SimulatedRank, letters: Letters
) -> _Told:
    """Run one rank in a child of this process, so that the next rank starts without its state."""
    context = multiprocessing.get_context("fork")
    hearing, telling = context.Pipe(duplex=False)
    child = context.Process(target=_tell, args=(telling, program, folder, where, letters))
    child.start()
    telling.close()
    try:
        told: _Told = hearing.recv()
    except EOFError:
        raise RunError(
            f"rank {where.rank} of the dry run ended without an error message: try zerosim trace "
            "with real ranks"
        ) from None
    finally:
        child.join()
    return told


def _tell(
    telling: Connection, program: DryProgram, folder: Path, where: SimulatedRank, letters: Letters
) -> None:
    """Run as that child."""
    told = _Told(letters)
    with _EndKeeper(told), Path(os.devnull).open("w") as nowhere:
        if where.rank > 0:  # all ranks would print the same
            sys.stdout = nowhere
        told.asked = run_script(program.script, folder, where, letters, memory=program.memory)
    telling.send(told)


class _EndKeeper:
    """Keeps the exception that ends a program."""

    def __init__(self, told: _Told) -> None:
        self._told = told

    def __enter__(self) -> None:
        """Enter the context of the program."""

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> bool:
        """Leave it, and keep the exception."""
        told = self._told
        if isinstance(error, NotSentYet):
            told.waits_for = error.sender
        elif isinstance(error, ZerosimError):
            told.error, told.exit_code = str(error), error.exit_code
        elif error is not None:
            told.error, told.exit_code = _words(error), RunError.exit_code
        return True


def _words(error: BaseException) -> str:
    frames: Iterable[traceback.FrameSummary] = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_NOT_THE_PROGRAM)]
    where = f"{Path(own[-1].filename).name}:{own[-1].lineno}: " if own else ""
    return f"{where}{type(error).__name__}: {first_line(error)}"


def _error_of(told: _Told, rank: int) -> ZerosimError:
    if told.exit_code == UnknownValue.exit_code:
        return UnknownValue(told.error)
    return RunError(
        f"rank {rank} of the dry run stopped at {told.error}; if a real run (zerosim trace) gets "
        "past it, the program needs numbers that a dry run does not have"
    )
