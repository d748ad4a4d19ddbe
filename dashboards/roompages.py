"""The pages of rooms: the lecturer's, and the one where students type a code.

Addresses:

    GET /room               the lecturer's page; on the machine that serves alone
    GET /join               a field for a code
    GET /join/CODE          to the lesson that the class is at, and into the room
    GET /join/CODE/qr       that address as a QR code
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from flask import Blueprint, Response, current_app, redirect, render_template, request
from werkzeug.wrappers import Response as Answer

from zerosim.base.errors import first_line
from zerosim.dashboards.guard import is_from_here, text
from zerosim.dashboards.page import PageFrame
from zerosim.dashboards.pages import room
from zerosim.dashboards.qr import qr_svg
from zerosim.dashboards.roomapi import elsewhere
from zerosim.dashboards.rooms import NoRoomError, Rooms
from zerosim.dashboards.tokens import read_code
from zerosim.view.export import player

ADDRESSES = "CLASS_ADDRESSES"
"""In the application's configuration: addresses for students to type; empty if unreachable."""


def make_room_pages(
    rooms: Rooms, frame: Callable[[], PageFrame], answer: Callable[[str, int], Response]
) -> Blueprint:
    """The pages, for a server to include.

    Args:
        frame: the surroundings of a page.
        answer: creates the response of a page from HTML and status.
    """
    pages = Blueprint("roompages", __name__)
    pages.add_app_template_global(room.words, "room_words")
    pages.add_app_template_global(lambda: is_from_here(request), "is_here")

    @pages.get(room.PATH)
    def _room() -> Response:
        if not is_from_here(request):
            return _form(elsewhere(), HTTPStatus.FORBIDDEN)
        public = current_app.config.get(ADDRESSES, ())
        view = room.view(public, request.host_url, rooms.limits.life_s)
        modules = player.modules(room.MAIN)
        shown = render_template("room.html", frame=frame(), view=view, modules=modules)
        return answer(shown, HTTPStatus.OK)

    @pages.get(room.JOIN)
    def _ask() -> Answer:
        code = request.args.get("code")
        return _join(code) if code is not None else _form("", HTTPStatus.OK)

    @pages.get(f"{room.JOIN}/<code>")
    def _join(code: str) -> Answer:
        try:
            at = rooms.look(code)
        except NoRoomError as error:
            return _form(str(error), HTTPStatus.NOT_FOUND)
        found = redirect(room.address_in(at.lesson, at.question, read_code(code)))
        found.headers["Cache-Control"] = "no-store"
        return found

    @pages.get(f"{room.JOIN}/<code>/qr")
    def _qr(code: str) -> Response:
        try:
            rooms.look(code)
        except NoRoomError as error:
            return text(first_line(error), HTTPStatus.NOT_FOUND)
        public = current_app.config.get(ADDRESSES, ())
        own = next(iter(public), request.host_url)
        drawn = qr_svg(f"{own.rstrip('/')}{room.JOIN}/{read_code(code)}")
        return Response(drawn, mimetype="image/svg+xml", headers={"Cache-Control": "no-store"})

    def _form(problem: str, status: int) -> Response:
        return answer(render_template("join.html", frame=frame(), problem=problem), status)

    return pages
