"""A tour of each committed run: ten to twelve stops, and what it says is what the run did."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest

import zerosim
from tests.lessons.committed import but_later
from zerosim.analysis.memory import peak, timeline, whole_iteration
from zerosim.base.quantities import format_bytes, format_decimal, format_exact
from zerosim.view.replay import MOST_RANKS
from zerosim.view.replay.tour import LEAST, MOST

TRACES = Path(__file__).parents[3] / "lessons" / "traces"
SWAPPED = "case-c/stage-3"
NAMES = sorted(
    str(path.parent.relative_to(TRACES))
    for path in TRACES.glob("*/*/manifest.json")
    if json.loads(path.read_text())["num_ranks"] <= MOST_RANKS
)


@cache
def run(name):
    return zerosim.load(TRACES / name)


@cache
def replay(name):
    return run(name).replay()


def stop(name, about):
    """The one stop of a kind; None if there is none."""
    found = [one for one in replay(name).tour if one.about == about]
    assert len(found) <= 1
    return found[0] if found else None


def psi(size, document):
    return format_decimal(Fraction(size, document["traffic"]["psi_bytes"]), 2)


@pytest.mark.parametrize("name", but_later(NAMES))
def test_every_run_has_a_tour(name):
    stops, document = replay(name).tour, replay(name).document
    # of an imported run nothing of memory is recorded, so the stop at its peak is absent
    fewest = min(LEAST - name.startswith("device-clock"), len(document["beats"]))
    assert fewest <= len(stops) <= MOST
    assert [one.step for one in stops] == sorted(one.step for one in stops)
    assert (stops[0].about, stops[-1].about) == ("run", "sum")
    assert stops[0].step == 0
    if name != SWAPPED:  # its beats end where it does what no law allows
        assert stops[-1].step == len(document["steps"]) - 1
    for one in stops:
        assert one.title
        assert one.text.endswith(".")
        assert "  " not in one.text
        assert not re.search(r"[{}]|None|nan", one.title + one.text)


@pytest.mark.parametrize("name", but_later(NAMES))
def test_what_was_sent_is_what_the_ledger_says(name):
    document, text = replay(name).document, stop(name, "sum").text
    if run(name).iterations:  # what a run that ended in its first has sent is no whole
        of_iteration = run(name).traffic("rank", iteration=document["run"]["iteration"])
        column = of_iteration.names.index("sent_bytes")
        sizes = [row[column] for row in of_iteration.rows]
        if sizes and all(sizes):
            assert format_bytes(min(sizes)) in text
            assert format_bytes(max(sizes)) in text
    if document["traffic"]["law_bytes"]:
        law = Fraction(document["traffic"]["law_bytes"])
        assert f"The law is {document['traffic']['law']}: {format_bytes(law)}" in text


@pytest.mark.parametrize("name", but_later(NAMES))
def test_the_peak_is_that_of_the_memory_ledger(name):
    found, iteration = stop(name, "peak"), replay(name).document["run"]["iteration"]
    lines = [timeline(rank) for rank in run(name).trace.ranks if rank.memory_samples]
    tops = {line.rank: peak(line, whole_iteration(line, iteration)) for line in lines}
    peaks = {rank: top.bytes for rank, top in tops.items() if top is not None}
    if not peaks:
        assert found is None
        return
    rank = max(peaks, key=lambda number: peaks[number])
    assert found.title == f"The peak of memory: {format_bytes(peaks[rank])}"
    assert found.text.startswith(f"{format_bytes(peaks[rank])} on rank {rank}, when ")


def test_a_tour_of_stage_3():
    document = replay("ring/stage-3").document
    stops = {one.title: one.text for one in replay("ring/stage-3").tour}
    assert list(stops) == [
        "ZeRO-3 on 4 ranks",
        "Forward · gather the parameters of embedding",
        "Forward · compute embedding, then free the gathered shards",
        "Forward · embedding is freed",
        "Forward · prefetch the parameters of blocks.0",
        "Forward ends",
        "Backward · gather the parameters of head",
        "Backward · compute the gradients of head, then free gathered weights",
        "Backward · reduce the gradients of head",
        "The peak of memory: 24.7 MB",
        "Update · the optimizer updates all units",
        "The traffic and the law",
    ]
    num_parameters = 3_307_008
    quarter = num_parameters // 4
    # parameters in bf16, master, momentum and variance in fp32; gradients are not there yet
    first = stops["ZeRO-3 on 4 ranks"]
    assert f"{num_parameters:,} parameters in bf16" in first
    assert "1/4 of the parameters, fp32 master, momentum and variance" in first
    assert format_bytes(quarter * (2 + 4 + 4 + 4)) in first
    law = f"predicts 16Ψ/N bytes for the model states on the device: {format_bytes(16 * quarter)}"
    assert law in first
    embedding = 81_920 * 2
    gathered = stops["Forward · gather the parameters of embedding"]
    assert f"The payload is {format_bytes(embedding)}." in gathered
    assert f"Each rank sends {format_bytes(embedding * 3 // 4)} in 3 hops." in gathered
    freed = stops["Forward · embedding is freed"]
    assert freed == (
        f"Each rank has freed {format_bytes(embedding * 3 // 4)} that were live only for the "
        "computation."
    )
    again = stops["Backward · gather the parameters of head"]
    assert "This is the second gather of head in this iteration." in again
    updated = stops["Update · the optimizer updates all units"]
    assert f"{format_exact(quarter)} of {format_exact(num_parameters)} parameters" in updated
    sums = stops["The traffic and the law"]
    third = quarter * 3 * 2
    for what in ("gathers in forward", "gathers in backward", "reductions in backward"):
        assert f"{what} {psi(third, document)} Ψ" in sums


@pytest.mark.parametrize("name", but_later(NAMES))
def test_what_is_freed_is_told_at_the_end_of_the_step_that_frees_it(name):
    found, document = stop(name, "free"), replay(name).document
    frees = [step for step in document["steps"] if step["freed"]]
    assert (found is not None) == bool(frees)
    if found is not None:
        step = document["steps"][found.step]
        assert step["kind"] == "compute"
        assert step["unit"] in step["freed"]  # what is looked at is what is told of


def test_a_tour_says_how_much_of_a_tiled_operator_is_there_at_once():
    tiled = [one for one in replay("tiles/stage-3").tour if one.title.endswith("tile by tile")]
    one_tile = 98_688 * 2
    assert [one.title.split()[0] for one in tiled] == ["Forward", "Backward"]
    assert tiled[0].text.endswith(
        f"A rank has at most {format_bytes(one_tile)} of its {format_bytes(2 * one_tile)} of "
        "parameters live at a time."
    )
    assert "at a time" not in tiled[1].text  # the next tile is there before the first is freed


def test_only_what_a_run_does_is_told():
    kept = replay("profiles/fsdp2-kept").tour
    freed = stop("profiles/fsdp2-kept", "free")  # parameters stay after forward
    assert freed.title == "Backward · hidden.2 is freed"
    assert not any("second gather" in one.text for one in kept)
    assert stop("ring/stage-0", "free") is None
    alone = " ".join(one.title + one.text for one in replay("one/stage-0").tour)
    assert "1 rank" in alone
    assert not re.search(r"each rank|the ranks|all ranks", alone, re.IGNORECASE)
    first = stop("deepspeed/deepspeed-3", "run").text  # what its ranks keep is not known
    assert "keep" not in first
    divided = stop("divided/stage-1", "run").text  # two ranks compute each layer together
    assert divided.startswith("A rank's part of gpt-tiny has 1,730,560 parameters")
    assert "on the host" in stop("offload/stage-2", "run").text
    assert "optimizer states on the disk" in stop("infinity/stage-3", "run").text


def test_gloo_is_said_to_send_more_than_it_is_asked_to():
    total = stop("native/stage-2", "sum").text
    document = replay("native/stage-2").document
    asked = sum(call["trace"][0] for call in document["collectives"])
    excess = sum(call["excess"][0] for call in document["collectives"] if call["is_more"])
    assert f"Each rank has been asked to send {format_bytes(asked)}" in total
    assert f"Gloo sent {format_bytes(excess)} ({psi(excess, document)} Ψ) more, because" in total
    assert "more" not in stop("ring/stage-2", "sum").text


def test_micro_steps_are_told_apart():
    again = stop("accumulate/stage-3", "again")
    assert again.title == "Micro-step 2 of 4 begins"
    steps = replay("accumulate/stage-3").document["steps"]
    assert steps[again.step]["micro_step"] == 1
    assert stop("accumulate/stage-3", "turn").title == "Forward of micro-step 1 ends"
    assert stop("parallel/1f1b", "turn").title == "Forward of micro-step 1 ends"
    assert stop("parallel/gpipe", "turn").title == "Forward ends"
