"""The drawing options of `zerosim export`: pictures and videos of a replay.

Everything is drawn before any file is written.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from zerosim.base.errors import ConfigError
from zerosim.cli.options import decimal, integer
from zerosim.view.export import browser
from zerosim.view.export.pictures import Figure, Look, Pictures, Stretch, Tell, pictures
from zerosim.view.reading.player import Replay
from zerosim.view.replay.addresses import THEMES, ReplayMoment, read_moment

_PANEL = "Pictures and videos, which need the extra images and a Chromium"
_SPEEDS = (0.25, 0.5, 1, 2, 4)
_LEAST, _MOST = 200, 4000
"""Bounds of a picture's side, in CSS pixels."""

C = TypeVar("C", bound=Callable[..., int])


def _file(words: str) -> Any:
    return Annotated[Path | None, typer.Option(help=words, rich_help_panel=_PANEL)]


def _text(words: str) -> Any:
    return Annotated[str | None, typer.Option(help=words, rich_help_panel=_PANEL)]


_FILES = {
    "png": _file("Write a moment as a PNG."),
    "svg": _file("Write a moment as an SVG."),
    "pdf": _file("Write beats as a PDF, one per page."),
    "gif": _file("Write beats as an animated GIF."),
    "webm": _file("Write beats as a WebM video; this takes as long as the video."),
}
_OF_MOMENTS = ("png", "svg")
_OPTIONS = {
    "at": _text(
        'The moment: beat:17, tour:3, its link, or words such as "backward reduce blocks.1".'
    ),
    "beats": _text("The beats, such as 4-9; all by default."),
    "tour": Annotated[
        bool,
        typer.Option(
            "--tour", help="Show the stops of the tour instead of beats.", rich_help_panel=_PANEL
        ),
    ],
    "figure": _text(f"{', '.join(Figure)}; the stage by default."),
    "theme": _text(f"{' or '.join(THEMES)}; light by default."),
    "present": Annotated[
        bool,
        typer.Option("--present", help="Use large text, for a projector.", rich_help_panel=_PANEL),
    ],
    "rank": Annotated[int | None, integer("The selected rank.", _PANEL)],
    "size": _text("WIDTHxHEIGHT of the window; a PNG has twice the resolution."),
    "speed": Annotated[
        float, decimal(f"Video speed: {', '.join(f'{one:g}' for one in _SPEEDS)}.", _PANEL)
    ],
}
_DEFAULTS = {"tour": False, "present": False, "speed": 1.0}


def with_pictures(command: C, more: Mapping[str, Any]) -> C:
    """Give a command these options, in its `**options`.

    Args:
        more: further options in it, by name, None by default.
    """
    own = inspect.signature(command, eval_str=True).parameters.values()
    named = [one for one in own if one.kind is not inspect.Parameter.VAR_KEYWORD]
    added = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_DEFAULTS.get(name),
            annotation=annotation,
        )
        for name, annotation in (dict(more) | _FILES | _OPTIONS).items()
    ]
    vars(command)["__signature__"] = inspect.Signature([*named, *added])
    return command


def files_of(options: Mapping[str, Any]) -> dict[str, Path]:
    """The pictures to draw, by file."""
    return {form: options[form] for form in _FILES if options[form] is not None}


@dataclass(frozen=True, slots=True)
class PictureFile:
    """A file's content.

    Attributes:
        what: the part of the replay in it.
    """

    content: bytes
    what: str


def draw(replay: Replay, options: Mapping[str, Any]) -> dict[Path, PictureFile]:
    """Draw all requested pictures.

    Raises:
        ConfigError: an option has no effect here.
        EnvironmentFault: there is no browser to draw with.
    """
    wanted = files_of(options)
    if not wanted:
        return {}
    browser.require("playwright", *(["PIL"] if "gif" in wanted else []))
    document = replay.document
    moment = read_moment(document, options["at"] or "")
    if options["tour"] and options["beats"] is not None:
        raise ConfigError("--tour and --beats are both given: give only one")
    first, last = _beats(options["beats"], len(document["beats"]))
    look = _look(document, moment, options)
    stretch = Stretch(first, last, _speed(options["speed"]), options["tour"])
    moments = _moments(document, stretch)
    here = f"beat {_beat_of(document, moment.step) + 1}"
    found = {}
    with pictures(replay.html) as camera:
        for form, file in wanted.items():
            content = _draw(camera, form, moment.step, moments, stretch, look)
            of_beats = "the tour" if stretch.is_tour else f"beats {first + 1} to {last + 1}"
            found[file] = PictureFile(content, here if form in _OF_MOMENTS else of_beats)
    return found


def _moments(document: Mapping[str, Any], stretch: Stretch) -> list[tuple[int, int]]:
    """The moments with a page of their own: the step of each, and its stop."""
    if stretch.is_tour:
        return [(int(stop["step"]), number) for number, stop in enumerate(document["tour"])]
    beats = document["beats"][stretch.first : stretch.last + 1]
    return [(int(beat["main"]), -1) for beat in beats]


def _draw(
    camera: Pictures,
    form: str,
    step: int,
    moments: Sequence[tuple[int, int]],
    stretch: Stretch,
    look: Look,
) -> bytes:
    match form:
        case "png":
            return camera.png(step, look)
        case "svg":
            return camera.svg(step, look)
        case "pdf":
            return camera.pdf(moments, look)
        case "gif":
            return camera.gif(stretch, look, _progress(form))
        case _:
            return camera.webm(stretch, look)


def _beat_of(document: Mapping[str, Any], step: int) -> int:
    return next(k for k, beat in enumerate(document["beats"]) if step <= beat["last"])


def _progress(form: str) -> Tell:
    """Reports the progress of a film on a terminal."""
    if not sys.stderr.isatty():
        return lambda _: None

    def tell(part: float) -> None:
        end = "\n" if part == 1 else ""
        sys.stderr.write(f"\r{form}: {part:4.0%}{end}")
        sys.stderr.flush()

    return tell


def _look(document: Mapping[str, Any], moment: ReplayMoment, options: Mapping[str, Any]) -> Look:
    figure, theme, rank = options["figure"], options["theme"], options["rank"]
    if figure is not None and figure not in list(Figure):
        raise ConfigError(f"figure is {figure[:40]!r}: expected one of {', '.join(Figure)}")
    if theme is not None and theme not in THEMES:
        raise ConfigError(f"theme is {theme[:40]!r}: expected one of {', '.join(THEMES)}")
    ranks = document["ranks"]
    if rank is not None and rank not in ranks:
        raise ConfigError(f"rank is {rank}: expected one of {', '.join(map(str, ranks))}")
    return Look(
        figure=Figure(figure or Figure.STAGE),
        theme=theme or moment.theme or THEMES[0],
        present=options["present"] or moment.present,
        rank=moment.rank if rank is None else ranks.index(rank),
        hops=moment.hops,
        tour=moment.tour,
        size=_size(options["size"]),
    )


def _beats(text: str | None, num_beats: int) -> tuple[int, int]:
    """The first and the last, from 0."""
    if text is None:
        return 0, num_beats - 1
    found = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= first <= last <= num_beats:
        raise ConfigError(f"beats is {text[:40]!r}: expected some of 1-{num_beats}, as in 1-3")
    return first - 1, last - 1


def _size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{3,4})x([0-9]{3,4})", text)
    size = (int(found[1]), int(found[2])) if found else (0, 0)
    if not all(_LEAST <= side <= _MOST for side in size):
        raise ConfigError(
            f"size is {text[:40]!r}: expected WIDTHxHEIGHT of {_LEAST} to {_MOST} each, "
            "such as 1280x720"
        )
    return size


def _speed(speed: float) -> float:
    if speed not in _SPEEDS:
        known = ", ".join(f"{one:g}" for one in _SPEEDS)
        raise ConfigError(f"speed is {speed:g}: expected one of {known}")
    return speed
