"""What is said of the committed runs in another language: the same numbers, and no English."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.lessons.committed import facts
from zerosim.base.language import Language, speaking
from zerosim.lessons.recordings import LessonRecordings
from zerosim.verify.diagnosis import ProcessStates, diagnose
from zerosim.view.reading import Run
from zerosim.view.replay import replay_document

RUNS = ("ring/stage-3", "native/stage-2", "infinity/stage-3", "profiles/fsdp2", "case-a/stage-2")
_ENGLISH = re.compile(r"\b[a-z]{3,}(?: [a-z]{2,}){2,}\b")
"""Three words one after the other: names and commands have fewer."""
_NUMBER = re.compile(r"\d[\d,.]*")
_AS_RECORDED = re.compile(r"\S+\.py:\d+ in \S+|\[/.*\]?|collective \d+ of group .*")
"""Lines of programs, what a backend said, and what is wrong with a trace."""


@pytest.fixture(scope="module", params=RUNS)
def run(request: pytest.FixtureRequest) -> Run:
    return LessonRecordings().run(request.param)


def of_verification(run: Run) -> Iterator[str]:
    report = run.verify().report
    yield report.headline
    for verdict in report.verdicts:
        yield from (verdict.title, verdict.formula, verdict.measured)
    yield from (cause.words for cause in report.causes)


def of_memory(run: Run) -> Iterator[str]:
    if not run.trace.ranks[0].memory_samples:
        return
    report = run.verify_memory().report
    yield report.headline
    for verdict in report.verdicts:
        yield from (verdict.title, verdict.formula, verdict.measured)
    for peak in report.peaks:
        yield peak.sentence
        yield from (cause.words for cause in peak.causes)


def of_time(run: Run) -> Iterator[str]:
    report = run.graph_report(top=20)
    yield from report.clauses
    yield from (step.label for step in report.steps)
    for check in report.checks:
        yield from (check.title, check.counted)


def of_diagnosis(run: Run) -> Iterator[str]:
    found = diagnose(run.trace, ProcessStates())
    yield found.headline
    for one in found.findings:
        yield from (*one.evidence, one.advice)


def of_replay(run: Run) -> Iterator[str]:
    document = replay_document(run.trace)
    yield from document["texts"]
    for stop in document["tour"]:
        yield from (stop["title"], stop["text"])


def numbers(text: str) -> list[str]:
    """In whatever order the language has them."""
    return sorted(one.rstrip(",.") for one in _NUMBER.findall(text))


@pytest.mark.parametrize(
    "said", [of_verification, of_memory, of_time, of_diagnosis], ids=lambda one: one.__name__
)
def test_numbers_are_the_same_and_nothing_is_left_in_english(run, said):
    english = list(said(run))
    with speaking(Language.CHINESE):
        chinese = list(said(run))
    assert len(chinese) == len(english)
    for there, here in zip(chinese, english, strict=True):
        assert numbers(there) == numbers(here), (there, here)
        assert not _ENGLISH.search(_AS_RECORDED.sub("", there)), there


def test_a_replay_has_nothing_left_in_english(run):
    with speaking(Language.CHINESE):
        for text in of_replay(run):
            assert not _ENGLISH.search(_AS_RECORDED.sub("", text)), text


def test_an_order_is_told_with_the_names_of_the_language():
    said = facts().in_words(["parameters", "activations", "blocks.3"])
    assert said == "parameters, then activations, then blocks.3"
    with speaking(Language.CHINESE):
        said = facts().in_words(["parameters", "activations", "blocks.3"])
    assert [said.index(one) for one in ("参数", "激活值", "blocks.3")] == [0, 5, 12]


def test_what_is_spoken_is_not_kept(run):
    before = run.verify().report.headline
    with speaking(Language.CHINESE):
        assert run.verify().report.headline != before
    assert run.verify().report.headline == before
