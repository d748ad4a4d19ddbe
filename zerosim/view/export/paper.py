"""A page that is one file as PDF: what its style sheet puts on paper.

A browser without a window prints it (`export.browser`), as it would from its own menu. What stands
in frames is loaded before, also what nobody has looked at yet.
"""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from zerosim.view.export.browser import launched
from zerosim.view.export.pictures import Look, svg_of

if TYPE_CHECKING:
    from playwright.sync_api import ElementHandle

_LOAD = (
    """() => document.querySelectorAll("iframe").forEach(frame => { frame.loading = "eager"; })"""
)
_SHOWN = "#view:not([hidden])"
_PLACE = """() => {
  const { position, hops, rank } = window.__player?.state() ?? {};
  return [position, hops, rank];
}"""
_PUT = """async (frame, source) => {
  const picture = document.createElement("img");
  picture.className = frame.className;
  picture.alt = frame.title;
  picture.src = source;
  await picture.decode();
  frame.replaceWith(picture);
}"""
_FINE = 2
"""Pixels of what is drawn on a canvas for one of a page: paper is looked at closely."""


def paper(html: str) -> bytes:
    """Print a page. What is shown in a frame becomes a picture: canvases do not go on paper.

    Args:
        html: all of it.

    Raises:
        EnvironmentFault: there is no browser here.
    """
    with launched() as browser, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(html, encoding="utf-8")
        context = browser.new_context(
            offline=True,
            accept_downloads=False,
            viewport={"width": 1280, "height": 720},
            device_scale_factor=_FINE,
        )
        page = context.new_page()
        page.emulate_media(media="print")
        page.goto(file.as_uri())
        page.evaluate(_LOAD)
        for frame in page.locator("iframe").element_handles():
            frame.evaluate(_PUT, _picture(frame))
        return page.pdf(prefer_css_page_size=True, print_background=True, tagged=True)


def _picture(frame: ElementHandle) -> str:
    """What a frame shows: of a replay its moment in shapes and texts, else its pixels."""
    inside, box = frame.content_frame(), frame.bounding_box()
    assert inside is not None
    assert box is not None
    inside.locator(_SHOWN).wait_for()
    position, hops, rank = inside.evaluate(_PLACE)
    if position is None:
        return _data("image/png", frame.screenshot())
    size = (round(box["width"]), round(box["height"]))
    look = Look(present=True, size=size, hops=hops, rank=rank)
    return _data("image/svg+xml", svg_of(inside, position, look))


def _data(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
