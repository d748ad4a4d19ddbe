"""Python as a tree, for many threads.

CPython 3.11 counts the depth of the tree that it makes for all threads together, and fails with a
SystemError where one thread is halted in the middle of it by another. So one goes at a time.
"""

from __future__ import annotations

import ast
import threading

_LOCK = threading.RLock()


def parse(source: str) -> ast.Module:
    """The tree of a piece of Python.

    Raises:
        SyntaxError: it is none.
    """
    with _LOCK:
        return ast.parse(source)
