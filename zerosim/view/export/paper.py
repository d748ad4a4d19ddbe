"""A standalone page as PDF: printed with its style sheet.

A headless browser prints it (`export.browser`), as from its own menu. The contents of frames are
loaded first, including those that were not scrolled to.
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
"""Pixels of a canvas per CSS pixel of the page: paper is read closely."""


def paper(html: str) -> bytes:
    """Print a page. The contents of a frame become a picture: canvases are not printed.

    Args:
        html: all of it.

    Raises:
        EnvironmentFault: there is no browser.
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
    """The contents of a frame: for a replay its moment in shapes and texts, else its pixels."""
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
