"""Beats: what a class would call one thing. Each step is in one of them, in the order of steps."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given

from tests.analysis.graph.plans import load_plan, plans
from tests.lessons.committed import but_later
from zerosim.analysis.beats import Beat, Doing, Sign, cut
from zerosim.analysis.frames import Step, steps
from zerosim.analysis.graph import build_graph
from zerosim.base.config import STAGES
from zerosim.record import iterations, load
from zerosim.schema.events import Event, Kind, Op, Phase, Purpose
from zerosim.view.replay.beats import beats_of, label_of
from zerosim.view.replay.subject import Subject

TRACES = Path(__file__).parents[2] / "lessons" / "traces"
SWAPPED = "case-c/stage-3"
"""Its ranks exchange what does not belong together, and finish: not as any law has it."""
NAMES = sorted(
    name
    for path in TRACES.glob("*/*/manifest.json")
    if (name := str(path.parent.relative_to(TRACES))) != SWAPPED
)
GLYPHS = {
    Sign.GATHER: "▼", Sign.COMPUTE: "■", Sign.FREE: "x", Sign.REDUCE: "▲", Sign.UPDATE: "↻",
    Sign.COPY: "⇅", Sign.SEND: "▶", Sign.COMBINE: "Σ", Sign.AGREE: "=", Sign.EXCHANGE: "◆",
    Sign.BEGIN: "|", Sign.END: ".",
}  # fmt: skip


@cache
def subject(name: str) -> Subject:
    trace = load(TRACES / name)
    complete = iterations(trace)
    return Subject(trace, complete[-1] if complete else 0)


@cache
def beats(name: str) -> tuple[Beat, ...]:
    return beats_of(subject(name), subject(name).frames())


def strip(found: tuple[Beat, ...]) -> str:
    """As a strip shows it; ~ is ahead, x0 is another unit that is freed meanwhile."""

    def said(beat: Beat) -> str:
        signs = "".join(GLYPHS[sign] for sign in beat.signs) + label_of(beat.units)
        freed = "".join(f"x{label_of((unit,))}" for unit in beat.freed if unit not in beat.units)
        return signs + "~" * beat.is_prefetch + freed

    return " ".join(map(said, found))


# ------------------------------------------------------------------------- committed traces


@pytest.mark.parametrize("name", but_later(NAMES))
def test_each_step_of_every_trace_is_in_one_beat(name):
    found = beats(name)
    assert [place for beat in found for place in range(beat.first, beat.last + 1)] == list(
        range(len(subject(name).steps.steps))
    )
    for beat in found:
        assert beat.first <= beat.main <= beat.last
        assert beat.signs
        assert len(set(beat.units)) == len(beat.units)
        assert beat.phase is subject(name).steps.steps[beat.main].phase


@pytest.mark.parametrize("name", but_later(NAMES))
def test_each_unit_is_computed_in_a_beat_of_its_own(name):
    several = [beat for beat in beats(name) if beat.is_phase or beat.turns or beat.within]
    inside = {place for beat in several for place in range(beat.first, beat.last + 1)}
    computed = [
        step.event.unit
        for place, step in enumerate(subject(name).steps.steps)
        if step.kind is Kind.COMPUTE
        and step.phase is not Phase.UPDATE
        and step.event is not None
        and place not in inside
    ]
    found = [beat for beat in beats(name) if beat.sign is Sign.COMPUTE and beat not in several]
    # in a profile, kernels between those of units are of none
    assert [beat.units for beat in found] == [(unit,) if unit else () for unit in computed]


@pytest.mark.parametrize(("name", "num_beats"), [("parallel/1f1b", 24), ("parallel/gpipe", 29)])
def test_in_a_pipeline_each_rank_has_its_turn_with_each_micro_batch(name, num_beats):
    found = beats(name)
    assert len(found) == num_beats
    turns = {(rank, *turn[:2]) for beat in found for rank, turn in beat.turns}
    phases = (Phase.FORWARD, Phase.BACKWARD)
    assert turns == {(rank, phase, n) for rank in range(4) for phase in phases for n in range(8)}
    most = [max(dict(beat.kept).get(rank, 0) for beat in found) for rank in range(4)]
    assert most == ([4, 3, 2, 1] if name == "parallel/1f1b" else [8, 8, 8, 8])
    assert [*dict(found[-3].kept).values()] == [0, 0, 0, 0]


def test_of_many_micro_steps_only_the_last_is_cut_unit_by_unit():
    assert strip(beats("accumulate/stage-3")[:8]).split()[-2:] == ["▼emb", "▼0~"]
    early = [beat for beat in beats("accumulate/stage-3") if beat.is_phase]
    assert [(beat.micro_step, beat.phase) for beat in early] == [
        (number, phase) for number in range(3) for phase in (Phase.FORWARD, Phase.BACKWARD)
    ]


def test_of_many_copies_only_those_of_the_update_are_beats():
    found = beats("infinity/stage-3")
    assert {beat.phase for beat in found if beat.sign is Sign.COPY} == {Phase.UPDATE}
    assert Sign.COPY in {doing.sign for beat in found for doing in beat.meanwhile}


def test_the_tiles_of_an_operator_are_one_beat():
    found = [beat for beat in beats("tiles/stage-3") if beat.within]
    operators = ["blocks.0.attention.query_key_value", "blocks.0.mlp.0", "blocks.0.mlp.2"]
    assert [beat.within for beat in found] == operators + operators[::-1]
    for beat in found:
        tiles = {f"{beat.within}.tiles.{number}" for number in range(2)}
        assert {*beat.units} == tiles == {*beat.units} & {*beat.freed}
        steps = subject("tiles/stage-3").steps.steps[beat.first : beat.last + 1]
        computed = [step.event.unit for step in steps if step.event and step.kind is Kind.COMPUTE]
        assert {*computed} == tiles  # and nothing else
    forward, backward = found[0], found[-1]
    assert forward.signs == (Sign.GATHER, Sign.COMPUTE, Sign.FREE)
    assert backward.signs == (Sign.GATHER, Sign.COMPUTE, Sign.REDUCE, Sign.FREE)
    assert subject("tiles/stage-3").steps.steps[forward.main].kind is Kind.COMPUTE


def test_what_is_put_away_while_others_are_updated_goes_on_beside_them():
    updates = [beat for beat in beats("tiles/stage-3") if beat.phase is Phase.UPDATE]
    assert strip(updates) == "= ↻"
    stored = {doing.unit for doing in updates[-1].meanwhile}
    assert stored == {*updates[-1].units} == {*subject("tiles/stage-3").units}


@pytest.mark.parametrize("name", but_later(NAMES))
def test_what_is_gathered_for_a_computation_is_freed_once(name):
    """After each computation that it was gathered for: where it stays for backward, only then."""
    run = subject(name)
    freed = [unit for beat in beats(name) for unit in beat.freed]
    frees = run.config is not None and run.config.stage == max(STAGES)
    times = dict.fromkeys(run.units, 2 * run.config.accumulate if run.config and frees else 0)
    if run.program is not None and run.program.division.parameters:
        times = {unit: 2 - (unit in run.program.division.stays) for unit in run.units}
    assert Counter(freed) == Counter(times)


@pytest.mark.parametrize(
    ("name", "num_beats"),
    [
        ("ring/stage-3", 33), ("native/stage-3", 33), ("overlap/stage-3", 33),
        ("ring/stage-0", 21), ("hpz/stage-3", 28), ("profiles/fsdp2", 23),
        ("buckets/stage-2", 29), ("one/stage-0", 14), ("accumulate/stage-2", 30),
        ("accumulate/stage-3", 34), ("infinity/stage-3", 38), ("owners/stage-3", 38),
        ("tiles/stage-3", 38),
    ],
)  # fmt: skip
def test_an_iteration_has_about_thirty_beats(name, num_beats):
    assert len(beats(name)) == num_beats


def test_a_stage_3_iteration_reads_as_it_is_taught():
    assert strip(beats("native/stage-3")) == (
        "▼emb ■xemb ▼0 ■x0 ▼1 ■x1 ▼2 ■x2 ▼3 ■x3 ▼head ■xhead "
        "▼head ▼3~ ■xhead ▲head ■x3 ▼2 ▲3 ■x2 ▼1 ■1 ▲2x1 ▼0 ■0 ▲1x0 ▼emb ■xemb ▲0 ▲emb "
        "= ↻ ."
    )


def test_what_is_gathered_beside_a_computation_frees_it_when_that_is_over():
    assert strip(beats("ring/stage-3")[:12]) == (
        "▼emb ■xemb ▼0~ ■0 ▼1~x0 ■1 ▼2~x1 ■2 ▼3~x2 ■3 ▼head~x3 ■xhead"
    )
    ahead = beats("ring/stage-3")[4]
    assert ahead.meanwhile == (Doing(Sign.COMPUTE, "blocks.0"),)
    assert ahead.freed == ("blocks.0",)


def test_a_computation_that_gathers_when_it_is_called_begins_with_what_it_gathered():
    assert strip(beats("profiles/fsdp2")[:9]) == "▼root ■emb ▼0 ■x0 ▼1 ■x1 ▼2 ■x2 ■head"
    assert beats("profiles/fsdp2")[2].sign is Sign.GATHER


def test_a_phase_of_which_nothing_is_recorded_is_a_beat():
    assert strip(beats("fused/stage-0")) == "| | | ."


# ------------------------------------------------------------------------------ made by hand


class Maker:
    """Steps one after another, each of unit time unless it lasts longer."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def add(self, kind: Kind, unit: str, phase: Phase, lasts: int, **fields) -> None:
        place = len(self.steps)
        plain = {"id": place, "iteration": 0, "issue_ns": 0, "start_ns": 0, "end_ns": 0}
        own = {name: fields.pop(name) for name in ("purpose", "op") if name in fields}
        event = Event(rank=0, kind=kind, phase=phase, unit=unit, **plain, **own)
        self.steps.append(
            Step(
                kind=kind, phase=phase, micro_step=0, time_ns=place, start_ns=place,
                end_ns=place + lasts, until=place + lasts - 1,
                events={} if kind is Kind.MARK else {0: event}, **fields,
            )
        )  # fmt: skip

    def mark(self, phase: Phase) -> None:
        self.add(Kind.MARK, "", phase, 1)

    def compute(self, unit: str, lasts: int = 1, phase: Phase = Phase.BACKWARD) -> None:
        self.add(Kind.COMPUTE, unit, phase, lasts)

    def hop(self, collective: int, hop: int, unit: str, phase: Phase = Phase.BACKWARD) -> None:
        purpose = Purpose.REDUCE_GRADIENTS if collective % 2 else Purpose.GATHER_PARAMETERS
        self.add(
            Kind.TRANSFER, unit, phase, 1, collective=collective, hop=hop, purpose=purpose,
            op=Op.ALL_GATHER,
        )  # fmt: skip


def runs(made: Maker) -> list[tuple[int, int, Sign]]:
    return [(beat.first, beat.last, beat.sign) for beat in cut(made.steps)]


def test_hops_around_a_computation_are_its_own_where_they_are_fewer():
    made = Maker()
    made.hop(0, 0, "a")
    made.compute("b")
    made.hop(0, 1, "a")
    made.hop(0, 2, "a")
    assert runs(made) == [(0, 1, Sign.COMPUTE), (2, 3, Sign.GATHER)]
    made = Maker()
    made.hop(1, 0, "a")
    made.hop(1, 1, "a")
    made.compute("b")
    made.hop(1, 2, "a")
    made.compute("c")
    assert runs(made) == [(0, 1, Sign.REDUCE), (2, 3, Sign.COMPUTE), (4, 4, Sign.COMPUTE)]


def test_of_equal_runs_the_last_is_the_collective():
    made = Maker()
    made.hop(0, 0, "a")
    made.compute("b")
    made.hop(0, 1, "a")
    assert runs(made) == [(0, 1, Sign.COMPUTE), (2, 2, Sign.GATHER)]


def test_what_is_left_when_a_phase_begins_belongs_to_the_one_before():
    made = Maker()
    made.compute("a")
    made.hop(1, 0, "a")
    made.mark(Phase.UPDATE)
    made.hop(1, 1, "a")
    made.hop(1, 2, "a")
    made.mark(Phase.OUTSIDE)
    assert runs(made) == [(0, 1, Sign.COMPUTE), (2, 4, Sign.REDUCE), (5, 5, Sign.END)]


def test_updates_that_follow_each_other_are_one_beat_but_not_over_the_border_of_a_phase():
    made = Maker()
    made.compute("late", phase=Phase.UPDATE)
    made.mark(Phase.UPDATE)
    made.compute("a", phase=Phase.UPDATE)
    made.hop(0, 0, "a", Phase.UPDATE)
    made.compute("b", phase=Phase.UPDATE)
    made.hop(0, 1, "a", Phase.UPDATE)
    found = cut(made.steps)
    assert [beat.units for beat in found] == [("late",), ("a", "b"), ("a",)]
    assert found[1].meanwhile == (Doing(Sign.GATHER, "a"),)


def test_buckets_that_share_a_unit_are_one_beat():
    made = Maker()
    for bucket in range(3):
        made.hop(2 * bucket + 1, 0, f"bucket {bucket}")
    buckets = {"bucket 0": ("c", "b"), "bucket 1": ("b",), "bucket 2": ("a",)}
    assert [beat.units for beat in cut(made.steps, buckets=buckets)] == [("c", "b"), ("a",)]


def test_the_units_of_a_block_are_one_beat_where_those_of_all_would_be_too_many():
    made = Maker()
    parts = ("norm", *(f"linear.tiles.{tile}" for tile in range(4)))
    names = [f"h.{block}.{part}" for block in range(14) for part in parts]
    made.mark(Phase.FORWARD)
    for number, unit in enumerate(names):
        made.hop(2 * number, 0, unit, Phase.FORWARD)
        made.compute(unit, phase=Phase.FORWARD)
    found = cut(made.steps)
    assert [beat.within for beat in found] == [f"h.{block}" for block in range(14)]
    assert [beat.units for beat in found] == [
        tuple(name for name in names if name.startswith(f"{beat.within}.")) for beat in found
    ]
    assert all(beat.signs == (Sign.GATHER, Sign.COMPUTE) for beat in found)


def test_what_is_gathered_ahead_goes_on_beside_the_tiles_that_are_gone_through():
    made = Maker()
    for operator in range(14):
        ahead = f"m{operator + 1}.tiles.0"
        made.compute(f"m{operator}.tiles.0")
        made.hop(2 * operator, 0, ahead)
        made.compute(f"m{operator}.tiles.1")
    found = cut(made.steps)
    assert [beat.within for beat in found] == [f"m{number}" for number in range(14)]
    assert found[3].meanwhile == (Doing(Sign.GATHER, "m4.tiles.0"),)


def test_nothing_has_no_beats():
    assert cut(()) == ()


@given(plans())
def test_whatever_the_timing_beats_divide_the_steps(plan):
    found = steps(build_graph(load_plan(plan)), 0).steps
    made = cut(found)
    assert [place for beat in made for place in range(beat.first, beat.last + 1)] == list(
        range(len(found))
    )
    assert len([beat for beat in made if Sign.COMPUTE in beat.signs]) == len(
        [step for step in found if step.kind is Kind.COMPUTE and step.phase is not Phase.UPDATE]
    )
