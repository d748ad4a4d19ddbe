"""The player's modules, style, page and words, as text; server and offline page have them.

The files are beside the dashboard, which is not imported.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from zerosim.base.language import Language, Words, spoken, terms

FOLDER = Path(__file__).parents[2] / "dashboards" / "player"
PREFIX = "#player/"
"""Prefix of the modules' imports; an import map resolves it."""
ROOT = "/player/"
"""The server's path for the files of every version."""
MAIN = "main.js"
STYLE = "player.css"
"""Styles common to all pages."""
STYLES = (STYLE, "replay.css")
"""Styles of the replay's page."""
FRAGMENT = "player.html"
WORDS_ID = "player-words"
"""Id of the element with the player's texts in a page."""
TAGS = {Language.ENGLISH: "en", Language.CHINESE: "zh-Hans"}
"""Languages as a page's `lang` names them."""
_WORDS = Words(FOLDER.parent / "words" / "player.toml")
_SAID = re.compile(r"\{\{(\w+)\}\}")
_VERSION = re.compile(r"^v[0-9a-f]{12}/")
_NAME = re.compile(r"(?:[a-z][a-z0-9-]*/)*[a-z][a-z0-9-]*\.(?:js|css)")
_PART = re.compile(r"<!-- part: ([a-z]+) -->")
_IMPORT = re.compile(rf'^(?:import|export)\b[^;"]*?(?:from\s+)?"{PREFIX}([^"]+\.js)"', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _ScriptFile:
    state: tuple[int, int]
    text: str
    imports: tuple[str, ...]


_read_files: dict[str, _ScriptFile] = {}


@cache
def address() -> str:
    """The server's path for the files, which ends with a slash.

    It has their version, computed on first use, so a browser may cache files from there without
    revalidation.
    """
    known = hashlib.sha256()
    for path in sorted(FOLDER.rglob("*")):
        if path.suffix in (".js", ".css"):
            known.update(path.relative_to(FOLDER).as_posix().encode() + b"\0" + path.read_bytes())
    return f"{ROOT}v{known.hexdigest()[:12]}/"


def name_at(path: str) -> str:
    """The name of the file at this path of a server, for any version."""
    return _VERSION.sub("", path.removeprefix(ROOT))


def find(name: str) -> str | None:
    """The text of a file; None if there is no such file."""
    file = _find(name)
    return None if file is None else file.text


def read(name: str) -> str:
    """The text of an existing module or style."""
    return _known(name).text


def fragment() -> str:
    """The player's page, without <html>."""
    text = (FOLDER / FRAGMENT).read_text(encoding="utf-8")
    return _said(_PART.sub(lambda found: part(found[1]).strip(), text))


def part(name: str) -> str:
    """The common parts of several pages, as HTML."""
    return _said((FOLDER / "parts" / f"{name}.html").read_text(encoding="utf-8"))


def _said(text: str) -> str:
    """HTML with its words filled in, in the current language."""
    return _SAID.sub(lambda found: escape(_WORDS(f"page.{found[1]}")), text)


def words(names: Iterable[str]) -> str:
    """The texts of some modules, as the element of a page in which they find them.

    Args:
        names: of modules; those of the assets are "assets/NAME.js".
    """
    said: dict[str, Any] = {"shared": _WORDS.table["shared"], "names": dict(terms())}
    for name in names:
        *folders, last = name.removesuffix(".js").split("/")
        found: Any = _WORDS.table
        for part_of in (*folders, last):
            found = found.get(part_of, {})
        if found:
            place = said
            for folder in folders:
                place = place.setdefault(folder, {})
            own = {key: text for key, text in found.items() if _is_text(text)}
            place.setdefault(last, {}).update(own)
    held = json.dumps({"language": spoken(), "words": said}, separators=(",", ":"))
    safe = held.replace("<", "\\u003c")
    return f'<script type="application/json" id="{WORDS_ID}">{safe}</script>'


def _is_text(text: object) -> bool:
    """An entry without a nested table: a text, or one per number."""
    return isinstance(text, str) or (isinstance(text, dict) and "other" in text and len(text) == 2)


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


def _known(name: str) -> _ScriptFile:
    file = _find(name)
    assert file is not None, f"the player has no {name}"
    return file


def _find(name: str) -> _ScriptFile | None:
    path = FOLDER / name
    if not _NAME.fullmatch(name) or not path.is_file():
        return None
    stat = path.stat()
    state = (stat.st_size, stat.st_mtime_ns)
    known = _read_files.get(name)
    if known is None or known.state != state:
        text = path.read_text(encoding="utf-8")
        known = _ScriptFile(state, text, tuple(_IMPORT.findall(text)))
        _read_files[name] = known
    return known
