"""Checks of a program before ranks are started: whether it compiles, and has been started."""

from __future__ import annotations

import ast
from pathlib import Path

from zerosim.base.errors import first_line
from zerosim.puzzles.rank import RankSaid


def unready(file: Path, functions: tuple[str, ...]) -> RankSaid | None:
    """The message that every rank would report; None if that takes a run.

    Args:
        functions: the functions to write.
    """
    try:
        tree = ast.parse(file.read_bytes(), str(file))
        compile(tree, str(file), "exec", dont_inherit=True)
    except SyntaxError as error:
        words = f"{type(error).__name__}: {first_line(error)}"
        return RankSaid(error=words, line=error.lineno or 0, is_loaded=False)
    except (OSError, ValueError, RecursionError, MemoryError):
        return None  # the ranks give a better message
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in functions and _is_unfilled(node):
            return RankSaid(error="NotImplementedError", line=node.body[-1].lineno)
    return None


def _is_unfilled(function: ast.FunctionDef) -> bool:
    """Whether its body, a docstring aside, raises NotImplementedError and does nothing else."""
    body = function.body[ast.get_docstring(function, clean=False) is not None :]
    if len(body) != 1 or not isinstance(body[0], ast.Raise):
        return False
    raised = body[0].exc.func if isinstance(body[0].exc, ast.Call) else body[0].exc
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
