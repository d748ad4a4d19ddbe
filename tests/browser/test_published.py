"""A site: the same pages in both languages, every link leads somewhere, no request elsewhere."""

from __future__ import annotations

import json
import posixpath
import re
from html import unescape
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import eventually
from tests.browser.test_access import violations
from tests.cli.command import command
from zerosim.dashboards.markdown import to_page_html
from zerosim.dashboards.published import addresses, writing
from zerosim.dashboards.published.book import PARTS, ROOT, RUNS, documents
from zerosim.dashboards.published.writing import site_files
from zerosim.lessons.course import course, find_lesson
from zerosim.puzzles.puzzle import puzzles

pytestmark = pytest.mark.timeout(600)  # the whole course twice: a minute, more on a busy machine
LINK = re.compile(r'\b(?:href|src|data-index)="([^"]*)"')
ID = re.compile(r'\bid="([^"]+)"')
MOST_BYTES = 60e6


CHOSEN = {
    # each way to ask and to show, as in `tests/browser/test_lessons.py`; of each shelf a run
    "some lessons": (
        tuple(map(find_lesson, ("zero3", "model-parallel"))),
        [one[-1:] for one in RUNS],
    ),
    "all": (course(), RUNS),
}


@pytest.fixture(
    scope="module",
    params=["some lessons", pytest.param("all", marks=pytest.mark.long)],
)
def chosen(request):
    """Lessons and runs that the site has."""
    return CHOSEN[request.param]


@pytest.fixture(scope="module")
def site(chosen):
    lessons, runs = chosen
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(addresses, "course", lambda: lessons)
        for module in (addresses, writing):
            patch.setattr(module, "RUNS", runs)
        return site_files()


@pytest.fixture(scope="module")
def pages(site):
    return {at: html.decode() for at, html in site.items() if at.endswith(".html")}


def test_it_has_every_document_lesson_puzzle_and_run_in_both_languages(chosen, pages):
    lessons, runs = chosen
    english = {at for at in pages if not at.startswith("zh/")}
    assert {f"zh/{at}" for at in english} == set(pages) - english
    assert {f"lessons/{one.id}.html" for one in lessons} <= english
    assert {f"puzzles/{one.name}.html" for one in puzzles()} <= english
    assert len([at for at in english if at.startswith("runs/")]) == 1 + sum(map(len, runs))
    for at, html in pages.items():
        assert f'lang="{"zh-Hans" if at.startswith("zh/") else "en"}"' in html[:200], at


def test_the_book_has_every_document():
    written = {file.name for file in (ROOT / "docs").glob("*.md")}
    held = {file.split("/")[-1] for files in PARTS for file in files}
    assert written - held <= {f"{one.stem}.zh.md" for one in (ROOT / "docs").glob("*.md")} | {
        one.source.name for one in documents()
    } | {"start.zh.md"}
    assert len({one.name for one in documents()}) == len(documents())


def test_the_menu_has_the_lecturers_notes_and_titles_in_the_language_of_the_site(pages):
    english, chinese = pages["docs/start.html"], pages["zh/docs/start.html"]
    assert '<a href="../lessons/notes.html">Teaching with zerosim</a>' in english
    assert '<a href="../lessons/notes.html">用 zerosim 上课</a>' in chinese
    assert '<a href="terms.html">Glossary (Chinese)</a>' in english
    assert '<a href="terms.html">术语表</a>' in chinese


def test_every_link_leads_to_a_file_and_a_place_in_it(site, pages):
    ids = {at: set(ID.findall(html)) for at, html in pages.items()}
    broken = []
    for at, html in pages.items():
        shown = re.sub(r"<(script|textarea)\b([^>]*)>.*?</\1>", r"<\1\2>", html, flags=re.DOTALL)
        for link in map(unescape, LINK.findall(shown)):
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "data"):
                continue
            target = posixpath.normpath(posixpath.join(posixpath.dirname(at), unquote(parts.path)))
            target = at if not parts.path else target
            is_place = target.split("/")[-2:-1] in (["docs"], ["lessons"])
            if target not in site or (
                is_place and parts.fragment and unquote(parts.fragment) not in ids[target]
            ):
                broken.append((at, link))
    assert broken == []


def test_it_asks_for_nothing_elsewhere(site):
    for at, content in site.items():
        if at.endswith((".html", ".css")):
            text = content.decode()
            assert not re.search(r'(?:src|<link [^>]*href)="(?:https?:)?//', text), at
            assert "url(http" not in text, at
        if at.endswith(".html"):
            assert "Content-Security-Policy" in text, at
            assert "connect-src" not in text, at


def test_it_is_small_enough_for_any_host(site):
    assert sum(map(len, site.values())) < MOST_BYTES


@pytest.mark.parametrize(("language", "word"), [("en", "reduce-scatter"), ("zh", "归约散射")])
def test_the_search_finds_a_word_in_documents_and_lessons(site, language, word):
    script = site[f"parts/index-{language}.js"].decode()
    rows = json.loads(script.removeprefix("self.zerosimIndex = ").rstrip(";\n"))
    found = {at.split("/")[0] for at, _, _, text in rows if word in text}
    assert {"lessons", "puzzles"} <= found
    assert all(
        at.split("#")[0] in (site if language == "en" else {a[3:] for a in site}) for at, *_ in rows
    )


def test_an_answer_is_folded_as_in_an_exported_lesson(pages):
    assert pages["lessons/zero3.html"].count("<details><summary>") >= 3


BROWSED = (
    *("index.html", "docs/start.html", "docs/commands.html", "lessons/index.html"),
    *("lessons/zero3.html", "puzzles/index.html", "puzzles/zero-3.html", "runs/index.html"),
)


@pytest.fixture(scope="module")
def written(site, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    for at, content in site.items():
        (folder / at).parent.mkdir(parents=True, exist_ok=True)
        (folder / at).write_bytes(content)
    return folder


@pytest.mark.browser
def test_it_works_from_files_without_a_request_elsewhere_and_axe_finds_nothing(written, browser):
    for at in (f"{folder}{page}" for folder in ("", "zh/") for page in BROWSED):
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        problems, asked = [], []
        page.on("console", lambda said, to=problems: to.append(said.text))
        page.on("pageerror", lambda error, to=problems: to.append(str(error)))
        page.on("request", lambda request, to=asked: to.append(request.url))
        page.goto((written / at).as_uri())
        expect(page.locator(".site-tabs a").nth(3)).to_be_visible()
        page.fill("#site-search", "ZeRO")
        expect(page.locator("#site-found a").first).to_be_visible()
        assert problems == [], at
        # it loads styles itself, which the policy forbids; the lessons, puzzles and runs are the
        # same elements in both languages, and a document may be in another than its page
        if not at.startswith("zh/") or at in ("zh/index.html", "zh/docs/start.html"):
            assert violations(page) == [], at
        page.close()
        assert {url.partition(":")[0] for url in asked} <= {"file", "data"}, at


@pytest.mark.browser
def test_a_replay_of_it_moves_and_the_search_leads_to_a_section(written, browser):
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto((written / "runs/ring-stage-3.html").as_uri())
    expect(page.locator("html[data-ready]")).to_be_attached()
    heading = page.locator("h1").first
    title = eventually(heading.inner_text)
    page.keyboard.press("ArrowRight")  # the result of its first beat
    page.keyboard.press("ArrowRight")
    expect(heading).not_to_have_text(title)
    page.goto((written / "docs/start.html").as_uri())
    page.fill("#site-search", "exit codes verdicts")
    page.locator("#site-found a").first.click()
    expect(page).to_have_url(re.compile("docs/commands.html#verdicts-and-exit-codes$"))
    page.close()


def test_a_heading_has_the_name_that_github_gives_it():
    html = to_page_html("# A `b` (c)\n\n## A `b` (c)\n\n[x](y.md)", lambda link: f"to/{link}")
    assert ID.findall(html) == ["a-b-c", "a-b-c-1"]
    assert 'href="to/y.md"' in html


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "site_files", lambda: {"parts/site.js": b"", "index.html": b"new"})
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "mine.txt").write_text("mine")
    for options in ((), ("--overwrite",)):
        answer = command("export", "--site", tmp_path / "site", *options)
        assert (answer.code, answer.out) == (2, "")
    assert (tmp_path / "site" / "mine.txt").read_text() == "mine"
    assert command("export", "--site", tmp_path / "new").code == 0
    assert command("export", "--site", tmp_path / "new").code == 2
    assert command("export", "--site", tmp_path / "new", "--overwrite").code == 0
    assert (tmp_path / "new" / "index.html").read_text() == "new"
    assert "exported alone" in command("export", tmp_path, "--site", tmp_path / "b").err
