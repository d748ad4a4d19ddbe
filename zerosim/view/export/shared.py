"""Pages of the server as files side by side, with shared resources.

A browser that opens a page from disk loads classic scripts and styles from beside it, but no
modules. One classic script therefore has all modules of the player, and registers the address of
each.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from html import escape

from zerosim.view.export import player
from zerosim.view.export.offline import PageParts, digest, module_map

FOLDER = "parts"
"""The names of a site's shared resources."""
MODULES = "player.js"


class SharedParts(PageParts):
    """The resources of a page, in files beside it; `styles_used` are the addresses of styles."""

    def __init__(
        self, get: Callable[[str], str], root: str, place_of_frame: Callable[[str], str]
    ) -> None:
        """Create the resources of one page.

        Args:
            get: the server's response for an address.
            root: the relative path from the page to the site's folder, as "../".
            place_of_frame: the relative path from the page to a page in a frame, by its address.
        """
        super().__init__(get)
        self._root, self._place_of_frame = root, place_of_frame
        self.styles_used: set[str] = set()

    def _frame(self, address: str) -> str:
        return escape(self._place_of_frame(address))

    def _modules(self, names: object) -> str:
        del names  # all of them are included
        return f'<script src="{self._root}{FOLDER}/{MODULES}"></script>\n'

    def _style(self, address: str) -> str:
        self.styles_used.add(address)
        return f'<link rel="stylesheet" href="{self._root}{FOLDER}/{style_name(address)}">\n'

    def policy(self) -> str:
        """The policy of the page: run the scripts beside it; connect to nothing."""
        scripts = " ".join(f"'{digest(one)}'" for one in dict.fromkeys([*self.scripts, _all()]))
        rules = (
            f"default-src 'none'; script-src 'self' file: data: {scripts}; "
            "style-src 'self' file: 'unsafe-inline'; img-src 'self' file: data:; "
            "frame-src 'self' file:; base-uri 'none'; form-action 'none'"
        )
        return f'<meta http-equiv="Content-Security-Policy" content="{escape(rules)}">'


def style_name(address: str) -> str:
    """The name of a style among the shared resources."""
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
