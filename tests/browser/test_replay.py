"""The Replay page in a browser: every step, every key, forwards and back."""

from __future__ import annotations

import re
import shutil

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import eventually, heard
from zerosim.lessons.recordings import COMMITTED
from zerosim.record import load
from zerosim.verify import verify

pytestmark = [pytest.mark.browser, pytest.mark.ranks]

STILL = {"reduced_motion": "reduce"}
FRAME = """
async (key) => {
  const drawn = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  const scratch = document.createElement("canvas");
  const ctx = scratch.getContext("2d", { willReadFrequently: true });
  const digest = () => {
    let hash = 2166136261;
    const views = "#stage canvas, #traffic canvas, #memory canvas";
    for (const canvas of document.querySelectorAll(views)) {
      if (!canvas.width || !canvas.height) continue;
      scratch.width = canvas.width;
      scratch.height = canvas.height;
      ctx.drawImage(canvas, 0, 0);
      const image = ctx.getImageData(0, 0, canvas.width, canvas.height);
      for (const pixels of new Uint32Array(image.data.buffer)) {
        hash = Math.imul(hash ^ pixels, 16777619) >>> 0;
      }
    }
    const words = ["title", "what", "why", "event", "ledger", "traffic-text"];
    return hash + words.map(id => document.getElementById(id).textContent).join("|");
  };
  if (key) document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  await drawn();
  return digest();
}
"""


@pytest.mark.parametrize(
    ("what", "stage"),
    [
        *(("beats", 0), ("beats", 3), ("steps", 3)),
        *(
            pytest.param(what, stage, marks=pytest.mark.long)
            for what, stage in (("beats", 1), ("beats", 2), *(("steps", k) for k in range(3)))
        ),
    ],
)
def test_forward_through_the_iteration_and_back_gives_the_same_frames(watch, stage, what):
    one = watch(**STILL)
    one.open(f"/replay?trace=stage-{stage}#beat=1{'&hops=1&at=1' if what == 'steps' else ''}")
    found = one.document()
    count, last = len(found[what]), len(found["steps"]) - 1
    if what == "beats":  # what is gathered or reduced is seen on its way, then finished
        count += one.ask("() => __player.model.results.filter(Boolean).length")
        assert count > len(found[what])
    begin = one.state()["position"]
    one.ask("() => document.activeElement?.blur()")
    forward = [one.ask(FRAME, key) for key in ["", *["ArrowRight"] * (count - 1)]]
    one.has(position=last)
    back = [one.ask(FRAME, key) for key in ["", *["ArrowLeft"] * (count - 1)]]
    one.has(position=begin)
    assert forward == back[::-1]
    assert len(set(forward)) == count  # no two look the same


@pytest.mark.parametrize("stage", [0, 3])
def test_the_bytes_at_the_end_are_those_of_zerosim_verify(watch, traces, stage):
    report = verify(load(traces / f"stage-{stage}"), 1)
    expected = [sum(row.sent[rank].trace for row in report.rows) for rank in range(4)]
    one = watch(**STILL)
    one.open(f"/replay?trace=stage-{stage}&iteration=1")
    one.press("End", "t")
    sent = one.page.locator("#table table tbody .sent")
    eventually(
        lambda: [int("".join(filter(str.isdigit, text))) for text in sent.all_inner_texts()],
        lambda shown: shown == expected,
    )
    eventually(
        lambda: (
            report.headline in one.page.locator("#run").get_attribute("title") + one.text("#run")
        )
    )


def test_each_ledger_shown_is_that_of_the_document(watch):
    one = watch(**STILL)
    one.open("/replay?trace=stage-3")
    found = one.document()
    seen = 0
    for number, step in enumerate(found["steps"]):
        if step["kind"] != "transfer" or step["hop"]:
            continue
        one.ask("at => { location.hash = `#at=${at}` }", number + 1)
        one.wait(f"window.__player.state().position === {number}")
        one.settle()
        collective = found["collectives"][step["collective"]]
        ledgers = [f"{collective[ledger][0]:,}" for ledger in ("theory", "trace", "wire")]
        eventually(
            lambda: one.text("#ledger"), lambda shown: all(count in shown for count in ledgers)
        )
        one.expect("#filled").to_have_text(f"= {found['texts'][collective['filled']]}")
        seen += 1
    assert seen == len(found["collectives"])


@pytest.mark.parametrize("hops", [False, True])
def test_keys_go_from_beat_to_beat_or_from_hop_to_hop(watch, hops):
    one = watch(**STILL)
    one.open("/replay?trace=stage-3")
    if hops:
        one.press("h")
        one.expect("#hops").to_have_attribute("aria-pressed", "true")
    found = one.document()
    steps, mains = found["steps"], [beat["main"] for beat in found["beats"]]
    results = one.ask("() => __player.model.results.map((one) => one?.position)")
    stills = [
        (at, over)
        for main, result in zip(mains, results, strict=True)
        for at, over in ((main, False), (result, True))
        if at is not None
    ]
    stops = [(at, False) for at in range(len(steps))] if hops else stills

    def in_phase(name):
        eventually(
            lambda: one.state()["position"],
            lambda at: steps[at]["phase"] == name and (at, False) in stops,
        )

    for keys, stop in (
        (["Home"], stops[0]),
        (["ArrowRight", "ArrowRight"], stops[2]),
        (["ArrowLeft"], stops[1]),
        (["PageDown"], stops[2]),
        (["PageUp"], stops[1]),
        (["End"], stops[-1]),
        (["ArrowRight"], stops[-1]),
    ):
        one.press(*keys)
        one.has(position=stop[0], isOver=stop[1])
    one.press("Home", "Shift+ArrowRight")
    in_phase("backward")
    one.press("Shift+ArrowRight")
    in_phase("update")
    one.press("Shift+ArrowLeft")
    in_phase("backward")
    one.press("Home", "5")
    one.has(position=mains[len(mains) // 2])
    one.press(".", ".")
    one.has(position=mains[len(mains) // 2] + 2)
    one.press(",")
    one.has(position=mains[len(mains) // 2] + 1)


def test_every_other_key(watch):
    one = watch(**STILL)
    one.open("/replay?trace=stage-3#at=1")
    one.press("ArrowDown")
    one.has(rank=1)
    one.press("ArrowUp")
    one.has(rank=0)
    one.press("t")
    one.expect("#table").to_be_visible()
    one.press("t")
    one.expect("#table").to_be_hidden()
    one.press("p")
    html = one.expect("html")
    html.to_have_attribute("data-mode", "present")
    one.press("p")
    html.not_to_have_attribute("data-mode", "present")
    html.to_have_attribute("data-theme", "light")
    one.press("d")
    html.to_have_attribute("data-theme", "dark")
    for key, dialog in (("Shift+?", "#help-dialog"), ("Shift+B", "#breaks-dialog")):
        one.press(key)
        one.expect(dialog).to_be_visible()
        one.press("Escape")
        one.expect(dialog).to_be_hidden()
    one.press("Home", " ")
    one.has(playing=True)
    one.press(" ")
    one.has(playing=False)


def test_into_over_and_out(watch):
    one = watch(**STILL)
    one.open("/replay?trace=stage-3#at=1")
    steps = one.document()["steps"]

    def step():
        return steps[one.state()["position"]]

    one.press("i")
    first = eventually(step, lambda now: (now["kind"], now["hop"]) == ("transfer", 0))
    one.press("i")
    at_hop = (first["collective"], 1)
    eventually(step, lambda now: (now["collective"], now["hop"]) == at_hop)
    one.press("o")
    eventually(
        step,
        lambda now: now["collective"] != first["collective"] or now["kind"] != "transfer",
    )
    one.press("Home", "i", "u")
    eventually(step, lambda now: now["unit"] != first["unit"])


def test_the_title_speaks_of_the_beat_and_while_hops_are_on_of_the_step(watch):
    one = watch(**STILL)
    one.open("/replay?trace=stage-3#beat=2")
    found = one.document()
    texts, beat = found["texts"], found["beats"][1]
    assert texts[beat["title"]] == "Forward · compute embedding, then free the gathered shards"
    one.expect("#title").to_have_text(texts[beat["title"]])
    one.expect("#what").to_have_text(texts[beat["what"]])
    one.expect("#lane .said").to_have_text(texts[beat["meanwhile"]])
    eventually(lambda: one.text("#event").startswith("beat 2 of 33\u2009"))
    one.expect("#hop").to_be_hidden()
    one.press("ArrowLeft")
    one.expect("#hop").to_have_text("●●● the result")
    one.press("ArrowLeft", ".")
    one.expect("#title").to_have_text(texts[found["beats"][0]["title"]])
    one.expect("#hop").to_have_text("●◐○ hop 2 of 3")
    one.press("h")
    step = found["steps"][one.state()["position"]]
    one.expect("#title").to_have_text(texts[step["title"]])
    one.expect("#what").to_have_text(texts[step["what"]])
    one.expect("#event").to_contain_text("step 3 of 79")


def test_the_strip_has_a_named_button_for_each_beat(watch):
    one = watch(**STILL)
    one.open("/replay?trace=stage-3#beat=5")
    found = one.document()
    buttons = one.page.locator("#strip button")
    count = len(found["beats"])
    names = [
        f"beat {number + 1} of {count}: {found['texts'][beat['title']]}"
        for number, beat in enumerate(found["beats"])
    ]
    eventually(
        lambda: buttons.evaluate_all("all => all.map(button => button.ariaLabel)"),
        lambda shown: shown == names,
    )
    current = one.page.locator("#strip [aria-current='step']")
    expect(current).to_have_attribute("aria-label", names[4])
    eventually(lambda: current.inner_text().split() == ["▼", "1", "\u00d7", "0"])
    expect(one.page.locator("#strip .band")).to_have_text([
        "forward", "backward", "update", "end",
    ])  # fmt: skip
    buttons.nth(20).click()
    one.has(position=found["beats"][20]["main"])
    expect(current).to_have_attribute("aria-label", names[20])
    current.focus()
    one.press("ArrowRight", "ArrowRight", "ArrowRight")  # to its result, and on: with the focus
    focused = "document.activeElement.getAttribute('aria-label')"
    eventually(lambda: one.page.evaluate(f"() => {focused}") == names[22])
    tabbable = one.page.locator("#strip [tabindex='0']")
    expect(tabbable).to_have_count(1)


def test_the_strip_keeps_the_current_beat_in_view(watch):
    one = watch(viewport={"width": 820, "height": 900}, **STILL)
    one.open("/replay?trace=stage-3")
    inside = """(number) => {
        const strip = document.querySelector("#strip").getBoundingClientRect();
        const current = document.querySelector("#strip [aria-current]");
        const beat = current.getBoundingClientRect();
        return Number(current.dataset.beat) === number && beat.left >= strip.left - 1
            && beat.right <= strip.right + 1 && beat.width >= 24;
    }"""
    results = one.ask("() => __player.model.results")
    for number, result in enumerate(results):
        eventually(lambda: one.page.evaluate(inside, number))
        one.press(*["ArrowRight"] * (2 if result else 1))


def test_a_breakpoint_marks_the_beats_that_it_stops_in(watch):
    one = watch(**STILL)
    one.open("/replay?trace=stage-3#break=unit:head")
    found = one.document()
    expected = [
        number
        for number, beat in enumerate(found["beats"])
        if any(
            step["unit_name"] == "head" for step in found["steps"][beat["first"] : beat["last"] + 1]
        )
    ]
    marked = one.page.locator("#strip .stop")
    eventually(
        lambda: marked.evaluate_all("all => all.map(button => Number(button.dataset.beat))"),
        lambda shown: shown == expected,
    )


def test_an_old_link_opens_at_its_step(watch):
    one = watch(**STILL)
    one.open("/replay?trace=stage-3#at=40")
    found = one.document()
    one.has(position=39)
    beat = next(beat for beat in found["beats"] if beat["first"] <= 39 <= beat["last"])
    one.expect("#title").to_have_text(found["texts"][beat["title"]])
    one.wait("location.hash === '#beat=18&at=40'")
    one.press("ArrowLeft")
    one.wait("location.hash === '#beat=18'")
    one.has(position=beat["main"])


FREEING = """async () => {
    const cells = () => document.querySelectorAll("#stage canvas")[1].toDataURL();
    const found = [cells()];
    for (const key of [".", ",", "."]) {
        document.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        found.push(cells());
    }
    return found;
}"""


def test_what_is_freed_is_there_with_a_cross_and_then_gone(watch):
    one = watch(**STILL)
    one.open("/replay?trace=stage-3#beat=2")
    found = one.document()
    position = one.state()["position"]
    assert found["steps"][position]["freed"] == [0]
    shown = one.ask(FREEING)
    assert shown[0] == shown[2] != shown[1] == shown[3]


@pytest.mark.parametrize(
    ("breakpoint_", "stops"),
    [
        ("kind:compute", lambda step: step["kind"] == "compute"),
        ("unit:head", lambda step: step["unit_name"] == "head"),
        ("kind:wait", lambda step: bool(step["waits"])),
        ("bytes:100000", lambda step: max(step["packets"][3::6], default=0) >= 100_000),
    ],
)
def test_playing_stops_at_breakpoints_and_nowhere_else(watch, breakpoint_, stops):
    one = watch(**STILL)
    one.open(f"/replay?trace=stage-3#at=1&speed=4&break={breakpoint_}")
    steps = one.document()["steps"]
    expected = [number for number, step in enumerate(steps) if number and stops(step)][:2]
    found = []
    for _ in expected:
        one.press(" ")
        one.wait("!window.__player.state().playing")
        found.append(one.state()["position"])
    assert found == expected


def test_a_link_restores_the_screen(watch):
    one = watch(**STILL)
    one.open("/replay?trace=stage-2")
    one.page.select_option("#speed", "2")
    one.ask("() => document.activeElement.blur()")
    one.press("4", "ArrowDown", "ArrowDown", "d", "p", "b", "t")
    one.wait("location.hash.includes('table=1')")  # what was pressed last; all of it is written
    address, state = one.page.url, one.state()
    again = watch(**STILL)
    again.open(address.removeprefix(one.address))
    eventually(lambda: again.state() == state)
    eventually(lambda: again.text("#title") == one.text("#title"))
    for each in (one, again):
        each.expect("html").to_have_attribute("data-theme", "dark")
        each.expect("html").to_have_attribute("data-mode", "present")
    again.ask("() => { location.hash = '#at=3' }")
    again.has(position=2)


def test_playing_goes_on_by_itself_and_moves_packets(watch):
    one = watch()
    one.open("/replay?trace=stage-3#at=1")
    pictures = set()
    one.press(" ")
    eventually(lambda: pictures.add(one.ask(FRAME, "")) or len(pictures) >= 5)
    eventually(lambda: one.state()["position"] >= 1)
    one.has(playing=True)  # it has not come to the end: nothing else has it play again
    one.press(" ")
    one.has(playing=False)


def test_a_click_on_a_card_chooses_the_rank_and_one_on_the_timeline_seeks(watch):
    one = watch(**STILL)
    one.open("/replay?trace=stage-3#at=1")
    box = eventually(lambda: one.page.locator("#stage").bounding_box())
    one.page.mouse.click(box["x"] + 0.9 * box["width"], box["y"] + 0.75 * box["height"])
    one.settle()
    one.has(rank=3)
    box = eventually(lambda: one.page.locator("#timeline").bounding_box())
    one.page.mouse.click(box["x"] + 0.6 * box["width"], box["y"] + 0.4 * box["height"])
    eventually(lambda: one.state()["position"] > 10)


def test_narration_says_each_beat(watch):
    one = watch(**STILL)
    one.open("/replay?trace=stage-1")
    found = one.document()
    for number in (1, 2, 3):
        one.press("ArrowRight")
        title = found["texts"][found["beats"][number]["title"]]
        one.expect("#narration").to_contain_text(title)


def test_another_iteration_can_be_chosen(watch):
    one = watch(**STILL)
    one.open("/replay?trace=stage-3")
    assert one.document()["run"]["iteration"] == 1
    one.page.select_option("#iteration", "0")
    one.wait("window.__player?.model.doc.run.iteration === 0")
    expect(one.page).to_have_url(re.compile("iteration=0"))


def test_a_run_that_is_not_there_is_said_in_one_line(watch):
    one = watch()
    one.page.goto(one.address + "/replay?trace=nothing")
    one.expect("#status").to_contain_text("nothing")
    eventually(lambda: heard(one.page, one.complaints))
    one.complaints.clear()  # the browser reports the 404 that was asked for


@pytest.mark.parametrize("mode", ["work", "present"])
def test_everything_fits_on_a_beamer(watch, mode):
    """No scrolling, nothing cut off, and no text that the last row cannot read."""
    one = watch(**STILL)
    one.open(f"/replay?trace=stage-3#at=20&mode={mode}")
    for width, height in one.sized((1920, 1080), (1280, 720), (1024, 768)):
        eventually(
            lambda: one.page.evaluate(
                "() => ['scrollWidth', 'scrollHeight'].map(one => document.documentElement[one])"
            ),
            lambda whole: whole[0] <= width and whole[1] <= height,
        )
        eventually(
            lambda: one.page.evaluate("""() => Math.min(...[...document.querySelectorAll("body *")]
                .filter(e => e.checkVisibility() && [...e.childNodes].some(
                    n => n.nodeType === 3 && n.textContent.trim()))
                .map(e => parseFloat(getComputedStyle(e).fontSize)))"""),
            lambda smallest: smallest >= (20 if mode == "present" else 15),
        )


CUT = """
async () => {
  const cut = new Set();
  const { results } = window.__player.model;
  for (let still = results.length + results.filter(Boolean).length; still > 0; still -= 1) {
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    for (const place of document.querySelectorAll("#title, #what, #because, #lane .said")) {
      const most = place.clientHeight + parseFloat(getComputedStyle(place).lineHeight) / 2;
      if (place.scrollWidth > place.clientWidth + 1 || place.scrollHeight > most) {
        cut.add(place.textContent);
      }
    }
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  }
  return [...cut];
}
"""


@pytest.mark.parametrize("mode", ["work", "present"])
def test_the_words_of_each_beat_are_whole(watch, mode):
    one = watch(more=False, **STILL)
    one.open("/replay?trace=stage-3")
    for _ in one.sized((1280, 720), (1920, 1080), (1024, 768), (390, 844)):
        one.open(f"/replay?trace=stage-3#beat=1&mode={mode}")
        eventually(lambda: one.ask(CUT), lambda cut: cut == [])


def test_help_begins_with_its_first_line(watch):
    one = watch(viewport={"width": 1280, "height": 720})
    one.open("/replay?trace=stage-3")
    one.page.locator("[data-action=help]").click()
    one.expect("#help-dialog-title").to_be_in_viewport()
    one.expect("#help-dialog-title").to_be_focused()
    one.expect("#help-words").to_contain_text("a process with one GPU")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_runs_name_and_what_it_is_have_room_for_words(watch, serve, tmp_path, language):
    """Of a trace from a profiler too, which has a long name."""
    shutil.copytree(COMMITTED / "profiles", tmp_path / "profiles")
    one = watch(address=serve(tmp_path), viewport={"width": 1280, "height": 720})
    cut = """() => {
        const name = document.querySelector("#runs summary");
        return name.scrollWidth - name.clientWidth;
    }"""
    for trace in ("ddp-zero", "fsdp2-kept"):
        one.open(f"/replay?trace=profiles/{trace}&lang={language}")
        eventually(lambda: one.ask("() => document.querySelector('#run').clientWidth") >= 90)
        eventually(lambda: one.ask(cut) <= 0)
        eventually(lambda: one.ask("() => document.documentElement.scrollWidth") == 1280)


def test_at_first_there_is_the_picture_and_one_line_of_why(watch):
    one = watch(more=False)
    one.open("/#beat=3")
    for there in ("#because", "#legend", "#strip .band", "#signs", "#model .lit", "#more"):
        one.expect(f"{there} >> nth=0").to_be_visible()
    for gone in ("#why-title", "#timeline-card", "#traffic-title", "#memory-title", "#breaks"):
        one.expect(gone).to_be_hidden()
    one.expect("#because").to_contain_text("It is gathered early, while another unit still")
    one.expect("#model .lit").to_have_text("0")
    one.press("m")
    for there in ("#why-title", "#timeline-card", "#traffic-title", "#memory-title", "#breaks"):
        one.expect(there).to_be_visible()
    one.expect("#because").to_be_hidden()
    one.page.reload()  # it is remembered
    one.expect("#memory-title").to_be_visible()


def test_the_words_of_a_presentation_grow_with_the_wall(watch):
    one = watch()
    one.open("/#mode=present")
    sizes = [
        float(one.ask("() => parseFloat(getComputedStyle(document.documentElement).fontSize)"))
        for _ in one.sized((1280, 720), (1920, 1080))
    ]
    assert sizes[0] >= 20
    assert sizes[1] >= 1.25 * sizes[0]


def test_while_it_plays_the_picture_is_of_what_the_title_says(watch):
    one = watch()
    one.open("/")
    shown = """() => {
        const { model, shown, state } = window.__player;
        const { doc, beatOf } = model;
        const { units } = doc.beats[beatOf[state().position]];
        return [shown().magnified.caption, units.map((unit) => doc.units[unit].name)];
    }"""
    one.press(" ")
    seen = set()

    def goes_on(_):
        caption, units = one.ask(shown)
        assert not units or any(caption.startswith(name) for name in units), (caption, units)
        seen.update(units)
        return len(seen) > 2

    eventually(lambda: None, goes_on, deadline_s=60)
