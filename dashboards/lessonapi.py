"""The addresses of lessons: their pages, answers to their questions, runs that are recorded here.

Addresses:

    GET  /lessons                        the course
    GET  /lessons/notes                  the lecturer's notes
    GET  /lessons/ID?run=TICKET          a lesson, with the committed runs or those of a ticket
    POST /api/lessons/ID/check           {question, answer, run, room, who}: the feedback on it
    GET  /api/lessons/ID/rest            ?settled=&settled=&run=: the parts after these questions
    GET  /api/lessons/ID/explain         ?question=&run=: why the right answer is right
    POST /api/lessons/ID/record          {block, value}: record here; this machine's browser alone
    GET  /api/lessons/ID/record/TICKET   the progress of that
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

from flask import Blueprint, Response, render_template, request

from zerosim.base.errors import ConfigError, ZerosimError, first_line
from zerosim.dashboards.classroom import Classroom, Taught, question_of, to_plain
from zerosim.dashboards.exchange import answered, given_object, text_of
from zerosim.dashboards.guard import NotHereError, Writable, is_from_here, text
from zerosim.dashboards.page import PageFrame
from zerosim.dashboards.pages import lessons
from zerosim.dashboards.pages.blocks import AnyBlock
from zerosim.dashboards.pages.lesson_steps import rest_of
from zerosim.dashboards.pages.slides import Deck
from zerosim.dashboards.rooms import Rooms
from zerosim.lessons.course import course, find_lesson
from zerosim.lessons.questions import AnswerError, read_answer
from zerosim.lessons.recordings import can_record
from zerosim.view.export import player

COURSE_MAIN, LESSON_MAIN = "lesson/course.js", "lesson/main.js"
"""The first modules of the two pages."""
SLIDES_MAIN = "lesson/slides.js"
"""The policy of a lesson's slides, which are a file."""
_LESSON = r"/api/lessons/[a-z0-9_-]{1,40}"
WRITES = (Writable("POST", f"{_LESSON}/check"), Writable("POST", f"{_LESSON}/record"))


class NoLessonError(ConfigError):
    """There is no such lesson."""


_STATUS: dict[type[Exception], HTTPStatus] = {
    NotHereError: HTTPStatus.FORBIDDEN,
    NoLessonError: HTTPStatus.NOT_FOUND,
}
_answered = answered(_STATUS)


def make_lesson_pages(
    classroom: Classroom, frame: Callable[[], PageFrame], answer: Callable[[str], Response]
) -> Blueprint:
    """The pages, for a server to include.

    Args:
        frame: the surroundings of a page.
        answer: creates the response of a page from HTML; it may show a replay in a frame.
    """
    pages = Blueprint("lessons", __name__)

    @pages.get(lessons.PATH)
    def _course() -> Response:
        return answer(
            render_template(
                "lessons.html",
                frame=frame(),
                paths=lessons.paths(course()),
                words=lessons.words(),
                modules=player.modules(COURSE_MAIN),
                address_of=lessons.address_of,
                notes=lessons.NOTES,
            )
        )

    @pages.get(lessons.NOTES)
    def _notes() -> Response:
        shown = {"frame": frame(), "notes": lessons.notes(), "words": lessons.words()}
        return answer(render_template("notes.html", **shown))

    @pages.get(f"{lessons.PATH}/<lesson_id>")
    def _lesson(lesson_id: str) -> Response:
        numbered = (one for one in course() if str(one.number) == lesson_id)
        if (lesson := next(numbered, None)) is not None:  # the number that a class uses
            query = request.query_string.decode("ascii", "ignore")
            place = f"{lessons.address_of(lesson)}{'?' if query else ''}{query}"
            return Response(status=HTTPStatus.FOUND, headers={"Location": place})
        try:
            _require(lesson_id)
            taught = classroom.teach(lesson_id, request.args.get("run", ""))
        except ZerosimError as error:
            status = _STATUS.get(type(error), HTTPStatus.UNPROCESSABLE_ENTITY)
            return text(first_line(error), status)
        around = frame()
        if around.is_file:
            return answer(_file_of(classroom, taught, around, request.args.get("page", "")))
        return answer(
            render_template(
                "lesson.html",
                frame=around,
                taught=taught,
                able=lessons.able_after(taught.lesson),
                is_lost=bool(request.args.get("run")) and not taught.ticket,
                can_record=can_record() and is_from_here(request),
                has_torch=can_record(),
                words=lessons.words(),
                modules=player.modules(LESSON_MAIN),
                address_of=lessons.address_of,
            )
        )

    return pages


def _file_of(classroom: Classroom, taught: Taught, around: PageFrame, kind: str) -> str:
    """A lesson that needs no server, answers and all: as slides, or step below step."""
    shown = {"frame": around, "taught": taught, "words": lessons.words()}
    if kind == lessons.SLIDES:
        slides = Deck(taught.lesson, taught.facts, taught.steps).slides()
        modules = player.modules(SLIDES_MAIN)
        return render_template("slides.html", **shown, slides=slides, modules=modules)
    told = partial(classroom.explain, taught)
    able = lessons.able_after(taught.lesson)
    return render_template("lesson_file.html", **shown, explain=told, able=able)


def make_lesson_api(classroom: Classroom, rooms: Rooms) -> Blueprint:
    """The other addresses, for a server to include."""
    api = Blueprint("lessonapi", __name__)

    @api.post("/api/lessons/<lesson_id>/check")
    @_answered
    def _check(lesson_id: str) -> tuple[dict[str, Any], int]:
        given = given_object()
        taught = _taught(classroom, lesson_id, text_of(given, "run", ""))
        return _said(classroom, rooms, taught, given), HTTPStatus.OK

    @api.get("/api/lessons/<lesson_id>/rest")
    @_answered
    def _rest(lesson_id: str) -> tuple[dict[str, Any], int]:
        taught = _taught(classroom, lesson_id, request.args.get("run", ""))
        settled = {question_of(taught.lesson, each).id for each in request.args.getlist("settled")}
        blocks = [
            {"id": block.id, "html": _drawn(block)} for block in rest_of(taught.steps, settled)
        ]
        return {"blocks": blocks}, HTTPStatus.OK

    @api.get("/api/lessons/<lesson_id>/explain")
    @_answered
    def _explain(lesson_id: str) -> tuple[dict[str, Any], int]:
        taught = _taught(classroom, lesson_id, request.args.get("run", ""))
        return {"words": classroom.explain(taught, request.args.get("question", ""))}, HTTPStatus.OK

    @api.post("/api/lessons/<lesson_id>/record")
    @_answered
    def _record(lesson_id: str) -> tuple[dict[str, Any], int]:
        given = given_object()
        taught = _taught(classroom, lesson_id, "")
        said = lessons.words()["lesson"]
        if not is_from_here(request):
            raise NotHereError(said["elsewhere"])
        if not can_record():
            raise ConfigError(said["no_torch"])
        job = classroom.record(taught, text_of(given, "block"), text_of(given, "value", ""))
        return classroom.workbench.state_of(job), HTTPStatus.ACCEPTED

    @api.get("/api/lessons/<lesson_id>/record/<ticket>")
    @_answered
    def _recorded(lesson_id: str, ticket: str) -> tuple[dict[str, Any], int]:
        job = classroom.workbench.find(ticket)
        if job is None or job.page != f"lessons/{lesson_id}":
            raise NoLessonError("there is no such recording, or it has been deleted")
        return classroom.workbench.state_of(job), HTTPStatus.OK

    return api


def _said(
    classroom: Classroom, rooms: Rooms, taught: Taught, given: Mapping[str, Any]
) -> dict[str, Any]:
    """The feedback on an answer, here and in a room."""
    question, answer = text_of(given, "question"), given.get("answer")
    code = text_of(given, "room", "")
    try:
        said = classroom.check(taught, question, answer)
    except AnswerError:  # a typing mistake is not an error of the page
        kind = question_of(taught.lesson, question).kind
        return {"problem": lessons.words()["unread"][kind]}
    if not code:
        return to_plain(said)
    noted = rooms.note(
        code,
        given.get("who"),
        taught.lesson.id,
        question,
        _shown(taught, question, answer),
        is_right=said.is_right,
        misconception_id=said.misconception,
    )
    is_held = rooms.is_held(code, taught.lesson.id, question)
    return ({"held": True} if is_held else to_plain(said)) | {"room": noted.value}


def _drawn(block: AnyBlock) -> str:
    """An uncovered block, as HTML for its page."""
    return render_template(
        "lesson_block.html",
        block=block,
        words=lessons.words(),
        can_record=can_record() and is_from_here(request),
        has_torch=can_record(),
        address_of=lessons.address_of,
    )


def _require(lesson_id: str) -> None:
    try:
        find_lesson(lesson_id)
    except ConfigError as error:
        raise NoLessonError(first_line(error)) from None


def _taught(classroom: Classroom, lesson_id: str, ticket: str) -> Taught:
    _require(lesson_id)
    return classroom.teach(lesson_id, ticket)


def _shown(taught: Taught, question_id: str, given: object) -> str:
    """An answer as a lecturer reads it."""
    question = question_of(taught.lesson, question_id)
    answer = read_answer(question, given, taught.facts.names())
    if isinstance(answer, float):
        return f"{answer:g}"
    return answer if isinstance(answer, str) else " ".join(answer)
