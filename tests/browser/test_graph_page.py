"""The Graph page in a browser: the numbers of `zerosim graph`, filters, walks, links, keys."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.analysis.graph.planted import Planted, plant
from tests.analysis.graph.runs import Plan, record
from tests.browser.conftest import eventually
from tests.browser.test_access import violations, violations_in_both_themes
from tests.cli.traces import engine_trace, write
from tests.deadlines import QUESTION_S, RANKS_S
from tests.strategies import trace_files, write_files
from zerosim.analysis import report
from zerosim.analysis.graph import build_graph
from zerosim.record import load
from zerosim.schema.events import Phase

pytestmark = [pytest.mark.browser, pytest.mark.ranks]

STAGE_3 = "/graph?trace=stage-3&iteration=1"


def visit(one, path: str, *, deadline_s: float = QUESTION_S) -> None:
    one.page.goto(one.address + path)
    one.ready(deadline_s=deadline_s)
    one.settle()


def state(one):
    return one.ask("() => ({...window.__graph.state()})")


def document(one):
    return one.ask("() => window.__graph.model.doc")


def cells(one) -> list[list[str]]:
    return one.ask(
        "() => [...document.querySelectorAll('#tables tbody tr')].map("
        "row => [...row.cells].map(cell => cell.textContent))"
    )


def turn_to(one, table: str) -> None:
    """Show another table: it is there once its button is pressed."""
    button = one.page.get_by_role("button", name=table)
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")


def drawn(one) -> bytes:
    """What the chart looks like."""
    one.page.mouse.move(0, 0)
    one.settle()
    return one.page.locator("#chart canvas").screenshot()


def is_rounded(text: str, ns: int) -> bool:
    """Whether a text is a time in milliseconds with three decimals."""
    assert re.fullmatch(r"[\d,]+\.\d{3}", text), text
    return abs(round(float(text.replace(",", "")) * 1e6) - ns) <= 500


def answer_of(traces, stage: int, iteration: int = 1):
    return report(build_graph(load(traces / f"stage-{stage}")), iteration, top=10**6)


@pytest.mark.parametrize("stage", [0, 3])
def test_the_numbers_are_those_of_zerosim_graph(watch, traces, stage):
    one = watch()
    visit(one, f"/graph?trace=stage-{stage}")
    answer = answer_of(traces, stage)
    title, what = eventually(lambda: one.text("#title")), eventually(lambda: one.text("#what"))
    assert f"{what[:-1]}; {title[0].lower()}{title[1:]}" == answer.headline
    rows = cells(one)
    assert len(rows) == len(answer.path.pieces)
    for row, piece in zip(rows, answer.path.pieces, strict=True):
        assert is_rounded(row[0], piece.start_ns - answer.path.start_ns)
        assert is_rounded(row[1], piece.duration_ns)
        assert row[3] == piece.cause.value
    assert {step.label for step in answer.steps} == {row[4] for row in rows}

    turn_to(one, "Ranks")
    for row, rank in zip(cells(one), answer.budgets.ranks, strict=True):
        budget = answer.budgets.of(rank=rank)
        parts = (
            budget.wall_ns, budget.compute_ns, budget.exposed_ns, budget.waiting_ns,
            budget.other_ns, budget.hidden_ns,
        )  # fmt: skip
        assert row[0] == str(rank)
        assert all(is_rounded(text, ns) for text, ns in zip(row[1:7], parts, strict=True))

    turn_to(one, "Exposed")
    for rank in answer.budgets.ranks:
        shown = [float(row[4]) for row in cells(one) if row[0] == str(rank)]
        exposed_ms = answer.budgets.of(rank=rank).exposed_ns / 1e6
        assert sum(shown) == pytest.approx(exposed_ms, abs=0.001 * len(shown))

    turn_to(one, "Waited for")
    rows = cells(one)
    for row in rows:
        assert is_rounded(row[2], answer.budgets.waited_ns[int(row[0]), int(row[1])])
    assert len(rows) == len(answer.budgets.waited_ns)


def test_filters(watch):
    one = watch()
    visit(one, STAGE_3)
    whole = state(one)["count"]
    doc = document(one)
    kinds = [doc["kinds"][code] for code in doc["nodes"]["kind"]]
    before = drawn(one)
    one.page.select_option("#filter-kind", "compute")
    eventually(lambda: state(one)["count"] == kinds.count("compute"))
    assert drawn(one) != before
    one.expect("#hint").to_contain_text(f"of {whole:,} events")
    one.page.select_option("#filter-phase", "forward")
    one.page.select_option("#filter-unit", "blocks.2")
    eventually(lambda: state(one)["count"] == len(doc["ranks"]))
    one.page.select_option("#filter-rank", label="rank 3")
    eventually(lambda: state(one)["count"] == 1)
    eventually(lambda: state(one)["lanes"]["count"] == 1)
    for name in ("kind", "phase", "unit"):
        one.page.select_option(f"#filter-{name}", "")
    one.page.select_option("#filter-rank", "-1")
    one.page.get_by_role("button", name="critical", exact=True).click()
    eventually(lambda: state(one)["count"] == len(doc["path"]["nodes"]))
    one.page.get_by_role("button", name="critical", exact=True).click()
    one.page.get_by_role("button", name="waits").click()
    eventually(lambda: kinds.count("wait") <= state(one)["count"] < whole)
    one.page.get_by_role("button", name="waits").click()
    eventually(lambda: state(one)["count"] == whole)


def test_edges_are_drawn_by_their_sort(watch):
    one = watch()
    visit(one, STAGE_3)
    doc = document(one)
    kinds = [doc["kinds"][code] for code in doc["nodes"]["kind"]]
    messages = {node for node, kind in enumerate(kinds) if kind in ("send", "receive")}
    sorts = [doc["reasons"][code]["kind"] for code in doc["edges"]["reason"]]
    eventually(lambda: state(one)["numEdges"] == sorts.count("match"))
    matched = drawn(one)
    one.page.get_by_role("button", name="match").click()
    eventually(lambda: state(one)["numEdges"] == 0)
    assert drawn(one) != matched
    ends = zip(sorts, doc["edges"]["source"], doc["edges"]["target"], strict=True)
    lifetimes = sum(
        sort == "tensor lifetime" and not {source, target} & messages
        for sort, source, target in ends
    )
    one.page.get_by_role("button", name="tensor").click()
    eventually(lambda: state(one)["numEdges"] == lifetimes)
    # a message is drawn where there is room for it
    one.page.get_by_role("button", name="message").click()
    eventually(lambda: "message" in state(one)["filter"]["edges"])
    one.settle()
    many = state(one)["numEdges"]
    one.page.locator("#chart").focus()
    one.press(*"++++++++")
    eventually(
        lambda: state(one), lambda now: now["lanes"]["messages"] and 0 < now["numEdges"] != many
    )


def test_a_walk_along_the_edges(watch):
    one = watch()
    visit(one, STAGE_3)
    one.page.locator("#chart").focus()
    one.press(".", ".")
    doc = document(one)
    first = doc["path"]["nodes"][1]
    eventually(lambda: state(one)["selected"] == first)
    one.expect("#event-title").to_have_text(doc["texts"][doc["nodes"]["label"][first]])
    one.expect("#event-body").to_contain_text("critical")
    # back along what bound each, to the beginning: nothing came before it
    seen = {first}
    node = first
    while (edge := doc["edges"]["binding"][node]) >= 0:
        bound = doc["edges"]["source"][edge]
        one.page.locator("#event-body .neighbour.bound").click()
        eventually(lambda: state(one)["selected"] == bound)
        assert bound not in seen
        seen.add(bound)
        node = bound
    one.expect("#event-body").to_contain_text("It is the first event of this iteration.")
    eventually(lambda: state(one)["selected"] == doc["path"]["nodes"][0])
    one.page.locator("#tables tbody tr").last.locator("button").click()
    last = doc["path"]["pieces"][-5]
    one.expect("#event-title").to_have_text(doc["texts"][doc["nodes"]["label"][last]])
    one.expect("#tables tr.selected").not_to_have_count(0)
    one.press("Escape")
    one.expect("#event-title").to_have_text("The critical path")


def test_the_link_goes_to_the_step_in_replay(watch):
    one = watch(reduced_motion="reduce")
    visit(one, STAGE_3)
    doc = document(one)
    labels = [doc["texts"][text] for text in doc["nodes"]["label"]]
    node = next(
        k for k, label in enumerate(labels)
        if label == "backward of blocks.1" and doc["nodes"]["rank"][k] == 2
    )  # fmt: skip
    visit(one, f"{STAGE_3}#event={node + 1}&theme=dark")
    link = one.page.get_by_role("link", name="Show in Replay")
    at = doc["nodes"]["step"][node]
    expect(link).to_have_attribute("href", re.compile(rf"[#&]at={at + 1}(&|$)"))
    link.click()
    one.page.wait_for_url("**/replay?*")
    one.ready()
    one.settle()
    one.has(position=at, rank=2)
    one.expect("html").to_have_attribute("data-theme", "dark")
    replayed = one.document()
    step = replayed["steps"][at]
    assert (step["kind"], step["phase"], step["unit_name"]) == ("compute", "backward", "blocks.1")
    assert (replayed["name"], replayed["run"]["iteration"]) == ("stage-3", 1)


def test_enter_goes_to_replay_and_back_returns(watch):
    one = watch(reduced_motion="reduce")
    visit(one, STAGE_3)
    one.page.locator("#chart").focus()
    one.press(".", ".", ".")
    selected = document(one)["path"]["nodes"][2]
    one.wait(f"location.hash.includes('event={selected + 1}')")
    one.page.keyboard.press("Enter")
    one.page.wait_for_url("**/replay?*")
    one.ready()
    one.page.go_back()
    one.page.wait_for_url("**/graph?*")
    one.ready()
    eventually(lambda: state(one)["selected"] == selected)


def test_a_link_restores_the_screen(watch):
    one = watch()
    visit(one, STAGE_3)
    one.page.select_option("#filter-unit", "blocks.1")
    one.page.get_by_role("button", name="message").click()
    turn_to(one, "Exposed")
    one.page.locator("#chart").focus()
    one.press("ArrowRight", "+", "+", "Shift+ArrowRight", "w", "d", "p")
    one.wait("location.hash.includes('mode=present')")  # what was pressed last; all is written
    here = state(one)
    again = watch()
    visit(again, one.page.url.removeprefix(one.address))
    there = state(again)
    for name in ("selected", "filter", "table", "theme", "present", "count"):
        assert there[name] == here[name], name
    for name in ("from", "to"):
        assert there[name] == pytest.approx(here[name], abs=1)
    assert there["theme"] in ("dark", "light")
    third = watch()
    visit(third, one.page.url.removeprefix(one.address))
    eventually(lambda: drawn(again) == drawn(third))


def test_keys_pan_zoom_and_walk(watch):
    one = watch()
    visit(one, STAGE_3)
    whole = state(one)
    one.press("+", "+")
    half = pytest.approx(whole["to"] * 0.49, rel=0.01)
    zoomed = eventually(lambda: state(one), lambda now: now["to"] - now["from"] == half)
    one.press("Shift+ArrowRight")
    eventually(lambda: state(one)["from"] > zoomed["from"])
    one.press("-", "0")
    eventually(lambda: (state(one)["from"], state(one)["to"]) == (whole["from"], whole["to"]))
    one.press("ArrowRight")
    doc = document(one)
    nodes, start = doc["nodes"], doc["nodes"]["start"]
    first = eventually(lambda: state(one)["selected"], lambda node: node >= 0)
    one.press("End")
    last = eventually(lambda: state(one)["selected"], lambda node: node != first)
    one.press("ArrowLeft")
    before = eventually(lambda: state(one)["selected"], lambda node: node != last)
    assert nodes["rank"][before] == nodes["rank"][last]
    assert start[before] <= start[last]
    one.press("ArrowDown", "ArrowDown")
    eventually(lambda: state(one)["selected"] not in (before, last))
    one.press("ArrowRight", "Home")
    eventually(lambda: start[state(one)["selected"]] <= start[before])
    one.expect("#narration").not_to_be_empty()
    one.press("Shift+?")
    one.expect("#help-dialog[open]").to_have_count(1)
    one.press("Escape")
    one.expect("#help-dialog[open]").to_have_count(0)


def test_the_pointer_pans_zooms_and_selects(watch):
    one = watch()
    visit(one, STAGE_3)
    box = eventually(lambda: one.page.locator("#chart").bounding_box())
    lanes = state(one)["lanes"]
    x, y = box["x"] + lanes["left"] + lanes["width"] * 0.55, box["y"] + 8
    one.page.mouse.move(x, y)
    one.page.mouse.wheel(0, -240)
    doc = document(one)
    zoomed = eventually(
        lambda: state(one), lambda now: now["to"] - now["from"] < doc["duration_ns"]
    )
    one.page.mouse.down()
    one.page.mouse.move(x - 100, y, steps=4)
    one.page.mouse.up()
    span = zoomed["to"] - zoomed["from"]
    panned = pytest.approx(zoomed["from"] + 100 / lanes["width"] * span, rel=0.001)
    eventually(lambda: state(one)["from"] == panned)
    eventually(lambda: state(one)["selected"] == -1)
    # the first event of the path that is in sight
    target = one.ask("""() => {
          const {model, state} = window.__graph, {from, to, lanes} = state();
          const isWide = k => model.end[k] - model.start[k] > (to - from) / 50;
          const node = [...model.start.keys()].find(k => model.kinds[k] === 'compute'
            && model.start[k] > from && model.end[k] < to && isWide(k));
          const middle = (model.start[node] + model.end[node]) / 2;
          return [node, lanes.left + (middle - from) / (to - from) * lanes.width,
            model.rank[node] * lanes.rowHeight + lanes.program / 2]; }""")
    one.page.mouse.move(box["x"] + target[1], box["y"] + target[2])
    one.settle()
    label = doc["texts"][doc["nodes"]["label"][target[0]]]
    one.expect("#hint").to_contain_text(label)
    one.page.mouse.click(box["x"] + target[1], box["y"] + target[2])
    eventually(lambda: state(one)["selected"] == target[0])
    one.expect("#event-title").to_have_text(label)
    one.page.get_by_role("button", name="fit").click()
    eventually(lambda: state(one)["from"] == 0)


def test_two_fingers_zoom(watch):
    one = watch(has_touch=True)
    visit(one, STAGE_3)
    one.ask("""() => { const chart = document.querySelector('#chart');
          const box = chart.getBoundingClientRect();
          chart.setPointerCapture = () => {};
          const send = (type, id, x) => chart.dispatchEvent(new PointerEvent(type, {
            pointerId: id, pointerType: 'touch', button: 0, bubbles: true,
            clientX: box.x + x, clientY: box.y + 40}));
          send('pointerdown', 1, 300); send('pointerdown', 2, 400);
          send('pointermove', 2, 500); send('pointerup', 1, 300); send('pointerup', 2, 500); }""")
    one.settle()
    shown = state(one)
    assert shown["to"] - shown["from"] == pytest.approx(document(one)["duration_ns"] / 2, rel=0.01)
    assert shown["selected"] == -1


def test_every_control_has_a_name_and_tab_reaches_it(watch):
    one = watch()
    visit(one, f"{STAGE_3}#event=5")
    one.wait("document.querySelector('#runs-menu')")
    nameless = one.ask(
        "() => [...document.querySelectorAll('button, select, a, [tabindex]')].filter(one =>"
        " one.offsetParent !== null && !(one.getAttribute('aria-label') || one.textContent.trim()"
        " || one.labels?.length)).map(one => one.outerHTML.slice(0, 80))"
    )
    assert nameless == []
    order = []
    for _ in range(40):
        one.page.keyboard.press("Tab")
        order.append(one.ask("() => document.activeElement.id"))
    wanted = [
        "iteration", "filter-rank", "filter-phase", "filter-unit", "filter-kind", "only-critical",
        "only-waits", "chart", "tables",
    ]  # fmt: skip
    assert [name for name in dict.fromkeys(order) if name in wanted] == wanted


@pytest.mark.parametrize("what", ["table=exposed", "mode=present&event=40"])
def test_axe_finds_nothing(watch, what):
    one = watch()
    visit(one, f"{STAGE_3}#{what}")
    one.wait("document.querySelector('#runs-menu')")
    assert violations_in_both_themes(one) == []


def test_nothing_is_cut_off_at_the_side(watch):
    one = watch()
    visit(one, f"{STAGE_3}#event=40")
    for mode in ("work", "present"):
        one.expect("html").to_have_attribute("data-mode", mode)
        for width, _ in one.sized((1920, 1080), (1280, 720), (1024, 768), (500, 900)):
            one.wait(f"document.documentElement.scrollWidth <= {width}")
            eventually(lambda: state(one)["lanes"]["axisY"] > 120)
        one.press("p")


def test_the_iterations_and_the_other_pages(watch):
    one = watch()
    visit(one, f"{STAGE_3}#table=ranks")
    one.page.select_option("#iteration", "0")
    one.page.wait_for_url("**/graph?*iteration=0*")
    one.wait("window.__graph?.model.doc.iteration === 0")
    eventually(lambda: state(one)["table"] == "ranks")
    one.wait("document.querySelector('#runs-menu')")
    one.page.locator("#runs-menu summary").click()
    one.page.locator("#runs a", has_text="stage-1").click()
    one.page.wait_for_url("**/graph?trace=stage-1*")
    one.wait("window.__graph?.model.doc.name === 'stage-1'")
    one.page.get_by_role("link", name="Replay", exact=True).click()
    one.page.wait_for_url("**/replay?*")
    one.wait("window.__player?.model.doc.name === 'stage-1'")
    one.settle()


# ------------------------------------------------------------------- other traces


def test_a_trace_that_cannot_be_shown_says_so_and_the_page_lives(watch, traces):
    one = watch()
    one.page.goto(f"{one.address}/graph?trace=nowhere")
    one.page.locator("#status h1").wait_for()
    one.expect("#status").to_contain_text("there is no trace 'nowhere'")
    one.wait("document.querySelector('#runs-menu')")
    one.page.locator("#runs-menu summary").click()
    one.page.locator("#runs a", has_text="stage-0").click()
    one.page.wait_for_url("**/graph?trace=stage-0*")
    one.wait("window.__graph?.model.doc.name === 'stage-0'")
    assert len(one.complaints) == 1  # of the status 404
    one.complaints.clear()


@pytest.mark.long
def test_64_ranks(watch, serve, tmp_path):
    plan = Plan(
        num_ranks=64, units=("head",), iterations=1, hop_ns=20_000, gap_ns=10_000,
        compute_ns=lambda rank, *_: 500_000 + 5_000 * rank, payload_bytes=64 * 64,
    )  # fmt: skip
    write_files(tmp_path / "many", trace_files(record(plan)))
    one = watch(address=serve(tmp_path))
    visit(one, "/graph?trace=many", deadline_s=RANKS_S)
    eventually(lambda: state(one)["lanes"]["count"] == 64)
    eventually(lambda: state(one)["count"] > 15_000)
    one.expect("#rank-bars li").to_have_count(64)
    one.press(".", ".", "ArrowDown")
    eventually(lambda: state(one)["selected"] >= 0)
    one.page.select_option("#filter-rank", label="rank 63")
    eventually(lambda: state(one)["lanes"]["count"] == 1)
    one.press(*"++++++++++++")
    eventually(lambda: state(one)["lanes"]["messages"])
    assert violations(one.page) == []


def test_a_program_whose_waits_are_not_known(watch, serve, tmp_path):
    ranks = [Planted(0), Planted(1)]
    for rank in ranks:
        rank.border(0, Phase.FORWARD)
        rank.border(90, Phase.OUTSIDE)
        rank.call(10, 10 + 20 * rank.rank, 60)
    (tmp_path / "foreign").mkdir()
    plant(tmp_path / "foreign", *ranks)
    one = watch(address=serve(tmp_path))
    visit(one, "/graph?trace=foreign")
    one.expect("#title").to_have_text("Collectives of rank 0 waited 0.000 ms for rank 1.")
    one.expect("#notes").to_contain_text("waits were not recorded")
    one.expect("#event-body").to_have_text("The critical path and slack are unknown here.")
    one.expect("#only-critical").to_be_disabled()
    one.press("ArrowRight", "c", ".")
    one.expect("#event-body").to_contain_text("not known")
    one.page.get_by_role("button", name="Waited for").click()
    eventually(lambda: cells(one) == [["0", "1", "0.000"]])
    assert violations(one.page) == []


def test_a_run_that_broke_off_is_shown_as_far_as_it_went(watch, serve, tmp_path):
    written = engine_trace(3)
    folder = write(tmp_path / "cut", written)
    file = folder / "rank-1.jsonl"
    file.write_bytes(file.read_bytes()[: file.stat().st_size * 2 // 3])
    one = watch(address=serve(tmp_path))
    visit(one, "/graph?trace=cut&iteration=0")
    one.expect("#notes").to_contain_text("rank 1")
    one.press("ArrowRight", "ArrowDown", "End")
    eventually(lambda: state(one)["selected"] >= 0)
