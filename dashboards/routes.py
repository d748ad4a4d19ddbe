"""The pages, each at its address.

Imports the standard library, flask, its siblings and zerosim's errors.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from flask import Flask, Response, redirect, render_template, request
from werkzeug.wrappers import Response as Answer

from dashboards import page, playerfiles, site
from dashboards.api import asked_for, asked_iteration
from dashboards.library import Library, NoSuchTraceError
from dashboards.pages import compare, graph, replay, verify
from dashboards.results import Results
from zerosim.errors import ZerosimError, first_line

MOST_REPORTS = 64
"""Verified traces that are kept."""


def add_pages(
    server: Flask,
    library: Library,
    dash_parts: Callable[[], page.DashParts],
    assets: str,
    policy: str,
) -> None:
    """Answer for every page.

    Args:
        dash_parts: what a page needs for Dash to begin in it.
        assets: where `start.js` and its siblings are.
        policy: what a browser may do with a page.
    """
    reports = Results(verify.make_reports, lambda _: 1, MOST_REPORTS)

    def answer(content: str, status: int = HTTPStatus.OK) -> Response:
        response = Response(content, status, mimetype="text/html")
        response.headers["Content-Security-Policy"] = policy
        response.headers["Cache-Control"] = "no-cache"
        return response

    def frame() -> page.Frame:
        query = request.query_string.decode("latin-1")
        return page.Frame(
            query=query,
            tabs=site.tabs(request.path, site.asked_for(library, query)),
            menu=site.runs_of(library, request.path, query).title,
            assets=assets,
            dash=dash_parts(),
        )

    def cannot(error: Exception, shared: page.Frame, title: str) -> Response:
        missing = isinstance(error, NoSuchTraceError)
        status = HTTPStatus.NOT_FOUND if missing else HTTPStatus.UNPROCESSABLE_ENTITY
        problem = first_line(error)
        return answer(
            render_template("problem.html", frame=shared, title=title, problem=problem), status
        )

    @server.get(replay.PATH)
    def _replay() -> Response:
        return answer(page.render(f"{replay.TITLE} · zerosim", frame()))

    @server.get(verify.PATH)
    def _verify() -> Response:
        shared = frame()
        try:
            entry = asked_for(library)
            shown = verify.view(reports.get(entry, asked_iteration()), request.args)
        except (ZerosimError, OSError) as error:
            return cannot(error, shared, verify.TITLE)
        return answer(render_template("verify.html", frame=shared, view=shown, entry=entry))

    @server.get(compare.PATH)
    def _compare() -> Answer:
        shared = frame()
        asked = request.args.getlist("trace")
        try:
            names = compare.chosen(library, asked)
        except ZerosimError as error:
            return cannot(error, shared, compare.TITLE)
        if names != tuple(asked):  # so that the address says what is looked at
            found = redirect(f"{compare.PATH}?{compare.query_of(names)}")
            found.headers["Cache-Control"] = "no-store"
            return found
        view = compare.view(names, library.entries())
        modules = playerfiles.modules(compare.MAIN)
        return answer(
            render_template(
                "compare.html", frame=shared, view=view, modules=modules, part=playerfiles.part
            )
        )

    @server.get(graph.PATH)
    def _graph() -> Response:
        modules = playerfiles.modules(graph.MAIN)
        return answer(render_template("graph.html", frame=frame(), modules=modules))
