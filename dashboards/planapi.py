"""A layout of the page Plan as a simulated run: a dry run on the serving machine, for itself.

    POST /api/plan/simulate {query}     the layout at an address of the page: its ticket
    GET  /api/plan/simulate/TICKET      its progress, and then its address in Replay

No command is sent: the arguments are those of the plan at the address. `pages.plan` limits its
size, `workbench` its time and resources.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from flask import Blueprint, has_request_context, request
from werkzeug.datastructures import MultiDict

from zerosim.base.errors import ConfigError
from zerosim.dashboards.exchange import answered, given_object, text_of
from zerosim.dashboards.guard import NotHereError, Writable, is_from_here
from zerosim.dashboards.page import ALONE
from zerosim.dashboards.pages import plan, replay
from zerosim.dashboards.texts import SITE
from zerosim.dashboards.workbench import PLAN, State, Workbench, WorkbenchJob
from zerosim.lessons.recordings import can_record

_SIMULATE = "/api/plan/simulate"
WRITES = (Writable("POST", _SIMULATE),)
_RUN = "run"


class NoJobError(ConfigError):
    """There is no such simulation."""


_answered = answered(
    {NotHereError: HTTPStatus.FORBIDDEN, NoJobError: HTTPStatus.NOT_FOUND},
)


def simulates() -> bool:
    """Whether this visitor can have the server simulate; the reader of a file cannot."""
    if not has_request_context() or ALONE in request.environ:
        return False
    return can_record() and is_from_here(request)


def make_plan_api(workbench: Workbench) -> Blueprint:
    """The addresses, for a server to include."""
    api = Blueprint("planapi", __name__)

    @api.post(_SIMULATE)
    @_answered
    def _simulate() -> tuple[dict[str, Any], int]:
        query = text_of(given_object(), "query")
        if not is_from_here(request):
            raise NotHereError(SITE("plan.elsewhere"))
        if not can_record():
            raise ConfigError(SITE("plan.no_torch"))
        asked = MultiDict(parse_qsl(query.removeprefix("?"), keep_blank_values=True))
        words, model = plan.command_at(asked)
        return _plain(workbench, workbench.simulate(_RUN, words, model)), HTTPStatus.ACCEPTED

    @api.get(f"{_SIMULATE}/<ticket>")
    @_answered
    def _simulated(ticket: str) -> tuple[dict[str, Any], int]:
        job = workbench.find(ticket)
        if job is None or job.page != PLAN:
            raise NoJobError(SITE("plan.no_simulation"))
        return _plain(workbench, job), HTTPStatus.OK

    return api


def _plain(workbench: Workbench, job: WorkbenchJob) -> dict[str, Any]:
    said = {
        State.WAITING: SITE("plan.waiting", count=workbench.num_before(job)),
        State.RUNNING: SITE("plan.simulating", seconds=f"{job.seconds:.0f}"),
        State.DONE: SITE("plan.simulated"),
        State.FAILED: SITE("plan.failed", why=job.problem),
    }
    return {
        "ticket": job.ticket,
        "state": job.state.value,
        "said": said[job.state],
        "address": replay.address_of(job.name_of(_RUN)) if job.state is State.DONE else "",
    }
