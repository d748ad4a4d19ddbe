"""The page of paused ranks, and its addresses.

    GET  /debug?key=K              the page: Replay of past steps, and the next ones
    GET  /api/debug?key=K&who=W    the positions of the ranks
    POST /api/debug                {key, who, what}: a command as at the terminal, and its reply

The key permits watching and queries; the first page that steps, or sets breakpoints, has control
until it is closed.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from flask import Blueprint, Flask, Response, render_template, request

from zerosim.base.errors import ConfigError, first_line
from zerosim.dashboards.exchange import answered, given_object, text_of
from zerosim.dashboards.guard import Writable, text
from zerosim.dashboards.page import framing
from zerosim.dashboards.pages import replay
from zerosim.dashboards.pages.lessons import EMBED
from zerosim.dashboards.routes import Surroundings
from zerosim.debug import Reply, Steering
from zerosim.debug.steering import NotAllowedError

PATH = "/debug"
WRITES = (Writable("POST", "/api/debug"),)
_answered = answered({NotAllowedError: HTTPStatus.FORBIDDEN})


def add_holding(server: Flask, steering: Steering | None, around: Surroundings) -> None:
    """Handle the page and its addresses; without paused ranks there is no such page."""
    if steering is not None:
        server.register_blueprint(_make_holding(steering, around))


def _make_holding(steering: Steering, around: Surroundings) -> Blueprint:
    api = Blueprint("holding", __name__)
    version = -1

    @api.get(PATH)
    def _page() -> Response:
        try:
            steering.state(request.args.get("key", ""), "")
        except NotAllowedError as error:
            return text(f"refused: {error}", HTTPStatus.FORBIDDEN)
        shown = render_template("debug.html", frame=around.frame())
        return around.answer(shown, policy=framing(around.policy))

    @api.get("/api/debug")
    @_answered
    def _state() -> tuple[dict[str, Any], int]:
        nonlocal version
        state = steering.state(request.args.get("key", ""), request.args.get("who", ""))
        if state["version"] != version:  # the ranks have written rows since
            version = state["version"]
            around.library.look_again()
        entry = around.library.default()
        address = "" if entry is None else f"{replay.address_of(entry.name)}&{EMBED}=1"
        return state | {"replay": address}, HTTPStatus.OK

    @api.post("/api/debug")
    @_answered
    def _act() -> tuple[dict[str, Any], int]:
        given = given_object()
        key, who, what = (text_of(given, name) for name in ("key", "who", "what"))
        try:
            return steering.act(key, who, what).to_plain(), HTTPStatus.ACCEPTED
        except ConfigError as error:  # a mistyped command gets a reply, as at the terminal
            return Reply([first_line(error)]).to_plain() | {
                "error": first_line(error)
            }, HTTPStatus.OK

    return api
