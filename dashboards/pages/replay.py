"""Replay: an iteration step by step. The player fills the page."""

from __future__ import annotations

from urllib.parse import quote

PATH = "/replay"
TITLE = "pages.replay"


def address_of(name: str) -> str:
    """The address of a trace's replay."""
    return f"{PATH}?trace={quote(name)}"
