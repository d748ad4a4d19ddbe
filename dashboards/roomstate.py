"""The state of a room."""

from __future__ import annotations

from dataclasses import dataclass, field

from zerosim.dashboards.votes import Vote

MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Pointed:
    """The position of the class.

    Attributes:
        lesson, question: ids; "" before the lecturer chooses one.
        reveal: whether the lecturer shows the answers.
        solved: whether the right one is shown.
    """

    lesson: str = ""
    question: str = ""
    reveal: bool = False
    solved: bool = False


@dataclass(slots=True)
class Rate:
    """The number of events in the current minute."""

    begin: float = -MINUTE_S
    num: int = 0

    def is_over(self, most: int, now: float) -> bool:
        """Whether the limit of this minute is reached."""
        if now - self.begin >= MINUTE_S:
            self.begin, self.num = now, 0
        return self.num >= most


@dataclass(slots=True)
class Student:
    """A student's page: the time of its last request, in seconds, and its answers."""

    seen: float
    rate: Rate = field(default_factory=Rate)
    has_answered: bool = False


@dataclass(slots=True, weakref_slot=True)
class Room:
    """A room: its key, its expiry, the position of the class, and its answers."""

    key: str
    end: float
    pointed: Pointed = field(default_factory=Pointed)
    rate: Rate = field(default_factory=Rate)
    students: dict[str, Student] = field(default_factory=dict)
    votes: dict[tuple[str, str], dict[str, Vote]] = field(default_factory=dict)
    solved: dict[tuple[str, str], None] = field(default_factory=dict)
    """Questions, by lesson, whose right answers were shown to the class."""
