"""Shared by the pages that Dash draws: an address determines all their contents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dash import Dash, Input, Output, State


def register_page(
    app: Dash,
    body: str,
    address: str,
    fields: tuple[str, str],
    *,
    follow: Callable[[Any], object],
    answer: Callable[[Any, Any, Any], str],
) -> None:
    """Answer for a page's links and for two fields that are typed in.

    Enter in one of them submits both: if each field were submitted on its own, the response would
    replace the text being typed in the other, and the focus.

    Args:
        body, address, fields: the components' names.
        follow: the body for an address' query.
        answer: the query for the text of the fields at another query.
    """
    app.callback([Output(body, "children")], Input(address, "search"), prevent_initial_call=True)(
        lambda search: [follow(search)]
    )
    first, second = fields
    app.callback(
        [Output(address, "search")],
        Input(first, "n_submit"),
        Input(second, "n_submit"),
        State(first, "value"),
        State(second, "value"),
        State(address, "search"),
        prevent_initial_call=True,
    )(lambda _, __, one, other, search: [answer(one, other, search)])
