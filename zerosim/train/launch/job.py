"""The runs of a job, the number of ranks, and the errors of its end."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from zerosim.base.config import EngineConfig, Implementation, RunConfig
from zerosim.base.errors import RunError
from zerosim.schema.faults import Fault, read_faults


@dataclass(frozen=True, slots=True)
class Job:
    """Runs that the same ranks execute one after another.

    Attributes:
        engines: for each run, the trainer, which is zerosim's engine with a configuration or
            another implementation, and the folder of its trace.
        deepspeed: the DeepSpeed configuration behind the engines, in JSON; "" if none.
        faults: faults to inject in each run.
        check_replicas: interval of iterations with checksums; 0 for none.

    Raises:
        ConfigError: the ranks cannot be grouped as an engine requires.
    """

    run: RunConfig
    engines: tuple[tuple[EngineConfig | Implementation, Path], ...]
    deepspeed: str = ""
    faults: tuple[Fault, ...] = ()
    check_replicas: int = 0

    def __post_init__(self) -> None:
        for who, _ in self.engines:
            if isinstance(who, EngineConfig):
                who.require_ranks(self.run.ranks, self.run.tensor_parallel)

    def encode(self) -> str:
        """The job as one command line argument."""
        return json.dumps(
            {
                "run": self.run.to_plain(),
                "engines": [[_to_plain(who), str(path)] for who, path in self.engines],
                "deepspeed": self.deepspeed,
                "faults": [str(one) for one in self.faults],
                "check_replicas": self.check_replicas,
            }
        )

    @classmethod
    def decode(cls, text: str) -> Self:
        """The inverse of `encode`."""
        plain = json.loads(text)
        return cls(
            RunConfig.from_plain(plain["run"]),
            tuple((_from_plain(who), Path(path)) for who, path in plain["engines"]),
            plain["deepspeed"],
            read_faults(plain["faults"]),
            plain["check_replicas"],
        )


def _to_plain(who: EngineConfig | Implementation) -> dict[str, object] | str:
    return who.to_plain() if isinstance(who, EngineConfig) else who.value


def _from_plain(plain: dict[str, object] | str) -> EngineConfig | Implementation:
    return Implementation(plain) if isinstance(plain, str) else EngineConfig.from_plain(plain)


class RanksFailedError(RunError):
    """Ranks of a run ended prematurely.

    Attributes:
        exit_codes: exit codes by rank, of ranks that ended by themselves; negative for a signal.
        errors: the last line of the traceback of each rank with one, by rank.
    """

    def __init__(self, exit_codes: Mapping[int, int], errors: Mapping[int, str]) -> None:
        super().__init__(f"exit codes by rank: {dict(exit_codes)}")
        self.exit_codes = exit_codes
        self.errors = errors


def joined_ranks() -> int | None:
    """Number of ranks if a launcher such as torchrun started this process, else None."""
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ and "MASTER_ADDR" in os.environ:
        return int(os.environ["WORLD_SIZE"])
    return None
