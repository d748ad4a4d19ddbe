"""Tours, names, search and source lines in the Replay page."""

from __future__ import annotations

import itertools

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import eventually
from tests.cli.command import command
from tests.deadlines import QUESTION_S

pytestmark = [pytest.mark.browser, pytest.mark.ranks]

STILL = {"reduced_motion": "reduce"}
VOICE = """
    window.said = [];
    Object.defineProperty(window, "speechSynthesis", {
      value: { speak: (one) => window.said.push(one.text), cancel: () => window.said.push("") },
    });
"""
"""Keeps what would be heard: this browser has no voices."""


def marked(one):
    """The beats that the strip marks."""
    return one.ask(
        "() => [...document.querySelectorAll('#strip .marked')].map(b => Number(b.dataset.beat))"
    )


def test_keys_step_through_the_tour_and_its_links_come_back(watch):
    one = watch(**STILL)
    one.open("/replay?trace=stage-3#beat=4")
    found = one.document()
    stops = found["tour"]
    beat_of = one.ask("() => [...window.__player.model.beatOf]")
    one.press("g")
    for number, stop in enumerate(stops):
        one.has(position=stop["step"])
        one.expect("#title").to_have_text(stop["title"])
        eventually(lambda: " ".join(one.text("#what").split()) == stop["text"])
        count = f"stop {number + 1} of {len(stops)}"
        one.expect("#event").to_have_text(count)
        spoken = f"S{count[1:]}: {stop['title']}. {stop['text']}"
        eventually(lambda: one.page.locator("#narration").inner_text() == spoken)
        one.press("ArrowRight")
    eventually(lambda: marked(one) == sorted({beat_of[stop["step"]] for stop in stops}))
    one.wait(f"location.hash === '#tour={len(stops)}'")
    one.press("ArrowLeft", "Home", "End", "ArrowLeft")
    one.has(tour=len(stops) - 2)
    one.wait(f"location.hash === '#tour={len(stops) - 1}'")
    again = watch(**STILL)
    again.open(f"/replay?trace=stage-3#tour={len(stops) - 1}")
    eventually(lambda: again.state() == one.state())
    one.press("3")  # going elsewhere leaves the tour
    one.has(tour=-1)
    eventually(lambda: one.text("#event").startswith("beat "))
    eventually(lambda: marked(one) == [])
    one.wait("location.hash.startsWith('#beat=')")
    one.page.locator("#tour").click()
    one.settle()
    expect(one.page.locator("#tour")).to_have_attribute("aria-pressed", "true")
    one.page.locator("#tour").click()
    one.settle()
    one.has(tour=-1)
    one.has(position=0)


def test_a_stop_is_read_whole(watch):
    one = watch(**STILL)
    one.open("/replay?trace=stage-3#tour=1")
    for _ in one.sized((1280, 720)):
        for _ in ("work", "present"):
            for _ in one.document()["tour"]:
                one.press("ArrowRight")
                what = one.page.locator("#what")
                eventually(
                    lambda: what.evaluate("(one) => one.scrollHeight <= one.clientHeight + 1")
                )
            one.press("p", "Home")


def test_a_stop_is_said_aloud_on_demand_only(watch):
    one = watch(**STILL)
    one.page.add_init_script(VOICE)
    one.open("/replay?trace=stage-3#tour=12")
    one.press("ArrowLeft", "ArrowRight")
    said = "() => window.said.filter(Boolean)"
    eventually(lambda: one.page.evaluate(said) == [])
    one.press("s")
    heard = eventually(lambda: one.page.evaluate(said))
    assert len(heard) == 1
    assert heard[0].startswith("Stop 12 of 12: The traffic and the law. Each rank has sent")
    assert "3 psi times N minus 1 over N" in heard[0]
    assert "Ψ" not in heard[0]
    one.press("ArrowLeft")  # it goes along
    eventually(lambda: one.page.evaluate(said)[1:] != [])
    one.press("s", "ArrowLeft")
    expect(one.page.locator("#say")).to_have_attribute("aria-pressed", "false")
    eventually(lambda: len(one.page.evaluate(said)) == 2)


def test_a_page_from_a_file_has_the_tour(watch, traces, tmp_path):
    file = tmp_path / "replay.html"
    answer = command("export", traces / "stage-0", "--html", file)
    assert (answer.code, answer.err) == (0, "")
    one = watch(address=file.as_uri(), **STILL)
    one.open("#tour=2")
    one.expect("#title").to_have_text(one.document()["tour"][1]["title"])
    one.press("ArrowRight")
    one.expect("#title").to_have_text(one.document()["tour"][2]["title"])


def test_what_is_pointed_at_has_a_name(watch):
    one = watch(**STILL)
    one.open("/replay?trace=stage-3#beat=1")
    timeline = eventually(lambda: one.page.locator("#timeline").bounding_box())
    card = one.page.locator(".named")
    expect(card).to_be_hidden()
    found = one.document()
    bars = found["timeline"]["bars"]
    duration = found["timeline"]["duration_ns"]
    longest = max(
        (bars[at : at + 7] for at in range(0, len(bars), 7) if bars[at] == 0 and bars[at + 1] == 1),
        key=lambda bar: bar[5] - bar[4],
    )
    # across the lanes of rank 0: somewhere in its lane the longest collective is met
    middle = (longest[4] + longest[5]) / 2 / duration
    left = 86  # names of ranks
    x = timeline["x"] + left + middle * (timeline["width"] - left - 6)
    step = found["steps"][longest[6]]
    told = (step["op"], "payload", found["texts"][step["source"]], found["texts"][step["title"]])
    heights = itertools.cycle(range(1, 30, 2))

    def name_there():
        one.page.mouse.move(x, timeline["y"] + next(heights))
        return one.ask("() => document.querySelector('.named').textContent")

    eventually(name_there, lambda name: all(words in name for words in told))
    expect(card).to_be_visible()
    one.page.mouse.move(2, 2)
    expect(card).to_be_hidden()


@pytest.mark.parametrize(
    ("drawing", "words"),
    [
        ("#stage", ["rank 0 → rank 1", "all-gather", "hop 1", "took"]),
        ("#timeline", ["rank 0", "from"]),
        ("#traffic", ["rank 0 has sent", "law"]),
        ("#memory", ["on the device", "MB"]),
    ],
)
def test_a_drawing_with_the_focus_names_its_parts(watch, drawing, words):
    one = watch(**STILL)
    one.open("/replay?trace=stage-3#beat=1&at=2")
    position = one.state()["position"]
    one.page.locator(drawing).focus()
    one.press("ArrowRight")
    spoken = eventually(lambda: one.page.locator("#named").inner_text())
    assert all(word in spoken for word in words)
    one.press("ArrowRight")
    eventually(lambda: one.page.locator("#named").inner_text() not in ("", spoken))
    one.has(position=position)  # the arrows are the drawing's
    one.press("Escape")
    expect(one.page.locator(".named")).to_be_hidden()
    one.ask("() => document.activeElement.blur()")
    one.press("ArrowRight")
    eventually(lambda: one.state()["position"] != position)


def test_search_finds_beats_marks_them_and_leads_there(watch):
    one = watch(**STILL)
    one.open("/replay?trace=stage-3#beat=1")
    found = one.document()
    one.press("/")
    one.page.keyboard.type("reduce-scatter > 1 MB")
    one.settle()
    expected = {
        number
        for number, beat in enumerate(found["beats"])
        for step in [found["steps"][beat["main"]]]
        if step["op"] == "reduce-scatter"
        and found["collectives"][step["collective"]]["payload_bytes"] > 1_000_000
    }
    assert 0 < len(expected) < len(found["beats"])
    one.expect("#search-says").to_have_text(f"{len(expected)} beats")
    eventually(lambda: marked(one) == sorted(expected))
    listed = eventually(lambda: one.page.locator("#search-hits button").all_inner_texts())
    assert all("1.58 MB" in text for text in listed)
    one.press("Enter")
    expect(one.page.locator("#search-dialog")).to_be_hidden()
    beat_of = one.ask("() => [...window.__player.model.beatOf]")
    eventually(lambda: beat_of[one.state()["position"]] == min(expected))
    one.expect("#search").to_have_text(f"search · {len(expected)}")
    one.press("/")
    one.page.keyboard.type("wait > 5 parsecs")
    one.settle()
    eventually(
        lambda: one.text("#search-says").startswith('"> 5 parsecs" is not an amount: expected')
    )
    expect(one.page.locator("#search-hits button")).to_have_count(0)
    one.page.locator("#search-field").fill("no such thing")
    one.expect("#search-says").to_have_text('No beat matches "no such thing".')
    one.page.locator("#search-field").fill("beat 20")
    one.page.locator("#search-hits button").first.click()
    one.settle()
    one.has(position=found["beats"][19]["main"])


def test_source_lines_open_in_the_readers_editor(watch):
    one = watch(**STILL)
    one.open("/replay?trace=stage-3#beat=1")
    expect(one.page.locator("#source a")).to_have_count(0)
    one.press("?")
    one.page.locator("#set-folder").fill("/home/me/src")
    one.page.locator("#set-editor").fill("javascript:alert('{file}')")
    one.page.locator("#set-editor").blur()
    one.expect("#set-editor-says").to_contain_text("is not an editor's address: expected")
    expect(one.page.locator("#source a")).to_have_count(0)
    one.page.locator("#set-editor").fill("idea://open?file={file}&line={line}")
    one.page.locator("#set-editor").blur()
    one.press("Escape")
    found, position = one.document(), one.state()["position"]
    source = found["texts"][found["steps"][position]["source"]]
    file, line = source.split(" in ")[0].split(":")
    link = one.page.locator("#source a")
    expect(link).to_have_text(source)
    expect(link).to_have_attribute("href", f"idea://open?file=/home/me/src/{file}&line={line}")
    again = one.page.context.new_page()  # this browser remembers
    again.set_default_timeout(1000 * QUESTION_S)
    again.goto(one.address + "/replay?trace=stage-3#beat=1")
    again.wait_for_function("() => document.querySelector('#source a')")
    again.close()
