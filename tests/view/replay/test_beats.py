"""Beats in a document: titles, sentences of about twenty words, waiting ranks, parallel work."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from tests.lessons.committed import but_later
from zerosim.record import load
from zerosim.view.replay import MOST_RANKS, replay_document
from zerosim.view.replay.beats import label_of

TRACES = Path(__file__).parents[3] / "lessons" / "traces"
NAMES = sorted(
    str(path.parent.relative_to(TRACES))
    for path in TRACES.glob("*/*/manifest.json")
    if json.loads(path.read_text())["num_ranks"] <= MOST_RANKS
)
MOST_WORDS = 24


@cache
def document(name):
    return replay_document(load(TRACES / name))


def said(name, field):
    texts = document(name)["texts"]
    return ["" if beat[field] < 0 else texts[beat[field]] for beat in document(name)["beats"]]


@pytest.mark.parametrize("name", but_later(NAMES))
def test_every_beat_of_every_trace_is_said_in_a_sentence(name):
    found = document(name)
    place = 0
    for beat, title, what, beside in zip(
        found["beats"],
        said(name, "title"),
        said(name, "what"),
        said(name, "meanwhile"),
        strict=True,
    ):
        assert beat["first"] == place
        place = beat["last"] + 1
        assert title
        assert "{" not in title + what + beside
        assert what.endswith(".")
        assert what[0].isupper() or what[0].isdigit()
        assert len(what.split()) <= MOST_WORDS
    assert place == len(found["steps"])


@pytest.mark.parametrize("name", but_later(NAMES))
def test_a_beat_tells_of_all_who_wait_in_it(name):
    found = document(name)
    for beat, waiting in zip(found["beats"], said(name, "waiting"), strict=True):
        steps = found["steps"][beat["first"] : beat["last"] + 1]
        assert bool(waiting) == any(step["waits"] for step in steps)


def test_a_stage_3_iteration_in_words():
    titles, whats = said("ring/stage-3", "title"), said("ring/stage-3", "what")
    assert titles[0] == "Forward · gather the parameters of embedding"
    assert titles[1] == "Forward · compute embedding, then free the gathered shards"
    assert titles[4] == "Forward · prefetch the parameters of blocks.1"
    assert titles[-3:] == [
        "Update · agree on the average loss",
        "Update · the optimizer updates all units",
        "The iteration ends",
    ]
    assert whats[0] == (
        "The shards travel round the ring until all 4 ranks hold the whole of embedding."
    )
    assert said("ring/stage-3", "meanwhile")[4] == "Meanwhile blocks.0 is computed, then freed."
    assert document("ring/stage-3")["beats"][4]["freed"] == ["0"]


def test_a_prefetch_has_a_reason_of_its_own_in_each_of_its_steps():
    found = document("ring/stage-3")
    texts = found["texts"]
    for beat in (one for one in found["beats"] if one["is_prefetch"]):
        collective = found["steps"][beat["main"]]["collective"]
        for step in (one for one in found["steps"] if one["collective"] == collective):
            assert "prefetch" in texts[step["title"]]
            assert "early" in texts[step["why"]]
            assert "overlaps with computation" in texts[step["why"]]
    gathers = [
        one for one in found["beats"] if one["signs"] == ["gather"] and not one["is_prefetch"]
    ]
    assert gathers
    for beat in gathers:
        assert "early" not in texts[found["steps"][beat["main"]]["why"]]


@pytest.mark.parametrize("stage", range(4))
def test_a_sum_of_gradients_becomes_a_mean_and_is_freed_where_it_is(stage):
    found = document(f"ring/stage-{stage}")
    texts = found["texts"]
    reduce = next(one for one in found["beats"] if one["signs"] == ["reduce"])
    update = next(one for one in found["beats"] if one["signs"] == ["update"])
    assert "mean over the ranks" in texts[found["steps"][reduce["main"]]["why"]]
    assert "the ranks' mean gradient" in texts[update["what"]]
    why = texts[found["steps"][update["main"]]["why"]]
    assert ("frees their gradients" in why) == (stage in (2, 3))  # else they stay, of no more use


def test_copies_that_are_not_alike_say_between_which_tiers():
    titles = said("infinity/stage-3", "title")
    assert "Update · copies between host and disk" in titles
    assert "Update · fetch the optimizer states of embedding" in titles


def test_a_program_is_told_without_theory():
    titles = said("profiles/fsdp2", "title")
    assert titles[2] == "Forward · gather the parameters of hidden.0"
    assert titles[3] == "Forward · compute hidden.0, then free the gathered shards"
    assert "Update · the optimizer's step" in said("profiles/ddp", "title")
    assert "The gradients of all ranks are summed, and every rank gets the whole sum." in said(
        "profiles/ddp", "what"
    )
    assert "The ranks compute hidden.0." in said("profiles/ddp", "what")


def test_a_pipeline_says_who_computes_which_micro_batch():
    assert said("parallel/1f1b", "title")[6] == "Micro-batches · forward 3 and 4, backward 1 and 2"
    assert said("parallel/1f1b", "what")[6] == (
        "Forward of 4 on rank 1 and 3 on rank 2; backward of 1 on rank 0 and 2 on rank 3."
    )
    assert said("parallel/1f1b", "meanwhile")[6] == (
        "Micro-batches whose activations are kept for backward by ranks 0-3: 3, 3, 2 and 0."
    )


def test_micro_steps_before_the_last_are_told_in_short():
    assert said("accumulate/stage-3", "title")[1] == "Micro-step 1 · Backward of all units"


def test_tiles_are_told_as_what_they_are_a_part_of():
    tiled = [beat for beat in document("tiles/stage-3")["beats"] if beat["within"]]
    texts = document("tiles/stage-3")["texts"]
    assert [beat["label"] for beat in tiled] == ["que", "0", "2", "2", "0", "que"]
    assert texts[tiled[1]["title"]] == "Forward · blocks.0.mlp.0, tile by tile"
    assert texts[tiled[1]["what"]] == (
        "Its 2 tiles, one after the other: parameters gathered, output computed, parameters freed."
    )
    assert texts[tiled[3]["what"]] == (
        "Its 2 tiles, one after the other: parameters gathered, gradient computed, parameters "
        "freed, gradient reduced."
    )
    updated = said("tiles/stage-3", "meanwhile")[-2]
    assert updated == "Meanwhile bytes of all units are copied."


@pytest.mark.parametrize(
    ("units", "label"),
    [
        (("blocks.3",), "3"), (("embedding",), "emb"), (("head",), "head"), (("bucket 12",), "12"),
        (("a", "b"), ""), ((), ""),
    ],
)  # fmt: skip
def test_a_strip_calls_a_unit_by_the_end_of_its_name(units, label):
    assert label_of(units) == label
