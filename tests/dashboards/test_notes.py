"""The notes for lecturers as a page: links to what they name, and no HTML of their own."""

from __future__ import annotations

import re

import pytest

from tests.dashboards.samples import make_site, put_trace
from zerosim.dashboards.markdown import to_html, to_linked_html
from zerosim.dashboards.pages import lessons
from zerosim.lessons.course import course
from zerosim.lessons.recordings import HERE


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notes")
    for stage in range(4):
        put_trace(folder / f"stage-{stage}", stage)
    return make_site(folder).client


def test_the_course_leads_to_them(client):
    page = client.get("/lessons").text
    assert re.search(r'<a id="notes" href="/lessons/notes">For lecturers</a>', page)
    assert lessons.NOTES not in {lessons.address_of(lesson) for lesson in course()}


def test_they_stand_in_the_frame_of_all_pages(client):
    answer = client.get(lessons.NOTES)
    assert answer.status_code == 200
    assert "Teaching with zerosim</h1>" in answer.text
    assert re.search(r'<a href="/lessons"[^>]* aria-current="page">', answer.text)
    assert answer.text.count("<table>") == 4
    assert "Content-Security-Policy" in answer.headers


def test_every_link_leads_somewhere(client):
    page = client.get(lessons.NOTES).text
    article = page[page.index("<article") : page.index("</article>")]
    links = [each.replace("&amp;", "&") for each in re.findall(r'href="([^"]*)"', article)]
    written = re.findall(r"`(/[^`]*)`", (HERE / "instructor.md").read_text(encoding="utf-8"))
    assert links == written
    for address in {link.partition("#")[0] for link in links}:
        answer = client.get(address, follow_redirects=True)
        assert answer.status_code == 200, address


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("`/a?b=1&c=2#d`", '<p><a href="/a?b=1&amp;c=2#d"><code>/a?b=1&amp;c=2#d</code></a></p>\n'),
        ("`//elsewhere`", "<p><code>//elsewhere</code></p>\n"),
        ("`/\\elsewhere`", "<p><code>/\\elsewhere</code></p>\n"),
        ("`/bin/sh -c`", "<p><code>/bin/sh -c</code></p>\n"),
        ("`make demo`", "<p><code>make demo</code></p>\n"),
        ('`/">`', '<p><a href="/&quot;&gt;"><code>/&quot;&gt;</code></a></p>\n'),
        ("<b>`/a`</b>", '<p>&lt;b&gt;<a href="/a"><code>/a</code></a>&lt;/b&gt;</p>\n'),
    ],
)
def test_which_code_is_a_link(markdown, html):
    assert to_linked_html(markdown) == html
    assert "<a" not in to_html(markdown)
