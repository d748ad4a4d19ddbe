"""All of the dashboard as one WSGI application.

`/` redirects to the page, the player reads `/api` and `/player`, and Dash's own requests are below
`/dash/`.
"""

from __future__ import annotations

import gzip
import re
import sys
import threading
import traceback
from collections.abc import Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dash import Dash
from dash.exceptions import DependencyException
from flask import Flask, Request, Response, has_request_context, redirect, request
from werkzeug.exceptions import HTTPException

from zerosim.base.errors import ConfigError
from zerosim.base.language import typeset
from zerosim.base.quantities import format_bytes, format_exact, format_psi
from zerosim.dashboards import page
from zerosim.dashboards.api import make_api, respond
from zerosim.dashboards.bodies import make_body
from zerosim.dashboards.callbacks.pages import DashPages
from zerosim.dashboards.classroom import Classroom
from zerosim.dashboards.documents import Documents
from zerosim.dashboards.exchange import given_object
from zerosim.dashboards.guard import LOCAL_NAMES, Writable, protect, text
from zerosim.dashboards.holding import WRITES as DEBUG_WRITES
from zerosim.dashboards.holding import add_holding
from zerosim.dashboards.languages import Speaking, remember, tag
from zerosim.dashboards.lessonapi import WRITES as LESSON_WRITES
from zerosim.dashboards.lessonapi import make_lesson_api
from zerosim.dashboards.library import Library
from zerosim.dashboards.pages import replay
from zerosim.dashboards.planapi import WRITES as PLAN_WRITES
from zerosim.dashboards.planapi import make_plan_api
from zerosim.dashboards.puzzleapi import WRITES as PUZZLE_WRITES
from zerosim.dashboards.puzzleapi import make_puzzle_api
from zerosim.dashboards.roomapi import WRITES, make_room_api
from zerosim.dashboards.rooms import Rooms
from zerosim.dashboards.routes import add_pages
from zerosim.dashboards.texts import SITE
from zerosim.dashboards.workbench import Workbench
from zerosim.debug import Steering
from zerosim.view.export import player

DASH = "/dash/"
ASSETS = f"{DASH}assets"
_CALLBACK = f"{DASH}_dash-update-component"
_OWN = (f"{DASH}_dash-", f"{ASSETS}/")
_BUNDLES = f"{DASH}_dash-component-suites/"
_PLOTLY = f"{_BUNDLES}plotly/package_data/plotly.min.js"
"""The address at which `dcc.Graph` requests all of plotly.js, 1.5 MB compressed; its basic bundle
has 0.4 MB and draws all of our figures."""
_PLOTLY_BASIC = Path(__file__).parent / "assets" / "plotly-basic.min.js"
_BETWEEN = "\n<!-- -->\n"
_LARGEST_REQUEST = 64 * 1024


def make_app(
    library: Library,
    documents: Documents,
    hosts: Iterable[str] = LOCAL_NAMES,
    rooms: Rooms | None = None,
    classroom: Classroom | None = None,
    steering: Steering | None = None,
) -> Flask:
    """The application.

    Args:
        hosts: the allowed host names; see `guard.hosts_of`.
        rooms: the rooms of its classes.
        classroom: the lessons; by default made with the library's shelf.
        steering: access to paused ranks.
    """
    rooms = Rooms() if rooms is None else rooms
    classroom = classroom or Classroom(library, documents, Workbench(library.shelf))
    server = Flask(__package__, static_folder=None)
    server.jinja_env.filters.update(
        bytes=format_bytes, exact=format_exact, psi=format_psi, typeset=typeset
    )
    server.jinja_env.globals.update(
        say=SITE,
        words_of=player.words,
        language_tag=tag,
        switch=page.switch,
        preview=page.preview,
        player=player.address(),
    )
    server.jinja_env.trim_blocks = True
    remember(server)
    server.config["MAX_CONTENT_LENGTH"] = _LARGEST_REQUEST
    dash_asks = Writable("POST", re.escape(_CALLBACK), _LARGEST_REQUEST)
    protect(
        server,
        hosts,
        (dash_asks, *WRITES, *LESSON_WRITES, *PUZZLE_WRITES, *PLAN_WRITES, *DEBUG_WRITES),
    )
    server.register_blueprint(make_api(library, documents))
    server.register_blueprint(make_room_api(rooms))
    server.register_blueprint(make_lesson_api(classroom, rooms))
    server.register_blueprint(make_puzzle_api(classroom.workbench))
    server.register_blueprint(make_plan_api(classroom.workbench))
    dash = _Dash(server)
    drawn = DashPages(library, dash.parts)
    dash.layout = lambda: drawn.layout(*_address_of_page())
    drawn.register(dash)
    plotly = make_body(_PLOTLY_BASIC.read_bytes(), "text/javascript")
    policy = page.content_security_policy([page.IMPORT_MAP, dash.renderer])

    @server.get("/")
    def _home() -> Any:
        entry = library.default()
        answer = redirect(replay.PATH if entry is None else replay.address_of(entry.name))
        answer.headers["Cache-Control"] = "no-store"
        return answer

    around = add_pages(
        server,
        library,
        classroom,
        drawn,
        rooms=rooms,
        assets=ASSETS,
        policy=policy,
    )
    add_holding(server, steering, around)

    @server.before_request
    def _only_what_dash_needs() -> Response | None:
        if not request.path.startswith(DASH):
            return None
        if not request.path.startswith(_OWN):
            return text("there is no such page", HTTPStatus.NOT_FOUND)
        if problem := dash.refuses(request):
            return text(f"refused: {problem}", HTTPStatus.BAD_REQUEST)
        return respond(plotly) if request.path == _PLOTLY else None

    @server.errorhandler(DependencyException)
    def _no_such_script(_: DependencyException) -> Response:
        return text("Dash has no such script", HTTPStatus.NOT_FOUND)

    @server.errorhandler(HTTPException)
    def _refused(error: HTTPException) -> Response:
        status = error.code or HTTPStatus.INTERNAL_SERVER_ERROR
        lines = {404: "there is no such page", 405: "refused: this server only reads traces"}
        if status == HTTPStatus.NOT_FOUND and "text/html" in request.headers.get("Accept", ""):
            return around.nothing_here(lines[status])
        return text(lines.get(status, f"{error.name.lower()}"), status)

    @server.errorhandler(Exception)
    def _failed(error: Exception) -> Response:
        traceback.print_exception(error, file=sys.stderr)
        return text("the server failed: its terminal shows why", HTTPStatus.INTERNAL_SERVER_ERROR)

    server.after_request(_Packed())
    server.wsgi_app = Speaking(server.wsgi_app)  # type: ignore[assignment, method-assign]
    return server


def _address_of_page() -> tuple[str, str]:
    """Path and query of the page that requests its layout; Dash also checks it by itself."""
    asked = urlsplit(request.referrer or "" if has_request_context() else "")
    return asked.path, f"?{asked.query}" if asked.query else ""


class _Dash(Dash):
    """Dash, with our page around it."""

    def __init__(self, server: Flask) -> None:
        settings: dict[str, Any] = {  # Dash's own types leave some of these out
            "server": server,
            "url_base_pathname": DASH,
            # all is served from here and nothing is reported
            "serve_locally": True,
            "include_assets_files": False,
            "compress": False,
            # otherwise each page would have the contents of the server's start
            "suppress_callback_exceptions": True,
            "update_title": None,
            "add_log_handler": False,
        }
        super().__init__(__package__, **settings)

    def refuses(self, asked: Request) -> str:
        """Why Dash would fail at a request that no page of ours makes; "" if it would not."""
        try:
            urlsplit(asked.referrer or "")
        except ValueError:
            return "the Referer is not an address"
        if asked.path != _CALLBACK or asked.method != "POST":
            return ""
        try:
            found = given_object()
        except ConfigError as error:
            return str(error)
        known = self.callback_map.get(str(found.get("output")))
        if known is None:
            return "expected a request from one of zerosim's pages to Dash"
        outputs = [
            {"id": one.component_id, "property": one.component_property} for one in known["output"]
        ]
        for part, expected in (
            ("outputs", outputs),
            ("inputs", known["inputs"]),
            ("state", known["state"]),
        ):
            if _places(found.get(part, [])) != expected:
                return f"its {part} are not those of one of zerosim's pages"
        changed = found.get("changedPropIds", [])
        is_named = isinstance(changed, list) and all(isinstance(one, str) for one in changed)
        return "" if is_named else "its changedPropIds are not names"

    def parts(self) -> page.DashParts:
        """The data of a page with which Dash starts."""
        _, config, scripts, renderer = str(super().index()).split(_BETWEEN)  # type: ignore[no-untyped-call]
        return page.DashParts(config, page.put_off(scripts + renderer))

    def interpolate_index(self, **parts: str) -> str:  # type: ignore[override]  # as documented
        """Dash checks that its parts are present; the pages are ours."""
        return _BETWEEN.join(parts[name] for name in ("app_entry", "config", "scripts", "renderer"))


def _places(given: object) -> list[dict[str, Any]] | None:
    """Properties and components; None if they are not in Dash's format."""
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        return None
    return [{"id": one.get("id"), "property": one.get("property")} for one in given]


class _Packed:
    """Compresses Dash's own scripts, each once: a classroom's radio is slow."""

    def __init__(self) -> None:
        self._packed: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def __call__(self, response: Response) -> Response:
        wanted = request.path.startswith(_BUNDLES) and request.accept_encodings["gzip"]
        is_packed = "Content-Encoding" in response.headers
        if not wanted or is_packed or response.status_code != HTTPStatus.OK:
            return response
        with self._lock:  # its address names its version
            packed = self._packed.get(request.path)
            if packed is None:
                packed = self._packed[request.path] = gzip.compress(response.get_data(), mtime=0)
        response.set_data(packed)
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Vary"] = "Accept-Encoding"
        return response
