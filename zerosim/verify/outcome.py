"""What a verdict comes to: one of three, with its sign, its colour and its exit code.

Commands, pages and the player show it alike: the sign and the colour go with a word, and the same
cause looks the same wherever it stands. What was not checked has no outcome: it is None.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Outcome(StrEnum):
    """What a verdict comes to."""

    AS_PREDICTED = "as predicted"
    """It is what the law says, beside what a law leaves out: padding, a norm, a flag."""
    EXPLAINED = "differs, every byte explained"
    """It is not what the law says, and each byte of the difference has a named cause."""
    UNEXPLAINED = "unexplained"
    """Some of the difference has no cause that is known: a claim that fails."""

    @property
    def sign(self) -> str:
        """Stands before a verdict."""
        return _SIGNS[self]

    @property
    def colour(self) -> str:
        """Of the sign on a terminal."""
        return _COLOURS[self]

    @property
    def look(self) -> str:
        """Of the sign on a page: its class in the style sheets."""
        return _LOOKS[self]

    @property
    def exit_code(self) -> int:
        """Of a command that says it: only a claim that fails is a failure."""
        return int(self is Outcome.UNEXPLAINED)


_SIGNS = {Outcome.AS_PREDICTED: "✓", Outcome.EXPLAINED: "≠", Outcome.UNEXPLAINED: "✗"}
_COLOURS = {Outcome.AS_PREDICTED: "green", Outcome.EXPLAINED: "yellow", Outcome.UNEXPLAINED: "red"}
_LOOKS = {Outcome.AS_PREDICTED: "good", Outcome.EXPLAINED: "differs", Outcome.UNEXPLAINED: "bad"}


def outcome_of(*, holds: bool | None, differs: bool = False) -> Outcome | None:
    """The outcome of one claim.

    Args:
        holds: whether every byte of it has a name; None if it was not checked.
        differs: whether a named cause makes it something else than the law says.
    """
    if holds is None:
        return None
    if not holds:
        return Outcome.UNEXPLAINED
    return Outcome.EXPLAINED if differs else Outcome.AS_PREDICTED


def together(outcomes: Iterable[Outcome | None]) -> Outcome | None:
    """Several in one: the worst of those that were checked, None if none was."""
    found = set(outcomes)
    return next((one for one in reversed(Outcome) if one in found), None)


def exit_code(outcomes: Iterable[Outcome | None]) -> int:
    """Of a command that says all of these: 1 if a claim fails, else 0."""
    found = together(outcomes)
    return 0 if found is None else found.exit_code
