"""The lessons' addresses: pages without answers, what is said of answers, what is recorded."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import pytest

from tests.dashboards.samples import put_trace
from tests.deadlines import RANKS_S
from zerosim.base.errors import ConfigError
from zerosim.dashboards import lessonapi
from zerosim.dashboards.app import make_app
from zerosim.dashboards.classroom import Classroom, lesson_shelf
from zerosim.dashboards.documents import Documents
from zerosim.dashboards.library import Library
from zerosim.dashboards.pages import lessons
from zerosim.dashboards.rooms import Rooms
from zerosim.dashboards.roomstate import Pointed
from zerosim.dashboards.workbench import MOST_WAITING, State, Workbench, name_of
from zerosim.lessons.course import course, find_lesson
from zerosim.lessons.questions import explanation, right_answer
from zerosim.lessons.recordings import COMMITTED

CHECK = "/api/lessons/zero3/check"
RECORD = "/api/lessons/zero3/record"
COPIES = """
    import json, shutil, sys
    from pathlib import Path
    from zerosim.lessons.recordings import COMMITTED
    folder, job = Path(sys.argv[1]), json.loads(sys.argv[2])
    for run in job["runs"]:
        shutil.copytree(COMMITTED / run, folder / run)
"""
"""In place of training: what records takes the committed traces."""


class Class:
    """The application with a workbench that the test holds, and a client on this machine."""

    def __init__(self, folder, program=COPIES, **options):
        self.library = Library([folder], shelf=lesson_shelf())
        documents = Documents()
        command = (sys.executable, "-c", textwrap.dedent(program))
        self.workbench = Workbench(self.library.shelf, command=command, **options)
        self.rooms = Rooms()
        self.classroom = Classroom(self.library, documents, self.workbench)
        self.app = make_app(self.library, documents, rooms=self.rooms, classroom=self.classroom)
        self.client = self.app.test_client()

    def wait(self, ticket):
        """The state of a recording that is over."""
        end = time.monotonic() + RANKS_S
        while True:
            plain = self.client.get(f"{RECORD}/{ticket}").json
            if plain["state"] in ("done", "failed"):
                return plain
            assert time.monotonic() < end, plain
            time.sleep(0.02)


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """A class without runs of its own."""
    made = Class(tmp_path_factory.mktemp("empty"))
    yield made
    made.workbench.close()


@pytest.fixture(scope="module")
def client(room):
    return room.client


@pytest.fixture(scope="module")
def names(room):
    return room.classroom.teach("zero3").facts.names()


@pytest.fixture(
    scope="module",
    params=[
        # what each of them says, asks and shows is tested without a page
        pytest.param(lesson, id=lesson.id, marks=[pytest.mark.long] * (lesson.number % 3 != 2))
        for lesson in course()
    ],
)
def lesson(request):
    """Each in turn: all that is asked of one is asked while the server has it written."""
    return request.param


def as_sent(answer):
    return list(answer) if isinstance(answer, tuple) else answer


def record_block(client):
    """The block of the lesson on ZeRO-3 that records."""
    settled = {"settled": list(find_lesson("zero3").questions)}
    pages = json.dumps(client.get("/api/lessons/zero3/rest", query_string=settled).json)
    return re.search(r'data-run-block=\\?"([0-9.]+)', pages)[1]


# ---------------------------------------------------------------------------------- pages


def test_the_course_lists_every_lesson(client):
    page = client.get("/lessons").text
    for lesson in course():
        assert f'href="/lessons/{lesson.id}"' in page
        assert f"about {lesson.minutes} minutes" in page
    assert page.count('class="badge"') == 1
    assert 'href="/lessons" aria-current="page"' in page
    assert client.get("/lessons/zero3").text.count('href="/lessons" aria-current="page"') == 1


def test_every_lesson_has_a_page_without_its_answers(client, names, lesson):
    answer = client.get(f"/lessons/{lesson.id}")
    assert answer.status_code == 200
    for question in lesson.questions.values():
        assert explanation(question, names)[:40] not in answer.text
    assert 'class="wrong"' not in answer.text
    assert answer.text.count('class="step"') == len(lesson.steps) + 1


def test_every_question_is_checked_and_uncovers(client, names, lesson):
    for question in lesson.questions.values():
        right = as_sent(right_answer(question, names))
        body = {"question": question.id, "answer": right}
        said = client.post(f"/api/lessons/{lesson.id}/check", json=body).json
        assert said["right"] is True, question.id
        assert said["words"].startswith("<")
        told = client.get(f"/api/lessons/{lesson.id}/explain?question={question.id}").json
        assert told["words"] == said["words"]


def test_what_is_covered_comes_when_all_questions_above_it_are_settled(client, lesson):
    page = client.get(f"/lessons/{lesson.id}").text
    after = dict(re.findall(r'data-block="([^"]+)" data-after="([^"]+)"', page))
    settled: list[str] = []
    assert client.get(f"/api/lessons/{lesson.id}/rest").json["blocks"] == []
    for question in lesson.questions:
        settled.append(question)
        query = {"settled": settled}
        rest = client.get(f"/api/lessons/{lesson.id}/rest", query_string=query).json
        covered = {name for name, above in after.items() if {*above.split()} <= {*settled}}
        assert {block["id"] for block in rest["blocks"]} == covered
        for block in rest["blocks"]:
            assert block["html"].strip()
            assert 'class="wrong"' not in block["html"]
            assert "built-in" not in block["html"]
    assert covered == set(after)


def test_a_question_is_not_covered_by_the_one_before_it(client):
    page = client.get("/lessons/infinity").text
    assert {'data-question="disk"', 'data-question="kernel"'} <= set(page.split())
    assert 'data-after="disk kernel"' in page
    assert 'data-after="disk"' not in page


def test_an_order_is_not_given_away(room, names, lesson):
    orders = [one for one in lesson.questions.values() if one.kind == "order"]
    for step in room.classroom.teach(lesson.id).steps if orders else ():
        for block in step.blocks:
            for question in orders:
                if block.kind == "ask" and block.question == question.id:
                    shown = tuple(option.key for option in block.options)
                    assert shown != right_answer(question, names), question.id


def test_a_wrong_answer_has_a_name_and_a_hint(client):
    said = client.post(CHECK, json={"question": "sent", "answer": "3"}).json
    assert said["right"] is False
    assert said["misconception"]["id"] == "forgot-share"
    assert said["misconception"]["name"] in said["headline"]
    assert "<p>" in said["words"]
    said = client.post(CHECK, json={"question": "sent", "answer": "1e6"}).json
    assert (said["right"], said["misconception"], said["headline"]) == (False, None, "Not yet.")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "expected a JSON object"),
        (b"[]", "expected a JSON object"),
        (b"{", "expected a JSON object"),
        (b"\xff\xfe", "expected a JSON object"),
        (b"[" * 2000, "expected a JSON object"),
        (b'{"answer": 3}', "question is not text"),
        (b'{"question": 7, "answer": 3}', "question is not text"),
        (b'{"question": "nothing", "answer": 3}', "question is 'nothing'"),
        (b'{"question": "<script>", "answer": 3}', "question is '<script>'"),
        (b'{"question": "sent", "answer": 3, "run": 7}', "run is not text"),
        (b'{"question": "sent", "answer": 3, "room": 7}', "room is not text"),
    ],
)
def test_hostile_answers_are_refused_in_one_line(client, body, words):
    answer = client.post(CHECK, data=body, content_type="application/json")
    assert answer.status_code == 422
    assert words in answer.json["error"]
    assert len(answer.json["error"].splitlines()) == 1
    assert len(answer.json["error"]) < 400


@pytest.mark.parametrize(
    ("question", "answer", "words"),
    [
        *(("sent", one, "Write a number") for one in (None, "", "many", "1/0", "nan", {"a": [1]})),
        *(("life", one, "Put all of them in order") for one in ("x", [["x"]], [], "gather")),
    ],
)
def test_what_is_no_answer_is_said_and_is_no_failure(client, question, answer, words):
    said = client.post(CHECK, json={"question": question, "answer": answer})
    assert (said.status_code, [*said.json]) == (200, ["problem"])
    assert said.json["problem"].startswith(words)


def test_what_is_too_large_or_no_json_is_refused(client):
    huge = json.dumps({"question": "sent", "answer": "9" * 5000})
    assert client.post(CHECK, data=huge, content_type="application/json").status_code == 413
    form = {"question": "sent", "answer": "3"}
    assert client.post(CHECK, data=form).status_code == 415


@pytest.mark.parametrize("method", ["get", "put", "delete", "patch"])
def test_other_methods_are_refused(client, method):
    assert getattr(client, method)(CHECK).status_code in (404, 405)
    assert getattr(client, method)(RECORD).status_code in (404, 405)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:9"])
def test_pages_of_others_are_refused(client, origin):
    for path in (CHECK, RECORD):
        answer = client.post(path, json={"question": "sent"}, headers={"Origin": origin})
        assert answer.status_code == 403


@pytest.mark.parametrize("path", ["nowhere", "..%2fetc", "<script>", "x" * 200])
def test_there_are_no_other_lessons(client, path):
    page = client.get(f"/lessons/{path}")
    assert page.status_code == 404
    assert len(page.text.splitlines()) == 1
    assert client.get(f"/api/lessons/{path}/rest?settled=sent").status_code == 404
    assert client.post(f"/api/lessons/{path}/check", json={}).status_code in (404, 405)


@pytest.mark.parametrize("page", ["/replay", "/graph"])
def test_only_a_replay_or_graph_in_a_lesson_may_stand_in_a_frame(client, page):
    address = f"{page}?trace=lessons/ring/stage-3"
    framed = client.get(f"{address}&{lessons.EMBED}=1")
    assert framed.headers["X-Frame-Options"] == "SAMEORIGIN"
    assert "frame-ancestors 'self'" in framed.headers["Content-Security-Policy"]
    assert "data-embed" in framed.text
    assert "dash-scripts" not in framed.text
    for path in (address, "/lessons", "/lessons/zero3", "/verify", CHECK):
        answer = client.get(path)
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    policy = client.get("/lessons/zero3").headers["Content-Security-Policy"]
    assert "frame-src 'self'" in policy
    assert "frame-src" not in client.get("/verify").headers["Content-Security-Policy"]


def test_an_answer_in_a_room_is_counted(room):
    opened, who = room.rooms.open(), "student-0123456789"
    body = {"question": "sent", "answer": "3", "room": opened.code, "who": who}
    assert room.client.post(CHECK, json=body).json["room"] == "counted"
    body["answer"] = "9/4"
    assert room.client.post(CHECK, json=body).json["room"] == "counted"
    assert room.client.post(CHECK, json=body | {"room": "ZZZZZZ"}).json["room"] == "no room"
    assert room.client.post(CHECK, json=body | {"who": 7}).json["room"] == "refused"
    assert "room" not in room.client.post(CHECK, json={"question": "sent", "answer": "3"}).json


def test_in_a_room_nobody_is_told_before_all_are(room):
    opened = room.rooms.open()
    body = {"question": "sent", "answer": "3", "room": opened.code, "who": "student-0123456789"}
    told = {"held": True, "room": "counted"}
    assert room.client.post(CHECK, json=body).json == told
    here = Pointed("zero3", "sent", reveal=True)
    room.rooms.show(opened.code, opened.key, here)
    assert room.client.post(CHECK, json=body | {"answer": "9/4"}).json == told
    assert room.client.post(CHECK, json=body | {"answer": "much"}).json["problem"]
    room.rooms.show(opened.code, opened.key, replace(here, solved=True))
    assert room.client.post(CHECK, json=body).json["misconception"]["id"] == "forgot-share"
    room.rooms.show(opened.code, opened.key, Pointed("zero3", "life"))
    assert room.client.post(CHECK, json=body).json["right"] is False
    assert room.client.post(CHECK, json=body | {"answer": "9/4"}).json["right"] is True
    assert room.client.post(CHECK, json=body | {"room": "ZZZZZZ"}).json["right"] is False


# -------------------------------------------------------------------------------- the shelf


def test_the_lessons_traces_are_found_and_not_listed(tmp_path):
    made = Class(put_trace(tmp_path / "mine").parent)
    listed = made.client.get("/api/traces").json
    assert [one["name"] for one in listed["traces"]] == ["mine"]
    assert listed["default"] == "mine"
    assert made.client.get("/api/replay?trace=lessons/ring/stage-3").status_code == 200
    assert made.client.get("/api/replay?trace=lessons/ring/../stage-3").status_code == 404
    assert made.client.get("/api/replay?trace=lessons/ring").status_code == 404


def test_without_a_run_of_ones_own_the_lessons_are_there(client):
    home = client.get("/")
    assert home.headers["Location"] == "/replay?trace=lessons/ring/stage-3"
    for path in ("/replay", "/verify", "/graph", "/api/replay", "/api/traces"):
        assert client.get(path).status_code == 200, path
    assert client.get("/compare", follow_redirects=True).status_code == 200


def test_a_name_of_ones_own_cannot_stand_for_a_lessons(tmp_path):
    put_trace(tmp_path / "lessons" / "ring" / "stage-3", 1)
    made = Class(tmp_path)
    assert [entry.name for entry in made.library.entries()] == ["lessons/ring/stage-3 (2)"]
    assert made.library.find("lessons/ring/stage-3").folder == (COMMITTED / "ring/stage-3")
    assert made.library.find("lessons/ring/stage-3 (2)").stage == 1


# -------------------------------------------------------------------------------- recording


@pytest.fixture
def _torch(monkeypatch):
    monkeypatch.setattr(lessonapi, "can_record", lambda: True)


@pytest.mark.usefixtures("_torch")
def test_a_run_is_recorded_here_and_shown(room):
    block = record_block(room.client)
    answer = room.client.post(RECORD, json={"block": block, "value": "2"})
    assert answer.status_code == 202
    assert room.wait(answer.json["ticket"])["problem"] == ""
    page = room.client.get(f"/lessons/zero3?run={answer.json['ticket']}").text
    assert "recorded here: zerosim run" in page
    assert name_of("ring/stage-3", answer.json["ticket"]) in page
    body = {"question": "sent", "answer": "9/4", "run": answer.json["ticket"]}
    assert room.client.post(CHECK, json=body).json["right"] is True
    assert 'class="wrong"' not in page
    assert 'class="wrong"' in room.client.get("/lessons/zero3?run=nothing").text


@pytest.mark.usefixtures("_torch")
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"block": "9.9"}, "records nothing"),
        ({"block": "0.0"}, "records nothing"),
        ({}, "block is not text"),
        ({"block": "", "value": "; rm -rf /"}, "value is"),
        ({"block": "", "value": "64"}, "value is"),
        ({"block": "", "value": 2}, "value is not text"),
    ],
)
def test_nothing_else_is_recorded(room, body, words):
    if body.get("block") == "":
        body = body | {"block": record_block(room.client)}
    answer = room.client.post(RECORD, json=body)
    assert answer.status_code == 422
    assert words in answer.json["error"]


@pytest.mark.usefixtures("_torch")
@pytest.mark.parametrize(
    ("address", "host"),
    [("192.168.1.7", "localhost"), ("10.0.0.2", "192.168.1.1"), ("127.0.0.1", "192.168.1.1"),
     ("", "localhost")],
)  # fmt: skip
def test_only_this_machine_records(room, address, host):
    options = {"environ_base": {"REMOTE_ADDR": address}, "headers": {"Host": host}}
    answer = room.client.post(RECORD, json={"block": "1.1"}, **options)
    assert answer.status_code == 403
    assert "the machine that serves this page" in answer.json["error"]
    assert "run-here" not in room.client.get("/lessons/prove-it", **options).text


def test_without_pytorch_nothing_is_recorded(room, monkeypatch):
    monkeypatch.setattr(lessonapi, "can_record", lambda: False)
    answer = room.client.post(RECORD, json={"block": "1.1"})
    assert answer.status_code == 422
    assert "PyTorch is not installed here" in answer.json["error"]


@pytest.mark.usefixtures("_torch")
def test_what_fails_says_so_in_one_line(tmp_path):
    made = Class(tmp_path, "print('first'); print('rank 1 is gone'); raise SystemExit(1)")
    ticket = made.client.post(RECORD, json={"block": record_block(made.client)}).json["ticket"]
    assert made.wait(ticket) | {"seconds": 0} == {
        "ticket": ticket, "state": "failed", "seconds": 0, "before": 0,
        "problem": "rank 1 is gone",
    }  # fmt: skip
    assert made.client.get(f"{RECORD}/nothing").status_code == 404
    made.workbench.close()


def test_a_recording_has_a_deadline_and_its_ranks_end_with_it(tmp_path, monkeypatch):
    pid = tmp_path / "pid"
    program = f"""
        import subprocess, sys, time
        from pathlib import Path
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path({str(pid)!r}).write_text(f"{{child.pid}}\\n")
        time.sleep(600)
    """

    class Started(subprocess.Popen):
        """One whose time begins when its rank is there, however long Python takes to start."""

        def wait(self, timeout=None):
            while self.poll() is None and not (pid.exists() and pid.read_text().endswith("\n")):
                time.sleep(0.02)
            return super().wait(timeout)

    monkeypatch.setattr(subprocess, "Popen", Started)
    bench = Workbench(
        lesson_shelf(),
        deadline_s=1.0,
        command=(sys.executable, "-c", textwrap.dedent(program)),
    )
    job = bench.submit("zero3", ["ring/stage-3"])
    end = time.monotonic() + RANKS_S
    while job.state not in (State.DONE, State.FAILED):
        assert time.monotonic() < end
        time.sleep(0.02)
    assert job.problem == "it did not end within 1 s"
    rank = int(pid.read_text())
    status = tmp_path.__class__(f"/proc/{rank}/stat")
    while status.exists() and status.read_text().split()[2] != "Z":
        assert time.monotonic() < end
        time.sleep(0.02)
    bench.close()


def test_only_so_many_wait_and_the_end_leaves_nothing(tmp_path):
    bench = Workbench(lesson_shelf(), command=(sys.executable, "-c", "import time; time.sleep(60)"))
    jobs = [bench.submit("zero3", ["ring/stage-3"])]
    end = time.monotonic() + RANKS_S
    while jobs[0].state is not State.RUNNING:
        assert time.monotonic() < end
        time.sleep(0.02)
    jobs += [bench.submit("zero3", ["ring/stage-3"]) for _ in range(MOST_WAITING)]
    assert [bench.num_before(job) for job in jobs] == [0, 1, 2, 3]
    with pytest.raises(ConfigError, match="checks are queued already"):
        bench.submit("zero3", ["ring/stage-3"])
    folder = jobs[0].folders["ring/stage-3"].parents[2]
    assert folder.is_dir()
    bench.close()
    assert not folder.exists()
    with pytest.raises(ConfigError, match="ending"):
        bench.submit("zero3", ["ring/stage-3"])


def test_a_lesson_has_the_address_of_its_number_too(room):
    answer = room.client.get("/lessons/5?lang=zh")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/lessons/zero3?lang=zh")
    assert room.client.get("/lessons/5000").status_code == 404
