"""The addresses of puzzles: their pages, their files, and programs that are checked here.

    GET  /puzzles                          the list
    GET  /puzzles/NAME                     a puzzle
    GET  /puzzles/NAME/FILE                the file that a student fills in
    POST /api/puzzles/NAME/check           {program}: check it; this machine's browser alone
    GET  /api/puzzles/NAME/check/TICKET    how far that is, then the verdict

A program is run for the serving machine and for no other, like recordings.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from flask import Blueprint, Response, render_template, request

from zerosim.base.errors import ConfigError, first_line
from zerosim.dashboards.exchange import answered, given_object, text_of
from zerosim.dashboards.guard import NotHereError, Writable, is_from_here, text
from zerosim.dashboards.page import PageFrame
from zerosim.dashboards.pages import puzzles, replay
from zerosim.dashboards.trial import MOST_BYTES, TrialResult
from zerosim.dashboards.workbench import Workbench, WorkbenchJob
from zerosim.lessons.recordings import can_record
from zerosim.puzzles.puzzle import Puzzle, find_puzzle
from zerosim.puzzles.puzzle import puzzles as all_puzzles
from zerosim.view.export import player

LIST_MAIN, PUZZLE_MAIN = "puzzle/list.js", "puzzle/main.js"
"""The first modules of the two pages."""
_PUZZLE = r"/api/puzzles/[a-z0-9-]{1,40}"
WRITES = (Writable("POST", f"{_PUZZLE}/check", 2 * MOST_BYTES),)


class NoPuzzleError(ConfigError):
    """There is no such puzzle, or no such check."""


_answered = answered({NotHereError: HTTPStatus.FORBIDDEN, NoPuzzleError: HTTPStatus.NOT_FOUND})


def make_puzzle_pages(
    frame: Callable[[], PageFrame], answer: Callable[[str], Response]
) -> Blueprint:
    """The pages, for a server to include.

    Args:
        frame: the surroundings of a page.
        answer: creates the response of a page from HTML.
    """
    pages = Blueprint("puzzles", __name__)

    @pages.get(puzzles.PATH)
    def _list() -> Response:
        return answer(
            render_template(
                "puzzles.html",
                frame=frame(),
                words=puzzles.words(),
                puzzles=all_puzzles(),
                address_of=puzzles.address_of,
                modules=player.modules(LIST_MAIN),
            )
        )

    @pages.get(f"{puzzles.PATH}/<name>")
    def _puzzle(name: str) -> Response:
        try:
            found = _find(name)
        except NoPuzzleError as error:
            return text(first_line(error), HTTPStatus.NOT_FOUND)
        return answer(
            render_template(
                "puzzle.html",
                frame=frame(),
                words=puzzles.words(),
                page=puzzles.page_of(found),
                can_check=can_record() and is_from_here(request),
                has_torch=can_record(),
                address_of=puzzles.address_of,
                modules=player.modules(PUZZLE_MAIN),
            )
        )

    @pages.get(f"{puzzles.PATH}/<name>/<file>")
    def _file(name: str, file: str) -> Response:
        try:
            found = _find(name)
        except NoPuzzleError as error:
            return text(first_line(error), HTTPStatus.NOT_FOUND)
        if file != found.file_name:
            return text(f"expected {found.file_name}", HTTPStatus.NOT_FOUND)
        response = Response(found.task, mimetype="text/x-python")
        response.headers["Content-Disposition"] = f"attachment; filename={found.file_name}"
        return response

    return pages


def make_puzzle_api(workbench: Workbench) -> Blueprint:
    """The other addresses, for a server to include."""
    api = Blueprint("puzzleapi", __name__)

    @api.post("/api/puzzles/<name>/check")
    @_answered
    def _check(name: str) -> tuple[dict[str, Any], int]:
        puzzle, said = _find(name), puzzles.words()["puzzle"]
        if not is_from_here(request):
            raise NotHereError(said["elsewhere"])
        if not can_record():
            raise ConfigError(said["no_torch"])
        program = text_of(given_object(), "program")
        if len(program.encode("utf-8", "surrogatepass")) > MOST_BYTES:
            raise ConfigError(said["too_long"].format(most=MOST_BYTES // 1024))
        job = workbench.check(puzzle.name, program)
        return workbench.state_of(job), HTTPStatus.ACCEPTED

    @api.get("/api/puzzles/<name>/check/<ticket>")
    @_answered
    def _checked(name: str, ticket: str) -> tuple[dict[str, Any], int]:
        job = workbench.find(ticket)
        if job is None or job.page != f"puzzles/{_find(name).name}":
            raise NoPuzzleError("there is no such check, or it has been deleted")
        said = workbench.state_of(job)
        return said | ({} if job.tried is None else _told(job, job.tried)), HTTPStatus.OK

    return api


def _find(name: str) -> Puzzle:
    try:
        return find_puzzle(name)
    except ConfigError as error:
        raise NoPuzzleError(first_line(error)) from None


def _told(job: WorkbenchJob, tried: TrialResult) -> dict[str, Any]:
    """A verdict, the output, its address in Replay; and the solution for a program that passes."""
    verdict = tried.verdict
    name = job.runs[0]
    at = ""
    if verdict["step"] is not None:
        at = f"&iteration={verdict['iteration']}#at={verdict['step']}"
    is_seen = verdict["trace"] is not None and (verdict["passes"] or verdict["step"] is not None)
    return {
        "passes": verdict["passes"],
        "checks": verdict["checks"],
        "failed": verdict["check"],
        "reason": verdict["reason"],
        "line": verdict["line"],
        "replay": f"{replay.address_of(job.name_of(name))}{at}" if is_seen else "",
        "step": verdict["step"],
        "printed": tried.printed,
        "solution": find_puzzle(name).reference if verdict["passes"] else "",
    }
