"""Trees for many threads, also where collecting garbage halts one in the middle of its tree."""

from __future__ import annotations

import ast
import gc
import threading
import time

import pytest

from zerosim.base.errors import ConfigError
from zerosim.lessons.expressions import evaluate
from zerosim.lessons.syntax import parse

SOURCE = "f(" * 20 + "'ring/stage-3'" + ")" * 20


class Halting:
    """Garbage that lets other threads go on while it is collected."""

    def __init__(self) -> None:
        self.own = self

    def __del__(self) -> None:
        time.sleep(0)


def test_threads_do_not_meet_in_a_tree():
    problems: list[Exception] = []

    def work() -> None:
        for _ in range(150):
            Halting()
            try:
                assert isinstance(parse(SOURCE), ast.Module)
            except Exception as error:  # noqa: BLE001 - any is one too many
                problems.append(error)

    usual = gc.get_threshold()
    gc.set_threshold(20)
    try:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.set_threshold(*usual)
    assert problems == []


@pytest.mark.parametrize("expression", ["", "1; 2", "f(", "1 +", "import os", "x = 1\nx"])
def test_what_is_no_expression(expression):
    with pytest.raises(ConfigError):
        evaluate(expression, {})
