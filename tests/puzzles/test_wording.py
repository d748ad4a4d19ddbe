"""What is said of puzzles and programs, in each language: of every puzzle, of every result."""

from __future__ import annotations

import ast

import pytest

from tests.base.test_language import braces, texts
from zerosim.base.language import Language, Words, sibling, speaking
from zerosim.puzzles import puzzles
from zerosim.puzzles.promised import ASKED, BOUNDED, bounds_of, check_words
from zerosim.puzzles.puzzle import DECLARED
from zerosim.puzzles.wording import result_name, words

OTHERS = [one for one in Language if one is not Language.ENGLISH]
TOLD = ("title", "able", "hints")
"""What a person reads of a puzzle's declaration; the task stands in `task.py` in English."""
NAMES = [puzzle.name for puzzle in puzzles()]


def _told(path):
    table = Words(path).table
    return {key: table[key] for key in (*TOLD, "problems") if key in table}


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("puzzle", puzzles(), ids=NAMES)
def test_a_puzzle_is_told_in_each_language(puzzle, language):
    path = puzzle.folder / DECLARED
    other = sibling(path, language)
    assert other.exists(), f"{puzzle.name} is not there in {language}"
    here = dict(texts(_told(path)))
    with speaking(language):
        there = dict(texts({**_told(path)}))
        task, said = puzzle.task, puzzle.words
        title, hints = puzzle.title, puzzle.hints
    assert sorted(here) == sorted(there)
    assert not {key for key in here if braces(here[key]) != braces(there[key])}
    assert said.splitlines()[0] == f"{title}。"
    assert len(hints) == len(puzzle.hints)
    assert all(there[key] != here[key] for key in here)
    # the program is the same, but for what is said above it
    assert ast.dump(_body(task)) == ast.dump(_body(puzzle.task))
    for name in puzzle.functions:
        assert name in task


def _body(task):
    tree = ast.parse(task)
    assert isinstance(tree.body[0], ast.Expr)
    del tree.body[0]
    return tree


def test_a_result_is_called_by_its_words_and_one_of_the_program_by_its_name():
    assert result_name("layer 3") == "layer 3"
    assert result_name("0.weight") == "0.weight"
    with speaking(Language.CHINESE):
        assert result_name("layer 3") == "第 3 层"
        assert result_name("the gradient of layer 12") == "第 12 层的梯度"
        assert result_name("0.weight") == "0.weight"


def test_each_name_of_a_result_says_itself_in_english():
    for name, said in words.table["values"]["names"].items():
        plain = said.replace(" {number}", "")
        assert plain.replace(" ", "_") == name
        assert result_name(said.format(number=3)) == said.format(number=3)


@pytest.mark.parametrize("puzzle", puzzles(), ids=NAMES)
def test_what_is_promised_has_words_and_a_number_that_is_computed(puzzle):
    asked = [check for check in ASKED if check == "values" or getattr(puzzle.promise, check)]
    assert all(check_words(check, puzzle.promise) for check in asked)
    found = bounds_of(puzzle)
    assert [one.check for one in found] == [one for one in asked if one in BOUNDED]
    for one in found:
        assert 0 < one.low <= one.high
        assert one.formula == getattr(puzzle.promise, one.check)
