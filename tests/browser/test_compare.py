"""The Compare page in a browser: one cursor for several runs, the numbers of `zerosim verify`."""

from __future__ import annotations

import shutil
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.analysis.graph.runs import Plan, record
from tests.browser.conftest import eventually, heard, serving
from tests.browser.test_access import violations_in_both_themes
from tests.deadlines import RANKS_S
from tests.strategies import trace_files, write_files
from zerosim.analysis.budget import budgets
from zerosim.analysis.graph import build_graph
from zerosim.base.quantities import format_bytes
from zerosim.lessons.recordings import COMMITTED
from zerosim.record import load
from zerosim.verify import verify
from zerosim.view.reading import Comparison
from zerosim.view.replay import replay_document
from zerosim.view.replay.alignment import align

pytestmark = [pytest.mark.browser, pytest.mark.ranks]

FOUR = "/compare?" + "&".join(f"trace=stage-{stage}" for stage in range(4))


@pytest.fixture(scope="module")
def aligned(traces):
    """What Python says of the four stages."""
    names = [f"stage-{stage}" for stage in range(4)]
    return align([replay_document(load(traces / name), name=name) for name in names])


def numbers_at_the_end(one, aligned) -> list[list[str]]:
    """The table of the last moment: it is drawn together with the title."""
    one.press("End")
    one.expect("#title").to_have_text(aligned.titles[-1])
    return eventually(
        lambda: one.page.locator("#table tbody tr").evaluate_all(
            "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
        )
    )


def canvases(one) -> str:
    """Everything that is drawn, as one text."""
    return one.ask("() => [...document.querySelectorAll('canvas')].map(c => c.toDataURL()).join()")


BOXES = """part => [...document.querySelectorAll(part)]
    .filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect().toJSON())"""


def refused(one, path: str) -> str:
    """The one line that is shown instead of a comparison."""
    asked, answered = [], []
    one.page.on("request", lambda request: "/api/" in request.url and asked.append(request))
    one.page.on(
        "requestfinished", lambda request: "/api/" in request.url and answered.append(request)
    )
    one.page.goto(one.address + path)
    one.wait("document.querySelector('.problem-card, #status h1') !== null")
    eventually(lambda: len(heard(one.page, answered)) == len(asked))  # each is complained of by now
    one.complaints[:] = [said for said in one.complaints if "status of 4" not in said]
    return eventually(lambda: one.text(".problem-card p:first-of-type, #status .reason"))


# -------------------------------------------------------------------------------- the numbers


def test_what_is_shown_is_the_alignment(watch, aligned):
    one = watch(reduced_motion="reduce")
    one.open(f"{FOUR}#at=1")
    for moment in range(len(aligned.moments)):
        one.expect("#title").to_have_text(aligned.titles[moment])
        one.expect("#what").to_have_text(aligned.whats[moment])
        cards = one.page.locator(".run-card")
        eventually(
            lambda: cards.locator("h2").all_inner_texts() == [run.title for run in aligned.runs]
        )
        eventually(
            lambda: cards.locator(".law").all_inner_texts() == [run.law for run in aligned.runs]
        )
        eventually(
            lambda: (
                cards.locator(".next").all_inner_texts()
                == [run.follows[moment] for run in aligned.runs]
            )
        )
        one.has(steps=[run.steps[moment] for run in aligned.runs])
        one.press("ArrowRight")


@pytest.mark.parametrize("rank", [0, 3])
def test_at_the_end_it_has_sent_what_verify_and_compare_say(watch, traces, aligned, rank):
    one = watch(reduced_motion="reduce")
    one.open(f"{FOUR}#rank={rank}&table=1")
    shown = numbers_at_the_end(one, aligned)
    sides = Comparison([load(traces / f"stage-{stage}") for stage in range(4)]).sides
    for stage, (row, side) in enumerate(zip(shown, sides, strict=True)):
        report = verify(load(traces / f"stage-{stage}"))
        assert row[5] == f"{report.total('trace', rank):,} B"
        if rank == 0:
            assert row[5] == f"{sum(side.sent_bytes.values()):,} B"
        assert row[6] == format_bytes(report.law_bytes)


def test_memory_is_what_was_recorded(watch, traces, aligned):
    one = watch(reduced_motion="reduce")
    one.open(f"{FOUR}#table=1")
    for stage, row in enumerate(numbers_at_the_end(one, aligned)):
        found = replay_document(load(traces / f"stage-{stage}"))
        memory = found["memory"]["ranks"][0]
        now = found["local_ns"][0][-1]
        last = max(k for k, time in enumerate(memory["times_ns"]) if time <= now)
        assert row[3] == f"{sum(role[last] for role in memory['bytes']):,} B"
        assert row[4] == format_bytes(found["memory"]["law_bytes"])


def test_time_is_what_the_event_graph_says(watch, traces, aligned):
    one = watch(reduced_motion="reduce")
    one.open(f"{FOUR}#table=1")
    for stage, row in enumerate(numbers_at_the_end(one, aligned)):
        trace = load(traces / f"stage-{stage}")
        whole = budgets(build_graph(trace).within(1)).of(rank=0)
        for cell, spent in zip(
            row[7:9], (whole.compute_ns, whole.exposed_ns + whole.waiting_ns), strict=True
        ):
            amount, unit = cell.split()
            shown = float(amount) * {"ms": 1e6, "s": 1e9}.get(unit, 0.0)
            assert shown == pytest.approx(spent, abs={"ms": 5001, "s": 500_001}[unit])


# ------------------------------------------------------------------------- moving, and the address


def test_keys_lead_where_they_say(watch, aligned):
    one = watch(reduced_motion="reduce")
    one.open(FOUR)
    last = len(aligned.moments) - 1
    begins = [k for k, moment in enumerate(aligned.moments) if moment.what in ("begins", "over")]
    for key, there in (
        ("End", last),
        ("Home", 0),
        ("ArrowRight", 1),
        ("PageDown", 2),
        ("ArrowLeft", 1),
        ("PageUp", 0),
        ("Shift+ArrowRight", begins[1]),
        ("Shift+ArrowRight", begins[2]),
        ("Shift+ArrowLeft", begins[1]),
        ("5", (last + 1) // 2),
    ):
        one.press(key)
        one.has(position=there)
    one.press("ArrowDown", "ArrowDown")
    one.has(rank=2)
    one.press("ArrowUp", "t", "p", "d")
    one.has(rank=1, table=True, mode="present")
    one.expect("html").to_have_attribute("data-theme", one.state()["theme"])
    one.press("Shift+?")
    expect(one.page.locator("#help-dialog")).to_be_visible()
    one.expect("#help-keys").to_contain_text("forward one moment")
    eventually(lambda: "breakpoints" not in one.text("#help-keys"))
    one.press("Escape")
    one.press("r")
    expect(one.page.locator("#run-dialog")).to_be_visible()


def test_playing_and_buttons(watch, aligned):
    one = watch()
    one.open(f"{FOUR}#speed=0.5")  # the end is further away than any answer
    one.press(" ")
    one.wait("window.__player.state().position >= 3")
    one.has(playing=True)
    one.press(" ")
    one.has(playing=False)
    for name, there in (("Last", len(aligned.moments) - 1), ("First", 0), ("Forward", 1)):
        one.page.get_by_role("button", name=name, exact=True).click()
        one.settle()
        one.has(position=there)
    one.page.locator("#scrubber").click(position={"x": 5, "y": 20})
    one.settle()
    one.has(position=0)
    one.page.get_by_label("Selected rank").select_option("2")
    one.settle()
    one.expect("#memory-title").to_have_text("Memory now, rank 2")


def test_back_shows_what_forward_showed(watch, aligned):
    one = watch(reduced_motion="reduce")
    one.open(f"{FOUR}#at=1")
    seen = []
    for moment in range(len(aligned.moments)):
        one.expect("#title").to_have_text(aligned.titles[moment])
        seen.append((canvases(one), eventually(lambda: one.text("#cards"))))
        one.press("ArrowRight")
    for expected in reversed(seen):
        eventually(lambda: (canvases(one), one.text("#cards")) == expected)
        one.press("ArrowLeft")


def test_an_address_restores_the_screen(watch):
    one = watch(reduced_motion="reduce")
    one.open(FOUR)
    one.press("Shift+ArrowRight", "ArrowRight", "ArrowRight", "ArrowDown", "p", "d")
    one.wait("location.hash.includes('theme=')")  # what was pressed last; all of it is written
    again = watch(reduced_motion="reduce")
    again.open(one.page.url.removeprefix(one.address))
    eventually(lambda: again.state() == one.state())
    eventually(lambda: canvases(again) == canvases(one))


def test_a_card_leads_to_the_very_step_in_replay(watch, aligned):
    one = watch(reduced_motion="reduce")
    one.open(f"{FOUR}#at=21&rank=2")
    steps = one.state()["steps"]
    one.page.locator(".run-card").nth(3).get_by_role("link").click()
    one.wait("location.pathname === '/replay' && window.__player?.model !== undefined")
    one.has(position=steps[3], rank=2)
    assert one.document()["name"] == "stage-3"


# ------------------------------------------------------------------------------ which runs


@pytest.mark.parametrize("query", ["", "?trace=stage-2"])
def test_without_a_choice_all_stages_stand_beside_each_other(watch, query):
    one = watch(reduced_motion="reduce")
    one.open(f"/compare{query}#at=3")
    expect(one.page).to_have_url(f"{one.address}{FOUR}#at=3")


def test_runs_can_be_chosen(watch):
    one = watch(reduced_motion="reduce")
    one.open(FOUR)
    one.press("r")
    for name in ("stage-1", "stage-2", "stage-3"):
        one.page.get_by_role("checkbox", name=name).uncheck()
    one.expect("#choices-problem").to_have_text("Choose 2 or more runs.")
    expect(one.page.locator("#choices-go")).to_be_disabled()
    one.page.get_by_role("checkbox", name="stage-3").check()
    expect(one.page.locator("#choices-go")).to_be_enabled()
    one.page.get_by_role("button", name="Compare").click()
    one.wait("location.search === '?trace=stage-0&trace=stage-3' && window.__player !== undefined")
    expect(one.page.locator(".run-card")).to_have_count(2)


def test_from_page_to_page_the_run_stays(watch):
    one = watch(reduced_motion="reduce")
    one.open("/replay?trace=stage-2")
    one.page.get_by_role("link", name="Compare").click()
    one.wait("location.pathname === '/compare' && window.__player?.alignment !== undefined")
    one.page.get_by_role("link", name="Verify").click()
    one.wait("location.pathname === '/verify'")
    one.wait("location.href.includes('trace=stage-0')")


# -------------------------------------------------------------------------- for anyone, anywhere


@pytest.mark.parametrize("what", ["&mode=present", "&table=1"])
def test_axe_finds_nothing(watch, what):
    one = watch(reduced_motion="reduce")
    one.open(f"{FOUR}#at=21{what}")
    assert violations_in_both_themes(one) == []


def test_axe_finds_nothing_in_the_dialogs(watch):
    one = watch(reduced_motion="reduce")
    one.open(f"{FOUR}#at=21")
    for key in ("Shift+?", "r"):
        one.press(key)
        expect(one.page.locator("dialog[open]")).to_have_count(1)
        assert violations_in_both_themes(one) == [], key
        one.press("Escape")
        expect(one.page.locator("dialog[open]")).to_have_count(0)


@pytest.mark.parametrize("mode", ["work", "present"])
def test_nothing_is_cut_off(watch, mode):
    one = watch(reduced_motion="reduce")
    one.open(f"{FOUR}#at=21&mode={mode}")
    for width, height in one.sized((1920, 1080), (1280, 720), (1024, 768), (500, 900)):
        eventually(lambda: one.page.evaluate("() => document.documentElement.scrollWidth") <= width)
        for part in (".tools", ".run-card .next", ".panel .host", ".transport"):
            eventually(
                lambda: one.ask(BOXES, part),
                lambda boxes: all(
                    box["right"] <= width + 1 and (height >= box["bottom"] or width < 900)
                    for box in boxes
                ),
            )
        maps = one.page.locator(".run-card .map")
        eventually(lambda: min(maps.evaluate_all("all => all.map(e => e.clientHeight)")) >= 80)


def test_the_transport_is_in_reach_below_cards_that_are_higher_than_the_window(watch):
    one = watch(viewport={"width": 820, "height": 600}, reduced_motion="reduce")
    one.open(FOUR)
    eventually(
        lambda: one.page.locator(".run-card").evaluate_all(
            "all => all.map(e => e.getBoundingClientRect().top)"
        ),
        lambda tops: tops[0] == tops[1] < tops[2] == tops[3],
    )
    for where in (0, 200):
        one.ask(f"() => scrollTo(0, {where})")
        one.settle()
        eventually(
            lambda: one.page.locator(".transport").bounding_box(),
            lambda box: box and 0 < box["y"] <= 600 - box["height"],
        )
    one.page.locator("[data-action='forward']").click()
    one.settle()
    one.has(position=1)


def test_a_screen_reader_hears_the_moment_and_each_run(watch, aligned):
    one = watch(reduced_motion="reduce")
    one.open(f"{FOUR}#at=21")
    said = eventually(lambda: one.page.locator("#narration").text_content())
    assert aligned.titles[20] in said
    for run in aligned.runs:
        assert f"{run.title}: {run.follows[20]}" in said


# ------------------------------------------------------------------------------ unlike each other


@pytest.fixture(scope="module")
def strange(tmp_path_factory):
    folder = tmp_path_factory.mktemp("strange")
    write_files(folder / "stage-1", trace_files(record(Plan(stage=1))))
    write_files(folder / "four", trace_files(record(Plan(num_ranks=4))))
    write_files(folder / "many", trace_files(record(Plan(num_ranks=64, iterations=1))))
    with serving(folder) as address:
        yield address


def address_of(*names: str) -> str:
    return "/compare?" + "&".join(f"trace={quote(name)}" for name in names)


def test_however_many_ranks(watch, strange):
    names = ("stage-1", "many", "four")
    one = watch(address=strange, reduced_motion="reduce")
    one.page.goto(one.address + address_of(*names))
    one.ready(deadline_s=RANKS_S)  # the server writes the document of 64 ranks first
    one.settle()
    expect(one.page.locator(".run-card")).to_have_count(len(names))
    one.press("End", "Home", "ArrowRight", "ArrowDown", "t", "p", "t", "r", "Escape")
    eventually(lambda: one.page.evaluate("() => document.documentElement.scrollWidth") <= 1280)
    links = eventually(
        lambda: one.page.locator(".run-card a").evaluate_all(
            "all => all.map(a => new URL(a.href).searchParams.get('trace'))"
        )
    )
    assert links == [*names]
    one.expect("#notes").to_have_text("2, 64 and 4 ranks: ranks 0-1 can be inspected")
    expect(one.page.locator("#rank option")).to_have_count(2)


def test_what_cannot_be_compared_is_refused_in_one_line(watch, strange):
    one = watch(address=strange, reduced_motion="reduce")
    line = refused(one, address_of("stage-1", "nothing"))
    assert "there is no trace 'nothing' here" in line
    assert "\n" not in line
    one.press("ArrowRight", "End", " ")  # nothing to move: nothing may fail


def test_one_run_alone_says_what_to_do(watch, tmp_path):
    write_files(tmp_path / "alone", trace_files(record(Plan())))
    with serving(tmp_path) as address:
        one = watch(address=address)
        assert "a comparison needs 2. zerosim run --stage all" in refused(one, "/compare")
        one.page.context.close()


def test_from_ring_to_native(watch, tmp_path, traces):
    """The same stage, carried out by someone else."""
    shutil.copytree(COMMITTED / "native" / "stage-3", tmp_path / "native")
    with serving(tmp_path / "native", traces / "stage-3") as address:
        one = watch(address=address, reduced_motion="reduce")
        one.open("/compare#at=20")
        titles = eventually(lambda: one.page.locator(".run-card h2").all_inner_texts())
        assert sorted(titles) == ["ZeRO-3 · gloo", "ZeRO-3 · ring"]
        one.page.context.close()
