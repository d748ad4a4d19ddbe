"""Conditions of a breakpoint: a subset of Python expressions.

    phase == "backward" and unit == "blocks.1" and bytes > 1e6
    grad("blocks.1").isnan().any()

They are parsed into a tree and evaluated by this module: nothing is executed as code, only listed
attributes are read, and nothing can be changed.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch

from zerosim.base.errors import ConfigError, first_line
from zerosim.schema.memory import Role
from zerosim.schema.stands import Stand
from zerosim.trace import looking

NAMES = (
    *("phase", "unit", "op", "purpose", "rank", "iteration", "micro_step", "kind", "hop", "bytes"),
    *("source", "sequence"),
)
"""Variables: properties of the event before which a thread pauses."""
ROLES = {
    "param": Role.PARAMETERS,
    "grad": Role.GRADIENTS,
    "master": Role.MASTER,
    "momentum": Role.MOMENTUM,
    "variance": Role.VARIANCE,
    "gathered": Role.GATHERED,
}
"""Functions of a unit's name: all its elements on this rank, as one vector."""
FUNCTIONS = (*ROLES, "memory", "nonfinite", "abs")
METHODS = (
    *("isnan", "isinf", "isfinite", "any", "all", "abs", "max", "min", "sum", "mean", "norm"),
    *("numel", "std", "float"),
)
_LONGEST = 500
_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}


class _AbsentError(Exception):
    """A value that a condition refers to does not exist now: the condition is false."""


class Condition:
    """A parsed condition.

    Attributes:
        text: the original text.
        needs_tensors: it reads tensors of the rank, which only the computing thread may do.
    """

    def __init__(self, text: str) -> None:
        """Parse it.

        Raises:
            ConfigError: the text is not an expression, or contains something that is not allowed.
        """
        self.text = text
        if len(text) > _LONGEST:
            raise ConfigError(f"the condition is longer than {_LONGEST} characters: shorten it")
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ConfigError(
                f'condition is {text!r}: expected an expression such as unit == "blocks.1" '
                f"({first_line(error)})"
            ) from None
        calls = [node for node in ast.walk(self._tree) if isinstance(node, ast.Call)]
        self.needs_tensors = bool(calls)
        called = [node.func for node in calls]
        for call in calls:
            _require_callable(call)
        for node in ast.walk(self._tree):
            if node not in called:
                _require_known(node)

    def holds(self, rank: int, stand: Stand) -> bool:
        """Whether the condition is true before this event; False if a value is missing.

        Raises:
            ConfigError: it cannot be evaluated; for example, two values are not comparable.
        """
        return bool(self._compute(rank, stand, absent=False, finish=bool))

    def show(self, rank: int, stand: Stand) -> str:
        """The value of the expression as a string; raises the errors of `holds`."""
        return str(self._compute(rank, stand, absent="not there", finish=_words))

    def _compute(
        self, rank: int, stand: Stand, *, absent: object, finish: Callable[[Any], object]
    ) -> object:
        known = {name: getattr(stand, name, None) for name in NAMES}
        known |= {"rank": rank, "bytes": stand.payload_bytes}
        known |= {"op": stand.op or "", "purpose": stand.purpose or ""}
        try:
            with torch.no_grad():
                return finish(_value(self._tree, known))
        except _AbsentError:
            return absent
        except (TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError) as error:
            raise ConfigError(
                f"condition {self.text!r} cannot be evaluated: {first_line(error)}"
            ) from None


_STRUCTURE = (
    *(ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Compare, ast.Constant, ast.Tuple, ast.List),
    *(ast.And, ast.Or, ast.Load, ast.Call),
)


def _words(value: Any) -> str:
    is_one = isinstance(value, torch.Tensor) and value.numel() == 1
    return str(value.item() if is_one else value)


def _require_callable(call: ast.Call) -> None:
    if isinstance(call.func, ast.Attribute):
        name, allowed = f".{call.func.attr}", tuple(f".{one}" for one in METHODS)
    else:
        name, allowed = ast.unparse(call.func), FUNCTIONS
    if name not in allowed or call.keywords:
        raise ConfigError(f"condition has {name}(...): expected one of {', '.join(allowed)}")


def _require_known(node: ast.AST) -> None:
    if isinstance(node, ast.Name) and node.id not in NAMES:
        raise ConfigError(
            f"condition has the name {node.id}: expected one of {', '.join(NAMES)}, or a "
            f"quoted string"
        )
    if isinstance(node, ast.Constant) and not isinstance(node.value, str | int | float):
        raise ConfigError(f"condition has {node.value!r}: expected numbers and strings")
    known = isinstance(node, (*_STRUCTURE, ast.Name)) or type(node) in _OPERATORS
    if not known:
        raise ConfigError(
            f"condition contains {ast.unparse(node)!r}: expected names, numbers, strings, "
            f"comparisons, and, or, not"
        )


def _value(node: ast.AST, known: Mapping[str, Any]) -> Any:
    found: Any
    match node:
        case ast.Constant():
            found = node.value
        case ast.Name():
            found = known[node.id]
        case ast.Tuple() | ast.List():
            found = tuple(_value(one, known) for one in node.elts)
        case ast.BoolOp():
            values = (_value(one, known) for one in node.values)
            found = all(values) if isinstance(node.op, ast.And) else any(values)
        case ast.UnaryOp():
            found = _OPERATORS[type(node.op)](_value(node.operand, known))
        case ast.BinOp():
            left, right = _value(node.left, known), _value(node.right, known)
            found = _OPERATORS[type(node.op)](left, right)
        case ast.Compare():
            found = _compared(node, known)
        case ast.Call():
            found = _called(node, known)
        case _:
            raise AssertionError(f"{node} was let through")
    return found


def _compared(node: ast.Compare, known: Mapping[str, Any]) -> bool:
    left = _value(node.left, known)
    for sign, right_node in zip(node.ops, node.comparators, strict=True):
        right = _value(right_node, known)
        if left is None or right is None or not _OPERATORS[type(sign)](left, right):
            return False
        left = right
    return True


def _called(node: ast.Call, known: Mapping[str, Any]) -> Any:
    arguments = [_value(one, known) for one in node.args]
    if isinstance(node.func, ast.Attribute):
        return getattr(_value(node.func.value, known), node.func.attr)(*arguments)
    assert isinstance(node.func, ast.Name)
    name = node.func.id
    if name == "memory":
        return looking.held_bytes()
    if name == "nonfinite":
        return looking.has_non_finite()
    if name == "abs":
        return abs(*arguments)
    found = looking.flat(ROLES[name], *arguments)
    if found is None:
        raise _AbsentError
    return found
