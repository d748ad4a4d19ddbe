"""What is taken away from the page: pictures and films that say what they show, made here."""

from __future__ import annotations

import pytest

from tests.browser.conftest import eventually
from tests.cli.command import command, process

pytestmark = [pytest.mark.browser]
WORDS = """svg => {
  const found = new DOMParser().parseFromString(svg, "image/svg+xml");
  return [...found.querySelectorAll("parsererror, text")].map(({ textContent }) => textContent);
}"""
WEBM = b"\x1a\x45\xdf\xa3"
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def page_file(traces, tmp_path_factory):
    file = tmp_path_factory.mktemp("take") / "replay.html"
    assert command("export", traces / "stage-3", "--html", file).code == 0
    return file


def taken(one, form):
    """What a button of the open menu gives: the file's name and its bytes."""
    with one.page.expect_download() as found:
        one.page.locator(f"#take-form button[value={form}]").click()
    return found.value.suggested_filename, found.value.path().read_bytes()


def test_an_offline_page_gives_pictures_and_films(watch, page_file):
    one = watch(address=page_file.as_uri())
    one.open("#beat=4")
    one.press("x")
    one.expect("#take-form [name=figure]").to_be_focused()
    name, svg = taken(one, "svg")
    assert name == "stage-3-beat-4.svg"
    words = one.ask(WORDS, svg.decode())
    for text in (eventually(lambda: one.text("#title")), "rank 3", "parameters", "gathered"):
        assert text in words
    assert any("beat 4 of 33" in text for text in words)
    one.page.select_option("#take-form [name=figure]", "memory")
    name, png = taken(one, "png")
    assert name == "stage-3-memory-beat-4.png"
    assert png.startswith(PNG)
    assert [int.from_bytes(png[at : at + 4]) for at in (16, 20)] == [2560, 1440]
    one.page.fill("#take-form [name=last]", "4")
    name, webm = taken(one, "webm")
    assert name == "stage-3-memory-beats-4-4.webm"
    assert webm.startswith(WEBM)
    assert b"webm" in webm[:64]


def test_a_moment_has_the_same_pixels_in_any_window(watch, page_file):
    found = []
    for size in ({"width": 1280, "height": 720}, {"width": 820, "height": 600}):
        one = watch(address=page_file.as_uri(), viewport=size)
        one.open("#beat=14")
        one.press("x")
        found.append((taken(one, "svg"), taken(one, "png")))
    assert found[0] == found[1]


def test_the_command_line_gives_what_the_page_gives(watch, traces, page_file, tmp_path):
    files = {form: tmp_path / f"x.{form}" for form in ("svg", "png", "pdf", "gif", "webm")}
    options = [text for form, file in files.items() for text in (f"--{form}", file)]
    link = "https://example.org/replay?trace=x#beat=4&rank=2&theme=dark"
    answer = process(
        "export", traces / "stage-3", *options, "--at", link, "--beats", "4", "--speed", 4
    )
    assert (answer.code, answer.err) == (0, "")
    assert f"wrote {files['png']}: beat 4, iteration 1" in answer.out
    found = {form: file.read_bytes() for form, file in files.items()}
    one = watch(address=page_file.as_uri())
    one.open("#beat=4&rank=2&theme=dark")
    one.press("x")
    assert taken(one, "svg")[1] == found["svg"]
    assert taken(one, "png")[1] == found["png"]
    assert found["pdf"].startswith(b"%PDF")
    assert found["gif"].startswith(b"GIF89a")
    assert b"NETSCAPE2.0" in found["gif"]
    assert found["webm"].startswith(WEBM)
