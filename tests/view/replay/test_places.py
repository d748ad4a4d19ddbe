"""Places of a replay in words."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lessons.committed import facts
from zerosim.base.errors import ConfigError
from zerosim.view.replay.places import place


def step(phase, kind="compute", unit="", **more):
    plain = {"op": "", "purpose": "", "hop": -1, "micro_step": 0, "collective": -1}
    return {"phase": phase, "kind": kind, "unit_name": unit} | plain | more


def gather(phase, unit, hop, **more):
    of_ring = {"op": "all-gather", "purpose": "gather parameters", "hop": hop}
    return step(phase, "transfer", unit, **of_ring, **more)


STEPS = [
    step("forward", "mark"),
    gather("forward", "blocks.0", 0),
    gather("forward", "blocks.0", 1),
    step("forward", unit="blocks.0"),
    step("backward", "mark"),
    gather("backward", "blocks.0", 0),
    step("backward", unit="blocks.0"),
    step("backward", "wait", "blocks.0"),
    step("forward", "mark", micro_step=1),
    step("forward", unit="blocks.0", micro_step=1),
    step("update", "mark"),
    step("outside", "mark"),
]
DOCUMENT = {"name": "made", "steps": STEPS, "beats": []}


@pytest.mark.parametrize(
    ("at", "number"),
    [
        ("", 0),
        ("forward", 0),
        ("forward gather blocks.0", 1),
        ("forward gather blocks.0 hop 1", 1),
        ("forward gather blocks.0 hop 2", 2),
        ("hop 2 blocks.0 forward", 2),
        ("forward compute blocks.0", 3),
        ("forward all-gather", 1),
        ("backward blocks.0", 5),
        ("backward wait", 7),
        ("forward micro-step 2", 8),
        ("forward compute micro-step 2", 9),
        ("update", 10),
        ("end", 11),
    ],
)
def test_the_first_step_with_all_the_words(at, number):
    assert place(DOCUMENT, at) == number


@pytest.mark.parametrize(
    "at",
    [
        "sideways",
        "forward gather blocks.9",
        "forward gather blocks.0 hop 3",
        "update gather",
        "end blocks.0",
        "forward micro-step 3",
        "forward micro-step 0",
    ],
)
def test_where_nothing_is_is_refused(at):
    with pytest.raises(ConfigError, match="made has no step"):
        place(DOCUMENT, at)


@pytest.mark.parametrize("at", ["forward hop", "forward hop two", "hop -1", "micro-step 1.5"])
def test_a_hop_without_a_number_is_refused(at):
    with pytest.raises(ConfigError, match="expected a number from 1"):
        place(DOCUMENT, at)


WORDS = st.sampled_from(["forward", "hop", "1", "2", "blocks.0", "gather"])


@given(st.text() | st.lists(WORDS).map(" ".join))
def test_any_text_is_a_step_or_refused(at):
    with contextlib.suppress(ConfigError):
        assert 0 <= place(DOCUMENT, at) < len(STEPS)


def test_a_collective_is_where_its_beat_shows_it_and_a_hop_where_it_is():
    document = facts()._document("ring/stage-3")
    shown = place(document, "backward reduce head")
    assert place(document, "backward reduce head hop 1") < shown
    assert shown in [beat["main"] for beat in document["beats"]]
    assert document["steps"][shown]["unit_name"] == "head"


def test_each_hop_of_a_real_ring_has_its_place():
    document = facts()._document("ring/stage-3")
    for hop in range(1, document["run"]["num_ranks"]):
        found = document["steps"][place(document, f"backward reduce blocks.1 hop {hop}")]
        assert (found["unit_name"], found["hop"]) == ("blocks.1", hop - 1)
        assert (found["phase"], found["purpose"]) == ("backward", "reduce gradients")


def test_moments_that_can_be_marked_are_places_in_the_same_order():
    document = facts()._document("ring/stage-2")
    moments = [at for at, _ in facts().moments("ring/stage-2", "forward", "backward", "update")]
    numbers = [place(document, at) for at in moments]
    assert numbers == sorted(numbers)
