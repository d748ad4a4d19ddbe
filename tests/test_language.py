"""Every file of words has a sibling in each language, with the same keys and the same braces."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from zerosim.language import Language, Words, sibling, speaking

ROOT = Path(__file__).parents[1]
OTHERS = [one for one in Language if one is not Language.ENGLISH]
SILENT = {"nccl.toml"}
"""Files of `zerosim/` in TOML that hold no words, beside machines."""
WORDS = sorted(
    path
    for folder in ("zerosim", "dashboards")
    for path in (ROOT / folder).rglob("*.toml")
    if path.name not in SILENT
    and not {"machines", "lessons", *Language} & set(path.relative_to(ROOT).parts[:-1])
    and path.relative_to(ROOT).parts[:2] != ("zerosim", "dashboards")
)


def texts(table: object, at: str = "") -> Iterator[tuple[str, str]]:
    """Each text with the keys that lead to it."""
    if isinstance(table, dict):
        for key, value in table.items():
            yield from texts(value, f"{at}.{key}")
    elif isinstance(table, list):
        for number, value in enumerate(table):
            yield from texts(value, f"{at}[{number}]")
    else:
        yield at, str(table)


def braces(text: str) -> list[str]:
    """What is filled in, without how it is written."""
    return sorted(set(re.findall(r"\{(\w+)", text)))


def test_words_are_said_in_the_language_that_is_spoken(tmp_path):
    (tmp_path / "zh").mkdir()
    (tmp_path / "words.toml").write_text('[a]\nsent = "rank {rank} sent"\n')
    (tmp_path / "zh" / "words.toml").write_text('[a]\nsent = "rank {rank} 发送了"\n', "utf-8")
    words = Words(tmp_path / "words.toml")
    assert words("a.sent", rank=2) == "rank 2 sent"
    with speaking(Language.CHINESE):
        assert words("a.sent", rank=2) == "rank 2 发送了"
    assert words("a.sent", rank=2) == "rank 2 sent"
    with pytest.raises(KeyError):
        words("a.received")


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("path", WORDS, ids=[str(path.relative_to(ROOT)) for path in WORDS])
def test_a_sibling_has_the_same_keys_and_braces(path, language):
    other = sibling(path, language)
    assert other.exists(), f"{path.relative_to(ROOT)} is not there in {language}"
    here, there = (dict(texts(tomllib.loads(one.read_text("utf-8")))) for one in (path, other))
    assert sorted(there) == sorted(here)
    wrong = {key: there[key] for key in here if braces(there[key]) != braces(here[key])}
    assert not wrong


@pytest.mark.parametrize("language", OTHERS)
def test_no_sibling_is_of_a_file_that_is_gone(language):
    names = {sibling(path, language) for path in WORDS}
    found = {
        path
        for folder in ("zerosim", "dashboards")
        for path in (ROOT / folder).rglob(f"{language}/*.toml")
        if "lessons" not in path.relative_to(ROOT).parts
        and path.relative_to(ROOT).parts[:2] != ("zerosim", "dashboards")
    }
    assert found <= names
