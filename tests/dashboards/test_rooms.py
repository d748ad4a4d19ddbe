"""What a room keeps, for how long, and how much of it."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.dashboards.samples import Clock
from zerosim.base.errors import ConfigError
from zerosim.dashboards.rooms import (
    PRESENT_S,
    NoRoomError,
    Noted,
    RoomLimits,
    Rooms,
    WrongKeyError,
)
from zerosim.dashboards.roomstate import Pointed
from zerosim.dashboards.tokens import ALPHABET, CODE_LENGTH, new_code, new_key, read_code
from zerosim.dashboards.votes import LONGEST_ANSWER

SENT = Pointed("zero3", "sent")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def rooms(clock):
    return Rooms(clock)


def student(number: int) -> str:
    return f"student-{number:08}"


def answer(rooms, opened, number=0, text="3", *, right=False, thought="", question="sent"):
    return rooms.note(
        opened.code,
        student(number),
        "zero3",
        question,
        text,
        is_right=right,
        misconception_id=thought,
    )


def counts(tally) -> dict[str, tuple[int, int]]:
    return {one.answer.text: (one.first, one.latest) for one in tally.answers}


def test_codes_can_be_read_aloud_and_keys_cannot_be_guessed():
    codes = {new_code() for _ in range(500)}
    assert len(codes) == 500
    assert set("".join(codes)) <= set(ALPHABET)
    assert not set(ALPHABET) & set("01IOL")
    assert {len(code) for code in codes} == {CODE_LENGTH}
    assert len({new_key() for _ in range(500)}) == 500
    assert len(new_key()) >= 32


@pytest.mark.parametrize("typed", ["k7m2qx", " K7M 2QX ", "k7m-2qx", "K7M2QX\n"])
def test_a_code_as_students_type_it(typed):
    assert read_code(typed) == "K7M2QX"


@pytest.mark.parametrize("typed", [None, 7, ["K7M2QX"], "K" * 100, b"K7M2QX", {}])
def test_what_is_no_code(typed):
    assert read_code(typed) == ""


def test_the_first_prediction_stays_and_the_latest_takes_its_turn(rooms):
    opened = rooms.open()
    rooms.show(opened.code, opened.key, SENT)
    assert answer(rooms, opened, 0, "3", thought="forgot-share") is Noted.COUNTED
    answer(rooms, opened, 1, "2")
    answer(rooms, opened, 0, "1")
    answer(rooms, opened, 0, "2.25", right=True)
    found = rooms.tally(opened.code, opened.key)
    assert counts(found) == {"3": (1, 0), "2": (1, 1), "2.25": (0, 1)}
    assert found.num_answered == 2
    assert [one.answer.misconception for one in found.answers] == ["forgot-share", "", ""]
    assert (found.lesson, found.question, found.reveal) == ("zero3", "sent", False)


def test_only_the_question_that_the_class_is_at_is_counted(rooms):
    opened = rooms.open()
    answer(rooms, opened, question="other")
    assert rooms.tally(opened.code, opened.key).answers == ()
    rooms.show(opened.code, opened.key, SENT)
    assert rooms.tally(opened.code, opened.key).answers == ()
    rooms.show(opened.code, opened.key, Pointed("zero3", "other", reveal=True))
    assert rooms.tally(opened.code, opened.key).num_answered == 1
    assert rooms.look(opened.code) == Pointed("zero3", "other", reveal=True)


def test_what_is_right_is_held_back_until_it_is_shown(rooms):
    opened = rooms.open()
    code, key = opened.code, opened.key
    rooms.show(code, key, replace(SENT, reveal=True))
    assert rooms.is_held(code, "zero3", "sent")
    rooms.show(code, key, replace(SENT, reveal=True, solved=True))
    rooms.show(code, key, Pointed("zero3", "other"))
    assert rooms.solved(code) == (("zero3", "sent"),)
    assert not rooms.is_held(code.lower(), "zero3", "sent")
    assert rooms.is_held(code, "zero3", "other")
    assert not rooms.is_held("ZZZZZZ", "zero3", "other")
    rooms.close(code, key)
    assert not rooms.is_held(code, "zero3", "other")
    with pytest.raises(NoRoomError):
        rooms.solved(code)


def test_rooms_know_nothing_of_each_other(rooms):
    one, other = rooms.open(), rooms.open()
    for each in (one, other):
        rooms.show(each.code, each.key, SENT)
    answer(rooms, one)
    assert rooms.tally(other.code, other.key).num_answered == 0
    for call in (rooms.tally, rooms.close):
        with pytest.raises(WrongKeyError):
            call(one.code, other.key)
    with pytest.raises(WrongKeyError):
        rooms.show(one.code, "", SENT)
    with pytest.raises(NoRoomError):
        rooms.tally("222222", one.key)
    rooms.close(one.code, one.key)
    assert rooms.num_open == 1


def test_a_room_is_forgotten_in_time(rooms, clock):
    opened = rooms.open()
    kept = weakref.ref(rooms._rooms[opened.code])
    clock.now = rooms.limits.life_s - 1
    assert answer(rooms, opened) is Noted.COUNTED
    assert rooms.tally(opened.code, opened.key).left_s == 1
    clock.now += 1
    assert answer(rooms, opened) is Noted.NO_ROOM
    assert kept() is None
    for call in (rooms.tally, rooms.close):
        with pytest.raises(NoRoomError):
            call(opened.code, opened.key)
    assert rooms.num_open == 0


def test_a_sweep_forgets_without_being_asked_for_anything(rooms, clock):
    kept = weakref.ref(rooms._rooms[rooms.open().code])
    clock.now = rooms.limits.life_s
    rooms.sweep()
    assert kept() is None


def test_nothing_is_left_of_a_closed_room(rooms):
    opened = rooms.open()
    for number in range(50):
        answer(rooms, opened, number, f"marked answer {number}")
        answer(rooms, opened, number, f"marked answer {number} again")
    kept = weakref.ref(rooms._rooms[opened.code])
    votes = [weakref.ref(vote) for vote in kept().votes["zero3", "sent"].values()]
    assert len(votes) == 50
    rooms.close(opened.code, opened.key)
    assert kept() is None
    assert [vote() for vote in votes] == [None] * 50
    found = [
        text
        for one in gc.get_objects()
        for text in gc.get_referents(one)
        if type(text) is str and text.startswith("marked answer") and " again" in text
    ]
    assert found == []


def test_as_many_rooms_as_there_may_be(clock):
    rooms = Rooms(clock, RoomLimits(rooms=2))
    opened = [rooms.open(), rooms.open()]
    with pytest.raises(ConfigError, match="2 rooms are open"):
        rooms.open()
    rooms.close(opened[0].code, opened[0].key)
    rooms.open()


def test_as_many_students_as_a_room_takes(clock):
    rooms = Rooms(clock, RoomLimits(students=3))
    opened = rooms.open()
    rooms.show(opened.code, opened.key, SENT)
    rooms.look(opened.code, student(0))
    assert answer(rooms, opened, 1) is Noted.COUNTED
    assert answer(rooms, opened, 2) is Noted.COUNTED
    assert answer(rooms, opened, 3) is Noted.FULL
    assert answer(rooms, opened, 1, "4") is Noted.COUNTED
    clock.now += PRESENT_S  # a student that only looked and left frees a place
    assert answer(rooms, opened, 3) is Noted.COUNTED
    assert answer(rooms, opened, 4) is Noted.FULL
    found = rooms.tally(opened.code, opened.key)
    assert (found.num_answered, found.num_students) == (3, 1)


def test_as_many_questions_as_a_room_takes(clock):
    rooms = Rooms(clock, RoomLimits(questions=2))
    opened = rooms.open()
    said = [answer(rooms, opened, question=f"q{number}") for number in (0, 1, 2, 1)]
    assert said == [Noted.COUNTED, Noted.COUNTED, Noted.FULL, Noted.COUNTED]


def test_as_many_answers_as_a_minute_takes(clock):
    rooms = Rooms(clock, RoomLimits(student_answers=2, room_answers=5))
    opened = rooms.open()
    said = [answer(rooms, opened, number) for number in (0, 0, 0, 1, 1, 2, 3)]
    assert [one is Noted.COUNTED for one in said] == [True, True, False, True, True, True, False]
    assert {*said} == {Noted.COUNTED, Noted.TOO_OFTEN}
    clock.now += 60
    assert answer(rooms, opened, 3) is Noted.COUNTED


@pytest.mark.parametrize(
    "who", [None, "", "short", 7, [], {}, "x" * 65, "x" * 15, "with space 12345", "a\0" * 10]
)
def test_who_is_no_student(rooms, who):
    opened = rooms.open()
    said = rooms.note(opened.code, who, "zero3", "sent", "3", is_right=False)
    assert said is Noted.REFUSED
    rooms.look(opened.code, who)
    assert rooms._rooms[opened.code].students == {}


@pytest.mark.parametrize("name", ["", "x" * 65, "<b>", "a b", "../x", None, 3])
def test_what_is_no_question(rooms, name):
    opened = rooms.open()
    said = rooms.note(opened.code, student(1), "zero3", name, "3", is_right=False)
    assert said is Noted.REFUSED
    assert rooms._rooms[opened.code].votes == {}


def test_a_text_is_kept_as_one_line_of_some_length(rooms):
    opened = rooms.open()
    rooms.show(opened.code, opened.key, SENT)
    answer(rooms, opened, 0, "a\nb\0c\u202e" + "x" * 10_000)
    answer(rooms, opened, 1, "<b>bold</b>")
    long, markup = counts(rooms.tally(opened.code, opened.key))
    assert len(long) == LONGEST_ANSWER
    assert long.startswith("a b c xxx")
    assert markup == "<b>bold</b>"


def test_a_full_room_is_small(clock):
    """Whatever is sent: 300 students who answer 100 questions at length, one after another."""
    rooms = Rooms(clock)
    opened = rooms.open()
    before = sys.getallocatedblocks()
    for question in range(rooms.limits.questions + 5):
        clock.now += 60
        for number in range(rooms.limits.students + 5):
            answer(rooms, opened, number, "x" * 1000, question=f"q{question}")
    votes = rooms._rooms[opened.code].votes
    assert len(votes) == rooms.limits.questions
    assert {len(of) for of in votes.values()} == {rooms.limits.students}
    assert sys.getallocatedblocks() - before < 8 * 300 * 100
    del votes
    rooms.close(opened.code, opened.key)
    assert sys.getallocatedblocks() - before < 5_000


def test_thirty_students_at_once(rooms):
    opened = rooms.open()
    rooms.show(opened.code, opened.key, SENT)
    together = threading.Barrier(30)
    said = []

    def be_a_student(number: int) -> None:
        together.wait()
        for text in ("1", "2", "3"):
            said.append(answer(rooms, opened, number, text))
            rooms.tally(opened.code, opened.key)

    threads = [threading.Thread(target=be_a_student, args=(one,)) for one in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == [Noted.COUNTED] * 90
    assert counts(rooms.tally(opened.code, opened.key)) == {"1": (30, 0), "3": (0, 30)}


SMALL = RoomLimits(rooms=2, students=4, questions=3, student_answers=5, room_answers=12, life_s=500)
NUMBERS = st.integers(0, 5)
QUESTIONS = st.sampled_from(["q0", "q1", "q2", "q3"])


class Classes(RuleBasedStateMachine):
    """Rooms against a model that keeps every answer as it came."""

    opened = Bundle("opened")

    @initialize()
    def begin(self):
        self.clock = Clock()
        self.rooms = Rooms(self.clock, SMALL)
        self.ends: dict[str, float] = {}
        self.keys: dict[str, str] = {}
        self.said: dict[str, list[tuple[int, str, str]]] = {}

    def lives(self, code: str) -> bool:
        return code in self.ends and self.clock.now < self.ends[code]

    @rule(target=opened)
    def open(self):
        living = sum(map(self.lives, self.ends))
        try:
            new = self.rooms.open()
        except ConfigError:
            assert living == SMALL.rooms
            return ("none", "none")
        assert living < SMALL.rooms
        self.ends[new.code] = self.clock.now + SMALL.life_s
        self.keys[new.code] = new.key
        self.said[new.code] = []
        return (new.code, new.key)

    @rule(one=opened, number=NUMBERS, question=QUESTIONS, text=st.sampled_from("abc"))
    def answer(self, one, number, question, text):
        code, _ = one
        said = self.rooms.note(code, student(number), "l", question, text, is_right=text == "a")
        assert (said is Noted.NO_ROOM) == (not self.lives(code))
        if said is Noted.COUNTED:
            self.said[code].append((number, question, text))

    @rule(one=opened, number=NUMBERS)
    def look(self, one, number):
        code, _ = one
        try:
            self.rooms.look(code, student(number))
        except NoRoomError:
            assert not self.lives(code)

    @rule(one=opened, question=QUESTIONS)
    def tally(self, one, question):
        code, key = one
        if not self.lives(code):
            with pytest.raises(NoRoomError):
                self.rooms.tally(code, key)
            return
        self.rooms.show(code, key, Pointed("l", question))
        found = self.rooms.tally(code, key)
        own = [(number, text) for number, asked, text in self.said[code] if asked == question]
        first = Counter(dict(reversed(own)).values())
        latest = Counter(dict(own).values())
        assert {each.answer.text: (each.first, each.latest) for each in found.answers} == {
            text: (first[text], latest[text]) for text in first | latest
        }
        assert found.num_answered == len(dict(own))
        assert found.num_students <= SMALL.students
        assert all(each.answer.is_right == (each.answer.text == "a") for each in found.answers)

    @rule(one=opened, other=opened)
    def use_the_wrong_key(self, one, other):
        if one[0] != other[0] and self.lives(one[0]):
            with pytest.raises(WrongKeyError):
                self.rooms.tally(one[0], other[1])

    @rule(one=opened)
    def close(self, one):
        code, key = one
        if self.lives(code):
            self.rooms.close(code, key)
            del self.ends[code]

    @precondition(lambda self: self.ends)
    @rule(seconds=st.sampled_from([1, 30, 60, 100, 300]))
    def wait(self, seconds):
        self.clock.now += seconds

    @invariant()
    def stays_within_its_bounds(self):
        if not hasattr(self, "rooms"):
            return
        assert self.rooms.num_open == sum(map(self.lives, self.ends))
        for room in self.rooms._rooms.values():
            assert len(room.students) <= SMALL.students
            assert len(room.votes) <= SMALL.questions
            assert all(set(votes) <= set(room.students) for votes in room.votes.values())


TestClasses = Classes.TestCase
TestClasses.settings = settings(stateful_step_count=40)
