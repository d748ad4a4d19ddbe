"""Every file of words has a sibling in each language, with the same keys and the same braces."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from zerosim.base.errors import ConfigError
from zerosim.base.language import (
    VARIABLE,
    Language,
    Words,
    chosen,
    enumerated,
    listed,
    sibling,
    speak,
    speaking,
    spoken,
    term,
    typeset,
)
from zerosim.base.tiers import Link, Tier
from zerosim.schema.events import Kind, Op, Phase, Purpose
from zerosim.schema.memory import Role
from zerosim.theory.causes import Cause
from zerosim.verify.outcome import Outcome

ROOT = Path(__file__).parents[2]
OTHERS = [one for one in Language if one is not Language.ENGLISH]
SILENT = {"nccl.toml", "profiles.toml"}
"""Files of `zerosim/` in TOML without words for a second language, beside machines and software:
NCCL's model, and what `profiles --markdown` says in a page of docs."""
WORDS = sorted(
    path
    for folder in ("zerosim", "dashboards")
    for path in (ROOT / folder).rglob("*.toml")
    if path.name not in SILENT
    and not {"machines", "software", "lessons", *Language} & set(path.relative_to(ROOT).parts[:-1])
    and path.relative_to(ROOT).parts[:2] != ("zerosim", "dashboards")
)
WORDS += [ROOT / "lessons" / "words.toml", ROOT / "lessons" / "views" / "words.toml"]
"""What lessons say themselves; the lessons: `tests/lessons/test_translated.py`."""


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


INFLECTED = {"copy", "has", "have", "hold", "is", "its", "keep", "read", "send", "wait", "write"}
"""Braces for forms of a verb or a pronoun: a language without forms may leave them out."""


def braces(text: str) -> set[str]:
    """What is filled in, without how it is written: {who} and {Who} are one."""
    return {one.lower() for one in re.findall(r"\{(\w+)", text)}


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


def test_a_process_has_a_language_and_its_threads_speak_it():
    said = []
    speak(Language.CHINESE)
    try:
        thread = Thread(target=lambda: said.append(spoken()))
        thread.start()
        thread.join()
        with speaking(Language.ENGLISH):
            said.append(spoken())
    finally:
        speak(Language.ENGLISH)
    assert said == [Language.CHINESE, Language.ENGLISH]


def test_a_language_is_that_of_the_command_line_or_of_the_environment(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert chosen() is Language.ENGLISH
    monkeypatch.setenv(VARIABLE, "zh")
    assert chosen() is Language.CHINESE
    assert chosen("en") is Language.ENGLISH
    with pytest.raises(ConfigError, match="language is 'fr': expected one of en, zh"):
        chosen("fr")
    monkeypatch.setenv(VARIABLE, "fr")
    with pytest.raises(ConfigError, match=f"{VARIABLE} is 'fr'"):
        chosen()


def test_things_are_joined_as_the_language_joins_them():
    assert listed(["a"]) == "a"
    assert listed([]) == ""
    assert listed(["0", "1", "2"]) == "0, 1 and 2"
    with speaking(Language.CHINESE):
        assert listed(["0", "1", "2"]) == "0、1 和 2"
        assert listed(["前向", "反向"], "or") == "前向或反向"
        assert enumerated(["0", "1"]) == "0、1"


def test_chinese_is_set_with_a_space_beside_latin_and_nowhere_else():
    assert typeset("a b 。c") == "a b 。c"
    with speaking(Language.CHINESE):
        assert typeset("在 前向 中。rank 0发送 3Ψ。 然后") == "在前向中。rank 0 发送 3Ψ。然后"
        assert typeset("一行\n又一行\n- 一项") == "一行又一行\n- 一项"


def test_every_name_of_a_trace_has_a_term():
    enums = (Phase, Kind, Purpose, Op, Role, Tier, Link, Outcome, Cause)
    names = {str(one) for enum in enums for one in enum}
    terms = dict(
        texts(tomllib.loads((ROOT / "zerosim" / "base" / "terms.toml").read_text("utf-8")))
    )
    assert not names - {key.removeprefix(".") for key in terms}
    assert all(term(name) == name for name in names)
    with speaking(Language.CHINESE):
        assert term(Phase.FORWARD) == "前向"
        assert term("blocks.2") == "blocks.2"


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("path", WORDS, ids=[str(path.relative_to(ROOT)) for path in WORDS])
def test_a_sibling_has_the_same_keys_and_braces(path, language):
    other = sibling(path, language)
    assert other.exists(), f"{path.relative_to(ROOT)} is not there in {language}"
    here, there = (dict(texts(tomllib.loads(one.read_text("utf-8")))) for one in (path, other))
    assert sorted(there) == sorted(here)
    differ = {key: braces(there[key]) ^ braces(here[key]) for key in here}
    wrong = {key: there[key] for key, names in differ.items() if names - INFLECTED}
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
