"""The line of a program that asked for something. Imports the standard library only."""

from __future__ import annotations

import contextlib
import sys
from importlib.util import find_spec
from pathlib import Path


def _machinery() -> tuple[str, ...]:
    """Where the code lives that stands between a program's line and what it asked for."""
    package = Path(__file__).parents[1]
    folders = [package / name for name in ("trace", "engine", "collectives")]
    torch = find_spec("torch")
    folders += [
        Path(folder) for folder in (torch.submodule_search_locations if torch else ()) or ()
    ]
    return (*(f"{folder}/" for folder in folders), contextlib.__file__)


_MACHINERY = _machinery()


def caller() -> str:
    """The innermost line that belongs neither to torch nor to the machinery here."""
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
