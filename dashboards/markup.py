"""Markdown as HTML: what lessons say. No HTML of a text gets through, and no image is fetched.

Imports markdown-it-py.
"""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt


@cache
def _reader() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")


def to_html(markdown: str) -> str:
    """Paragraphs, lists, tables and code."""
    return str(_reader().render(markdown))


def to_inline_html(markdown: str) -> str:
    """A sentence, without a paragraph around it."""
    return str(_reader().renderInline(markdown))
