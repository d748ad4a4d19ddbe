"""The search index of a site: each section of each page, as plain text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from html import unescape

_MAIN = re.compile(r"<main\b.*?</main>", re.DOTALL)
_UNREAD = re.compile(
    r"<(script|style|svg|nav|template|select|iframe|button)\b.*?</\1>|<!--.*?-->", re.DOTALL
)
_HEADING = re.compile(r'<h[1-3]\b(?:[^>]*\bid="([^"]*)")?[^>]*>(.*?)</h[1-3]>', re.DOTALL)
_TAG = re.compile(r"<[^>]+>")


def sections(page: str, html: str) -> Iterator[tuple[str, str, str]]:
    """The sections of a page: address, heading, text."""
    found = _MAIN.search(html)
    shown = _UNREAD.sub(" ", found[0] if found else "")
    headings = list(_HEADING.finditer(shown))
    ends = [one.start() for one in headings[1:]] + [len(shown)]
    for heading, end in zip(headings, ends, strict=True):
        at = f"{page}#{heading[1]}" if heading[1] else page
        yield at, plain(heading[2]), plain(shown[heading.end() : end])


def plain(html: str) -> str:
    """The words of some HTML."""
    return " ".join(unescape(_TAG.sub(" ", html)).split())


def index_script(pages: Iterable[tuple[str, str, str]]) -> str:
    """The index as a script, which a page may load from beside it.

    Args:
        pages: the path of each in the folder of its language, its title, and its HTML.
    """
    rows = [
        (at, title, "" if name == title else name, words)
        for page, title, html in pages
        for at, name, words in sections(page, html)
    ]
    return f"self.zerosimIndex = {json.dumps(rows, ensure_ascii=False, separators=(',', ':'))};\n"
