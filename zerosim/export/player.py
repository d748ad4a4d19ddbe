"""The player's modules, style and page, as text; the server and the offline page are made of them.

Imports the standard library. The files lie beside the dashboard, which is not imported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "dashboards" / "player"
PREFIX = "#player/"
"""How the modules call each other; an import map says where that is."""
MAIN = "main.js"
STYLE = "player.css"
FRAGMENT = "player.html"
_NAME = re.compile(r"(?:[a-z][a-z0-9-]*/)*[a-z][a-z0-9-]*\.(?:js|css)")
_PART = re.compile(r"<!-- part: ([a-z]+) -->")
_IMPORT = re.compile(rf'^(?:import|export)\b[^;"]*?(?:from\s+)?"{PREFIX}([^"]+\.js)"', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _File:
    state: tuple[int, int]
    text: str
    imports: tuple[str, ...]


_read_files: dict[str, _File] = {}


def find(name: str) -> str | None:
    """The text of a file; None if there is none of this name."""
    file = _find(name)
    return None if file is None else file.text


def read(name: str) -> str:
    """The text of a module or a style that is known to be there."""
    return _known(name).text


def fragment() -> str:
    """The player's page, without <html>."""
    text = (FOLDER / FRAGMENT).read_text(encoding="utf-8")
    return _PART.sub(lambda found: part(found[1]).strip(), text)


def part(name: str) -> str:
    """What several pages have in common, as HTML."""
    return (FOLDER / "parts" / f"{name}.html").read_text(encoding="utf-8")


def modules(main: str = MAIN) -> tuple[str, ...]:
    """Every module that a page loads, the first one first."""
    found = {main: None}
    waiting = [main]
    while waiting:
        for name in _known(waiting.pop(0)).imports:
            if name not in found:
                found[name] = None
                waiting.append(name)
    return tuple(found)


def _known(name: str) -> _File:
    file = _find(name)
    assert file is not None, f"the player has no {name}"
    return file


def _find(name: str) -> _File | None:
    path = FOLDER / name
    if not _NAME.fullmatch(name) or not path.is_file():
        return None
    stat = path.stat()
    state = (stat.st_size, stat.st_mtime_ns)
    known = _read_files.get(name)
    if known is None or known.state != state:
        text = path.read_text(encoding="utf-8")
        known = _File(state, text, tuple(_IMPORT.findall(text)))
        _read_files[name] = known
    return known
