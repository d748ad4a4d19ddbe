"""Values of a foreign file, read with the expected type; others count as not recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

ELEMENT_TYPES = "Element types"
"""The shapes of the tensors of each argument, including lists; profiles lack these."""
_MOST = 2**62
_BYTES: dict[str, tuple[int, *tuple[str, ...]]] = {
    "float32": (4, "float", "Float"),
    "float64": (8, "double", "Double"),
    "float16": (2, "c10::Half", "Half"),
    "bfloat16": (2, "c10::BFloat16", "BFloat16"),
    "int64": (8, "long int", "long", "Long"),
    "int32": (4, "int", "Int"),
    "int16": (2, "short int", "short", "Short"),
    "int8": (1, "signed char", "Char"),
    "uint8": (1, "unsigned char", "Byte"),
    "bool": (1, "bool", "Bool"),
    "float8_e4m3fn": (1, "c10::Float8_e4m3fn", "Float8_e4m3fn"),
    "float8_e5m2": (1, "c10::Float8_e5m2", "Float8_e5m2"),
    "complex64": (8, "c10::complex<float>", "ComplexFloat"),
    "complex128": (16, "c10::complex<double>", "ComplexDouble"),
}
_NAMES = {name: dtype for dtype, (_, *names) in _BYTES.items() for name in names}


def dtype_of(name: object) -> str:
    """PyTorch's Python name of a type; "" if it is unknown."""
    return _NAMES.get(name, "") if isinstance(name, str) else ""


def bytes_of(dtype: str) -> int:
    """The size of an element."""
    return _BYTES[dtype][0]


def counted(values: Mapping[str, Any], *names: str) -> int | None:
    """The first of these values that is present and at least 0; None if there is none."""
    for name in names:
        value = values.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value if 0 <= value < _MOST else None
    return None


def listed(text: object) -> list[int] | None:
    """A list of integers, or its string in a profile; None if it is incomplete."""
    value = text
    if isinstance(text, str):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
    if not isinstance(value, list):
        return None
    fits = all(
        isinstance(one, int) and not isinstance(one, bool) and 0 <= one < _MOST for one in value
    )
    return value if fits else None


def ranks_in(text: object, num_ranks: int) -> tuple[int, ...]:
    """The ranks of a group; empty if truncated or invalid."""
    found = listed(text) or []
    fits = len(set(found)) == len(found) and all(one < num_ranks for one in found)
    return tuple(found) if fits else ()


def sizes_at(values: Mapping[str, Any], place: int) -> list[list[int]] | None:
    """The shapes of the tensors of one argument; None if they are not recorded.

    A list of tensors has a list of shapes, a tensor its shape.
    """
    dims = values.get("Input Dims")
    if not isinstance(dims, list) or place >= len(dims):
        return None
    shapes = dims[place]
    types = values.get("Input type")
    is_list = isinstance(types, list) and place < len(types) and types[place] == "TensorList"
    found = [listed(one) for one in (shapes if is_list and isinstance(shapes, list) else [shapes])]
    is_told = is_list or bool(type_at(values, place))
    return (
        [one for one in found if one is not None]
        if is_told and None not in found and found
        else None
    )


def all_sizes(values: Mapping[str, Any]) -> list[list[int]] | None:
    """The shapes of all tensors of a backend's call; None if one is not recorded."""
    dims = values.get("Input Dims")
    found = (
        [sizes_at(values, place) for place in range(len(dims))] if isinstance(dims, list) else []
    )
    some = [shapes for shapes in found if shapes is not None]
    return [shape for shapes in some for shape in shapes] if some and None not in found else None


def type_at(values: Mapping[str, Any], place: int) -> str:
    """The type of the elements of one argument; "" if it is not recorded."""
    for name in ("Input type", ELEMENT_TYPES):
        types = values.get(name)
        if isinstance(types, list) and place < len(types) and (found := dtype_of(types[place])):
            return found
    return ""


def number_at(values: Mapping[str, Any], place: int) -> int | None:
    """A number among an operator's arguments; None if not recorded."""
    given = values.get("Concrete Inputs")
    text = given[place] if isinstance(given, list) and place < len(given) else ""
    return (
        int(text)
        if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 20
        else None
    )
