"""The path of each page of a site, and the targets of its links.

Both languages have the same pages at the same paths; those in Chinese are in the folder `zh`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

from zerosim.base.language import Language
from zerosim.dashboards.published.book import FIRST, NOTES, PARTS, ROOT, RUNS, Document
from zerosim.lessons.course import course
from zerosim.puzzles.puzzle import puzzles

FOLDERS = {Language.ENGLISH: "", Language.CHINESE: "zh/"}
HOME, RUN_LIST = "index.html", "runs/index.html"
OWN_RUNS = "lessons/"
"""Prefix of a committed run's name in requests."""
_STEP = re.compile(r"step=(\d+)")
_NOTES_PAGE = "lessons/notes.html"


def document_page(file: str) -> str:
    """The path of a file of the book."""
    if file == NOTES:
        return _NOTES_PAGE
    stem = Path(file).stem.removesuffix(".zh").lower()
    return HOME if file == FIRST else f"docs/{stem}.html"


def run_page(name: str) -> str:
    """The path of a run's whole replay."""
    return f"runs/{name.replace('/', '-')}.html"


def server_pages() -> dict[str, str]:
    """The server's pages that a site has, by their addresses."""
    found = {"/": HOME, "/lessons": "lessons/index.html", "/lessons/notes": _NOTES_PAGE}
    found |= {f"/lessons/{one.id}": f"lessons/{one.id}.html" for one in course()}
    found["/puzzles"] = "puzzles/index.html"
    found |= {f"/puzzles/{one.name}": f"puzzles/{one.name}.html" for one in puzzles()}
    return found


def puzzle_files() -> dict[str, str]:
    """A student's form, by its address: not a page."""
    return {
        f"/puzzles/{one.name}/{one.file_name}": f"puzzles/{one.name}/{one.file_name}"
        for one in puzzles()
    }


@dataclass(slots=True)
class Links:
    """The targets of links, from one page in one language.

    Attributes:
        page: its path, without the folder of its language.
        resources: files of the checkout that pages link to, with their paths; filled in.
    """

    page: str
    language: Language
    resources: dict[str, Path] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """The path of the page in the site."""
        return FOLDERS[self.language] + self.page

    @property
    def root(self) -> str:
        """The relative path to the site's folder, as "../"."""
        return "../" * self.place.count("/")

    def way_to(self, page: str, language: Language | None = None) -> str:
        """The relative path to another page, by default in this language."""
        return self._way(FOLDERS[language or self.language] + page)

    def _way(self, place: str) -> str:
        return quote(posixpath.relpath(place, posixpath.dirname(self.place) or "."))

    def of_address(self, address: str, pages: Mapping[str, str]) -> str:
        """The target of an address of the server; "" if the site has no such page.

        Args:
            pages: of `server_pages`, `puzzle_files` and runs.
        """
        parts = urlsplit(address)
        step = _STEP.search(parts.fragment)
        anchor = f"#step-{step[1]}" if step else f"#{parts.fragment}" if parts.fragment else ""
        if parts.path == "/replay":
            name = parse_qs(parts.query).get("trace", [""])[0].removeprefix(OWN_RUNS)
            name = f"ring/{name}" if name.startswith("stage-") else name  # as named by make demo
            known = {one for names in RUNS for one in names}
            return self.way_to(run_page(name)) if name in known else ""
        found = pages.get(parts.path)
        if found is None:
            return ""
        return self.way_to(found) + (anchor if found.startswith("lessons/") else "")

    def of_document(self, link: str, source: Document) -> str:
        """The target of a document's link; a file that is not a page of the site is copied beside
        it.
        """
        parts = urlsplit(link)
        if parts.scheme or not parts.path:
            return link
        target = (source.source.parent / unquote(parts.path)).resolve()
        if not target.is_relative_to(ROOT) or not target.is_file():
            return ""
        anchor = f"#{parts.fragment}" if parts.fragment else ""
        file = target.relative_to(ROOT).as_posix()
        if file == NOTES:
            return self.way_to(_NOTES_PAGE) + anchor
        english = file.replace(".zh.md", ".md")
        if english in {one for files in PARTS for one in files}:
            return self.way_to(document_page(english), self._language_of(file, source)) + anchor
        self.resources[f"files/{file}"] = target
        return self._way(f"files/{file}") + anchor

    def _language_of(self, file: str, source: Document) -> Language:
        """The language of a page that a document links to: its own, unless it names the other one's
        file.
        """
        if file.endswith(".zh.md"):
            return Language.CHINESE
        is_other = source.language is Language.CHINESE and (
            (ROOT / file).with_suffix(".zh.md").exists()
        )
        return Language.ENGLISH if is_other else self.language
