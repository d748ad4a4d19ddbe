"""The addresses that the player and other programs read.

GET /api/traces                          the list
GET /api/replay?trace=NAME&iteration=I   one iteration as a document
GET /api/compare?trace=A&trace=B         two to four runs, aligned
GET /api/graph?trace=NAME&iteration=I    the event graph of one iteration
GET /api/perfetto?trace=NAME             a run for Perfetto, where pages offer to open it
GET /player/[VERSION/]FILE               the player's modules and style
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from http import HTTPStatus
from pathlib import PurePosixPath

from flask import Blueprint, Response, request

from zerosim.base.errors import ConfigError, TraceError, first_line
from zerosim.dashboards import perfetto
from zerosim.dashboards.bodies import Body, make_body
from zerosim.dashboards.documents import Documents
from zerosim.dashboards.entry import TraceEntry
from zerosim.dashboards.guard import text
from zerosim.dashboards.library import Library, NoSuchTraceError
from zerosim.dashboards.pages import replay
from zerosim.dashboards.perfetto import PerfettoFiles
from zerosim.dashboards.texts import SITE
from zerosim.view.export import player
from zerosim.view.export.offline import encode
from zerosim.view.replay import graph_document
from zerosim.view.replay.alignment import MOST, align

_ASKED_AGAIN = "no-cache"
"""A page never shows out-of-date data."""
_FOR_GOOD = "max-age=31536000, immutable"
"""For an address with immutable contents, which a browser need not request again."""
_MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css"}


def make_api(library: Library, documents: Documents) -> Blueprint:
    """The addresses, for a server to include."""
    api = Blueprint("api", __name__)
    graphs = Documents(graph_document)
    files = PerfettoFiles()

    @api.get("/api/traces")
    def _traces() -> Response:
        default = library.default()
        answer = {
            "traces": [_plain(entry) for entry in library.entries()],
            "default": None if default is None else default.name,
        }
        return respond(make_body(json.dumps(answer).encode(), "application/json"))

    @api.get("/api/replay")
    def _replay() -> Response:
        query = request.args
        return _answer(lambda: documents.get(asked_for(library, query), asked_iteration(query)))

    @api.get("/api/compare")
    def _compare() -> Response:
        return _answer(lambda: _aligned(library, documents))

    @api.get("/api/graph")
    def _graph() -> Response:
        query = request.args
        return _answer(lambda: graphs.get(asked_for(library, query), asked_iteration(query)))

    @api.get("/api/perfetto")
    def _perfetto() -> Response:
        if not perfetto.here():
            return _error("off: zerosim serve --perfetto turns it on", HTTPStatus.NOT_FOUND)
        return _answer(lambda: files.get(asked_for(library, request.args)))

    @api.get(f"{player.ROOT}<path:name>")
    def _player(name: str) -> Response:
        found = player.find(player.name_at(name))
        if found is None:
            return text("the player has no such file", HTTPStatus.NOT_FOUND)
        body = _packed(found, _MEDIA_TYPES[PurePosixPath(name).suffix])
        is_named = request.path.startswith(player.address())
        return respond(body, caching=_FOR_GOOD if is_named else _ASKED_AGAIN)

    return api


@lru_cache(maxsize=256)
def _packed(content: str, media_type: str) -> Body:
    """A file of the player, compressed once."""
    return make_body(content.encode(), media_type)


def _answer(make: Callable[[], Body]) -> Response:
    """A body, or an error in one line."""
    try:
        body = make()
    except NoSuchTraceError as error:
        return _error(str(error), HTTPStatus.NOT_FOUND)
    except (TraceError, ConfigError) as error:
        return _error(str(error), HTTPStatus.UNPROCESSABLE_ENTITY)
    except OSError as error:
        reason = error.strerror or first_line(error)
        return _error(f"the trace cannot be read: {reason}", HTTPStatus.UNPROCESSABLE_ENTITY)
    return respond(body)


def _aligned(library: Library, documents: Documents) -> Body:
    entries = [library.find(name) for name in request.args.getlist("trace")[: MOST + 1]]
    alignment = align([json.loads(documents.get(entry).content) for entry in entries])
    return make_body(encode(alignment.to_plain()), "application/json")


def asked_for(library: Library, query: Mapping[str, str]) -> TraceEntry:
    """The trace of a request.

    Raises:
        TraceError: there is none of this name, or none at all, or it cannot be shown.
    """
    name = query.get("trace")
    if name is not None:
        return library.find(name)
    entry = library.default()
    if entry is None:
        folders = ", ".join(map(str, library.folders))
        raise NoSuchTraceError(
            SITE("problem.there_is_no_trace_in_as", folders=folders, folders_2=library.folders[0])
        )
    return entry


def asked_iteration(query: Mapping[str, str]) -> int | None:
    """The iteration of a request; None for the last complete one.

    Raises:
        ConfigError: it is not a number.
    """
    given = query.get("iteration")
    if given is None:
        return None
    try:
        return int(given)
    except ValueError:
        raise ConfigError(f"iteration is {given[:40]!r}: expected a whole number") from None


def _error(line: str, status: HTTPStatus) -> Response:
    response = Response(json.dumps({"error": line}), status, mimetype="application/json")
    response.headers["Cache-Control"] = "no-store"
    return response


def _plain(entry: TraceEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "title": entry.title,
        "stage": entry.stage,
        "complete": entry.complete,
        "modified_ns": entry.modified_ns,
        "problem": entry.problem,
        "url": replay.address_of(entry.name),
    }


def respond(body: Body, *, caching: str = _ASKED_AGAIN) -> Response:
    """Answer with a body, or that the browser has it already."""
    response = Response(mimetype=body.media_type)
    if request.accept_encodings["gzip"]:
        response.set_data(body.packed)
        response.headers["Content-Encoding"] = "gzip"
    else:
        response.set_data(body.content)
    response.set_etag(body.tag, weak=True)
    response.headers["Cache-Control"] = caching
    response.headers["Vary"] = "Accept-Encoding"
    response.make_conditional(request)
    return response
