"""Hostile traces on a real server: a replay or one clear line, never a script."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.analysis.graph.runs import Plan, record
from tests.bench.scale import write_run
from tests.browser.conftest import READY, Watched, eventually, heard, serving
from tests.cli.command import command
from tests.strategies import Row, Written, encode_rows, trace_files, write_files
from tests.theory.programs import ddp, parameter
from tests.verify.program_traces import Program
from zerosim.analysis.frames import find
from zerosim.record import load
from zerosim.schema.events import Failure, Metric, Phase
from zerosim.schema.manifest import UnitLayout
from zerosim.schema.rows import MANIFEST_NAME, rank_file_name
from zerosim.view.export.offline import offline_page
from zerosim.view.replay import replay_document

pytestmark = pytest.mark.browser

TEXTS = {
    "end-of-json": "</script><script>window.hacked=1</script><!--",
    "quotes": 'it\'s "quoted" & `told` ${window.hacked=1} {{7*7}} &lt;b&gt;',
    "long": "x" * 2_000,
    "empty": "",
    "prototype": "__proto__",
}
"""What no other text shows; `EVERYTHING` below has tags, controls, directions and separators."""
FOLDERS = (
    "<b onclick=hack()>bold<script>window.hacked=1</script>".replace("/", "\u2215"),
    "a name with spaces & more?x=1#at=3%20%00",
    "one\u2028two",
)
DRAWN = frozenset(
    ["svg", "title", "desc", "defs", "pattern", "clipPath", "g", "path", "rect", "text"]
)
"""What a picture is made of."""
STATUS = "document.getElementById('status')"


def run_with(text: str) -> Written:
    """A run that says one text wherever a trace says any."""
    written = record(Plan(num_ranks=3, units=(text, "plain")))
    rows = {rank: [_said(row, text) for row in own] for rank, own in written.rows.items()}
    for own in rows.values():
        failure = Failure(
            message=text,
            iteration=1,
            phase=Phase.UPDATE,
            unit=text,
            op=None,
            purpose=None,
            waiting_for=(1,),
            peer_lost=False,
            time_ns=1,
        )
        own += [
            ("metric", Metric(iteration=1, name=text, value=1.0, time_ns=9)),
            ("failure", failure),
        ]
    named = replace(
        written.manifest,
        program=text,
        backend=text,
        device=text,
        run={"model": text, "seed": text},
    )
    return Written(named, rows)


def _said(row: Row, text: str) -> Row:
    name, one = row
    if name in ("open", "event"):
        return name, replace(one, source=text, dtype=text, tensors=(text,))
    return row


def save(folder: Path, written: Written) -> Path:
    return write_files(folder, trace_files(written))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Runs with hostile texts, and what serves them."""
    folder = tmp_path_factory.mktemp("hostile")
    for name, text in TEXTS.items():
        save(folder / name, run_with(text))
    for name in FOLDERS:
        save(folder / name, record(Plan()))
    with serving(folder) as address:
        yield folder, address


def assert_harmless(one: Watched) -> None:
    eventually(lambda: one.page.evaluate("() => window.hacked") is None)
    expect(one.page.locator("img")).to_have_count(0)
    expect(one.page.locator("b, [onerror], [onclick]")).to_have_count(0)


def assert_moves(one: Watched) -> int:
    """Keys work; returns the last step."""
    found = one.document()
    last = found["broken"]["step"] if found["broken"] else len(found["steps"]) - 1
    one.ask("() => document.activeElement?.blur()")
    one.press("End")
    one.has(position=last)
    return last


def assert_plays(one: Watched) -> None:
    """Keys work, and each moment is drawn."""
    last, found = assert_moves(one), one.document()
    mains = [beat["main"] for beat in found["beats"]]
    has_result = one.ask("() => __player.model.results[0] !== null")
    one.press("Home", *["ArrowRight"] * (2 if has_result else 1))
    one.has(position=min(mains[:2][-1], last))
    one.press("h", "Home", "ArrowRight")
    one.has(position=min(1, last))
    one.press("h", "4", "i", "t", "t", "p", "p")
    eventually(lambda: one.text("#title"))


def watch_quietly(watch: Callable[..., Watched], address: str, **options: Any) -> Watched:
    """A page on which a dialog would be a complaint."""
    one = watch(address=address, **options)

    def complain(dialog: Any) -> None:
        one.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    one.page.on("dialog", complain)
    return one


def open_or_refuse(
    watch, address: str, path: str, one: Watched | None = None
) -> tuple[Watched, str]:
    """Go there, with a page if there is one.

    Returns:
        The page, and the one line that is shown instead of a replay, or "".
    """
    if one is None:
        one = watch_quietly(watch, address, reduced_motion="reduce")
    else:
        one.page.goto("about:blank")  # or another fragment would not load the page anew
    one.page.goto(address + path)
    one.wait(f"{READY} || {STATUS}.querySelector('h1') !== null")
    one.settle()
    if one.ask("() => window.__player !== undefined"):
        return one, ""
    eventually(lambda: heard(one.page, one.complaints))
    one.complaints[:] = [said for said in one.complaints if "status of 4" not in said]
    return one, eventually(lambda: one.text("#status .reason"))


def address_of(name: str) -> str:
    return f"/replay?trace={quote(name)}"


def visible(text: str) -> str:
    """A text as a page shows it: spaces run together."""
    return " ".join(text.split())


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_shown_as_they_are(watch, hostile, name):
    one, refusal = open_or_refuse(watch, hostile[1], address_of(name))
    assert refusal == ""
    text = TEXTS[name]
    found = one.document()
    assert found["units"][0]["name"] == text
    assert_plays(one)
    one.press("Home")
    title = "() => document.getElementById('title').textContent"
    eventually(lambda: one.page.evaluate(title) == found["texts"][found["beats"][0]["title"]])
    one.press("g")
    told = "() => document.getElementById('what').textContent"
    eventually(lambda: one.page.evaluate(told) == found["tour"][0]["text"])
    one.page.locator("#stage").focus()
    one.press("ArrowRight", "ArrowRight")
    one.ask("() => document.activeElement.blur()")
    one.press("/")
    one.page.keyboard.type("beat 1")
    assert_harmless(one)
    one.press("Escape", "Home")
    one.page.locator("#run").click()
    facts = one.page.locator("#run-facts")
    if visible(text):
        eventually(lambda: visible(text) in visible(facts.text_content()))
    one.press("Escape", "Shift+B")
    expect(one.page.locator("#breaks-dialog")).to_be_visible()
    if text.strip():
        units = eventually(
            lambda: one.page.locator("#breaks-form [name=unit] option").all_text_contents()
        )
        assert text in units
    one.press("Escape")
    one.page.locator("#runs-menu summary").click()
    one.wait("document.querySelector('#runs-menu[open] a') !== null")
    assert_harmless(one)
    eventually(lambda: one.page.evaluate("() => document.documentElement.scrollWidth") <= 1280)


def test_an_offline_page_likewise(watch, hostile, tmp_path):
    file = tmp_path / "replay.html"
    answer = command("export", hostile[0] / "end-of-json", "--html", file)
    assert (answer.code, answer.err) == (0, "")
    one, refusal = open_or_refuse(watch, file.as_uri(), "")
    assert refusal == ""
    assert one.document()["units"][0]["name"] == TEXTS["end-of-json"]
    assert_plays(one)
    assert_harmless(one)
    one.press("x")
    with one.page.expect_download() as picture:
        one.page.locator("#take-form button[value=svg]").click()
    names = one.ask(
        """svg => [...new DOMParser().parseFromString(svg, "image/svg+xml").querySelectorAll("*")]
          .map(({ nodeName }) => nodeName)""",
        picture.value.path().read_text(),
    )
    assert {"svg", "text", "rect"} <= set(names) <= DRAWN
    assert_harmless(one)


def test_an_offline_comparison_likewise(watch, hostile, tmp_path):
    file = tmp_path / "compare.html"
    folders = [hostile[0] / name for name in FOLDERS]
    answer = command("export", *folders, "--html", file)
    assert (answer.code, answer.err) == (0, "")
    one = watch(address=file.as_uri())
    one.open("")
    one.press("End", "Home", "t")
    assert_harmless(one)


def test_folders_may_be_called_anything(watch, hostile, tmp_path):
    folder, address = hostile
    one, refusal = open_or_refuse(watch, address, "/replay?trace=long")
    assert refusal == ""
    one.page.locator("#runs-menu summary").click()
    links = eventually(
        lambda: one.page.locator("#runs-menu a").evaluate_all(
            "all => all.map(a => [a.getAttribute('href'), a.querySelector('span').textContent])"
        )
    )
    assert_harmless(one)
    shown = dict(map(reversed, links))
    offline = None
    for number, name in enumerate(FOLDERS):
        assert name in shown
        _, refusal = open_or_refuse(watch, address, shown[name], one)
        assert refusal == "", name
        assert one.document()["name"] == name
        eventually(lambda: name in one.page.title())
        assert_moves(one)
        assert_harmless(one)
        file = tmp_path / f"{number}.html"
        answer = command("export", folder / name, "--html", file)
        assert (answer.code, answer.err) == (0, "")
        offline, refusal = open_or_refuse(watch, file.as_uri(), "", offline)
        assert refusal == "", name
        assert_moves(offline)
        assert_harmless(offline)
    assert_plays(one)
    assert_plays(offline)


def test_hostile_fragments_are_ignored(watch, hostile):
    one = None
    for fragment in (
        "#at=99999999999999999999",
        "#at=-1&rank=99",
        "#beat=99999999999999999999&hops=2",
        "#beat=-1&hops=0",
        "#at=NaN&speed=1e9&theme=x&mode=y",
        "#break=kind:%3Cscript%3E,unit:%E2%80%A8,bytes:1e400,rank:-5",
        "#%",
        "#at=%ZZ&break=%",
        "#__proto__=1&constructor=2",
    ):
        one, refusal = open_or_refuse(watch, hostile[1], f"/replay?trace=quotes{fragment}", one)
        assert refusal == "", fragment
        assert_moves(one)
        assert_harmless(one)
    assert_plays(one)


# ----------------------------------------------------------------- every string, on every page

EVERYTHING = (
    "\"><script>window.hacked=1</script><img src=x onerror='window.hacked=1'>"
    '<a href="javascript:window.hacked=1">\u202enwod\u202c \u2028 nul\0 bell\a \x1b[31m</a>'
)
TAG = EVERYTHING[:34]
NAMED = "\"><img src=x onerror='window.hacked=1'> javascript:window.hacked=1 \u202enwod\u202c"
"""As far as a file system takes it."""
OTHER = f"{NAMED} again"
MEANT = ("system", "created", "config", "dtype")
"""A reader knows every value that these may have."""


def all_said(value: Any, but: tuple[str, ...] = MEANT) -> Any:
    """The same with `EVERYTHING` at the end of each text, whatever field it is in, but these."""
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return value and f"{value}{EVERYTHING}"
    if isinstance(value, tuple | list):
        return type(value)(all_said(one, but) for one in value)
    if isinstance(value, dict):
        return {key: all_said(one, but) for key, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        names = [one.name for one in fields(value) if one.name not in but]
        return replace(value, **{name: all_said(getattr(value, name), but) for name in names})
    return value


def all_hostile(written: Written, *, fails: bool = False, but: tuple[str, ...] = MEANT) -> Written:
    """A run that says it wherever it says anything."""
    failure = Failure(
        message="it failed",
        iteration=1,
        phase=Phase.UPDATE,
        unit="a unit",
        op=None,
        purpose=None,
        waiting_for=(1,),
        peer_lost=False,
        time_ns=1,
    )
    more: list[Row] = [("metric", Metric(iteration=1, name="a metric", value=1.0, time_ns=9))]
    more += [("failure", failure)] if fails else []
    about = {"model": "a model", f"a key{EVERYTHING}": "its value"}
    told = replace(written.manifest, run=about, versions=about)
    rows = {
        rank: [(name, all_said(one, but)) for name, one in (*own, *more)]
        for rank, own in written.rows.items()
    }
    return Written(all_said(told, but), rows)


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory):
    """Runs that are hostile in all that they say, and what serves them."""
    folder = tmp_path_factory.mktemp("everywhere")
    program = Program(ddp(2, parameter("w", 12, 10), parameter("b", 8)))
    program.parameter_bytes = 512
    program.add(1, program.calls[1, 0][0][0], source="train.py:9 in step")  # not planned
    save(folder / "program", all_hostile(program.written()))
    save(folder / "refused", all_hostile(program.written(), but=MEANT[:3]))
    save(folder / "unknown", all_hostile(program.written(), but=MEANT[1:]))
    save(folder / "failed", all_hostile(record(Plan()), fails=True))
    for name, stage in ((NAMED, 3), (OTHER, 1)):
        save(folder / name, all_hostile(record(Plan(stage=stage))))
    with serving(folder) as address:
        yield folder, address


THERE = f"{READY} || document.querySelector('#headline, .problem-card, #status h1') !== null"
"""A page has come, with what was asked for or with a line that says why not."""
NOWHERE = f"trace={quote(EVERYTHING)}&rank={quote(EVERYTHING)}&iteration={quote(EVERYTHING)}"
SHOWN_ON = (
    "replay?trace=program",
    "replay?trace=failed",
    f"replay?trace={quote(NAMED)}&embed=1",
    "verify?trace=program",
    "verify?trace=refused",
    "verify?trace=unknown",
    f"graph?trace={quote(NAMED)}",
    f"compare?trace={quote(NAMED)}&trace={quote(OTHER)}",
    f"replay?{NOWHERE}",
    f"verify?{NOWHERE}",
    f"graph?{NOWHERE}",
    f"compare?{NOWHERE}",
)
"""Pages that say something of a run, or of one that is not there."""


def assert_text(one: Watched, place: str) -> None:
    """Nothing that a trace says became more than text, and it is all there to be read."""
    eventually(lambda: one.page.evaluate("() => window.hacked") is None)
    expect(one.page.locator("img, [onerror], [href^='javascript:' i]")).to_have_count(0)
    eventually(lambda: one.page.evaluate("() => document.documentElement.scrollWidth") <= 1280)
    eventually(
        lambda: one.page.locator(place).evaluate_all(
            "all => all.map(one => one.textContent).join()"
        ),
        lambda said: TAG in said or "onerror='window.hacked=1'>" in said,
    )


def test_every_string_of_a_trace_is_text_on_every_page(watch, everywhere, tmp_path):
    folder, address = everywhere
    one = watch_quietly(watch, address, reduced_motion="reduce")
    for path in SHOWN_ON:
        one.page.goto(f"{address}/{path}")
        one.wait(THERE)
        if path == "verify?trace=program":
            one.wait("document.querySelector('#laws .main-svg, #waterfall .main-svg')")
        one.settle()
        assert_text(one, "main, #status, #notes, #run-facts")
    one.page.goto(f"{address}/")
    one.wait("document.querySelector('#runs-menu summary') !== null")
    one.page.locator("#runs-menu summary").click()
    one.wait("document.querySelector('#runs-menu[open] a') !== null")
    assert_text(one, "#runs-menu")
    for path in (f"/{quote(EVERYTHING)}", f"/lessons/{quote(EVERYTHING)}"):  # lessons read no run
        one.page.goto(address + path)
        eventually(lambda: one.page.evaluate("() => window.hacked") is None)
        one.expect("main").to_contain_text("there is no such page")
    one.complaints[:] = [said for said in one.complaints if "status of 4" not in said]
    for number, name in enumerate(("program", NAMED)):
        file = tmp_path / f"{number}.html"
        answer = command("export", folder / name, "--html", file)
        assert (answer.code, answer.err) == (0, "")
        offline, refusal = open_or_refuse(watch, file.as_uri(), "")
        assert refusal == ""
        assert_text(offline, "main, #run-facts")


# ------------------------------------------------------------------ damaged and strange runs


def with_metrics(value: float) -> dict[str, bytes]:
    written = record(Plan())
    for own in written.rows.values():
        own.append(("metric", Metric(iteration=1, name="loss", value=value, time_ns=9)))
    return trace_files(written)


def with_units(elements: int) -> dict[str, bytes]:
    written = record(Plan())
    units = tuple(
        UnitLayout(name=unit.name, elements=elements, padded_elements=elements, trainable=True)
        for unit in written.manifest.units
    )
    return trace_files(replace(written, manifest=replace(written.manifest, units=units)))


def missing_rank() -> dict[str, bytes]:
    files = trace_files(record(Plan(num_ranks=4)))
    del files[rank_file_name(2)]
    return files


def changed(name: str, change: Callable[[bytes], bytes], **plan: Any) -> dict[str, bytes]:
    files = trace_files(record(Plan(**plan)))
    return {**files, name: change(files[name])}


def foreign() -> dict[str, bytes]:
    written = record(Plan(num_ranks=2))
    manifest = replace(written.manifest, config={}, units=(), buckets=())
    return trace_files(replace(written, manifest=manifest))


def hung() -> dict[str, bytes]:
    """No rank comes past its middle, and none closes its file."""
    written = record(Plan(num_ranks=4, iterations=1))
    files = trace_files(written)
    for rank, rows in written.rows.items():
        files[rank_file_name(rank)] = encode_rows(rows[: len(rows) // 2 + rank])
    return files


def configured() -> dict[str, bytes]:
    written = record(Plan())
    strange = {"stage": 3, "<script>window.hacked=1</script>": 1}
    return trace_files(replace(written, manifest=replace(written.manifest, config=strange)))


def crossed() -> dict[str, bytes]:
    """A rank claims to have been sent a shard that its neighbour never had."""
    written = record(Plan(num_ranks=3))
    rows = {
        rank: [
            (name, replace(one, shard=(one.shard + 1) % 3))
            if name == "transfer" and one.shard is not None and one.hop == 1
            else (name, one)
            for name, one in own
        ]
        for rank, own in written.rows.items()
    }
    return trace_files(replace(written, rows=rows))


IDLE = Plan(hop_ns=0, gap_ns=0, handover_ns=0, wake_ns=0, compute_ns=lambda *_: 0)
SHOWN: dict[str, Callable[[], dict[str, bytes]]] = {
    "nan": lambda: with_metrics(float("nan")),
    "missing": missing_rank,
    "cut": lambda: changed(rank_file_name(1), lambda text: text[: len(text) // 2]),
    "huge-units": lambda: with_units(2**52),
    "foreign": foreign,
    "crossed": crossed,
    "one": lambda: trace_files(record(Plan(num_ranks=1))),
    "hung": hung,
    "no-time": lambda: trace_files(record(IDLE)),
}
NOTES = {
    "missing": "rank-2.jsonl is missing",
    "cut": "rank 1: the trace stops after",
    "hung": "rank 3: the trace stops after",
}
OFFLINE_AS_WELL = ("nan", "huge-units", "crossed")
REFUSED: dict[str, tuple[Callable[[], dict[str, bytes]], str]] = {
    "no-json": (
        lambda: changed(MANIFEST_NAME, lambda _: b"<script>window.hacked=1"),
        "manifest.json cannot be read",
    ),
    "no-units": (lambda: with_units(0), "has 0 elements: expected 1 or more"),
    "many": (
        lambda: trace_files(record(Plan(num_ranks=65, iterations=1, units=("only",)))),
        "65 ranks",
    ),
    "configured": (configured, "'<script>window.hacked=1</script>'"),
}
"""Runs that cannot be shown, each with words of the line that says why; `zerosim.record`'s tests
have them all."""


@pytest.fixture(scope="module")
def strange(tmp_path_factory):
    folder = tmp_path_factory.mktemp("strange")
    for name, make in SHOWN.items():
        write_files(folder / name, make())
    for name, (make, _) in REFUSED.items():
        write_files(folder / name, make())
    with serving(folder) as address:
        yield folder, address


@pytest.mark.parametrize("name", SHOWN)
def test_a_strange_run_is_shown(watch, strange, tmp_path, name):
    folder, address = strange
    places = [(address, address_of(name))]
    if name in OFFLINE_AS_WELL:
        file = tmp_path / "replay.html"
        answer = command("export", folder / name, "--html", file)
        assert answer.code == 0, answer.err
        places.append((file.as_uri(), ""))
    for origin, path in places:
        one, refusal = open_or_refuse(watch, origin, path)
        assert refusal == ""
        found = one.document()
        assert NOTES.get(name, "") in " ".join(found["notes"])
        assert str(folder) not in str(found)  # its location is not revealed
        assert_plays(one)
        assert_harmless(one)
        alert = one.page.locator("#broken")
        if name == "crossed":
            expect(alert).to_contain_text(found["broken"]["reason"])
            one.press("End")
            one.has(position=found["broken"]["step"])
        elif found["broken"] is None:
            expect(alert).to_be_hidden()


@pytest.mark.parametrize("name", REFUSED)
def test_a_run_that_cannot_be_shown_is_refused_in_one_line(watch, strange, name):
    one, refusal = open_or_refuse(watch, strange[1], address_of(name))
    assert REFUSED[name][1] in refusal
    assert "\n" not in refusal
    assert_harmless(one)
    one.press("ArrowRight", "End", "Home", " ")  # nothing to move: nothing may fail
    one.wait("document.querySelector('#runs-menu summary') !== null")
    one.page.locator("#runs-menu summary").click()
    one.wait("document.querySelector('#runs-menu[open] a') !== null")


# ------------------------------------------------------------------------------------- large


@pytest.mark.long
def test_a_long_run_opens_and_plays(watch, serve, tmp_path):
    assert write_run(tmp_path / "large", 60_000) > 50_000
    address = serve(tmp_path)
    one = watch_quietly(watch, address)
    one.page.set_default_timeout(250_000)
    one.page.goto(address + address_of("large"))
    one.ready(deadline_s=250)
    assert_plays(one)
    one.press("Home")
    one.page.select_option("#speed", "4")
    one.press(" ")
    one.wait("window.__player.state().position >= 5")
    one.press(" ")
    one.has(playing=False)


def test_an_iteration_of_too_many_messages_is_shown_by_collective(watch, tmp_path, monkeypatch):
    monkeypatch.setattr(find, "MOST_MESSAGES", 1_000)
    units = tuple(f"blocks.{index}" for index in range(6))
    folder = save(tmp_path / "many", record(Plan(num_ranks=12, units=units, iterations=1)))
    file = tmp_path / "many.html"
    file.write_text(offline_page(replay_document(load(folder))))
    one = watch(address=file.as_uri(), reduced_motion="reduce")
    one.open("")
    found = one.document()
    assert "shown by collective instead of by hop" in found["notes"][0]
    assert not [step for step in found["steps"] if step["kind"] == "transfer"]
    assert_plays(one)
