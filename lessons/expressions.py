"""Right answers: expressions over traces and theory, such as `sent('ring/stage-3')`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import lru_cache
from string import Formatter
from typing import Any

from simpleeval import EvalWithCompoundTypes, InvalidExpression

from zerosim.base.errors import ConfigError
from zerosim.base.language import typeset
from zerosim.lessons.syntax import parse

MOST_KEPT = 1000
"""Size of the cache of parsed expressions: there are some hundreds, and a class requests the
same.
"""


def evaluate(expression: str, names: Mapping[str, Callable[..., Any]]) -> Any:
    """The value of an expression.

    Args:
        names: the functions that it may call.

    Raises:
        ConfigError: it is not an expression, or uses an unknown name.
    """
    try:
        tree = _tree(expression)
        return EvalWithCompoundTypes(functions=dict(names)).eval(expression, tree)
    except (InvalidExpression, SyntaxError, TypeError, ArithmeticError, LookupError) as error:
        raise ConfigError(f"expression {expression!r}: {error}") from error


def fill(text: str, values: Mapping[str, str], names: Mapping[str, Callable[..., Any]]) -> str:
    """A text with the values of its expressions in place of `{name}` or `{name:.2f}`."""
    used = {field for _, field, _, _ in Formatter().parse(text) if field}
    return typeset(text.format(**{name: evaluate(values[name], names) for name in used}))


@lru_cache(MOST_KEPT)
def _tree(expression: str) -> ast.stmt:
    body = parse(expression.strip()).body
    if len(body) != 1:
        raise SyntaxError(f"{len(body)} expressions: expected one")
    return body[0]
