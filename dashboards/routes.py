"""The pages, each at its address."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from flask import Flask, Response, redirect, render_template, request
from werkzeug.wrappers import Response as Answer

from zerosim.base.errors import ZerosimError, first_line
from zerosim.dashboards import page, perfetto, site
from zerosim.dashboards.api import asked_for
from zerosim.dashboards.callbacks.pages import DashPages
from zerosim.dashboards.callbacks.plan import PlanPage
from zerosim.dashboards.callbacks.verify import VerifyPage
from zerosim.dashboards.classroom import Classroom
from zerosim.dashboards.components.markup import to_html
from zerosim.dashboards.lessonapi import make_lesson_pages
from zerosim.dashboards.library import Library, NoSuchTraceError
from zerosim.dashboards.pages import compare, graph, lessons, plan, replay, verify
from zerosim.dashboards.puzzleapi import make_puzzle_pages
from zerosim.dashboards.roompages import make_room_pages
from zerosim.dashboards.rooms import Rooms
from zerosim.dashboards.texts import SITE
from zerosim.record.text import one_line
from zerosim.view.export import player


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The surroundings of every page.

    Attributes:
        assets: the address of `runs.js` and its siblings.
        policy: the policy of a page.
    """

    library: Library
    assets: str
    policy: str

    def answer(self, content: str, status: int = HTTPStatus.OK, policy: str = "") -> Response:
        """A page; `policy` in place of the usual one."""
        response = Response(content, status, mimetype="text/html")
        response.headers["Content-Security-Policy"] = policy or self.policy
        response.headers["Cache-Control"] = "no-cache"
        return response

    def answer_of_run(self, content: str, policy: str) -> Response:
        """A page of a run, which may have a button for Perfetto."""
        response = self.answer(content, policy=policy)
        if perfetto.here():
            response.headers.update(perfetto.OPENS)
        return response

    def frame(self) -> page.PageFrame:
        """The surroundings of the requested page."""
        query = request.query_string.decode("latin-1")
        return page.PageFrame(
            query=query,
            tabs=site.tabs(request.path, site.asked_for(self.library, query)),
            runs=self.runs(request.path, query),
            assets=self.assets,
            is_file=page.ALONE in request.environ,
            perfetto="" if page.ALONE in request.environ else perfetto.here(),
        )

    def runs(self, path: str, query: str) -> str:
        """The list of runs on a page, HTML."""
        return render_template("runs.html", runs=site.runs_of(self.library, path, query))

    def refuse(self, error: Exception, title: str) -> Response:
        """A page with an error in one line."""
        missing = isinstance(error, NoSuchTraceError)
        status = HTTPStatus.NOT_FOUND if missing else HTTPStatus.UNPROCESSABLE_ENTITY
        problem = one_line(first_line(error))
        if page.ALONE in request.environ:
            return Response(problem, status, mimetype="text/plain")
        return self._problem(
            title, problem, SITE("problem.choose_another_run_from_the_list"), status
        )

    def nothing_here(self, problem: str) -> Response:
        """A page for an address that has none."""
        return self._problem(
            SITE("problem.no_such_page"),
            problem,
            SITE("problem.the_pages_are_named_above"),
            HTTPStatus.NOT_FOUND,
        )

    def _problem(self, title: str, problem: str, hint: str, status: int) -> Response:
        shown = {"frame": self.frame(), "title": title, "problem": problem, "hint": hint}
        return self.answer(render_template("problem.html", **shown), status)


def add_pages(
    server: Flask,
    library: Library,
    classroom: Classroom,
    drawn: DashPages,
    *,
    rooms: Rooms,
    assets: str,
    policy: str,
) -> Surroundings:
    """Handle every page; Dash draws some of them, `Surroundings` the rest."""
    around = Surroundings(library, assets, policy)
    teaching = partial(around.answer, policy=page.framing(policy))  # a replay in a frame, too
    server.register_blueprint(make_lesson_pages(classroom, around.frame, teaching))
    server.register_blueprint(make_puzzle_pages(around.frame, around.answer))
    for add in (_add_runs, _add_replay, _add_compare, _add_graph):
        add(server, around)
    _add_verify(server, around, drawn.verify)
    _add_plan(server, around, drawn.plan)
    server.register_blueprint(make_room_pages(rooms, around.frame, around.answer))
    return around


def _add_runs(server: Flask, around: Surroundings) -> None:
    @server.get("/runs")
    def _runs() -> Response:
        shown = around.runs(request.args.get("page", ""), request.args.get("query", ""))
        return around.answer(shown)


def _add_replay(server: Flask, around: Surroundings) -> None:
    @server.get(replay.PATH)
    def _replay() -> Response:
        is_embedded = lessons.EMBED in request.args
        shown = page.render(
            f"{SITE(replay.TITLE)} · zerosim", around.frame(), is_embedded=is_embedded
        )
        policy = page.framed(around.policy) if is_embedded else around.policy
        return around.answer_of_run(shown, policy)


def _add_compare(server: Flask, around: Surroundings) -> None:
    @server.get(compare.PATH)
    def _compare() -> Answer:
        asked = request.args.getlist("trace")
        try:
            names = compare.chosen(around.library, asked)
        except ZerosimError as error:
            return around.refuse(error, SITE(compare.TITLE))
        if names != tuple(asked):  # so that the address names the displayed runs
            found = redirect(f"{compare.PATH}?{compare.query_of(names)}")
            found.headers["Cache-Control"] = "no-store"
            return found
        view = compare.view(names, around.library.entries())
        modules = player.modules(compare.MAIN)
        shared = {"frame": around.frame(), "part": player.part}
        return around.answer(render_template("compare.html", view=view, modules=modules, **shared))


def _add_verify(server: Flask, around: Surroundings, shown: VerifyPage) -> None:
    @server.get(verify.PATH)
    def _verify() -> Response:
        try:
            name = asked_for(around.library, request.args).name
            frame = around.frame()
            written = to_html(shown.body(request.args), alone=frame.is_file)
        except (ZerosimError, OSError) as error:
            return around.refuse(error, SITE(verify.TITLE))
        parts = {"frame": frame, "dash": shown.parts(), "written": written}
        title = f"{SITE(verify.TITLE)} · {name}"
        return around.answer(render_template("figures.html", title=title, **parts))


def _add_plan(server: Flask, around: Surroundings, shown: PlanPage) -> None:
    @server.get(plan.PATH)
    def _plan() -> Response:
        frame = around.frame()
        written = to_html(shown.body(request.args), alone=frame.is_file)
        parts = {"frame": frame, "dash": shown.parts(), "written": written, "script": plan.SCRIPT}
        return around.answer(render_template("figures.html", title=SITE(plan.TITLE), **parts))


def _add_graph(server: Flask, around: Surroundings) -> None:
    @server.get(graph.PATH)
    def _graph() -> Response:
        modules = player.modules(graph.MAIN)
        is_embedded = lessons.EMBED in request.args
        shown = {"frame": around.frame(), "modules": modules, "is_embedded": is_embedded}
        policy = page.framed(around.policy) if is_embedded else around.policy
        return around.answer_of_run(render_template("graph.html", **shown), policy)
