"""Replay: what happens, step by step? The player fills it."""

from __future__ import annotations

from urllib.parse import quote

PATH = "/replay"
TITLE = "pages.replay"


def address_of(name: str) -> str:
    """Where a trace is replayed."""
    return f"{PATH}?trace={quote(name)}"
