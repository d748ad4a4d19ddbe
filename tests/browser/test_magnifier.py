"""The magnifier in a browser: it holds what the frames hold, is large enough, stays in place."""

from __future__ import annotations

import re
import string

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import eventually, serving
from zerosim.lessons.recordings import COMMITTED

pytestmark = [pytest.mark.browser, pytest.mark.ranks]

STILL = {"reduced_motion": "reduce"}
SHOWN = "() => window.__player.shown()"
OUTSIDE = """() => [...document.querySelectorAll("body *")]
    .filter(e => e.checkVisibility() && !e.closest(".unseen, .strip, .scroll, dialog"))
    .map(e => [e.tagName, e.id, e.getBoundingClientRect()])
    .filter(([, , box]) => box.width > 0 && (box.left < -0.5 || box.right > innerWidth + 0.5))
    .map(([tag, id]) => `${tag}#${id}`)"""


@pytest.fixture(scope="module")
def recorded():
    """The committed traces of some groups; their names are GROUP/TRACE."""
    groups = ("ring", "native", "offload", "parallel", "infinity", "hpz", "tiles")
    with serving(*(COMMITTED / group for group in groups)) as address:
        yield address


def frames(found):
    """The cells of a document at each of its steps, as its reader must have them."""
    cells = [int(code) for code in found["cells"]]
    for step in found["steps"]:
        for cell, code in zip(step["cells"][::2], step["cells"][1::2], strict=True):
            cells[cell] = code
        yield list(cells)


def codes(found, cells, rank, state, unit):
    states, units, shards = len(found["states"]), len(found["units"]), found["num_shards"]
    first = ((rank * states + state) * units + unit) * shards
    return cells[first : first + shards]


@pytest.mark.parametrize("trace", ["ring/stage-0", "ring/stage-3", "native/stage-3"])
def test_at_each_beat_of_a_unit_it_holds_the_cells_of_the_frame(watch, recorded, trace):
    one = watch(address=recorded, **STILL)
    one.open(f"/replay?trace={trace}")
    found = one.document()
    cells = list(frames(found))
    seen = 0
    results = one.ask("() => __player.model.results")
    for number, beat in enumerate(found["beats"]):
        step = found["steps"][beat["main"]]
        if number > 0:  # past the result of the beat before, if it has one
            one.press(*["ArrowRight"] * (2 if results[number - 1] else 1))
        one.has(position=beat["main"], isOver=False)
        magnified = one.ask(SHOWN)["magnified"]
        if step["unit"] < 0 or step["phase"] == "update":
            continue
        for rank in range(4):
            for row, tiles in zip(magnified["rows"], magnified["tiles"][rank], strict=True):
                for state in row["states"]:
                    held = codes(found, cells[beat["main"]], rank, state, step["unit"])
                    is_made = (step["kind"], step["phase"]) == ("compute", "backward") and (
                        found["states"][state]["role"] == "gradients"
                    )
                    if is_made and not any(held):  # what is not there yet comes while it computes
                        made = [(tile["code"], tile["becomes"]) for tile in tiles]
                        assert made == [(3, 4)] * len(held)
                    else:
                        assert [tile["code"] for tile in tiles] == held
        for packet in magnified["packets"]:
            letter = string.ascii_lowercase[packet["shard"]]
            assert packet["text"].startswith(letter)
            (arriving,) = [
                tile["shard"] for tile in magnified["tiles"][packet["to"]][0] if tile["code"] == 3
            ]
            assert arriving == packet["shard"]
        seen += 1
    assert seen >= 17


@pytest.mark.parametrize("trace", ["ring/stage-3", "offload/stage-2"])
def test_presenting_at_1280_a_shard_is_64_pixels_high_in_every_beat(watch, recorded, trace):
    one = watch(address=recorded, viewport={"width": 1280, "height": 720}, **STILL)
    one.open(f"/replay?trace={trace}#mode=present")
    box = eventually(lambda: one.page.locator("#stage").bounding_box())
    for _ in one.document()["beats"]:
        shown = one.ask(SHOWN)
        for lens in shown["layout"]["lenses"]:
            assert lens["bottom"] <= box["height"]
            for row in lens["rows"]:
                assert row["h"] >= 64, eventually(lambda: one.text("#title"))
                assert 0 <= row["x"] <= row["x"] + row["w"] <= box["width"]
        one.press("ArrowRight")


def is_inside(box, width, height) -> bool:
    """A box is there, and no part of it beside a window."""
    return box is not None and (
        0 <= box["x"] <= width - box["width"] and 0 <= box["y"] <= height - box["height"]
    )


def test_presenting_shows_the_stage_and_the_strip_and_is_remembered(watch):
    one = watch(viewport={"width": 1280, "height": 720}, **STILL)
    one.open("/replay?trace=stage-3#beat=18")
    one.press("p")
    one.expect("html").to_have_attribute("data-mode", "present")
    for shown in ("#title", "#what", "#hop", "#stage", "#strip", "#present", "#play"):
        eventually(
            lambda: (shown, one.page.locator(shown).bounding_box()),
            lambda found: is_inside(found[1], 1280, 720),
        )
    for hidden in (".tabs", ".why", "#traffic", "#memory", "#timeline", "#legend", "#speed"):
        expect(one.page.locator(hidden).first).to_be_hidden()
    one.press("t")
    expect(one.page.locator("#table")).to_be_visible()
    one.page.goto("about:blank")
    one.open("/replay?trace=stage-2")
    expect(one.page.locator("html")).to_have_attribute("data-mode", "present")
    one.press("p")
    one.page.goto("about:blank")
    one.open("/replay?trace=stage-2")
    expect(one.page.locator("html")).to_have_attribute("data-mode", "work")


@pytest.mark.parametrize("mode", ["work", "present"])
def test_nothing_is_off_the_screen_from_820_to_3840(watch, mode):
    one = watch(viewport={"width": 820, "height": 1100}, **STILL)
    one.open(f"/replay?trace=stage-3#beat=18&mode={mode}")
    for _ in one.sized((820, 1100), (1280, 720), (3840, 2160)):
        eventually(lambda: one.page.evaluate(OUTSIDE) == [])
        eventually(
            lambda: (one.page.locator("#stage").bounding_box(), one.ask(SHOWN)["layout"]["lenses"]),
            lambda found: all(
                0 <= lens["x"] <= found[0]["width"] - lens["w"]
                and lens["bottom"] <= found[0]["height"]
                for lens in found[1]
            ),
        )


def test_tensor_parallel_shows_the_columns_and_rows_of_each_rank(watch, recorded):
    one = watch(address=recorded, **STILL)
    one.open("/replay?trace=parallel/tensor-parallel#beat=4")
    magnified = one.ask(SHOWN)["magnified"]
    assert [row["label"] for row in magnified["rows"]] == [
        "query_key_value: columns",
        "output: rows",
        "mlp.0: columns",
        "mlp.2: rows",
    ]
    for rank, rows in enumerate(magnified["tiles"]):
        for tiles in rows:
            assert [tile["code"] for tile in tiles] == [int(part == rank) for part in range(4)]


def test_a_pipeline_shows_the_micro_batches_that_each_stage_keeps(watch, recorded):
    """What is shown is what the beat's sentence says: after its turns, and after all of them."""
    one = watch(address=recorded, **STILL)
    one.open("/replay?trace=parallel/1f1b#beat=1")
    document, compared = one.document(), 0
    for _ in document["beats"]:
        magnified = one.ask(SHOWN)["magnified"]
        what, beside = eventually(
            lambda: [one.page.locator(part).text_content() for part in ("#what", "#lane .said")]
        )
        said = re.search(r"by ranks 0-3: (.+)\.$", f"{what} {beside}".strip())
        if said:
            kept = [sum(tile["code"] == 2 for tile in rows[0]) for rows in magnified["tiles"]]
            assert kept == [int(number) for number in re.findall(r"\d+", said[1])]
            compared += 1
        one.press("ArrowRight")
    assert compared > 10
    one.press("End")
    eventually(lambda: one.page.evaluate(SHOWN)["magnified"]["words"] == ["done 1\u20138"] * 4)
    sends = [step["purpose"] for step in document["steps"]].index("send activations")
    one.open(f"/replay?trace=parallel/1f1b#at={sends + 1}&hops=1")
    one.has(position=sends, hops=True)  # the page is the same one
    one.settle()
    magnified = one.ask(SHOWN)["magnified"]
    assert [packet["text"] for packet in magnified["packets"]] == ["1 65.5 kB"]


PARTS = """host => {
    host.focus();
    const named = new Set();
    for (const key of ["ArrowRight", "ArrowRight", "End"]) {
        host.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
        const card = document.querySelector(".named");
        named.add(card.hidden ? "" : card.firstChild.textContent);
    }
    return [...named];
}"""


@pytest.mark.parametrize(
    ("trace", "beat"), [("infinity/stage-3", 14), ("infinity/stage-3", 30), ("hpz/stage-3", 12)]
)
def test_many_states_have_room_on_a_small_screen(watch, recorded, trace, beat):
    """A shard is large enough for its letter; the keyboard finds parts in every drawing."""
    one = watch(address=recorded, viewport={"width": 1280, "height": 720}, **STILL)
    one.open(f"/replay?trace={trace}#beat={beat}")
    rows = [row for lens in one.ask(SHOWN)["layout"]["lenses"] for row in lens["rows"]]
    assert min(row["h"] for row in rows) >= 15
    memory = one.document()["memory"] is not None
    for name in ("stage", "timeline", "traffic") + ("memory",) * memory:
        eventually(lambda: "" not in one.page.locator(f"#{name}").evaluate(PARTS))


def test_a_tour_shows_what_it_says_is_freed(watch, recorded):
    one = watch(address=recorded, **STILL)
    one.open("/replay?trace=ring/stage-3#tour=4")
    one.expect("#title").to_have_text("Forward \u00b7 embedding is freed")
    magnified = one.ask(SHOWN)["magnified"]
    assert magnified["caption"].startswith("embedding")
    for rank, (tiles,) in enumerate(magnified["tiles"]):
        assert [tile["code"] for tile in tiles] == [int(shard == rank) for shard in range(4)]
    assert magnified["words"][1] == "owns b \u00b7 has freed a, c, d"


def test_backwards_gather_of_hpz_leaves_what_a_rank_owns_where_it_is(watch, recorded):
    one = watch(address=recorded, **STILL)
    one.open("/replay?trace=hpz/stage-3#at=23&hops=1")
    magnified = one.ask(SHOWN)["magnified"]
    kept, gathered, arriving = 1, 2, 3
    assert [tile["code"] for tile in magnified["tiles"][1][0]] == [
        arriving, kept, gathered, gathered,
    ]  # fmt: skip
    assert [packet["shards"] for packet in magnified["packets"]] == [[0, 1], [2, 3]] * 2
    assert magnified["words"][0] == "owns a \u00b7 has b \u00b7 receives c, d"


def test_the_tiles_of_an_operator_are_a_beat_with_hops_inside(watch, recorded):
    one = watch(address=recorded, **STILL)
    one.open("/replay?trace=tiles/stage-3#beat=5")
    eventually(lambda: one.text("#title").endswith("query_key_value, tile by tile"))
    magnified = one.ask(SHOWN)["magnified"]
    assert [row["label"] for row in magnified["rows"]] == ["tiles.0", "tiles.1"]
    for here, absent in magnified["tiles"]:  # what tiles are for: one is there, the other is not
        assert [tile["code"] for tile in (*here, *absent)] == [2, 2, 0, 0]
    one.press("h", "ArrowRight")
    beat = one.document()["beats"][4]
    eventually(lambda: beat["first"] <= one.state()["position"] <= beat["last"])
    one.open("/replay?trace=tiles/stage-3#at=12")  # as a link said it that was copied before
    one.has(position=11)
    one.open("/replay?trace=tiles/stage-3#beat=73")  # the last beat, when each tile had its own
    one.expect("#title").to_have_text("The iteration ends")


def test_each_rank_of_a_pipeline_says_what_it_computes_in_a_beat(watch, recorded):
    one = watch(address=recorded, **STILL)
    one.open("/replay?trace=parallel/1f1b#beat=7")
    tiles = one.ask(SHOWN)["magnified"]["tiles"]
    now = [[tile["shard"] + 1 for tile in row if tile.get("isNow")] for (row,) in tiles]
    assert now == [[1], [4], [3], [2]]
    units = one.document()["units"]
    assert {(unit["stage"], unit["hue"]) for unit in units} == {
        (f"stage {number}", number) for number in range(4)
    }
