"""A user's program as one rank of a dry run: it joins a group that sends nothing.

PyTorch's queries about processes are answered as if they existed: the launcher sets the rank, and
code that would start the ranks of a node runs only this one.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
import torch.multiprocessing
import torch.utils.data
from torch.distributed import distributed_c10d

from zerosim.base.errors import ConfigError, EnvironmentFault
from zerosim.predict.simulate.post import Letters
from zerosim.predict.simulate.rank import SimulatedRank, join, prepared
from zerosim.trace import dry
from zerosim.trace.extent import Extent
from zerosim.trace.session import Session

_LAUNCHERS = ("torchrun", "torch.distributed.run", "torch.distributed.launch")


@dataclass(frozen=True, slots=True)
class Script:
    """The code that Python is to run.

    Attributes:
        name: a file, or a module's name.
        command: as the user gave it, in words.
    """

    name: str
    is_module: bool
    arguments: tuple[str, ...]
    command: str

    def run(self) -> None:
        """Run it in this process, as Python would."""
        sys.argv = [self.name, *self.arguments]
        if self.is_module:
            sys.path.insert(0, str(Path.cwd()))
            runpy.run_module(self.name, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(self.name).resolve().parent))
            runpy.run_path(str(Path(self.name).absolute()), run_name="__main__")


def script_of(command: Sequence[str]) -> Script:
    """The Python program of a command: `python train.py`, `python -m train`, `torchrun train.py`.

    Raises:
        EnvironmentFault: there is no such file.
        ConfigError: it does not run a Python program.
    """
    words = list(command)
    for place, word in enumerate(words):
        is_module = word == "-m" and place + 1 < len(words)
        if is_module and words[place + 1] in _LAUNCHERS:
            continue
        if is_module or word.endswith(".py"):
            name = words[place + 1] if is_module else word
            if not is_module and not Path(name).is_file():
                raise EnvironmentFault(f"cannot read {name}: there is no such file; check its name")
            rest = words[place + 1 + is_module :]
            return Script(name, is_module, tuple(rest), " ".join(words))
    raise ConfigError(
        f"the command is {' '.join(words)!r}: expected one that has Python run a program, as in "
        "zerosim simulate -- python train.py"
    )


def run_script(
    script: Script, folder: Path, where: SimulatedRank, letters: Letters, *, memory: bool
) -> dict[str, str]:
    """Run a program as one rank; its trace begins when it joins.

    Returns:
        Unknown values that it read, by line, with the answers.
    """
    opened: list[Session] = []

    def joined() -> None:
        join(where)
        if not opened:
            opened.append(Session(folder, Extent(memory=memory), program=script.command))

    with prepared(where, letters) as rank, _answered(where, joined), rank.without_memory():
        try:
            script.run()
        except SystemExit as left:
            if left.code not in (None, 0):
                raise
        finally:
            for session in opened:
                session.end()
        assert rank.known is not None
        return rank.known.asked


@contextmanager
def _answered(where: SimulatedRank, joined: Callable[[], None]) -> Iterator[None]:
    """Functions of PyTorch that concern processes."""
    new_group: Any = distributed_c10d._new_process_group_helper

    def init_process_group(*_: Any, **given: Any) -> None:
        size = given.get("world_size", -1)
        if size not in (-1, None, where.num_ranks):
            raise ConfigError(
                f"the program joins {size} ranks, and ranks is {where.num_ranks}: give --ranks "
                f"{size}, or have it read WORLD_SIZE"
            )
        joined()

    def new_process_group(*args: Any, **given: Any) -> Any:
        size, rank, ranks, _, store, name, *_ = args
        kept = {word: given[word] for word in ("timeout", "group_desc") if word in given}
        return new_group(size, rank, ranks, dist.Backend(dry.FAKE_BACKEND), store, name, **kept)

    def spawn(function: Callable[..., Any], args: Any = (), nprocs: int = 1, **_: Any) -> None:
        function(_position(where, nprocs), *args)

    original: Any = torch.utils.data.DataLoader.__init__

    def load_here(loader: Any, *args: Any, **given: Any) -> None:
        for word in ("num_workers", "prefetch_factor", "persistent_workers"):
            given.pop(word, None)
        original(loader, *args, **given)

    with ExitStack() as until:
        for target, name, replacement in (
            (dist, "init_process_group", init_process_group),
            (distributed_c10d, "_new_process_group_helper", new_process_group),
            (torch.multiprocessing, "spawn", spawn),
            (torch.utils.data.DataLoader, "__init__", load_here),
        ):
            until.enter_context(mock.patch.object(target, name, replacement))
        yield


def _position(where: SimulatedRank, num_spawned: int) -> int:
    """The index of this process among those that a program starts."""
    if num_spawned == where.num_ranks:
        return where.rank
    if num_spawned == where.ranks_per_node:
        return where.rank % where.ranks_per_node
    raise ConfigError(
        f"the program starts {num_spawned} processes, and ranks is {where.num_ranks}: give "
        f"--ranks {num_spawned}"
    )
