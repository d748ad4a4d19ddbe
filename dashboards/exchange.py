"""JSON requests and JSON responses; an error is one line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import wraps
from http import HTTPStatus
from typing import Any

from flask import Response, request

from zerosim.base.errors import ConfigError, InputError, ZerosimError, first_line

View = Callable[..., tuple[dict[str, Any], int]]


def answered(
    statuses: Mapping[type[Exception], HTTPStatus],
) -> Callable[[View], Callable[..., Response]]:
    """Creates a response from a view's result.

    Args:
        statuses: HTTP statuses of errors; the default is an unprocessable request.
    """

    def around(view: View) -> Callable[..., Response]:
        @wraps(view)
        def answer(**parts: str) -> Response:
            try:
                plain, status = view(**parts)
            except (InputError, ZerosimError, OSError) as error:
                status = statuses.get(type(error), HTTPStatus.UNPROCESSABLE_ENTITY)
                plain = {"error": first_line(error)}
            response = Response(json.dumps(plain), status, mimetype="application/json")
            response.headers["Cache-Control"] = "no-store"
            return response

        return answer

    return around


def given_object() -> dict[str, Any]:
    """The JSON object that was sent.

    Raises:
        ConfigError: the request is not a JSON object.
    """
    try:
        found = request.get_json(silent=True)
    except RecursionError:  # brackets in brackets
        found = None
    if not isinstance(found, dict):
        raise ConfigError("expected a JSON object")
    return found


def text_of(given: Mapping[str, Any], name: str, usual: str | None = None) -> str:
    """A field that is a string.

    Args:
        usual: the default; None if it is required.

    Raises:
        ConfigError: it is not a string.
    """
    found = given.get(name, usual)
    if not isinstance(found, str):
        raise ConfigError(
            f"{name} is not text: expected a JSON object with a string under this name"
        )
    return found
