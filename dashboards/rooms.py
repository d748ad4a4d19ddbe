"""Rooms: the answers of a class's students, for their lecturer to show.

No accounts: the room's code permits answering, its key permits reading. A room is in memory alone,
for some hours; nothing of it is written or logged, and it is forgotten when closed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from zerosim.base.errors import ConfigError
from zerosim.dashboards.roomstate import Pointed, Room, Student
from zerosim.dashboards.tokens import is_same_key, is_who, new_code, new_key, read_code
from zerosim.dashboards.votes import GivenAnswer, Tally, Vote, count, is_name, tidy

PRESENT_S = 90.0
"""Time for which a student's page counts after its last request: one in the background polls once a
minute.
"""


@dataclass(frozen=True, slots=True)
class RoomLimits:
    """Limits of stored data, so that no client can fill the memory of the lecturer's machine.

    Attributes:
        rooms: open at once.
        students, questions: per room.
        student_answers, room_answers: per minute.
        life_s: lifetime of a room.
    """

    rooms: int = 8
    students: int = 300
    questions: int = 100
    student_answers: int = 20
    room_answers: int = 1500
    life_s: float = 3 * 3600.0


class Noted(StrEnum):
    """The outcome of an answer."""

    COUNTED = "counted"
    NO_ROOM = "no room"
    """There is no room with this code, or no longer one."""
    FULL = "full"
    """The room has its maximum number of students or questions."""
    TOO_OFTEN = "too often"
    REFUSED = "refused"
    """It has a form that none of our pages sends."""


class NoRoomError(ConfigError):
    """There is no such room, or it no longer exists."""


class WrongKeyError(ConfigError):
    """The key does not belong to this room."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A new room: the code is for all, the key for its owner."""

    code: str
    key: str


class Rooms:
    """All rooms of a server. Thread-safe."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, limits: RoomLimits | None = None
    ) -> None:
        """Create a server's rooms; none is open.

        Args:
            clock: seconds.
        """
        self.limits = limits or RoomLimits()
        self._clock = clock
        self._lock = threading.Lock()
        self._rooms: dict[str, Room] = {}

    def open(self) -> Opened:
        """A new room.

        Raises:
            ConfigError: the maximum number of rooms is open.
        """
        with self._at_now() as now:
            if len(self._rooms) >= self.limits.rooms:
                raise ConfigError(
                    f"{len(self._rooms)} rooms are open: expected fewer; close one, or start the "
                    "server again, which closes all"
                )
            code = new_code()
            while code in self._rooms:
                code = new_code()
            key = new_key()
            self._rooms[code] = Room(key, now + self.limits.life_s)
            return Opened(code, key)

    def look(self, code: str, who: object = "") -> Pointed:
        """The position of the class.

        Args:
            who: the token of a student's page, which then counts as being in the room.

        Raises:
            NoRoomError: there is no room of this code.
        """
        with self._at_now() as now:
            room = self._find(code)
            if is_who(who):
                self._admit(room, who, now)
            return room.pointed

    def show(self, code: str, key: str, pointed: Pointed) -> None:
        """Set the class's question, and reveal or hide its answers and the right one.

        The right answer was then shown to the class, and hiding it later does not undo that.

        Raises:
            NoRoomError: there is no room of this code.
            WrongKeyError: the key does not belong to this room.
        """
        with self._at_now():
            room = self._own(code, key)
            room.pointed = pointed
            if pointed.solved:
                room.solved[pointed.lesson, pointed.question] = None

    def solved(self, code: str) -> tuple[tuple[str, str], ...]:
        """The questions, with their lessons, whose right answers were shown to the class.

        Raises:
            NoRoomError: there is no room of this code.
        """
        with self._at_now():
            return tuple(self._find(code).solved)

    def is_held(self, code: str, lesson_id: str, question_id: str) -> bool:
        """Whether a room's students get no feedback yet, because the class answers first."""
        with self._at_now():
            room = self._rooms.get(read_code(code))
            return room is not None and (lesson_id, question_id) not in room.solved

    def note(
        self,
        code: object,
        who: object,
        lesson_id: str,
        question_id: str,
        answer_text: str,
        *,
        is_right: bool,
        misconception_id: str = "",
    ) -> Noted:
        """Count a student's answer: the first one to a question is kept, and so is the latest.

        Args:
            code: the code of the room, sent by the student's page.
            who: a random token, sent by the student's page.
        """
        if not is_who(who) or not all(map(is_name, (lesson_id, question_id))):
            return Noted.REFUSED
        answer = GivenAnswer(tidy(answer_text), is_right, tidy(misconception_id))
        with self._at_now() as now:
            room = self._rooms.get(read_code(code))
            if room is None:
                return Noted.NO_ROOM
            student = self._admit(room, who, now)
            question = (lesson_id, question_id)
            is_known = question in room.votes
            if student is None or not (is_known or len(room.votes) < self.limits.questions):
                return Noted.FULL
            if student.rate.is_over(self.limits.student_answers, now) or room.rate.is_over(
                self.limits.room_answers, now
            ):
                return Noted.TOO_OFTEN
            student.rate.num += 1
            room.rate.num += 1
            student.has_answered = True
            votes = room.votes.setdefault(question, {})
            vote = votes.get(who)
            votes[who] = Vote(answer if vote is None else vote.first, answer)
            return Noted.COUNTED

    def tally(self, code: str, key: str) -> Tally:
        """The answers to the class's current question.

        Raises:
            NoRoomError: there is no room of this code.
            WrongKeyError: the key does not belong to this room.
        """
        with self._at_now() as now:
            room = self._own(code, key)
            pointed = room.pointed
            votes = room.votes.get((pointed.lesson, pointed.question), {})
            return Tally(
                lesson=pointed.lesson,
                question=pointed.question,
                reveal=pointed.reveal,
                solved=pointed.solved,
                num_students=sum(now - one.seen < PRESENT_S for one in room.students.values()),
                num_answered=len(votes),
                answers=count(votes.values()),
                left_s=room.end - now,
            )

    def close(self, code: str, key: str) -> None:
        """Forget a room.

        Raises:
            NoRoomError: there is no room of this code.
            WrongKeyError: the key does not belong to this room.
        """
        with self._at_now():
            self._own(code, key)
            del self._rooms[read_code(code)]

    def sweep(self) -> None:
        """Forget expired rooms; every other call does so, too."""
        with self._at_now():
            pass

    @property
    def num_open(self) -> int:
        """The number of open rooms."""
        with self._at_now():
            return len(self._rooms)

    @contextmanager
    def _at_now(self) -> Iterator[float]:
        """Exclusive access, with the time, and without expired rooms."""
        with self._lock:
            now = self._clock()
            for code in [code for code, room in self._rooms.items() if now >= room.end]:
                del self._rooms[code]
            yield now

    def _find(self, code: str) -> Room:
        room = self._rooms.get(read_code(code))
        if room is None:
            raise NoRoomError("there is no such room, or it is closed: check its code")
        return room

    def _own(self, code: str, key: str) -> Room:
        room = self._find(code)
        if not is_same_key(room.key, key):
            raise WrongKeyError("wrong key: only the room's lecturer has it")
        return room

    def _admit(self, room: Room, who: str, now: float) -> Student | None:
        """The student of a token; None if the room is full."""
        student = room.students.get(who)
        if student is not None:
            student.seen = now
            return student
        if len(room.students) >= self.limits.students:
            gone = next((one for one, of in room.students.items() if _is_gone(of, now)), None)
            if gone is None:
                return None
            del room.students[gone]
        room.students[who] = Student(now)
        return room.students[who]


def _is_gone(student: Student, now: float) -> bool:
    return now - student.seen >= PRESENT_S and not student.has_answered
