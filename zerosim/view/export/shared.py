"""Pages of the server as files that lie beside each other: what several load, they share.

A browser that reads a page from a disk loads classic scripts and styles from beside it, but no
module. So one classic script holds all modules of the player, and tells the browser where each is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from html import escape

from zerosim.view.export import player
from zerosim.view.export.offline import PageParts, digest, module_map

FOLDER = "parts"
"""Of a site: what its pages share."""
MODULES = "player.js"


class SharedParts(PageParts):
    """What a page loads, beside it; `styles_used` are the addresses of styles."""

    def __init__(
        self, get: Callable[[str], str], root: str, place_of_frame: Callable[[str], str]
    ) -> None:
        """Of one page.

        Args:
            get: what the server has at an address.
            root: the way from the page to the site's folder, as "../".
            place_of_frame: the way from the page to a page in a frame, by its address.
        """
        super().__init__(get)
        self._root, self._place_of_frame = root, place_of_frame
        self.styles_used: set[str] = set()

    def _frame(self, address: str) -> str:
        return escape(self._place_of_frame(address))

    def _modules(self, names: object) -> str:
        del names  # all of them are there
        return f'<script src="{self._root}{FOLDER}/{MODULES}"></script>\n'

    def _style(self, address: str) -> str:
        self.styles_used.add(address)
        return f'<link rel="stylesheet" href="{self._root}{FOLDER}/{style_name(address)}">\n'

    def policy(self) -> str:
        """What the page may do: run what lies beside it; ask nothing of anybody else."""
        scripts = " ".join(f"'{digest(one)}'" for one in dict.fromkeys([*self.scripts, _all()]))
        rules = (
            f"default-src 'none'; script-src 'self' file: data: {scripts}; "
            "style-src 'self' file: 'unsafe-inline'; img-src 'self' file: data:; "
            "frame-src 'self' file:; base-uri 'none'; form-action 'none'"
        )
        return f'<meta http-equiv="Content-Security-Policy" content="{escape(rules)}">'


def style_name(address: str) -> str:
    """What a style is called among the shared parts."""
    return address.rpartition("/")[2]


def modules_script() -> str:
    """All modules of the player, as a script that makes them known to a page."""
    return (
        '{ const map = document.createElement("script"); map.type = "importmap"; '
        f"map.textContent = {json.dumps(_all())}; document.currentScript.after(map); }}\n"
    )


@cache
def _all() -> str:
    names = sorted(
        path.relative_to(player.FOLDER).as_posix() for path in player.FOLDER.rglob("*.js")
    )
    return module_map(names)
