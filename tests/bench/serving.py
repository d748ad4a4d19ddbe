"""A class opens the dashboard at the same moment: how long each request takes.

`python -m tests.bench.serving`. The clients are threads of one process, the server is another.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

NUM_CLIENTS = 30
ROUNDS = 3
_STEPS = 10
_RANKS = 4
_LINKS = re.compile(r'(?:href|src)="(/[^"]*)"')
_KINDS = (
    ("page", "the page", r"/replay"),
    ("player", "the player: a module or a style", r"/player/|/dash/assets/"),
    ("document", "the document", r"/api/replay"),
    ("list", "the list of traces", r"/api/traces"),
)


def table() -> list[str]:
    """The figures as lines of Markdown."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "stage-3"
        _zerosim("run", "--stage", "3", "--ranks", _RANKS, "--steps", _STEPS, "--out", folder)
        with serving(folder) as url:
            rounds = [_clients(url) for _ in range(ROUNDS)]
    return _markdown(rounds)


def _markdown(rounds: list[dict[str, list[list[float]]]]) -> list[str]:
    lines = [
        "## Serving a class",
        "",
        (
            f"{NUM_CLIENTS} clients request a replay at once, each request on its own connection: "
            "the page, the files that it names, the document, the list. The run is ZeRO-3 of "
            f"gpt-tiny on {_RANKS} ranks. Server and clients share {os.cpu_count()} cores and "
            f"communicate over loopback. The table has all requests of {ROUNDS} rounds."
        ),
        "",
        "| request | per client | bytes | p50 ms | p95 ms | slowest ms |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for kind, words, _ in _KINDS:
        found = [one for each in rounds for one in each[kind]]
        num = len(found) // (NUM_CLIENTS * ROUNDS)
        size = sum(size for _, size in found) / (NUM_CLIENTS * ROUNDS)
        times = sorted(seconds for seconds, _ in found)
        lines.append(f"| {words} | {num} | {size:,.0f} | {_three(times)} |")
    views = sorted(seconds for each in rounds for seconds, _ in each["first view"])
    lines.append(f"| **all requests of the first view, one after another** | | | {_three(views)} |")
    return [*lines, ""]


def _three(times: list[float]) -> str:
    p95 = statistics.quantiles(times, n=20)[-1]
    return " | ".join(f"{1000 * one:,.0f}" for one in (statistics.median(times), p95, times[-1]))


def _zerosim(*args: object) -> None:
    subprocess.run(_command(*args), check=True, stdout=subprocess.DEVNULL)


def _command(*args: object) -> list[str]:
    return [sys.executable, "-m", "zerosim", *map(str, args)]


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    command = _command("serve", folder, "--port", 0)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split(" on ")[1].split()[0]
    finally:
        process.terminate()
        process.wait(20)


def _clients(url: str) -> dict[str, list[list[float]]]:
    command = [sys.executable, "-m", "tests.bench.serving", url]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answer: dict[str, list[list[float]]] = json.loads(done.stdout)
    return answer


def ask_all(url: str) -> dict[str, list[tuple[float, int]]]:
    """What every client waited for and got: seconds and bytes, by kind of request."""
    address = urlsplit(url).netloc
    found: dict[str, list[tuple[float, int]]] = defaultdict(list)
    together = threading.Barrier(NUM_CLIENTS)

    def ask(path: str) -> bytes:
        begin = time.perf_counter()
        connection = http.client.HTTPConnection(address, timeout=60)
        connection.request("GET", path, headers={"Connection": "close", "Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        assert answer.status == http.client.OK, (path, answer.status)
        kind = next(name for name, _, pattern in _KINDS if re.match(pattern, path))
        found[kind].append((time.perf_counter() - begin, len(content)))
        return content

    def be_a_client() -> None:
        together.wait()
        begin = time.perf_counter()
        page = ask("/replay?trace=stage-3").decode()
        paths = list(dict.fromkeys(_LINKS.findall(page)))
        kinds = {name: [p for p in paths if re.match(pattern, p)] for name, _, pattern in _KINDS}
        for path in kinds["player"] + kinds["document"]:
            ask(path)
        found["first view"].append((time.perf_counter() - begin, 0))
        ask("/api/traces")

    threads = [threading.Thread(target=be_a_client) for _ in range(NUM_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found["first view"]) == NUM_CLIENTS, "a client failed"
    return found


if __name__ == "__main__":
    print(json.dumps(ask_all(sys.argv[1])) if sys.argv[1:] else "\n".join(table()))
