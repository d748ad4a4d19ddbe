"""The memory of one rank in one tier and iteration, drawn with characters.

A column is an interval of time, with its maximum of live tensors; the roles are stacked, the model
states at the bottom. Coloured blocks if the terminal has colours, letters if not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from zerosim.analysis.memory import Bytes, Timeline, whole_iteration
from zerosim.base.language import term
from zerosim.base.quantities import format_bytes, format_exact_bytes
from zerosim.base.tiers import Tier
from zerosim.cli.wording import said
from zerosim.schema.events import STEP_PHASES, Phase
from zerosim.schema.memory import MODEL_STATES, Moment, Role

_HEIGHT = 12
_MARGIN = 9
"""Columns left of the axis."""
_WIDEST = 100
_STACK = (
    Role.PARAMETERS,
    Role.MASTER,
    Role.MOMENTUM,
    Role.VARIANCE,
    Role.GRADIENTS,
    Role.SECONDARY,
    Role.GATHERED,
    Role.BUFFERS,
    Role.CHECKPOINTS,
    Role.ACTIVATIONS,
    Role.WORKSPACES,
    Role.OTHER,
)
"""From the bottom: persistent, then temporary. The first five are the model states."""
_SHORT = {
    Phase.FORWARD: ("fwd", "f"),
    Phase.BACKWARD: ("bwd", "b"),
    Phase.UPDATE: ("upd", "u"),
}
GLYPHS = {
    Role.PARAMETERS: ("p", "blue"),
    Role.GRADIENTS: ("g", "red"),
    Role.MASTER: ("f", "cyan"),
    Role.MOMENTUM: ("m", "green"),
    Role.VARIANCE: ("v", "bright_green"),
    Role.GATHERED: ("G", "bright_blue"),
    Role.BUFFERS: ("b", "magenta"),
    Role.ACTIVATIONS: ("a", "yellow"),
    Role.CHECKPOINTS: ("c", "bright_yellow"),
    Role.SECONDARY: ("s", "bright_cyan"),
    Role.WORKSPACES: ("w", "white"),
    Role.OTHER: ("o", "bright_black"),
}


@dataclass(frozen=True, slots=True)
class _Picture:
    """The data of a drawing.

    Attributes:
        tops: top of each stacked role, shape (number of roles, number of columns), in bytes.
        starts: the first column of each phase.
        top: the largest column.
    """

    tops: Bytes
    starts: list[tuple[int, Phase]]
    top: int


def print_plot(
    console: Console,
    line: Timeline,
    iteration: int | None,
    theory_bytes: int | None = None,
    place: str = "",
) -> None:
    """Draw one iteration; nothing if it has fewer than two samples.

    Args:
        iteration: None for the whole recording.
        theory_bytes: planned model states at the start of the update.
        place: name of the line's tier; "" if there is no other.
    """
    width = min(console.width, _WIDEST) - _MARGIN - 2
    picture = _picture(line, iteration, max(width, 20))
    if picture is None:
        return
    is_plain = console.color_system is None or console.no_color
    is_ascii = console.options.ascii_only
    axis, corner, dash, low = "|+-_" if is_ascii else "│└╌─"
    what = said("common.everything" if iteration is None else "plot.iteration", iteration=iteration)
    key = f"plot.{'files' if line.tier is Tier.DISK else 'alive'}{'_at' if place else ''}"
    console.print(Text(said(key, place=place, rank=line.rank, what=what), style="dim"))
    step = picture.top / _HEIGHT
    mark = None if theory_bytes is None else int(theory_bytes / step)
    for row in reversed(range(_HEIGHT)):
        label = format_bytes(round((row + 1) * step)) if row in (_HEIGHT - 1, _HEIGHT // 2) else ""
        text = Text(f"{label:>{_MARGIN}}{axis}", style="dim")
        for column in range(picture.tops.shape[1]):
            role = _role_at(picture, column, (row + 0.5) * step)
            if row == mark and role not in MODEL_STATES:
                text.append(dash, style="bold")
            elif role is None:
                text.append(" ")
            else:
                letter, colour = GLYPHS[role]
                text.append(letter if is_plain else "█", style=f"not dim {colour}")
        console.print(_trimmed(text))
    console.print(Text(f"{'0':>{_MARGIN}}{corner}{low * picture.tops.shape[1]}", style="dim"))
    console.print(Text(" " * (_MARGIN + 1) + _phases(picture), style="dim"))
    _print_legend(console, picture, theory_bytes, dash, is_plain=is_plain)


def _picture(line: Timeline, iteration: int | None, width: int) -> _Picture | None:
    everything = np.arange(len(line.samples), dtype=np.int64)
    positions = everything if iteration is None else whole_iteration(line, iteration)
    if len(positions) < 2:
        return None
    columns = _columns([line.samples[number].time_ns for number in positions], width)
    alive = line.alive()
    highest: dict[int, int] = {}
    last: dict[int, int] = {}
    starts: list[tuple[int, Phase]] = []
    for number, column in zip(map(int, positions), columns, strict=True):
        sample = line.samples[number]
        if sample.moment is Moment.PHASE and sample.phase in STEP_PHASES:
            starts.append((column, sample.phase))
        last[column] = number
        if column not in highest or alive[number] > alive[highest[column]]:
            highest[column] = number
    heights = np.zeros((len(_STACK), width), dtype=np.int64)
    carried = int(positions[0])
    for column in range(width):
        number = highest.get(column, carried)
        if alive[carried] > alive[number]:
            number = carried
        roles = line.roles_at(number) | {Role.OTHER: max(0, line.other(number) or 0)}
        heights[:, column] = [roles[role] for role in _STACK]
        carried = last.get(column, carried)
    tops = heights.cumsum(axis=0)
    return _Picture(tops, starts, max(1, int(tops[-1].max())))


def _columns(times: list[int], width: int) -> list[int]:
    """The column of each time; evenly spaced if the clock did not advance."""
    span = max(times) - times[0]
    if span <= 0:
        times, span = list(range(len(times))), len(times) - 1
    return [min(width - 1, max(0, (time - times[0]) * (width - 1) // span)) for time in times]


def _role_at(picture: _Picture, column: int, level: float) -> Role | None:
    """The role that is drawn at a height; None above all of them."""
    index = int(np.searchsorted(picture.tops[:, column], level, side="right"))
    return _STACK[index] if index < len(_STACK) else None


def _trimmed(text: Text) -> Text:
    text.rstrip()
    return text


def _phases(picture: _Picture) -> str:
    """The phases' names below their starts, shortened if they do not fit."""
    words = ""
    columns = [column for column, _ in picture.starts] + [picture.tops.shape[1]]
    for (column, phase), end in zip(picture.starts, columns[1:], strict=True):
        room = end - column - 1
        fitting = [name for name in (term(phase), *_SHORT[phase]) if cell_len(name) <= room]
        words += " " * (column - cell_len(words)) + (fitting or [""])[0]
    return words


def _print_legend(
    console: Console, picture: _Picture, theory_bytes: int | None, dash: str, *, is_plain: bool
) -> None:
    heights = np.diff(picture.tops, axis=0, prepend=0)
    best = int(picture.tops[-1].argmax())
    parts = [
        (role, int(heights[index, best]))
        for index, role in enumerate(_STACK)
        if heights[index].any()
    ]
    text = Text(said("plot.highest"), style="dim")
    for place, (role, size) in enumerate(parts):
        letter, colour = GLYPHS[role]
        text.append(said("plot.comma") if place else "")
        text.append(letter if is_plain else "█", style=f"not dim {colour}")
        text.append(f" {term(role)} {format_bytes(size)}")
    if theory_bytes is not None:
        text.append(said("plot.theory", dash=dash, bytes=format_exact_bytes(theory_bytes)))
    console.print(text)
