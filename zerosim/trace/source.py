"""The source line of a call, and the functions between it and the call."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import FrameType, TracebackType

import torch

_FRAMEWORKS = ("torch", "deepspeed")
_ENGINES_OWN = ("train/engine", "train/deepspeed", "train/offload")


def _machinery() -> tuple[str, ...]:
    """Folders of code between a program's line and its call."""
    package = Path(__file__).parents[1]
    own = ("trace", "predict/simulate", "puzzles", *_ENGINES_OWN, "train/collectives")
    folders = [package / name for name in own]
    for name in _FRAMEWORKS:
        spec = find_spec(name)
        folders += [Path(path) for path in (spec and spec.submodule_search_locations) or ()]
    decorators = find_spec("typing_extensions")  # of deprecated functions
    files = () if decorators is None or decorators.origin is None else (decorators.origin,)
    return (*(f"{folder}/" for folder in folders), *files)


def _engines() -> dict[str, int]:
    """Folders of engines that decide about communication: events name their functions.

    For each folder, the length of the path before its package.
    """
    package = Path(__file__).parents[1]
    before = len(f"{package.parent}/")
    found = {f"{package / name}/": before for name in _ENGINES_OWN}
    spec = find_spec("deepspeed")
    for path in (spec and spec.submodule_search_locations) or ():
        found[f"{path}/"] = len(f"{Path(path).parent}/")
    return found


_MACHINERY = _machinery()
_STANDARD_LIBRARY = f"{Path(os.__file__).parent}/"
_INSTALLED = "-packages/"
"""In the path of installed packages, which may lie within the standard library's folder."""
_ENGINES = _engines()
_PASS_ON = ("/deepspeed/comm/", "/deepspeed/utils/nvtx.py")
"""Files of DeepSpeed that only pass calls on: events do not name their functions."""
_PASSING_ON = (
    f"{Path(__file__).parents[1] / 'predict' / 'simulate'}/",
    torch._tensor.__file__,
    "<",
)
"""Functions that pass a value on to its user."""


def caller() -> str:
    """The innermost line that belongs neither to a framework nor to the tracer."""
    return next(program_lines(sys._getframe(1)), "")


def asked_through() -> tuple[str, tuple[str, ...]]:
    """The same, with the functions of engines from there on, outermost first."""
    frame: FrameType | None = sys._getframe(1)
    found: list[str] = []
    while frame is not None:
        code = frame.f_code
        program, engine = _files(code.co_filename)
        if program:
            return f"{program}:{frame.f_lineno} in {code.co_qualname}", tuple(reversed(found))
        if engine:
            found.append(f"{engine}:{frame.f_lineno} in {code.co_qualname}")
        frame = frame.f_back
    return "", tuple(reversed(found))


def program_lines(frame: FrameType | None) -> Iterator[str]:
    """The lines of the program that a thread is in, the innermost first."""
    while frame is not None:
        file = _program_file(frame.f_code.co_filename)
        if file:
            yield f"{file}:{frame.f_lineno} in {frame.f_code.co_qualname}"
        frame = frame.f_back


def raised_below(trace: TracebackType | None) -> str:
    """The program's innermost line in a traceback; "" if there is none."""
    found = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        file = _program_file(code.co_filename)
        if file:
            found = f"{file}:{trace.tb_lineno} in {code.co_qualname}"
        trace = trace.tb_next
    return found


def is_asked_by_framework() -> bool:
    """Whether framework code, and not a line of the program, reads a value."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PASSING_ON):
        frame = frame.f_back
    return frame is not None and not _program_file(frame.f_code.co_filename)


@lru_cache(4096)
def _program_file(name: str) -> str:
    """The short name of a file of the program; "" for all others."""
    is_standard = name.startswith(_STANDARD_LIBRARY) and _INSTALLED not in name
    if is_standard or name.startswith((*_MACHINERY, "<")):
        return ""
    return "/".join(name.rsplit("/", 2)[-2:])


@lru_cache(4096)
def _files(name: str) -> tuple[str, str]:
    """The name of a file as the program's and as an engine's, from one lookup."""
    return _program_file(name), _engine_file(name)


def _engine_file(name: str) -> str:
    """The name of an engine's file, from its package on; "" for others."""
    if any(part in name for part in _PASS_ON):
        return ""
    return next((name[n:] for folder, n in _ENGINES.items() if name.startswith(folder)), "")
