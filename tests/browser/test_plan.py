"""The plans of the notes for lecturers, row by row, as a lecturer follows them before a class."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Watched, ask, evaluate, eventually
from tests.browser.test_access import violations
from tests.browser.test_lessons import give, said, wait_for_replay
from tests.lessons import notes
from tests.lessons.committed import facts
from zerosim.lessons.questions import right_answer

pytestmark = [pytest.mark.browser, pytest.mark.ranks]

ROWS = [row for plan in notes.plans() for row in plan.rows]
ROW_IDS = [
    f"{plan.minutes}-{number}" for plan in notes.plans() for number, _ in enumerate(plan.rows, 1)
]
BLOCK = "blocks.2"
OWN_SHARES = [[int(shard == rank) for shard in range(4)] for rank in range(4)]
"""Each rank keeps its own shard, and nothing is there of the others."""


@pytest.fixture(scope="module")
def names():
    return facts().names()


@pytest.fixture(scope="module")
def context(browser):
    """One browser for both plans: what was answered in one row is there in another."""
    made = browser.new_context(viewport={"width": 1280, "height": 720}, reduced_motion="reduce")
    yield made
    made.close()


@pytest.fixture
def one(context, server):
    watched = Watched(context.new_page(), server)
    yield watched
    watched.page.close()
    assert watched.complaints == []
    assert watched.foreign == []


STATE = """() => {
    if (!window.__player) return null;  // the page is on its way
    const {position, playing} = window.__player.state();
    const step = window.__player.model.doc.steps[position];
    return {...step, position, playing, title: document.querySelector("h1").textContent};
}"""


def state_of(frame):
    """The step at which a player stands, what it shows, and whether it plays."""
    return eventually(lambda: evaluate(frame, STATE))


def replay_in(one):
    wait_for_replay(one)
    return next(frame for frame in one.page.frames if "/replay?" in frame.url)


def forward(one, frame, action="forward"):
    """One step by its button, until the player is there."""
    before = state_of(frame)["position"]
    frame.locator(f"[data-action='{action}']").click()
    return eventually(lambda: state_of(frame), lambda now: now["position"] != before)


def answer(one, row, names):
    """Give the right answers of all of a row's steps; `tests/browser/test_lessons.py` errs, too."""
    for step in row.steps:
        while (where := eventually(lambda: one.text("#where"))).split()[1] != str(step):
            one.page.locator("#next").click()
            one.expect("#where").not_to_have_text(where)
        for question in notes.asked(notes.lesson_of(row.address), [step]):
            give(one, question, right_answer(question, names))
            assert said(one, question) == "said right"


def visit_lesson(one, row, names):
    one.page.goto(one.address + row.address)
    one.wait("document.querySelector('#where')?.textContent")
    one.ask("() => localStorage.clear()")  # as "Delete my progress"
    one.page.reload()
    one.wait("document.querySelector('#where')?.textContent")
    eventually(lambda: one.text("#where").startswith(f"Step {notes.step_of(row.address)} of "))
    frame = replay_in(one)
    if "five times: blocks.2" in row.do:
        first = state_of(frame)
        assert (first["op"], first["unit_name"]) == ("all-gather", BLOCK)
        steps = [forward(one, frame) for _ in range(5)]
        assert any(each["kind"] == "compute" and each["unit_name"] == BLOCK for each in steps)
        assert cells_of(frame) == OWN_SHARES
    answer(one, row, names)
    look_at_hops(one, frame, row)
    look_at_figures(one, row)
    eventually(lambda: one.page.evaluate("() => document.documentElement.scrollWidth") <= 1280)


def look_at_hops(one, frame, row):
    if "three hops" in row.do:
        hops = [state_of(frame)["hop"], forward(one, frame)["hop"]]
        while len(hops) < 4 and hops[-1] != 2:
            hops.append(forward(one, frame)["hop"])
        assert [hop for hop in hops if hop >= 0] == [0, 1, 2]
    if "where it turns" in row.do or "hop 4" in row.do:
        # there is none while the next figure comes
        eventually(lambda: state_of(replay_in(one))["hop"] == 3)
        expect(replay_in(one).locator("#what")).to_contain_text("finished sums circulate")
    if "hop 4: ← to hop 1" in row.do:
        while state_of(frame)["hop"] != 0:
            forward(one, frame, "back")
        eventually(lambda: state_of(frame)["unit_name"] == BLOCK)


def look_at_figures(one, row):
    if "table of law" in row.do:
        table = one.page.locator(".step-figures:visible table", has_text="wire, framed")
        eventually(
            lambda: (
                table.locator("thead th").all_inner_texts()[1:4]
                == [
                    "the law",
                    "traced",
                    "wire, framed",
                ]
            )
        )
        law, traced, wire = (
            int(each.replace(",", ""))
            for each in eventually(lambda: table.locator("tbody td").all_inner_texts())[:3]
        )
        assert traced - law == 12
        assert wire > traced
    if "run here" in row.do:
        expect(one.page.locator(".run-here:visible")).to_have_count(1)
        one.expect(".step-figures:visible table").to_contain_text("backend's algorithm")


def cells_of(frame):
    """What each rank has of the block's parameters, as codes of cells; by rank, then by shard."""
    return ask(
        frame,
        """async (name) => {
            const {Cells} = await import("#player/frames.js");
            const {model, state} = window.__player;
            const {units, states, ranks, num_shards: shards} = model.doc;
            const codes = new Cells(model).seek(state().position);
            const unit = units.findIndex(({name: one}) => one === name);
            return ranks.map((_, rank) => {
                const first = (rank * states.length * units.length + unit) * shards;
                return [...codes.slice(first, first + shards)];
            });
        }""",
        BLOCK,
    )


def visit_replay(one, row):
    one.open(row.address)
    if "space" in row.do:
        one.page.locator("#speed").select_option("4")
        one.page.locator("#title").click()
        for phase in ("forward", "backward", "update"):
            one.press(" ")
            one.wait("!window.__player.state().playing")
            stop = ("compute", BLOCK, phase)
            eventually(
                lambda: state_of(one.page),
                lambda at: (at["kind"], at["unit_name"], at["phase"]) == stop,
            )
    else:
        assert "three times, a phase each, then Home" in row.do
        for phase in (
            "Backward · compute the gradients of head",
            "Update · agree on the average loss",
            "The iteration ends",
        ):
            one.press("Shift+ArrowRight")
            one.expect("#title").to_have_text(phase)
        one.press("Home")
        one.expect("#title").to_have_text("Forward · compute embedding")


def visit_compare(one, row):
    one.open(row.address)
    expect(one.page.locator("#cards > *")).to_have_count(4)
    heads = eventually(lambda: one.page.locator("#cards h2").all_inner_texts())
    assert heads == ["Data parallel", "ZeRO-1", "ZeRO-2", "ZeRO-3"]
    if "shift" in row.do:
        one.press("Shift+ArrowRight")
        one.expect("#title").to_have_text("Backward begins")
        one.press("ArrowRight")
    else:
        box = eventually(lambda: one.page.locator("#scrubber").bounding_box())
        middle = box["y"] + box["height"] / 2
        one.page.mouse.move(box["x"] + box["width"] * 0.4, middle)
        one.page.mouse.down()
        one.page.mouse.move(box["x"] + box["width"] * 0.6, middle, steps=4)
        one.page.mouse.up()
        one.settle()
    eventually(lambda: one.text("#title").startswith("Backward: "))


def visit_verify(one, row):
    one.page.goto(one.address + row.address)
    one.expect("#headline").to_have_text(
        "This run of ZeRO-3 sends 3Ψ(N-1)/N a step, as the law says."
    )
    one.expect(".verdict").to_contain_text("0 bytes are unexplained")
    totals = [
        eventually(lambda: one.text(f"#total-{ledger}")) for ledger in ("theory", "trace", "wire")
    ]
    assert totals[0] == totals[1] < totals[2]


@pytest.mark.parametrize("row", ROWS, ids=ROW_IDS)
def test_a_row_of_a_plan(one, names, row):
    if notes.lesson_of(row.address):
        visit_lesson(one, row, names)
        return
    page = row.address.partition("?")[0]
    if page == "/replay":
        visit_replay(one, row)
    elif page == "/compare":
        visit_compare(one, row)
    else:
        assert page == "/verify"
        visit_verify(one, row)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_notes_themselves(one, theme):
    one.page.goto(f"{one.address}/lessons#theme={theme}")
    one.page.locator("#notes").click()
    one.wait("location.pathname === '/lessons/notes'")
    one.page.goto(f"{one.address}/lessons/notes#theme={theme}")
    one.expect("html").to_have_attribute("data-theme", theme)
    one.settle()
    expect(one.page.locator("article table")).to_have_count(4)
    assert violations(one.page) == []
    for width, _ in one.sized((1280, 720), (820, 720)):
        for _ in range(2):
            eventually(
                lambda: one.page.evaluate("() => document.documentElement.scrollWidth") <= width
            )
            card = "document.querySelector('article')"
            eventually(lambda: one.page.evaluate(f"() => {card}.scrollWidth <= {card}.clientWidth"))
            one.press("p")
