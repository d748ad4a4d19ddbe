"""What is kept of a room."""

from __future__ import annotations

from dataclasses import dataclass, field

from zerosim.dashboards.votes import Vote

MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Pointed:
    """Where the class is.

    Attributes:
        lesson, question: ids; "" as long as the lecturer points at none.
        reveal: the lecturer shows the answers.
        solved: and what is right of them.
    """

    lesson: str = ""
    question: str = ""
    reveal: bool = False
    solved: bool = False


@dataclass(slots=True)
class Rate:
    """How many there were in the present minute."""

    begin: float = -MINUTE_S
    num: int = 0

    def is_over(self, most: int, now: float) -> bool:
        """Whether as many as there may be were in this minute already."""
        if now - self.begin >= MINUTE_S:
            self.begin, self.num = now, 0
        return self.num >= most


@dataclass(slots=True)
class Student:
    """A student's page: when it was last heard of, in seconds, and what it sent."""

    seen: float
    rate: Rate = field(default_factory=Rate)
    has_answered: bool = False


@dataclass(slots=True, weakref_slot=True)
class Room:
    """A room: whose it is, when it ends, where the class is, and what it answered."""

    key: str
    end: float
    pointed: Pointed = field(default_factory=Pointed)
    rate: Rate = field(default_factory=Rate)
    students: dict[str, Student] = field(default_factory=dict)
    votes: dict[tuple[str, str], dict[str, Vote]] = field(default_factory=dict)
    solved: dict[tuple[str, str], None] = field(default_factory=dict)
    """Questions, by lesson, of which the class was shown what is right."""
