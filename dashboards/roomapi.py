"""The addresses of rooms, in which a lecturer shows the answers of a class.

    POST   /api/rooms                 a new room: its code and its key; the lecturer's machine alone
    GET    /api/rooms/CODE            the class's position; with ?who= a student's page is counted
    POST   /api/rooms/CODE/show       {key, lesson, question, reveal, solved}: sets the position
    GET    /api/rooms/CODE/tally      ?key=: the answers
    DELETE /api/rooms/CODE            {key}: forget the room

The answers themselves are sent like those to a lesson's question.
"""

from __future__ import annotations

from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from flask import Blueprint, current_app, request

from zerosim.base.errors import ConfigError
from zerosim.dashboards.exchange import answered, given_object
from zerosim.dashboards.guard import Writable, is_from_here
from zerosim.dashboards.pages import room
from zerosim.dashboards.rooms import NoRoomError, Rooms, WrongKeyError
from zerosim.dashboards.roomstate import Pointed
from zerosim.dashboards.tokens import read_code

HERE = "OWN_URL"
"""In the application's configuration: the page's address for a browser on this machine."""
_CODE = r"/api/rooms/[A-Za-z0-9 -]{1,24}"
WRITES = (
    Writable("POST", "/api/rooms"),
    Writable("POST", f"{_CODE}/show"),
    Writable("DELETE", _CODE),
)
_STATUS: dict[type[Exception], HTTPStatus] = {
    NoRoomError: HTTPStatus.NOT_FOUND,
    WrongKeyError: HTTPStatus.FORBIDDEN,
}
_answered = answered(_STATUS)


def elsewhere() -> str:
    """Why another machine cannot open a room, and which one can."""
    own = current_app.config.get(HERE, "localhost or 127.0.0.1")
    return f"a room can only be opened on the serving machine: open this page there, at {own}"


def make_room_api(rooms: Rooms) -> Blueprint:
    """The addresses, for a server to include."""
    api = Blueprint("rooms", __name__)

    @api.post("/api/rooms")
    @_answered
    def _open() -> tuple[dict[str, Any], int]:
        if not is_from_here(request):
            return {"error": elsewhere()}, HTTPStatus.FORBIDDEN
        opened = rooms.open()
        return {"code": opened.code, "key": opened.key}, HTTPStatus.CREATED

    @api.get("/api/rooms/<code>")
    @_answered
    def _look(code: str) -> tuple[dict[str, Any], int]:
        try:
            at = rooms.look(code, request.args.get("who"))
            told = ["/".join(each) for each in rooms.solved(code)]
        except NoRoomError:  # the request asks whether there is one, so this is not a failure
            return {"open": False}, HTTPStatus.OK
        answer = {"open": True, "code": read_code(code), **asdict(at), "title": "", "step": 0}
        answer["told"] = told
        if at.lesson:
            lesson = room.require(at.lesson, at.question)
            answer |= {"title": room.title_of(lesson), "step": room.step_of(lesson, at.question)}
        return answer, HTTPStatus.OK

    @api.post("/api/rooms/<code>/show")
    @_answered
    def _show(code: str) -> tuple[dict[str, Any], int]:
        given = _given(key=str, lesson=str, question=str, reveal=bool, solved=bool)
        lesson, question = given["lesson"], given["question"]
        if lesson or question:
            room.require(lesson, question)
        pointed = Pointed(lesson, question, given["reveal"], given["solved"])
        rooms.show(code, given["key"], pointed)
        return {}, HTTPStatus.OK

    @api.get("/api/rooms/<code>/tally")
    @_answered
    def _tally(code: str) -> tuple[dict[str, Any], int]:
        return room.plain(rooms.tally(code, request.args.get("key", ""))), HTTPStatus.OK

    @api.delete("/api/rooms/<code>")
    @_answered
    def _close(code: str) -> tuple[dict[str, Any], int]:
        rooms.close(code, _given(key=str)["key"])
        return {}, HTTPStatus.OK

    return api


def _given(**kinds: type) -> dict[str, Any]:
    """The fields of the JSON that was sent.

    Raises:
        ConfigError: a field is missing or of another type, or it is not JSON.
    """
    found = given_object()
    for name, kind in kinds.items():
        if type(found.get(name)) is not kind:
            raise ConfigError(f"{name} is not a {kind.__name__}: expected {', '.join(kinds)}")
    return {name: found[name] for name in kinds}
