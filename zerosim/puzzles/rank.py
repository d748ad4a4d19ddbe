"""The work of each rank of a puzzle: load the program, run it under the tracer, compare.

Several programs may follow one another, each with a separate process group and trace.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import resource
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore

from zerosim.base.errors import first_line
from zerosim.base.language import Language, speaking
from zerosim.puzzles.answer import Answer
from zerosim.puzzles.standstill import StandstillWatch
from zerosim.schema.events import Phase
from zerosim.trace import labels, trace
from zerosim.trace.checksums import digest
from zerosim.trace.reachable import ReachableBytes
from zerosim.train.launch.rendezvous import JoinedRanks, joined

GROUP_TIMEOUT_S = 600.0
"""Timeout of the process group: hanging ranks are ended long before."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a program on each rank.

    Attributes:
        wall_s: limit of wall time for a busy machine; the effective limit is CPU time.
        prints: whether its output is shown, on stderr.
    """

    processor_s: int = 10
    wall_s: float = 180.0
    memory_bytes: int = 2 * 2**30
    prints: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A program, and the parameters of its run.

    Attributes:
        file: the program.
        folder: folder of its trace.
        case: the file of the puzzle's case.
        exact: whether its results must be bitwise equal.
        counts_held: whether its tensors are counted at its calls.
        language: language of the texts.
    """

    file: Path
    folder: Path
    case: Path
    exact: bool
    counts_held: bool = False
    language: Language = Language.ENGLISH


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSaid:
    """The outcome of a program on one rank.

    Attributes:
        error: the exception, in one line; "" if there was none.
        line: the program's line that raised it; 0 if it was elsewhere.
        is_loaded: whether the program could be imported.
        difference, found, expected: the difference in its results.
        sizes, contents: as in its answer, with contents as checksums.
        held_bytes: bytes of its tensors at each of its calls; empty if not requested.
    """

    error: str = ""
    line: int = 0
    is_loaded: bool = True
    difference: str = ""
    found: str = ""
    expected: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    contents: dict[str, str] = field(default_factory=dict)
    held_bytes: list[int] = field(default_factory=list)


def said_file(folder: Path, rank: int) -> Path:
    """The file of a rank's outcome: beside its trace."""
    return folder.with_name(f"{folder.name}.rank-{rank}.json")


def work_through(tasks: Sequence[Task], limits: Limits, group: str) -> None:
    """Run programs one after another as one of the ranks.

    Args:
        group: a folder for these ranks only.
    """
    ranks, rank = joined(), dist.get_rank()
    torch.set_num_threads(1)
    ranks.meet("all have joined")
    dist.destroy_process_group()
    _limit_memory(limits.memory_bytes)
    _print_elsewhere(shown=limits.prints)
    watch = StandstillWatch(Path(group), rank, ranks.num_ranks)
    sys.dont_write_bytecode = True
    warnings.simplefilter("ignore", FutureWarning)  # on names that PyTorch will change
    for number, task in enumerate(tasks):
        ranks.meet(f"program {number} begins")
        _limit_processor(limits.processor_s)
        _join(ranks, rank, number)
        watch.begins(number + 1)
        with speaking(task.language):
            said = _run(task, rank, ranks.num_ranks)
        if said.error:
            watch.failed()
        _say(said_file(task.folder, rank), said)
        watch.finished()
        ranks.meet(f"program {number} has ended")
        with suppress(Exception):
            dist.destroy_process_group()
        gc.collect()
    watch.end()


def _run(task: Task, rank: int, num_ranks: int) -> RankSaid:
    case = _load(task.case, "zerosim_puzzle_case")
    if not task.counts_held:
        return _run_case(task, case, rank, num_ranks)
    held = ReachableBytes()
    try:
        with held:
            said = _run_case(task, case, rank, num_ranks)
        return replace(said, held_bytes=held.counted)
    finally:
        held.end()


def _run_case(task: Task, case: ModuleType, rank: int, num_ranks: int) -> RankSaid:
    try:
        program = _load(task.file, "zerosim_puzzle_program")
    except BaseException as error:  # noqa: BLE001 - whatever a program's import raises
        return RankSaid(error=_words(error), line=_line(error, task.file), is_loaded=False)
    words = f"zerosim puzzle --check {task.file.name}"
    try:
        with trace(task.folder, program=words, check_replicas=1):
            try:
                answer: Answer = case.run(program, rank, num_ranks)
            finally:
                labels.enter(-1, Phase.OUTSIDE)
    except BaseException as error:  # noqa: BLE001 - whatever a program raises
        return RankSaid(error=_words(error), line=_line(error, task.file))
    wrong = answer.difference(exact=task.exact)
    return RankSaid(
        difference="" if wrong is None else wrong.sentence,
        found="" if wrong is None else wrong.found,
        expected="" if wrong is None else wrong.expected,
        sizes=dict(answer.sizes),
        contents={str(digest(tensor)): name for name, tensor in answer.contents.items()},
    )


def _join(ranks: JoinedRanks, rank: int, number: int) -> None:
    dist.init_process_group(
        "gloo",
        store=PrefixStore(f"puzzle program {number}", ranks.store),
        rank=rank,
        world_size=ranks.num_ranks,
        timeout=timedelta(seconds=GROUP_TIMEOUT_S),
    )


def _load(file: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {first_line(error)}".removesuffix(": ")


def _line(error: BaseException, file: Path) -> int:
    """The innermost line of the program in an error's traceback."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno or 0
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(file)
    ]
    return (lines or [0])[-1] or 0


def _say(file: Path, said: RankSaid) -> None:
    new = file.with_name(f".{file.name}")
    new.write_text(json.dumps(asdict(said)))
    new.replace(file)


def read_said(file: Path) -> RankSaid | None:
    """The outcome of a rank; None if there is none."""
    try:
        plain: dict[str, Any] = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return RankSaid(**plain)


def _print_elsewhere(*, shown: bool) -> None:
    """Separate a program's output from our own."""
    if shown:
        os.dup2(2, 1)
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def _limit_processor(seconds: int) -> None:
    used = os.times()
    limit = int(used.user + used.system) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _limit_memory(num_bytes: int) -> None:
    """Limit of further memory, besides PyTorch's own."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmData:"):
                limit = int(line.split()[1]) * 1024 + num_bytes
                _, hard = resource.getrlimit(resource.RLIMIT_DATA)
                resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
