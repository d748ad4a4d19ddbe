"""What Replay and Compare take in a browser: first view, frames while playing, weight.

`python -m tests.bench --only pages` measures in headless Chromium. Nothing else should run
meanwhile: it waits for a quiet machine, but not for long.
"""

from __future__ import annotations

import os
import platform
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.analysis.graph.runs import Plan, record
from tests.bench.serving import serving
from tests.cli.command import command
from tests.strategies import trace_files, write_files
from zerosim.view.export.browser import launched

VIEWS = 5
PLAYED_S = 4
STEPS = 100
REST_MS = 1500
"""So long after the first view the page rests."""
SCREENS = ((1920, 1080), (1280, 720))
REFERENCE_RANKS = 4
FIRST_VIEW_GOAL_MS = 1000
FRAME_GOAL_MS = {4: 16.7, 64: 20.0}
TASK_GOAL_MS = 100
QUIET_CORES = 0.3
LONGEST_WAIT_S = 60

# Put in place before the page's own scripts. The stage is drawn in the frame in which the player
# is first seen; two frames later it is on the screen.
_WATCH = """
window.__tasks = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.__tasks.push([entry.startTime, entry.duration]);
}).observe({ type: "longtask", buffered: true });
const look = () => {
  if (window.__player === undefined) return requestAnimationFrame(look);
  requestAnimationFrame(() => requestAnimationFrame(() => { window.__shown = performance.now(); }));
};
requestAnimationFrame(look);
"""
_PLAY = """
async (seconds) => {
  const press = (key) =>
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const next = () => new Promise((done) => requestAnimationFrame(done));
  window.__tasks.length = 0;
  press(" ");
  await next();
  const begin = await next();
  const deltas = [];
  for (let before = begin; before - begin < 1000 * seconds; ) {
    const now = await next();
    deltas.push(now - before);
    before = now;
  }
  const playing = window.__player.state().playing;
  press(" ");
  await new Promise((done) => setTimeout(done, 100));
  return { deltas, playing, tasks: window.__tasks.map(([, duration]) => duration) };
}
"""
_STEP = """
(key) => new Promise((done) => {
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  requestAnimationFrame(() => setTimeout(() => done(window.__player.state().position), 0));
})
"""


@dataclass(frozen=True, slots=True)
class Line:
    """A row of a table, and whether what it says holds; None if nothing is asked of it."""

    cells: tuple[str, ...]
    goal: str = "\N{EN DASH}"
    holds: bool | None = None

    def __str__(self) -> str:
        """The row as Markdown."""
        verdict = {True: "yes", False: "**no**", None: "\N{EN DASH}"}[self.holds]
        return f"| {' | '.join((*self.cells, self.goal, verdict))} |"


class Bench:
    """A browser in front of the pages that are measured."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser

    @contextmanager
    def page(self, size: tuple[int, int]) -> Iterator[Any]:
        """A page of a browser that has seen nothing yet."""
        context = self.browser.new_context(viewport={"width": size[0], "height": size[1]})
        context.add_init_script(_WATCH)
        try:
            yield context.new_page()
        finally:
            context.close()

    def first_view(self, address: str, size: tuple[int, int]) -> tuple[float, float, float]:
        """Milliseconds until it is on the screen; the longest task until then, and after it."""
        with self.page(size) as page:
            _open(page, address)
            page.wait_for_timeout(REST_MS)
            shown, tasks = page.evaluate("() => [window.__shown, window.__tasks]")
        until = max((took for start, took in tasks if start < shown), default=0.0)
        return shown, until, max((took for start, took in tasks if start >= shown), default=0.0)

    def first_views(
        self, name: str, address: str, size: tuple[int, int], num_ranks: int = REFERENCE_RANKS
    ) -> Line:
        """Several first views of one page; the goal is of the reference trace."""
        found = [self.first_view(address, size) for _ in range(VIEWS)]
        shown, until, after = ([view[place] for view in found] for place in range(3))
        figures = (_ms(statistics.median(shown)), _ms(max(shown)), _task(until), _task(after))
        cells = (name, _screen(size), *figures)
        if num_ranks > REFERENCE_RANKS:
            return Line(cells)
        return Line(cells, f"< {FIRST_VIEW_GOAL_MS:,} ms", max(shown) < FIRST_VIEW_GOAL_MS)

    def playing(
        self, name: str, address: str, size: tuple[int, int], speed: int, num_ranks: int
    ) -> Line:
        """Frames and long tasks while an iteration plays."""
        with self.page(size) as page:
            _open(page, f"{address}#at=1&speed={speed}")
            page.wait_for_timeout(REST_MS)
            found = page.evaluate(_PLAY, PLAYED_S)
        assert found["playing"], f"{name}: the iteration ended before {PLAYED_S} s"
        deltas, goal = found["deltas"], FRAME_GOAL_MS[num_ranks]
        median, longest = statistics.median(deltas), max(found["tasks"], default=0.0)
        p95 = statistics.quantiles(deltas, n=20)[-1]
        cells = (name, _screen(size), f"{speed}\N{MULTIPLICATION SIGN}")
        figures = (_tenth(median), _tenth(p95), _tenth(max(deltas)), _task([longest]))
        # a display's own interval is 16.67 ms, and the clock that tells it counts tenths
        holds = round(median, 1) <= goal and longest <= TASK_GOAL_MS
        return Line((*cells, *figures), f"median {goal} ms, task {TASK_GOAL_MS} ms", holds)

    def stepping(self, name: str, address: str, size: tuple[int, int], num_ranks: int) -> Line:
        """What script takes of the processor in one step; after the last it begins anew."""
        with self.page(size) as page:
            _open(page, f"{address}#at=1")
            page.wait_for_timeout(REST_MS)
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            took: list[float] = []
            position, before = -1, script_ms(session)
            while len(took) < STEPS:
                now = page.evaluate(_STEP, "ArrowRight")
                after = script_ms(session)
                if now == position:
                    now = page.evaluate(_STEP, "Home")
                    after = script_ms(session)
                else:
                    took.append(after - before)
                position, before = now, after
        median, p95 = statistics.median(took), statistics.quantiles(took, n=20)[-1]
        goal = FRAME_GOAL_MS[num_ranks]
        cells = (name, _screen(size), _tenth(median), _tenth(p95), _tenth(max(took)))
        return Line(cells, f"median {goal} ms", median <= goal)

    def weight(self, address: str) -> list[Line]:
        """What travels for one page, by what it is for."""
        with self.page(SCREENS[1]) as page:
            asked: dict[str, str] = {}
            sizes: dict[str, float] = {}
            session = page.context.new_cdp_session(page)
            session.send("Network.enable")
            session.on(
                "Network.requestWillBeSent",
                lambda event: asked.update({event["requestId"]: event["request"]["url"]}),
            )
            session.on(
                "Network.loadingFinished",
                lambda event: sizes.update({event["requestId"]: event["encodedDataLength"]}),
            )
            _open(page, address)
            page.wait_for_timeout(2000)
        parts: dict[str, list[float]] = {}
        foreign = 0
        host = urlsplit(address).netloc
        for number, url in asked.items():
            if url.startswith("data:"):
                continue
            foreign += urlsplit(url).netloc != host
            parts.setdefault(_part(urlsplit(url).path), []).append(sizes.get(number, 0.0))
        lines = [
            Line((name, str(len(found)), _kilobytes(sum(found)))) for name, found in parts.items()
        ]
        numbers = [size for found in parts.values() for size in found]
        lines.append(Line(("**all**", str(len(numbers)), _kilobytes(sum(numbers)))))
        lines.append(Line(("to other machines", str(foreign), ""), "0", foreign == 0))
        return lines


def script_ms(session: Any) -> float:
    """What script took of the processor until now."""
    found = session.send("Performance.getMetrics")["metrics"]
    return 1000 * next(one["value"] for one in found if one["name"] == "ScriptDuration")


def _open(page: Any, address: str) -> None:
    page.goto(address)
    end = time.monotonic() + 60
    while page.evaluate("() => window.__shown === undefined"):
        assert time.monotonic() < end, f"{address}: not shown within a minute"
        page.wait_for_timeout(50)


_PARTS: tuple[tuple[str, str], ...] = (
    (r"/replay|/compare", "page"),
    (r"/api/replay", "document"),
    (r"/player/.*\.css", "player's style"),
    (r"/player/.*", "player's modules"),
    (r"/dash/assets/.*", "the list of runs: its script and styles"),
)


def _part(path: str) -> str:
    return next((name for pattern, name in _PARTS if re.fullmatch(pattern, path)), "other")


def _screen(size: tuple[int, int]) -> str:
    return f"{size[0]} \N{MULTIPLICATION SIGN} {size[1]}"


def _ms(value: float) -> str:
    return f"{value:,.0f}"


def _tenth(value: float) -> str:
    return f"{value:.1f}"


def _task(tasks: list[float]) -> str:
    return f"{max(tasks):.0f}" if max(tasks) else "none over 50"


def _kilobytes(number: float) -> str:
    return f"{number / 1000:,.1f} kB"


def large_plan() -> Plan:
    """A ring of 64 ranks whose iteration has far more than 10,000 events."""
    return Plan(
        num_ranks=64,
        units=("embedding", "blocks.0", "blocks.1", "head"),
        iterations=1,
        compute_ns=lambda rank, unit, _: 900_000 + 40_000 * (rank % 8) + 1000 * len(unit),
        hop_ns=100_000,
        gap_ns=20_000,
        handover_ns=30_000,
        wake_ns=30_000,
        payload_bytes=1_048_576,
    )


def table() -> list[str]:
    """The figures as lines of Markdown."""
    with tempfile.TemporaryDirectory() as folder, launched() as browser:
        root = Path(folder)
        _do("run", "--stage", "3", "--ranks", "4", "--steps", "2", "--out", root / "real")
        _do("run", "--stage", "all", "--ranks", "4", "--steps", "2", "--out", root / "stages")
        written = record(large_plan())
        num_events = sum(
            name in ("open", "event", "transfer")
            for rows in written.rows.values()
            for name, _ in rows
        )
        write_files(root / "ring-64", trace_files(written))
        _do("export", root / "real", "--html", root / "real.html")
        _do("export", root / "ring-64", "--html", root / "ring-64.html")
        with serving(root) as address:
            return _tables(Bench(browser), root, address, num_events, browser.version)


def _tables(bench: Bench, root: Path, address: str, num_events: int, version: str) -> list[str]:
    real, ring = f"{address}/replay?trace=real", f"{address}/replay?trace=ring-64"
    stages = f"{address}/compare?" + "&".join(f"trace=stages/stage-{k}" for k in range(4))
    four, many = "4 ranks, a real run", f"64 ranks, {num_events:,} events"
    wide, narrow = SCREENS
    busy = _wait_until_quiet()
    cold, *cold_tasks = bench.first_view(real, wide)
    views = [
        Line(
            (
                f"{four}, first after the server's start",
                _screen(wide),
                _ms(cold),
                "",
                *(_task([task]) for task in cold_tasks),
            ),
            f"< {FIRST_VIEW_GOAL_MS:,} ms",
            cold < FIRST_VIEW_GOAL_MS,
        )
    ]
    views += [bench.first_views(four, real, size) for size in SCREENS]
    views.append(bench.first_views(f"{four}, offline page", (root / "real.html").as_uri(), wide))
    bench.first_view(ring, wide)  # the server makes its document
    views.append(bench.first_views(many, ring, wide, 64))
    views.append(
        bench.first_views(f"{many}, offline page", (root / "ring-64.html").as_uri(), wide, 64)
    )
    compared = "Compare, 4 runs on 4 ranks"
    bench.first_view(stages, wide)  # likewise
    views += [bench.first_views(compared, stages, size) for size in SCREENS]
    both: list[tuple[str, str, int]] = [(four, real, 4), (many, ring, 64)]
    plays = [
        bench.playing(name, where, size, speed, num_ranks)
        for name, where, num_ranks in both
        for size in (wide, narrow)
        for speed in (1, 4)
    ]
    plays += [bench.playing(compared, stages, size, 1, 4) for size in SCREENS]
    steps = [
        bench.stepping(name, where, size, num_ranks)
        for name, where, num_ranks in both
        for size in (wide, narrow)
    ]
    weight = bench.weight(real)
    weight += [
        Line((f"offline page, {name}", "1", _kilobytes((root / file).stat().st_size)))
        for name, file in ((four, "real.html"), (many, "ring-64.html"))
    ]
    return [
        "## The Replay page",
        "",
        (
            f"`python -m tests.bench --only pages`, {datetime.now(UTC):%Y-%m-%d}: headless "
            f"Chromium {version} without a GPU, {os.cpu_count()} cores, of which other "
            f"programs used {busy:.2f} at the start; Python {platform.python_version()}. The real "
            "run is `zerosim run --stage 3 --ranks 4`. The 64 ranks are a simulated run of ZeRO-3 "
            "with rings, read from files like any trace."
        ),
        "",
        (
            f'"First view" is the time from the start of the navigation until two frames after '
            f"the ranks were drawn, in a browser without a cache, {VIEWS} times, in milliseconds."
        ),
        "",
        *_table(
            ("page", "screen", "median", "max", "longest task until then", "and after it"), views
        ),
        "",
        (
            f"The replay plays for {PLAYED_S} s, starting {REST_MS / 1000} s after the first view. "
            "The table gives the milliseconds from frame to frame, which are at least "
            "16.7 on a 60 Hz display. The browser reports only tasks over 50 ms."
        ),
        "",
        *_table(("trace", "screen", "speed", "median", "p95", "max", "longest task"), plays),
        "",
        (
            f"One step is a press of \N{RIGHTWARDS ARROW} and the following frame. The table gives "
            f"the processor time of the script in milliseconds, over {STEPS} steps."
        ),
        "",
        *_table(("trace", "screen", "median", "p95", "max"), steps),
        "",
        "Data transferred for one page, compressed and with headers; offline pages as files.",
        "",
        *_table(("part", "requests", "size"), weight),
        "",
    ]


def _table(head: tuple[str, ...], lines: list[Line]) -> list[str]:
    columns = (*head, "goal", "holds")
    return [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|", *map(str, lines)]


def _do(*arguments: object) -> None:
    answer = command(*arguments)
    assert answer.code == 0, answer.err


def _wait_until_quiet() -> float:
    """Wait a while for others to be done; returns how many cores they still use."""
    end = time.monotonic() + LONGEST_WAIT_S
    while (now := _busy_cores()) > QUIET_CORES and time.monotonic() < end:
        print(f"{now:.2f} cores busy: waiting for the machine to be quiet", file=sys.stderr)
    return now


def _busy_cores(seconds: float = 10.0) -> float:
    """How many cores work, of all that this machine has."""
    before = _busy_s()
    time.sleep(seconds)
    return (_busy_s() - before) / seconds


def _busy_s() -> float:
    user, nice, system, _, _, irq, softirq, *_ = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    )
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    print("\n".join(table()))


if __name__ == "__main__":
    main()
