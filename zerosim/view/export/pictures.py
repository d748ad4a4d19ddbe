"""Moments and intervals of a replay as PNG, SVG, PDF, GIF and WebM.

The page draws them (`dashboards/player/take`), in a headless browser: a picture from the command
line is equal to that of the page's menu, and reproducible.
"""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zerosim.view.export.browser import launched

if TYPE_CHECKING:
    from playwright.sync_api import Frame, Page

FRAME_MS = 80
"""Time between two frames of a GIF, whose clock counts hundredths of a second."""
_STARTED = "#view:not([hidden])"
_MAKE = """async ([kind, wanted]) => {
  const { take } = window.__player;
  const made = await take[kind]({ ...take.usual(wanted.figure), ...wanted });
  if (typeof made === "string") {
    return made;
  }
  const reader = new FileReader();
  return await new Promise((done, fail) => {
    reader.onload = () => done(reader.result.split(",")[1]);
    reader.onerror = () => fail(reader.error);
    reader.readAsDataURL(made);
  });
}"""
_FILM = """wanted => {
  const { take } = window.__player;
  return take.film({ ...take.usual(wanted.figure), scale: 1, ...wanted });
}"""
_FRAME = """(film, now) => {
  const goesOn = film.at(now);
  const picture = film.isNew ? film.picture.canvas.toDataURL("image/png").split(",")[1] : "";
  return [goesOn, film.part, picture];
}"""


class Figure(StrEnum):
    """The moment that a picture shows."""

    STAGE = "stage"
    TIMELINE = "timeline"
    TRAFFIC = "traffic"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The appearance of a replay.

    Attributes:
        figure: the part to draw.
        theme: light or dark.
        present: with the text of the presentation mode.
        rank: the selected one, as an index in the document's ranks.
        hops: whether each hop has its own text, instead of beats.
        tour: the stop whose text is shown, from 0; -1 for the text of the moment.
        size: width and height in CSS pixels; None: the default of the page's menu.
    """

    figure: Figure = Figure.STAGE
    theme: str = "light"
    present: bool = False
    rank: int = 0
    hops: bool = False
    tour: int = -1
    size: tuple[int, int] | None = None

    def wanted(self, **more: object) -> dict[str, object]:
        """The corresponding request to the page."""
        fields: dict[str, object] = asdict(self)
        size = fields.pop("size")
        if isinstance(size, tuple):
            fields["width"], fields["height"] = size
        unseen = {"reduced": False, "breakpoints": [], "marks": []}
        return {**fields, **unseen, **more}


@dataclass(frozen=True, slots=True)
class Stretch:
    """The beats that a film shows.

    Attributes:
        first, last: the first and last of consecutive beats, from 0, both shown.
        speed: as in the page.
        is_tour: show the stops of the tour instead of beats, each for as long as reading it takes.
    """

    first: int
    last: int
    speed: float = 1
    is_tour: bool = False

    def wanted(self) -> dict[str, object]:
        """The corresponding request to the page (film)."""
        return {
            "first": self.first, "last": self.last, "speed": self.speed, "isTour": self.is_tour
        }  # fmt: skip


Tell = Callable[[float], None]
"""Called with the completed fraction of a film, 0 to 1."""


class Pictures:
    """Draws one replay, as long as its browser is open."""

    def __init__(self, page: Page) -> None:
        """Draw with a page that shows the replay."""
        self._page = page

    def png(self, step: int, look: Look) -> bytes:
        """A moment as a PNG with twice the resolution of `look.size`."""
        return base64.b64decode(self._make("png", look.wanted(position=step)))

    def svg(self, step: int, look: Look) -> bytes:
        """A moment as an SVG."""
        return svg_of(self._page, step, look)

    def pdf(self, moments: Sequence[tuple[int, int]], look: Look) -> bytes:
        """Moments as a PDF, one page for each.

        Args:
            moments: the step of each, and its stop in the tour, or -1.
        """
        drawings = [self.svg(step, replace(look, tour=tour)) for step, tour in moments]
        width, height = self._page.evaluate(
            "wanted => { const { width, height } = { ...window.__player.take.usual(wanted.figure), "
            "...wanted }; return [width, height]; }",
            look.wanted(),
        )
        page = self._page.context.new_page()
        try:
            page.set_content(_paper(drawings, width, height), wait_until="load")
            return page.pdf(
                width=f"{width}px", height=f"{height}px", print_background=True, tagged=True
            )
        finally:
            page.close()

    def gif(self, stretch: Stretch, look: Look, tell: Tell) -> bytes:
        """Beats as an animated GIF that repeats."""
        from zerosim.view.export.gif import animation

        return animation(self.frames(stretch, look, tell), FRAME_MS)

    def webm(self, stretch: Stretch, look: Look) -> bytes:
        """Beats as a WebM film; recording it takes as long as the film."""
        wanted = look.wanted(**stretch.wanted(), scale=1)
        return base64.b64decode(self._make("webm", wanted))

    def frames(self, stretch: Stretch, look: Look, tell: Tell) -> Iterator[bytes]:
        """The frames of a film as PNGs, `FRAME_MS` apart; the same object if nothing changed."""
        film = self._page.evaluate_handle(_FILM, look.wanted(**stretch.wanted()))
        now, goes_on, frame = 0, True, b""
        while goes_on:
            goes_on, part, text = film.evaluate(_FRAME, now)
            now += FRAME_MS
            tell(part)
            frame = base64.b64decode(text) if text else frame
            yield frame
        film.evaluate("film => film.picture.remove()")

    def _make(self, kind: str, wanted: dict[str, Any]) -> str:
        return _make(self._page, kind, wanted)


def svg_of(shown: Page | Frame, step: int, look: Look) -> bytes:
    """A moment as an SVG, drawn by the page or the frame that shows a replay."""
    return _make(shown, "svg", look.wanted(position=step)).encode()


def _make(shown: Page | Frame, kind: str, wanted: dict[str, Any]) -> str:
    return str(shown.evaluate(_MAKE, [kind, wanted]))


@contextmanager
def pictures(html: str) -> Iterator[Pictures]:
    """The page that draws a replay.

    Args:
        html: its offline page.

    Raises:
        EnvironmentFault: there is no browser.
    """
    with launched() as browser, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "replay.html"
        file.write_text(html, encoding="utf-8")
        page = browser.new_context(offline=True, accept_downloads=False).new_page()
        page.goto(file.as_uri())
        page.locator(_STARTED).wait_for()
        yield Pictures(page)


def _paper(drawings: Sequence[bytes], width: int, height: int) -> str:
    """A page for a printer; each drawing is a separate image, so that their ids do not collide."""
    shown = "".join(
        f'<img alt="" src="data:image/svg+xml;base64,{base64.b64encode(one).decode()}">'
        for one in drawings
    )
    size = escape(f"{width}px {height}px")
    return (
        f"<!doctype html><style>@page {{ size: {size}; margin: 0 }} body {{ margin: 0 }} "
        f"img {{ display: block; width: {width}px; height: {height}px; break-after: page }} "
        f"img:last-child {{ break-after: auto }}</style>{shown}"
    )
