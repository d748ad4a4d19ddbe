"""The extent of a light trace, for jobs that run for days."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from zerosim.base.config.option import AT_LEAST_ONE, Configuration, Spec, documented


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class Light(Configuration):
    """A light trace: collectives and their bytes, of some iterations, in files of bounded size."""

    every: Annotated[int, Spec("Record one complete iteration out of this many.", AT_LEAST_ONE)] = (
        10
    )
    keep: Annotated[
        int,
        Spec(
            "Keep at least this many of the last iterations, at most twice as many.", AT_LEAST_ONE
        ),
    ] = 100

    def takes(self, iteration: int) -> bool:
        """Whether an iteration is recorded; events before the first iteration always are."""
        return iteration < 0 or iteration % self.every == 0
