"""A class answers at the same moment: how long a student waits, and the lecturer's page.

`python -m tests.bench.rooms`. The students are threads of one process, the server is another.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

from tests.bench.serving import serving
from zerosim.lessons.course import course

CLASSES = (30, 300)
ROUNDS = 3
GOAL_MS = 300
LESSON, QUESTION = "zero3", "sent"
_VALUES = ("3", "2.25", "1.5", "2", "0.75", "9/4")
_EVERY_S = 0.25


def table() -> list[str]:
    """The figures as lines of Markdown."""
    with tempfile.TemporaryDirectory() as name, serving(Path(name)) as url:
        for lesson in course():  # the server writes them when it begins: a class comes later
            urlopen(f"{url}/lessons/{lesson.id}").close()  # noqa: S310 - our own server
        before = os.getloadavg()[0]
        found = {num: [_class_of(url, num) for _ in range(ROUNDS)] for num in CLASSES}
    return _markdown(found, before)


def _class_of(url: str, num: int) -> dict[str, list[float]]:
    command = [sys.executable, "-m", "tests.bench.rooms", url, str(num)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answer: dict[str, list[float]] = json.loads(done.stdout)
    return answer


def _markdown(found: dict[int, list[dict[str, list[float]]]], load: float) -> list[str]:
    lines = [
        "## A room of 30 and of 300",
        "",
        (
            "All students of a room answer the same question at once, each on its own connection, "
            "twice, after the server has written its lessons. In between, each student requests "
            f"the position of the class. The tally is requested every {_EVERY_S} s, eight times as "
            "often as by the lecturer's page. The table gives milliseconds over "
            f"loopback, with server and students on {os.cpu_count()} cores, for all requests of "
            f"{ROUNDS} rooms. At the start, {load:.1f} programs were runnable (the load of the "
            "minute before)."
        ),
        "",
        "| students | request | per room | p50 | p95 | slowest | goal | holds |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    kinds = {"check": "an answer is checked and counted", "look": "the position of the class",
             "tally": "the tally"}  # fmt: skip
    for num, rounds in found.items():
        for kind, words in kinds.items():
            times = sorted(1000 * one for each in rounds for one in each[kind])
            p95 = min(times[-1], statistics.quantiles(times, n=20)[-1])
            goal = f"p95 < {GOAL_MS} ms | {'yes' if p95 < GOAL_MS else '**no**'}"
            lines.append(
                f"| {num} | {words} | {round(len(times) / ROUNDS)} "
                f"| {statistics.median(times):,.0f} | {p95:,.0f} | {times[-1]:,.0f} | {goal} |"
            )
    return [*lines, ""]


class _Asking:
    """Requests, each on a connection of its own, and how long they took."""

    def __init__(self, url: str) -> None:
        self.address = urlsplit(url).netloc
        self.times: dict[str, list[float]] = {"check": [], "look": [], "tally": [], "other": []}

    def ask(self, kind: str, method: str, path: str, sent: dict | None = None) -> dict:
        begin = time.perf_counter()
        connection = http.client.HTTPConnection(self.address, timeout=60)
        body = None if sent is None else json.dumps(sent)
        headers = {"Connection": "close", "Content-Type": "application/json"}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        assert answer.status in (200, 201), (path, answer.status, content)
        self.times[kind].append(time.perf_counter() - begin)
        return json.loads(content)


def be_a_class(url: str, num: int) -> dict[str, list[float]]:
    """Seconds of each request of a room, by its kind."""
    asking = _Asking(url)
    room = asking.ask("other", "POST", "/api/rooms", {})
    address = f"/api/rooms/{room['code']}"
    pointed = {"key": room["key"], "lesson": LESSON, "question": QUESTION, "reveal": True}
    asking.ask("other", "POST", f"{address}/show", pointed)
    tally = f"{address}/tally?key={room['key']}"
    asking.ask("other", "GET", tally)
    _check(asking, room, "student-token-000000", "3")
    asking.times["check"].clear()  # the lesson was written for it
    together = threading.Barrier(num)
    is_over = threading.Event()

    def be_a_student(number: int) -> None:
        try:
            answer_twice(f"student-token-{number:06}", number)
        except BaseException:
            together.abort()  # or the others would wait for this one
            raise

    def answer_twice(who: str, number: int) -> None:
        together.wait()
        _check(asking, room, who, _VALUES[number % len(_VALUES)])
        asking.ask("look", "GET", f"{address}?who={who}")
        together.wait()
        _check(asking, room, who, "2.25")

    def be_the_lecturer() -> None:
        while not is_over.wait(_EVERY_S):
            asking.ask("tally", "GET", tally)

    students = [threading.Thread(target=be_a_student, args=(each,)) for each in range(num)]
    lecturer = threading.Thread(target=be_the_lecturer)
    for thread in [*students, lecturer]:
        thread.start()
    for thread in students:
        thread.join()
    is_over.set()
    lecturer.join()
    assert not together.broken, "a student failed"
    found = asking.ask("tally", "GET", tally)
    assert found["num_answered"] == num, found["num_answered"]
    asking.ask("other", "DELETE", address, {"key": room["key"]})
    return asking.times


def _check(asking: _Asking, room: dict, who: str, value: str) -> None:
    sent = {"question": QUESTION, "answer": value, "room": room["code"], "who": who}
    asking.ask("check", "POST", f"/api/lessons/{LESSON}/check", sent)


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(be_a_class(sys.argv[1], int(sys.argv[2]))))
    else:
        print("\n".join(table()))
