"""Markdown as HTML, for the text of lessons. HTML in a text is escaped, and no image is loaded.

A documentation page has images and headings with anchors; its publisher resolves its links.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from html import escape
from itertools import pairwise
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
    """Whether code is the address of a page of ours; one that begins with "//" is elsewhere."""
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


def to_page_html(markdown: str, lead: Callable[[str], str]) -> str:
    """A document with images, and an `id` for each heading, as GitHub names it.

    Args:
        lead: resolves a link or an image of the document to its published address; "" for none.
    """
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(markdown)
    known: dict[str, int] = {}
    for heading, inline in pairwise(tokens):
        if heading.type == "heading_open":
            heading.attrSet("id", _anchor(inline.content, known))
    for token in _within(tokens):
        for name in ("href", "src"):
            if name in token.attrs:
                token.attrs[name] = lead(str(token.attrs[name]))
        if token.type == "th_open":
            token.attrSet("scope", "col")
    html = str(reader.renderer.render(tokens, reader.options, {}))
    html = html.replace("<pre>", '<pre class="code" tabindex="0">').replace(' href=""', "")
    html = html.replace('<th scope="col"></th>', "<td></td>")  # names no column
    # a wide table scrolls separately
    return html.replace("<table>", '<div class="wide" tabindex="0"><table>').replace(
        "</table>", "</table></div>"
    )


def _within(tokens: Iterable[Token]) -> Iterable[Token]:
    for token in tokens:
        yield token
        yield from _within(token.children or ())


def _anchor(heading: str, known: dict[str, int]) -> str:
    """The anchor of a heading; a repeated one is numbered."""
    plain = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
    count = known.get(plain, 0)
    known[plain] = count + 1
    return f"{plain}-{count}" if count else plain
