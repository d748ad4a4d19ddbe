"""The outcome of a verdict: one of three, with its sign, its colour and its exit code.

Commands, pages and the player show it in the same way: a word with a sign and a colour. A verdict
that was not checked has no outcome: None.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Outcome(StrEnum):
    """The outcome of a verdict."""

    AS_PREDICTED = "as predicted"
    """Follows the law, apart from traffic that laws omit: padding, a norm, a flag."""
    EXPLAINED = "differs, every byte explained"
    """Different from the law, with a named cause for each byte of the difference."""
    UNEXPLAINED = "unexplained"
    """Part of the difference has no known cause: the claim fails."""

    @property
    def sign(self) -> str:
        """The sign before a verdict."""
        return _SIGNS[self]

    @property
    def colour(self) -> str:
        """The colour of the sign on a terminal."""
        return _COLOURS[self]

    @property
    def look(self) -> str:
        """The colour of the sign on a page: its class in the style sheets."""
        return _LOOKS[self]

    @property
    def exit_code(self) -> int:
        """The exit code of a command with this verdict: only a failed claim is a failure."""
        return int(self is Outcome.UNEXPLAINED)


_SIGNS = {Outcome.AS_PREDICTED: "✓", Outcome.EXPLAINED: "≠", Outcome.UNEXPLAINED: "✗"}
_COLOURS = {Outcome.AS_PREDICTED: "green", Outcome.EXPLAINED: "yellow", Outcome.UNEXPLAINED: "red"}
_LOOKS = {Outcome.AS_PREDICTED: "good", Outcome.EXPLAINED: "differs", Outcome.UNEXPLAINED: "bad"}


def outcome_of(*, holds: bool | None, differs: bool = False) -> Outcome | None:
    """The outcome of one claim.

    Args:
        holds: whether every byte has a name; None if not checked.
        differs: whether a named cause makes it different from the law.
    """
    if holds is None:
        return None
    if not holds:
        return Outcome.UNEXPLAINED
    return Outcome.EXPLAINED if differs else Outcome.AS_PREDICTED


def together(outcomes: Iterable[Outcome | None]) -> Outcome | None:
    """The worst of several outcomes; None if no verdict was checked."""
    found = set(outcomes)
    return next((one for one in reversed(Outcome) if one in found), None)


def exit_code(outcomes: Iterable[Outcome | None]) -> int:
    """The exit code of a command with these outcomes: 1 if a claim fails, else 0."""
    found = together(outcomes)
    return 0 if found is None else found.exit_code
