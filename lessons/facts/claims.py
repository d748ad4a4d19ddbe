"""The verdicts on the claims in `claims.toml`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from zerosim.base.errors import ConfigError
from zerosim.base.language import in_each_language
from zerosim.lessons.claims import Judgement, claims, judge
from zerosim.lessons.facts.base import Base
from zerosim.lessons.recordings import LessonRecordings


class Claims(Base):
    """Facts about claims on the web."""

    def __init__(self, recordings: LessonRecordings) -> None:
        super().__init__(recordings)
        self._judged: Callable[[str], Judgement] = in_each_language(
            lambda name: judge(claims()[name], self.names())
        )

    @abstractmethod
    def names(self) -> Mapping[str, Callable[..., Any]]:
        """The names available in the claims' expressions."""

    def judgement(self, claim: str) -> Judgement:
        """A claim's verdict, and the numbers behind it.

        Raises:
            ConfigError: there is no such claim.
        """
        if claim not in claims():
            raise ConfigError(f"claim is {claim!r}: expected one of {', '.join(claims())}")
        return self._judged(claim)

    def verdict(self, claim: str) -> str:
        """One of "true", "false", "only-if", and "open" if theory and a run disagree."""
        return str(self.judgement(claim).verdict)

    def condition(self, claim: str) -> str:
        """The condition under which a claim is true, if it is not always; else ""."""
        return self.judgement(claim).condition

    def said(self, claim: str) -> str:
        """The claim itself."""
        return self.judgement(claim).claim.said

    def because(self, claim: str) -> str:
        """The reason for the verdict."""
        return self.judgement(claim).because
