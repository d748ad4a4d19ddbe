"""The puzzles' addresses: pages without solutions, files, programs that are checked here alone."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.deadlines import RANKS_S
from zerosim.dashboards import puzzleapi, trial
from zerosim.dashboards.app import make_app
from zerosim.dashboards.classroom import Classroom, lesson_shelf
from zerosim.dashboards.documents import Documents
from zerosim.dashboards.library import Library
from zerosim.dashboards.trial import MOST_BYTES
from zerosim.dashboards.workbench import Workbench
from zerosim.puzzles import find_puzzle, puzzles
from zerosim.puzzles.promised import bounds_of

NAME = "ring-reduce-scatter"
CHECK = f"/api/puzzles/{NAME}/check"
ELSEWHERE = {"environ_overrides": {"REMOTE_ADDR": "192.0.2.7"}}
FAILS = """
    import sys
    print("no ranks to be had")
    sys.exit(1)
"""


class Desk:
    """The application, and a client on this machine."""

    def __init__(self, folder, **options):
        self.library = Library([folder], shelf=lesson_shelf())
        documents = Documents()
        self.workbench = Workbench(self.library.shelf, **options)
        classroom = Classroom(self.library, documents, self.workbench)
        self.client = make_app(self.library, documents, classroom=classroom).test_client()

    def check(self, program):
        """What is said of a program in the end."""
        asked = self.client.post(CHECK, json={"program": program})
        assert asked.status_code == 202, asked.text
        end = time.monotonic() + RANKS_S
        while True:
            plain = self.client.get(f"{CHECK}/{asked.json['ticket']}").json
            if plain["state"] in ("done", "failed"):
                return plain
            assert time.monotonic() < end, plain
            time.sleep(0.05)


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    made = Desk(tmp_path_factory.mktemp("empty"))
    yield made
    made.workbench.close()


def test_the_list_names_every_puzzle(desk):
    page = desk.client.get("/puzzles").text
    for puzzle in puzzles():
        assert f'href="/puzzles/{puzzle.name}"' in page
        assert puzzle.able in page.replace("&#39;", "'")
    assert page.count('class="badge"') == 5
    assert 'href="/puzzles" aria-current="page"' in page


@pytest.mark.parametrize("puzzle", puzzles(), ids=lambda puzzle: puzzle.name)
def test_a_page_has_the_task_and_its_bounds_and_no_solution(desk, puzzle):
    answer = desk.client.get(f"/puzzles/{puzzle.name}")
    assert answer.status_code == 200
    page = answer.text.replace("&#39;", "'").replace("&#34;", '"').replace("&gt;", ">")
    assert puzzle.task in page
    assert puzzle.reference.strip() not in page
    for one in bounds_of(puzzle):
        assert f"{one.what}: " in page
        assert f"{one.low:,}" in page
        assert one.formula in page
    assert page.count('class="hint"') == len(puzzle.hints)
    assert f"zerosim puzzle {puzzle.name} --check {puzzle.file_name}" in page
    assert answer.text.count('href="/puzzles" aria-current="page"') == 1


def test_the_file_of_a_task_can_be_taken(desk):
    answer = desk.client.get(f"/puzzles/{NAME}/ring_reduce_scatter.py")
    assert answer.text == find_puzzle(NAME).task
    assert answer.headers["Content-Disposition"] == "attachment; filename=ring_reduce_scatter.py"


@pytest.mark.parametrize(
    "path",
    [
        "/puzzles/nothing",
        f"/puzzles/{NAME}/reference.py",
        f"/puzzles/{NAME}/case.py",
        f"/api/puzzles/{NAME}/check/x",
        "/api/puzzles/nothing/check/x",
    ],
)
def test_what_is_not_there_is_one_line(desk, path):
    answer = desk.client.get(path)
    assert answer.status_code == 404
    assert answer.text.count("\n") <= 1
    assert "Traceback" not in answer.text


def test_a_program_runs_for_this_machine_alone(desk):
    page = desk.client.get(f"/puzzles/{NAME}", **ELSEWHERE).text
    assert 'id="check"' not in page
    assert "only on the machine that serves" in page
    refused = desk.client.post(CHECK, json={"program": ""}, **ELSEWHERE)
    assert (refused.status_code, refused.json["error"][:12]) == (403, "Programs run")
    assert 'id="check"' in desk.client.get(f"/puzzles/{NAME}").text


def test_without_pytorch_nothing_runs(desk, monkeypatch):
    monkeypatch.setattr(puzzleapi, "can_record", lambda: False)
    assert 'id="check"' not in desk.client.get(f"/puzzles/{NAME}").text
    refused = desk.client.post(CHECK, json={"program": ""})
    assert refused.status_code == 422
    assert "PyTorch is not installed" in refused.json["error"]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 422, "program is not text"),
        ({"program": 7}, 422, "program is not text"),
        ({"program": "x" * (MOST_BYTES + 1)}, 422, "too long"),
        ({"program": "x" * 3 * MOST_BYTES}, 413, "at most"),
    ],
)
def test_what_is_no_program_is_one_line(desk, body, status, said):
    answer = desk.client.post(CHECK, json=body)
    assert answer.status_code == status
    assert said in answer.text


def test_a_form_of_another_site_runs_nothing(desk):
    as_form = desk.client.post(CHECK, data={"program": "x"})
    assert as_form.status_code == 415
    other = desk.client.post(CHECK, json={"program": ""}, headers={"Origin": "http://x.example"})
    assert other.status_code == 403


def test_why_it_could_not_be_checked_is_one_line(tmp_path):
    made = Desk(tmp_path, command=(sys.executable, "-c", FAILS.replace("\n    ", "\n")))
    said = made.check("x = 1")
    made.workbench.close()
    assert (said["state"], said["problem"]) == ("failed", "no ranks to be had")


def test_what_is_printed_does_not_fill_the_disk(tmp_path, monkeypatch):
    started = subprocess.Popen
    loud = "import sys; sys.stderr.write('x' * 200_000 + 'end'); print('{}')"

    def instead(_, **options):
        return started([sys.executable, "-c", loud], **options)

    monkeypatch.setattr(subprocess, "Popen", instead)
    trial.put(tmp_path, "x = 1")
    trial.judge(NAME, tmp_path)
    printed = trial.read(tmp_path).printed
    assert len(printed) < 10_000
    assert printed.endswith("xend")


def test_the_pages_need_no_pytorch():
    asks = """
        import sys
        from pathlib import Path
        sys.modules["torch"] = None
        from tests.dashboards.test_puzzles_api import Desk
        client = Desk(Path(sys.argv[1])).client
        assert client.get("/puzzles").status_code == 200
        assert "bytes held" in client.get("/puzzles/zero-3").text
    """
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", asks.replace("\n        ", "\n"), str(root / "lessons")],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=RANKS_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.ranks
def test_a_program_is_checked_and_shown_where_it_is_wrong(desk):
    puzzle = find_puzzle(NAME)
    wrong = puzzle.wrong[1]
    said = desk.check(
        puzzle.program_of(wrong).replace("    sums =", "    print('here')\n    sums =")
    )
    assert (said["passes"], said["failed"], said["solution"]) == (False, wrong.check, "")
    assert wrong.says in said["reason"]
    assert "here" in said["printed"]
    assert said["line"].startswith("program/ring_reduce_scatter.py:")
    rows = {one["check"]: one for one in said["checks"]}
    assert [rows[name]["outcome"] for name in ("ends", "contents", "values")] == [
        *("holds", "fails", "not looked at"),
    ]
    address, _, at = said["replay"].partition("#")
    assert at == f"at={said['step']}"
    assert desk.client.get(address).status_code == 200
    document = desk.client.get(address.replace("/replay", "/api/replay")).json
    step = document["steps"][said["step"] - 1]
    assert document["texts"][step["why"]].startswith("The first illegal step: in round 2 rank 0")
    right = desk.check(puzzle.reference)
    assert (right["passes"], right["reason"], right["solution"]) == (True, None, puzzle.reference)
    sent = next(one for one in right["checks"] if one["check"] == "sent")
    assert (sent["found"], sent["expected"], sent["bound"]) == (768, 768, "most")
