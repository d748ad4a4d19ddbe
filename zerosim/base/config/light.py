"""What a trace of a job of days keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from zerosim.base.config.option import AT_LEAST_ONE, Configuration, Spec, documented


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class Light(Configuration):
    """A light trace: what ranks call and what that moves, of some iterations, in bounded files."""

    every: Annotated[int, Spec("Record one complete iteration in this many.", AT_LEAST_ONE)] = 10
    keep: Annotated[
        int, Spec("Keep at least this many of the last ones, at most twice as many.", AT_LEAST_ONE)
    ] = 100

    def takes(self, iteration: int) -> bool:
        """Whether an iteration is recorded; what comes before the first one is."""
        return iteration < 0 or iteration % self.every == 0
