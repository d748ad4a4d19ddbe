"""Writes the files of a site."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from html import escape, unescape
from pathlib import Path

from flask import render_template

from zerosim.base.errors import EnvironmentFault
from zerosim.base.language import Language, speaking
from zerosim.dashboards.app import ASSETS
from zerosim.dashboards.away import StandalonePages
from zerosim.dashboards.languages import other, tag_of
from zerosim.dashboards.markdown import to_page_html
from zerosim.dashboards.page import ALONE, TOOLS, PageFrame, preview
from zerosim.dashboards.pages.lessons import EMBED
from zerosim.dashboards.published.addresses import (
    FOLDERS,
    HOME,
    OWN_RUNS,
    RUN_LIST,
    Links,
    document_page,
    puzzle_files,
    run_page,
    server_pages,
)
from zerosim.dashboards.published.book import RUNS, Document, documents, parts, said
from zerosim.dashboards.published.index import index_script, plain
from zerosim.dashboards.texts import SITE
from zerosim.lessons.notebooks.making import notebooks
from zerosim.puzzles.puzzle import puzzles
from zerosim.view.export import shared
from zerosim.view.export.files import write
from zerosim.view.export.offline import offline_page

_TABS = re.compile(r'<nav class="tabs".*?</nav>', re.DOTALL)
_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>\n?')
_ADDRESS = re.compile(r' (href|action)="([/?][^"]*)"')
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
_HEAD = '<meta charset="utf-8">'
_STYLE, _SCRIPT = "site.css", "site.js"
_OWN_PARTS = Path(__file__).parents[1] / "assets"


def write_site(folder: Path) -> tuple[int, int]:
    """Write a site into a folder; an earlier site is replaced.

    Returns:
        Its number of files, and its size in bytes.

    Raises:
        EnvironmentFault: it cannot be written, or the documentation is not installed.
    """
    made = site_files()
    try:
        if folder.exists():
            shutil.rmtree(folder)
        for name in sorted({Path(at).parent for at in made}):
            (folder / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentFault(
            f"cannot write {folder}: {error.strerror or error}: give a folder that can be written"
        ) from None
    for at, content in made.items():
        write(folder / at, content)
    return len(made), sum(map(len, made.values()))


def site_files() -> dict[str, bytes]:
    """All files of a site, by path.

    Raises:
        EnvironmentFault: the documentation is not installed.
    """
    made: dict[str, bytes] = {}
    away = StandalonePages([])
    for language in Language:
        with speaking(language):
            made |= SitePages(language, away).files()
    return made


class SitePages:
    """The pages of one language, which is the current one while they are created."""

    def __init__(self, language: Language, away: StandalonePages) -> None:
        """Prepare to write; `away` creates the pages of both languages."""
        self._language = language
        self._away = away
        self._said = said()
        self._pages = server_pages()
        self._framed: dict[str, str] = {}
        self._styles: set[str] = set()
        self._resources: dict[str, Path] = {}

    def files(self) -> dict[str, bytes]:
        """The pages, their shared resources, and the files that they link to."""
        folder = FOLDERS[self._language]
        pages = dict(self._all())
        while todo := [at for at in self._framed.values() if at not in pages]:  # frames
            for address, at in list(self._framed.items()):
                if at in todo:
                    pages[at] = self._publish(at, self._away.get(address), is_framed=True)
        found = {folder + at: html.encode() for at, html in pages.items()}
        found |= {folder + at: text.encode() for at, text in self._student_files()}
        found |= {at: path.read_bytes() for at, path in self._resources.items()}
        return found | self._parts(pages)

    def _all(self) -> Iterator[tuple[str, str]]:
        for one in documents():
            at = document_page(one.file)
            yield at, self._publish(at, self._document(one, at))
        for address, at in self._pages.items():
            if at != HOME:
                yield at, self._publish(at, self._away.get(address))
        yield RUN_LIST, self._publish(RUN_LIST, self._run_list())
        for name in (one for names in RUNS for one in names):
            asked = f"/api/replay?trace={OWN_RUNS}{name}"
            page = offline_page(json.loads(self._away.get(asked)))
            yield run_page(name), self._publish(run_page(name), page)

    def _student_files(self) -> Iterator[tuple[str, str]]:
        for address, at in puzzle_files().items():
            yield at, self._away.get(address)
        by_name = {one.name: one for one in notebooks()}
        for puzzle in puzzles():
            yield notebook_of(puzzle.name), by_name[puzzle.name].text()

    def _parts(self, pages: dict[str, str]) -> dict[str, bytes]:
        """The shared resources of pages."""
        found = {shared.MODULES: shared.modules_script()}
        found |= {shared.style_name(one): self._away.get(one) for one in self._styles}
        found |= {
            name: (_OWN_PARTS / name).read_text(encoding="utf-8") for name in (_STYLE, _SCRIPT)
        }
        searched = (
            (at, plain(unescape(_title(html))), html)
            for at, html in pages.items()
            if at not in self._framed.values()
        )
        found[f"index-{self._language}.js"] = index_script(searched)
        return {f"{shared.FOLDER}/{name}": text.encode() for name, text in found.items()}

    # ---------------------------------------------------------------------------------- pages

    def _document(self, one: Document, at: str) -> str:
        links = Links(at, self._language, self._resources)
        book = documents()
        place = book.index(one)
        return self._rendered(
            "document.html",
            at,
            one=one,
            html=to_page_html(one.text, lambda link: links.of_document(link, one)),
            is_foreign=one.language is not self._language,
            article_tag=tag_of(one.language),
            chapters=tuple(parts()),
            before=book[place - 1] if place else None,
            after=book[place + 1] if place + 1 < len(book) else None,
            way_to=lambda to: links.way_to(document_page(to.file)),
        )

    def _run_list(self) -> str:
        links = Links(RUN_LIST, self._language)
        called = iter(self._said["run_names"])
        shelves = [
            (title, [(next(called), self._away.title_of(OWN_RUNS + name), name) for name in names])
            for title, names in zip(self._said["runs"], RUNS, strict=True)
        ]
        way_to = lambda name: links.way_to(run_page(name))  # noqa: E731
        return self._rendered("runlist.html", RUN_LIST, shelves=shelves, way_to=way_to)

    def _rendered(self, template: str, at: str, **shown: object) -> str:
        frame = PageFrame(query="", tabs=_NO_TABS, runs="", assets=ASSETS, is_file=True)
        with self._away.app.test_request_context(f"/{at}", environ_overrides={ALONE: "1"}):
            return render_template(template, frame=frame, words=self._said, **shown)

    def _publish(self, at: str, html: str, *, is_framed: bool = False) -> str:
        """A page of the server in the form that it has in the site."""
        links = Links(at, self._language, self._resources)
        own = shared.SharedParts(self._away.get, links.root, lambda to: self._frame(links, to))
        page = _POLICY.sub("", own.put(html))
        page = page.replace("</body>", f"{''.join(own.documents)}</body>", 1)
        self._styles |= own.styles_used
        page = page.replace("<html ", '<html data-offline="1" ', 1)
        head = f"{_HEAD}\n{own.policy()}"
        if not is_framed:
            page = _TABS.sub(lambda _: self._tabs(links), page)
            page = page.replace(TOOLS, f"{TOOLS}\n{self._switch(links)}", 1)
            head += self._head(links, page)
        page = _ADDRESS.sub(lambda found: self._address(links, found), page)
        if at.startswith("puzzles/") and (name := Path(at).stem) != "index":
            way = links.way_to(notebook_of(name))
            link = f'<a class="button" href="{way}" download>{self._said["notebook"]}</a>'
            page = page.replace(
                '<button type="button" id="reset"', f'{link}\n<button type="button" id="reset"', 1
            )
        return page.replace(_HEAD, head, 1)

    def _frame(self, links: Links, address: str) -> str:
        """The relative path to a page in a frame, which is created once for all pages with it."""
        name = re.sub(
            r"[^\w-]+", "-", address.replace(f"{OWN_RUNS}", "").replace(f"&{EMBED}=1", "")
        )
        at = f"frames/{name.strip('-').replace('trace-', '')}.html"
        self._framed[address] = at
        return links.way_to(at)

    def _address(self, links: Links, found: re.Match[str]) -> str:
        way = links.of_address(unescape(found[2]), self._pages | puzzle_files())
        return f' {found[1]}="{escape(way)}"' if way else ""

    def _head(self, links: Links, page: str) -> str:
        """The metadata of the page for search engines and previews, and for its own search."""
        parts_at = f"{links.root}{shared.FOLDER}"
        shown = "" if 'property="og:title"' in page else preview(unescape(_title(page)))
        return f"""
{shown}
<link rel="stylesheet" href="{parts_at}/{_STYLE}">
<script defer src="{parts_at}/{_SCRIPT}" data-index="{parts_at}/index-{self._language}.js" \
data-pages="{links.root}{FOLDERS[self._language]}" \
data-none="{escape(self._said["none"])}"></script>"""

    def _tabs(self, links: Links) -> str:
        said = self._said
        shown = [(said["docs"], document_page("docs/start.md"), "docs/")]
        shown += [(SITE("pages.lessons"), "lessons/index.html", "lessons/")]
        shown += [(SITE("pages.puzzles"), "puzzles/index.html", "puzzles/")]
        shown += [(said["replays"], RUN_LIST, "runs/")]
        tabs = "".join(
            f'<a href="{links.way_to(to)}"{_CURRENT * links.page.startswith(below)}>'
            f"{escape(name)}</a>"
            for name, to, below in [(said["home"], HOME, HOME), *shown]
        )
        search = escape(said["search"])
        return (
            f'<nav class="tabs site-tabs" aria-label="{escape(SITE("pages.pages"))}">{tabs}</nav>'
            f'<div class="site-search" role="search"><input id="site-search" type="search" '
            f'placeholder="{search}" aria-label="{search}" autocomplete="off">'
            '<div id="site-found" class="site-found" hidden></div></div>'
        )

    def _switch(self, links: Links) -> str:
        to = other()
        return (
            f'<a class="language" id="other-language" href="{links.way_to(links.page, to)}" '
            f'lang="{tag_of(to)}" hreflang="{tag_of(to)}">{escape(self._said["other"])}</a>'
        )


_CURRENT = ' aria-current="page"'
_NO_TABS = '<nav class="tabs"></nav>'


def notebook_of(puzzle: str) -> str:
    """The path of a puzzle's notebook."""
    return f"puzzles/{puzzle}/{puzzle}.ipynb"


def _title(html: str) -> str:
    found = _TITLE.search(html)
    assert found is not None
    return found[1]
