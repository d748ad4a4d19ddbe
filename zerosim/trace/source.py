"""The line of a program that asked for something. Imports torch and the standard library."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import FrameType, TracebackType

import torch

_FRAMEWORKS = ("torch", "deepspeed")


def _machinery() -> tuple[str, ...]:
    """Where the code lives that stands between a program's line and what it asked for."""
    package = Path(__file__).parents[1]
    own = ("trace", "engine", "collectives", "offload", "simulate", "puzzles")
    folders = [package / name for name in own]
    for name in _FRAMEWORKS:
        spec = find_spec(name)
        folders += [Path(path) for path in (spec and spec.submodule_search_locations) or ()]
    files = [contextlib.__file__]
    decorators = find_spec("typing_extensions")  # of what is deprecated
    if decorators is not None and decorators.origin is not None:
        files.append(decorators.origin)
    return (*(f"{folder}/" for folder in folders), *files)


_MACHINERY = _machinery()
_PASSING_ON = (f"{Path(__file__).parents[1] / 'simulate'}/", torch._tensor.__file__, "<")
"""Where a value passes on its way to who asked for it."""


def caller() -> str:
    """The innermost line that belongs neither to a framework nor to the machinery here."""
    return next(program_lines(sys._getframe(1)), "")


def program_lines(frame: FrameType | None) -> Iterator[str]:
    """The lines of the program that a thread is in, the innermost first."""
    while frame is not None:
        file = _program_file(frame.f_code.co_filename)
        if file:
            yield f"{file}:{frame.f_lineno} in {frame.f_code.co_qualname}"
        frame = frame.f_back


def raised_below(trace: TracebackType | None) -> str:
    """The innermost line of the program in a traceback; "" if there is none."""
    found = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        file = _program_file(code.co_filename)
        if file:
            found = f"{file}:{trace.tb_lineno} in {code.co_qualname}"
        trace = trace.tb_next
    return found


def is_asked_by_framework() -> bool:
    """Whether code of a framework's own asks for a value, and no line of a program."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PASSING_ON):
        frame = frame.f_back
    return frame is not None and not _program_file(frame.f_code.co_filename)


@lru_cache(4096)
def _program_file(name: str) -> str:
    """The short name of a file of the program; "" for all others."""
    return "" if name.startswith((*_MACHINERY, "<")) else "/".join(name.rsplit("/", 2)[-2:])
