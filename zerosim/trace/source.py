"""The line of a program that asked for something. Imports the standard library only."""

from __future__ import annotations

import contextlib
import sys
from importlib.util import find_spec
from pathlib import Path

_FRAMEWORKS = ("torch", "deepspeed")


def _machinery() -> tuple[str, ...]:
    """Where the code lives that stands between a program's line and what it asked for."""
    package = Path(__file__).parents[1]
    folders = [package / name for name in ("trace", "engine", "collectives")]
    for name in _FRAMEWORKS:
        spec = find_spec(name)
        folders += [Path(path) for path in (spec and spec.submodule_search_locations) or ()]
    files = [contextlib.__file__]
    decorators = find_spec("typing_extensions")  # of what is deprecated
    if decorators is not None and decorators.origin is not None:
        files.append(decorators.origin)
    return (*(f"{folder}/" for folder in folders), *files)


_MACHINERY = _machinery()


def caller() -> str:
    """The innermost line that belongs neither to a framework nor to the machinery here."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_MACHINERY) and not name.startswith("<"):
            short = "/".join(name.rsplit("/", 2)[-2:])
            return f"{short}:{frame.f_lineno} in {frame.f_code.co_qualname}"
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return ""
