"""Markdown as HTML: what lessons say. No HTML of a text gets through, and no image is fetched."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token


@cache
def _reader(*, is_linking: bool = False) -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    if is_linking:
        reader.add_render_rule("code_inline", _address)
    return reader


def _address(_renderer: Any, tokens: Sequence[Token], at: int, *_: Any) -> str:
    shown = escape(tokens[at].content)
    code = f"<code>{shown}</code>"
    return f'<a href="{shown}">{code}</a>' if _is_address(tokens[at].content) else code


def _is_address(code: str) -> bool:
    """Whether code is the address of a page of ours; what begins with "//" is elsewhere."""
    return code.startswith("/") and not code.startswith("//") and not {"\\", " "} & set(code)


def to_html(markdown: str) -> str:
    """Paragraphs, lists, tables and code."""
    return str(_reader().render(markdown))


def to_linked_html(markdown: str) -> str:
    """As `to_html`, with addresses of our own pages in code, such as `/lessons`, as links."""
    return str(_reader(is_linking=True).render(markdown))


def to_inline_html(markdown: str) -> str:
    """A sentence, without a paragraph around it."""
    return str(_reader().renderInline(markdown))
