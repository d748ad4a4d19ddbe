"""No test of this folder asks a page once for what may still come."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

FILES = sorted(Path(__file__).parent.glob("test_*.py"))
ONCE = {
    "all",
    "all_inner_texts",
    "all_text_contents",
    "bounding_box",
    "count",
    "evaluate",
    "evaluate_all",
    "get_attribute",
    "inner_html",
    "inner_text",
    "input_value",
    "is_checked",
    "is_disabled",
    "is_enabled",
    "is_hidden",
    "is_visible",
    "query_selector",
    "query_selector_all",
    "text",
    "text_content",
}
"""Methods that answer with what is there now."""
NOT_ASSERTED = {"ask", "state"}
"""They answer at once: for what stays as it is, never for an assertion."""


def asked_once(source: str) -> list[str]:
    """What asks a page once: a question that is in no function which a wait calls again."""
    found = []

    def visit(node: ast.AST, *, waits: bool, asserts: bool) -> None:
        if isinstance(node, ast.Call) and not waits:
            is_method = isinstance(node.func, ast.Attribute)
            name = node.func.attr if is_method else getattr(node.func, "id", "")
            is_once = (
                is_method and name in ONCE and not (name == "count" and node.args)
            )  # a list's own
            if is_once or (asserts and name in NOT_ASSERTED):
                found.append(f"line {node.lineno}: .{name}()")
        waits |= isinstance(node, ast.Lambda)
        asserts |= isinstance(node, ast.Assert)
        for child in ast.iter_child_nodes(node):
            visit(child, waits=waits, asserts=asserts)

    visit(ast.parse(source), waits=False, asserts=False)
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_page_is_asked_until_it_answers(file):
    assert asked_once(file.read_text()) == []


def test_a_question_that_is_asked_once_is_found():
    assert asked_once("x = page.inner_text('#a')") == ["line 1: .inner_text()"]
    assert asked_once("assert one.state()['at'] == 1") == ["line 1: .state()"]
    assert asked_once("assert state(one)['at'] == 1") == ["line 1: .state()"]
    assert asked_once("assert page.locator('li').count() == 1") == ["line 1: .count()"]
    assert asked_once("eventually(lambda: page.inner_text('#a') == 'b')") == []
    assert asked_once("at = one.state()['at']\nassert names.count('a') == 1") == []
