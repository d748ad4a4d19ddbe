"""A page as HTML.

The player starts at once: its modules and its document are listed in the head, so that all of them
load while the page is parsed. If a page needs Dash, its scripts are at the end as data
(`type="text/plain"`); `assets/dash.js` runs them once the page is painted.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from html import escape, unescape

from zerosim.dashboards.languages import other, switched, tag, tag_of
from zerosim.dashboards.texts import SITE
from zerosim.view.export import player
from zerosim.view.export.offline import digest

SLOT = '<div id="runs" class="runs"></div>'
"""The place for the list of runs in the player's page."""
TOOLS = '<div class="tools">'
"""The place for tools in the player's page, the language switch first."""
_TABS = re.compile(r'<nav class="tabs".*?</nav>', re.DOTALL)
"""The tabs of a standalone player."""
ALONE = "zerosim.alone"
"""In the environment of a request: the page becomes a file. No browser can request that."""
_SCRIPT = re.compile(r"<script\b(?![^>]*type=\"application/json\")([^>]*)>")
_TYPE = re.compile(r'\s*\btype="[^"]*"')
IMPORT_MAP = json.dumps({"imports": {player.PREFIX: player.address()}}, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class DashParts:
    """The HTML that Dash needs in a page.

    Attributes:
        config: data.
        scripts: deferred, see `put_off`.
    """

    config: str
    scripts: str


@dataclass(frozen=True, slots=True)
class PageFrame:
    """The surroundings of every page.

    Attributes:
        query: the query of the browser's request, the part after "?".
        tabs: the tabs of all pages, HTML.
        runs: the list of runs, HTML.
        assets: the address of `runs.js` and its siblings.
        is_file: the page becomes a standalone file.
        perfetto: origin of the Perfetto that the page offers to open; "" for none.
    """

    query: str
    tabs: str
    runs: str
    assets: str
    style: str = player.STYLE
    is_file: bool = False
    perfetto: str = ""

    @property
    def import_map(self) -> str:
        """The address of the player's modules."""
        return IMPORT_MAP


def render(title: str, frame: PageFrame, *, is_embedded: bool = False) -> str:
    """The page of a replay.

    Args:
        title: initial title of the browser's tab; the player replaces it.
        is_embedded: it is in a frame of a page of ours: only the ranks and the transport, without
            the list of runs.
    """
    query, assets = frame.query, frame.assets
    replay = f"/api/replay?{query}" if query else "/api/replay"
    modules = "\n".join(
        f'<link rel="modulepreload" href="{player.address()}{escape(name)}">'
        for name in player.modules()
    )
    styles = "\n".join(
        f'<link rel="stylesheet" href="{player.address()}{name}">' for name in player.STYLES
    )
    fragment = player.fragment()
    for slot in (SLOT, TOOLS):
        assert slot in fragment, f"{player.FRAGMENT} has no {slot}"
    assert _TABS.search(fragment) is not None, f"{player.FRAGMENT} has no tabs"
    runs = "" if is_embedded else f'<div id="runs" class="runs">{frame.runs}</div>'
    fragment = _TABS.sub(lambda _: frame.tabs, fragment.replace(SLOT, runs or SLOT))
    if not is_embedded:
        fragment = fragment.replace(TOOLS, f"{TOOLS}\n      {switch(frame.query)}")
    script = (
        ""
        if is_embedded
        else f"""<script type="module" src="{escape(assets)}/runs.js"></script>
<link rel="icon" type="image/svg+xml" href="{escape(assets)}/icon.svg">
{_perfetto(frame)}"""
    )
    return f"""<!doctype html>
<html lang="{tag()}"{' data-embed="1"' if is_embedded else ""}>
<head>
<meta charset="utf-8">
<title>{escape(title)}</title>
{preview(title)}
<meta name="viewport" content="width=device-width, initial-scale=1">
<script type="importmap">{IMPORT_MAP}</script>
<link rel="preload" as="fetch" crossorigin="anonymous" href="{escape(replay)}">
{styles}
<link rel="stylesheet" href="{escape(assets)}/runs.css">
{modules}
<script type="module" src="{player.address()}{player.MAIN}"></script>
{script}
</head>
<body>
{fragment}
{player.words(_modules(frame, is_embedded=is_embedded))}
</body>
</html>
"""


def _modules(frame: PageFrame, *, is_embedded: bool) -> tuple[str, ...]:
    """All that has words on the page."""
    return (
        *player.modules(),
        *(["assets/perfetto.js"] if frame.perfetto and not is_embedded else []),
    )


def preview(title: str) -> str:
    """The metadata of a page for search engines and link previews, HTML."""
    about, title = escape(SITE("shell.about")), unescape(title)  # a template's is escaped already
    return (
        f'<meta name="description" content="{about}">\n'
        f'<meta property="og:title" content="{escape(title)}">\n'
        f'<meta property="og:description" content="{about}">'
    )


def switch(query: str) -> str:
    """The link to the same page in the other language, HTML.

    Args:
        query: of the page's address.
    """
    to = tag_of(other())
    name, _, also = SITE("shell.to_other").partition(" ")
    # in a narrow window, or without a Chinese font, the word in Latin letters is what can be read
    words = f'<span class="own">{name}</span><span class="also"> {also}</span>' if also else name
    return (
        f'<a class="language" id="language" href="{escape(switched(query))}" lang="{to}" '
        f'hreflang="{to}" title="{escape(SITE("shell.language_l"))}">{words}</a>'
    )


def _perfetto(frame: PageFrame) -> str:
    """The button, if enabled."""
    if not frame.perfetto:
        return ""
    return (
        f'<meta name="perfetto" content="{escape(frame.perfetto)}">\n'
        f'<script type="module" src="{escape(frame.assets)}/perfetto.js"></script>'
    )


def put_off(scripts: str) -> str:
    """The same scripts as data, which a browser neither fetches nor runs."""

    def as_data(found: re.Match[str]) -> str:
        return f'<script type="text/plain"{_TYPE.sub("", found.group(1))}>'

    return _SCRIPT.sub(as_data, scripts)


def framed(policy: str) -> str:
    """The same policy for a page that pages of ours may show in a frame."""
    return policy.replace("frame-ancestors 'none'", "frame-ancestors 'self'")


def framing(policy: str) -> str:
    """The same policy for a page that shows another of ours in a frame."""
    return f"{policy}; frame-src 'self'"


def content_security_policy(inline: list[str]) -> str:
    """The policy of a page: nothing from elsewhere, and only our own scripts.

    Args:
        inline: the contents of inline scripts that run; each is allowed by its hash.
    """
    hashes = " ".join(f"'{digest(script)}'" for script in inline)
    rules = (
        "default-src 'none'",
        f"script-src 'self' {hashes}",
        "style-src 'self' 'unsafe-inline'",  # Dash's components bring theirs along in <style>
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
    return "; ".join(rules)
