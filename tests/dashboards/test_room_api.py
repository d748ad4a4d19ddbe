"""The addresses of rooms: what a lecturer and a class ask for, and what anybody else sends."""

from __future__ import annotations

import gc
import json
import logging
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dashboards.samples import Clock
from tests.lessons.committed import facts
from zerosim.dashboards.app import make_app
from zerosim.dashboards.documents import Documents
from zerosim.dashboards.library import Library
from zerosim.dashboards.qr import qr_svg
from zerosim.dashboards.rooms import Noted, RoomLimits, Rooms
from zerosim.lessons.course import LabCall, find_lesson
from zerosim.lessons.questions import offered

STUDENT = "a-students-own-token"
QUESTION = {"lesson": "zero3", "question": "sent"}


@pytest.fixture(scope="module")
def school(tmp_path_factory):
    """The application of all tests, without runs, and its rooms."""
    rooms = Rooms()
    library = Library([tmp_path_factory.mktemp("empty")])
    return make_app(library, Documents(), rooms=rooms), rooms


class Class:
    """An application with a room in it, and what a lecturer and students ask for."""

    def __init__(self, school, limits=None) -> None:
        self.clock = Clock()
        app, self.rooms = school
        self.rooms.__init__(self.clock, limits)  # none of another test is open
        self.client = app.test_client()
        opened = self.client.post("/api/rooms", json={})
        assert opened.status_code == 201
        self.code, self.key = opened.json["code"], opened.json["key"]
        self.address = f"/api/rooms/{self.code}"

    def show(self, *, reveal=False, solved=False, **changes):
        sent = {"key": self.key, **QUESTION, "reveal": reveal, "solved": solved, **changes}
        return self.client.post(f"{self.address}/show", json=sent)

    def tally(self):
        return self.client.get(f"{self.address}/tally", query_string={"key": self.key}).json

    def answer(self, number, text, *, right=False, thought=""):
        return self.rooms.note(
            self.code,
            f"student-{number:08}",
            "zero3",
            "sent",
            text,
            is_right=right,
            misconception_id=thought,
        )


@pytest.fixture
def room(school):
    return Class(school)


def test_a_class(room):
    assert room.show().status_code == 200
    at = room.client.get(room.address, query_string={"who": STUDENT})
    assert at.json == {
        "open": True,
        "code": room.code,
        "lesson": "zero3",
        "question": "sent",
        "title": "5 · ZeRO-3: gather when needed",
        "step": at.json["step"],
        "reveal": False,
        "solved": False,
        "told": [],
    }
    asking = find_lesson("zero3").steps[at.json["step"] - 1]
    assert "sent" in [
        call.args[0] for call in asking.blocks if isinstance(call, LabCall) and call.args
    ]
    room.answer(0, "3", thought="forgot-share")
    room.answer(1, "9/4", right=True)
    room.answer(2, "2.25", right=True)
    room.answer(0, "2.25", right=True)
    room.show(reveal=True)
    found = room.tally()
    assert found["bars"] == [
        {"label": "2.25", "first": 2, "latest": 3, "is_right": True},
        {"label": "3", "first": 1, "latest": 0, "is_right": False},
    ]
    name = "Each collective sends all of its payload"
    assert found["thoughts"] == [{"name": name, "first": 1, "latest": 0}]
    assert (found["num_students"], found["num_answered"], found["reveal"]) == (4, 3, True)
    assert (found["right_first"], found["right_latest"]) == (2, 3)
    assert "How much does one rank send" in found["words"]
    assert found["unit"] == "Ψ"
    assert (found["choices"], found["solved"]) == ([], False)
    assert len(json.dumps(found)) < 2_000
    room.show(reveal=True, solved=True)
    assert room.tally()["solved"] is True
    room.show(question="life")
    assert room.client.get(room.address).json["told"] == ["zero3/sent"]
    closed = room.client.delete(room.address, json={"key": room.key})
    assert closed.status_code == 200
    assert room.client.get(room.address).json == {"open": False}


def test_a_room_begins_at_no_question(room):
    at = room.client.get(room.address.lower()).json
    assert (at["code"], at["lesson"], at["title"]) == (room.code, "", "")
    assert "bars" not in room.tally()
    room.show()
    assert room.show(lesson="", question="").status_code == 200
    assert room.client.get(room.address).json["lesson"] == ""


def test_a_student_never_learns_who_answered_what(room):
    room.show(reveal=True)
    room.answer(7, "3")
    assert "student" not in json.dumps(room.tally()).replace("num_students", "")
    assert set(room.client.get(room.address).json) == {
        "open", "code", "lesson", "question", "title", "step", "reveal",
        "solved", "told",
    }  # fmt: skip


@pytest.mark.parametrize("address", ["192.168.1.9", "::ffff:10.0.0.3", "fe80::1", "8.8.8.8"])
def test_only_the_lecturers_machine_opens_rooms(room, address):
    elsewhere = {"REMOTE_ADDR": address}
    answer = room.client.post("/api/rooms", json={}, environ_overrides=elsewhere)
    assert answer.status_code == 403
    assert "on the serving machine" in answer.json["error"]
    assert room.rooms.num_open == 1
    assert room.client.get(room.address, environ_overrides=elsewhere).status_code == 200


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_loopback_is_the_lecturers_machine(room, address):
    opened = room.client.post("/api/rooms", json={}, environ_overrides={"REMOTE_ADDR": address})
    assert opened.status_code == 201


def test_nobody_says_he_were_here(room):
    said = {"X-Forwarded-For": "127.0.0.1", "Forwarded": "for=127.0.0.1", "X-Real-IP": "127.0.0.1"}
    away = {"REMOTE_ADDR": "10.0.0.3"}
    answer = room.client.post("/api/rooms", json={}, headers=said, environ_overrides=away)
    assert answer.status_code == 403


@pytest.mark.parametrize("key", ["", "x", "x" * 32, "\ud800", "é" * 40, "<b>"])
def test_the_wrong_key_does_nothing(room, key):
    room.show(reveal=True)
    assert room.show(key=key).status_code == 403
    assert room.client.delete(room.address, json={"key": key}).status_code == 403
    sent = key.encode("utf-8", "replace").decode()
    refused = room.client.get(f"{room.address}/tally", query_string={"key": sent})
    assert refused.status_code == 403
    assert refused.json == {"error": "wrong key: only the room's lecturer has it"}
    assert room.client.get(f"{room.address}/tally").status_code == 403
    assert room.tally()["reveal"] is True


@pytest.mark.parametrize("code", ["222222", "ZZZZZZ", "0", "K7M2QXK7M2QXK7M2QXK7M2QXX", "<b>", "é"])
def test_guessed_codes(room, code):
    assert room.client.get(f"/api/rooms/{code}").json == {"open": False}
    away = room.client.get(f"/api/rooms/{code}/tally", query_string={"key": room.key})
    assert away.status_code == 404
    sent = {"key": room.key, **QUESTION, "reveal": True, "solved": False}
    assert room.client.post(f"/api/rooms/{code}/show", json=sent).status_code in (404, 405)
    assert room.client.delete(f"/api/rooms/{code}", json=sent).status_code in (404, 405)
    assert room.rooms.num_open == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"lesson": "no-such-lesson"},
        {"question": "no-such-question"},
        {"lesson": "<script>alert(1)</script>"},
        {"question": ""},
        {"lesson": "../zero3"},
        {"lesson": "x" * 2000},
        {"lesson": 5},
        {"lesson": None},
        {"question": ["sent"]},
        {"reveal": 1},
        {"reveal": "yes"},
        {"solved": 1},
        {"solved": None},
        {"key": None},
        {"key": {}},
    ],
)
def test_the_class_is_pointed_at_questions_and_nothing_else(room, changes):
    room.show(reveal=True)
    answer = room.show(**changes)
    assert answer.status_code == 422
    assert len(answer.json["error"]) < 300
    assert room.client.get(room.address).json["reveal"] is True


@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"[]", b"3", b'"key"', b"{", b"\xff\xfe", b"[" * 4000, b'{"key":' * 500,
     b"{}", b'{"key":"x"', b"NaN", b'{"key": 1e999}'],
)  # fmt: skip
def test_odd_json(room, data):
    for method, address in (("POST", f"{room.address}/show"), ("DELETE", room.address)):
        answer = room.client.open(
            address, method=method, data=data, content_type="application/json"
        )
        assert answer.status_code == 422
        assert len(answer.json["error"].splitlines()) == 1
    assert room.rooms.num_open == 1


def test_what_is_too_large(room):
    assert room.show(lesson="x" * 5000).status_code == 413
    long = room.client.get(f"{room.address}/tally", query_string={"key": "x" * 5000})
    assert long.status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:9"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_other_sites_do_nothing(room, headers):
    room.show(reveal=True)
    sent = {"key": room.key, **QUESTION, "reveal": False, "solved": False}
    for method, address in (
        ("POST", "/api/rooms"),
        ("POST", f"{room.address}/show"),
        ("DELETE", room.address),
    ):
        answer = room.client.open(address, method=method, json=sent, headers=headers)
        assert answer.status_code == 403
    assert room.rooms.num_open == 1
    assert room.tally()["reveal"] is True


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_what_a_form_can_send_does_nothing(room, kind):
    answer = room.client.post("/api/rooms", data=b"{}", content_type=kind)
    assert answer.status_code == 415
    assert room.rooms.num_open == 1


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "POST", "TRACE"])
def test_no_other_address_takes_more_than_reading(room, method):
    addresses = ["/room", "/api/rooms/", f"{room.address}/tally", "/api/rooms/a/b/show"]
    addresses += [room.address] if method != "DELETE" else []
    for address in addresses:
        answer = room.client.open(address, method=method, json={"key": room.key})
        assert answer.status_code == 405, (method, address)
    assert room.rooms.num_open == 1


def test_a_flood_of_rooms_and_students_is_bounded(school):
    room = Class(school, RoomLimits(rooms=3, students=20))
    said = [room.client.post("/api/rooms", json={}).status_code for _ in range(10)]
    assert said == [201] * 2 + [422] * 8
    for number in range(200):
        room.client.get(room.address, query_string={"who": f"made-up-token-{number}"})
    assert room.tally()["num_students"] == 20
    assert room.answer(1, "3") is Noted.FULL


def test_markup_stays_text(room):
    room.show(reveal=True)
    room.answer(0, "<img src=x onerror=alert(1)>")
    answer = room.client.get(f"{room.address}/tally", query_string={"key": room.key})
    assert answer.mimetype == "application/json"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_of_a_closed_room_nothing_is_left(room, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    room.show(reveal=True)
    for number in range(20):
        room.answer(number, "-".join(["marked", str(number), "text"]))
        room.tally()
    room.client.delete(room.address, json={"key": room.key})
    room.client.get(room.address)
    gc.collect()
    found = [
        text
        for one in gc.get_objects()
        for text in gc.get_referents(one)
        if type(text) is str and re.fullmatch(r"marked-\d+-text", text)
    ]
    assert found == []
    said = caplog.text + "".join(capfd.readouterr())
    assert not re.search(r"marked-\d", said)
    assert room.key not in said


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def lasting(school):
    return Class(school)


@given(
    fields=st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("key", "lesson", "question", "reveal", "solved"), PLAIN)
    )
)
def test_whatever_is_sent_the_server_stands(lasting, fields):
    data = json.dumps(fields)
    for method, address in (
        ("POST", f"{lasting.address}/show"),
        ("DELETE", lasting.address),
    ):
        answer = lasting.client.open(
            address, method=method, data=data, content_type="application/json"
        )
        assert answer.status_code in (403, 413, 422)
    assert lasting.rooms.num_open == 1


def test_the_pages(room):
    page = room.client.get("/room")
    assert page.status_code == 200
    assert "alone" in re.findall(r"class=\"(\w+)\"", page.text)
    away = room.client.get("/room", environ_overrides={"REMOTE_ADDR": "10.0.0.3"})
    assert away.status_code == 403
    assert "on the serving machine" in away.text
    room.client.application.config["CLASS_ADDRESSES"] = ("http://192.168.1.7:8050",)
    page = room.client.get("/room").text
    assert "192.168.1.7:8050/join" in page
    assert 'class="alone"' not in page


@pytest.mark.parametrize(
    ("lesson", "question"),
    [("model-parallel", "cut"), ("model-parallel", "silent"), ("zero3", "life")],
)
def test_the_wall_shows_what_to_choose_from(room, lesson, question):
    asked = find_lesson(lesson).questions[question]
    shown = [option.label for option in offered(asked, facts().names())]
    room.show(lesson=lesson, question=question)
    assert room.tally()["choices"] == shown
    assert len(shown) > 1


def test_a_telephone_reads_where_to_join(room):
    config = room.client.application.config
    for public, host in (((), "http://localhost"), (("http://192.168.1.7:8050/",), "192.168.1.7")):
        config["CLASS_ADDRESSES"] = public
        answer = room.client.get(f"/join/{room.code.lower()}/qr")
        assert (answer.status_code, answer.mimetype) == (200, "image/svg+xml")
        own = public[0] if public else "http://localhost/"
        assert host in own
        assert answer.data == qr_svg(f"{own}join/{room.code}")
    assert room.client.get("/join/ZZZZZZ/qr").status_code == 404


@pytest.mark.parametrize("way", ["/join?code={}", "/join/{}"])
def test_who_joins_is_led_to_where_the_class_is(room, way):
    assert room.client.get("/join").status_code == 200
    for code in (room.code, room.code.lower()):
        first = room.client.get(way.format(code))
        assert first.headers["Location"] == f"/lessons/memory?room={room.code}"
    room.show()
    at = room.client.get(way.format(room.code))
    step = room.client.get(room.address).json["step"]
    assert at.headers["Location"] == f"/lessons/zero3?room={room.code}#step={step}"
    for wrong in ("ZZZZZZ", "%3Cscript%3Ealert(1)%3C%2Fscript%3E", "a%0d%0ab", "x" * 500):
        answer = room.client.get(way.format(wrong))
        assert answer.status_code == 404
        assert "no such" in answer.text
        assert "<script>alert" not in answer.text


def test_an_answer_to_a_lesson_is_counted(room):
    room.show(reveal=True)
    address = "/api/lessons/zero3/check"
    sent = {"question": "sent", "answer": "3", "room": room.code.lower(), "who": STUDENT}
    for answer, said in (("3", "counted"), ("9/4", "counted")):
        assert room.client.post(address, json={**sent, "answer": answer}).json["room"] == said
    assert room.client.post(address, json={**sent, "room": "ZZZZZZ"}).json["room"] == "no room"
    assert room.client.post(address, json={**sent, "who": "<b>"}).json["room"] == "refused"
    odd = room.client.post(address, json={**sent, "answer": "<img src=x onerror=alert(1)>"})
    assert [*odd.json] == ["problem"]
    found = room.tally()
    assert [(bar["label"], bar["first"], bar["latest"]) for bar in found["bars"]] == [
        ("2.25", 0, 1),
        ("3", 1, 0),
    ]
    assert found["thoughts"][0]["first"] == 1
