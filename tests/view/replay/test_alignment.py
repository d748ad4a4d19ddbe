"""Runs under one cursor: the moments, each run's step at each, and what is said of them."""

from __future__ import annotations

import copy
import json
import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.graph.plans import load_plan, plans
from tests.analysis.graph.runs import Plan
from tests.cli.command import command
from zerosim.base.config import STAGE_NAMES
from zerosim.base.errors import ConfigError
from zerosim.lessons.recordings import COMMITTED
from zerosim.record import load
from zerosim.schema.events import Phase
from zerosim.theory import stage_states
from zerosim.view.replay import replay_document
from zerosim.view.replay.alignment import align
from zerosim.view.replay.moments import What, happenings, last_step, say, texts

KEPT, GATHERED, REDUCED = 1, 2, 6


def document(name: str, **plan: object) -> dict:
    return replay_document(load_plan(Plan(**plan)), name=name)


def units_of(alignment) -> list[set[str]]:
    """What each run computes, of the moments that it comes to."""
    return [
        {moment.unit for moment, came in zip(alignment.moments, run.came, strict=True) if came}
        for run in alignment.runs
    ]


def cells_at(found: dict, step: int) -> list[int]:
    cells = [int(code) for code in found["cells"]]
    for one in found["steps"][: step + 1]:
        for cell, code in zip(one["cells"][::2], one["cells"][1::2], strict=True):
            cells[cell] = code
    return cells


def shards(found: dict, cells: list[int], rank: int, role: str, unit: str) -> list[int]:
    """Codes of a unit's shards on a rank."""
    state = [one["role"] for one in found["states"]].index(role)
    place = [one["name"] for one in found["units"]].index(unit)
    size = found["num_shards"]
    first = ((rank * len(found["states"]) + state) * len(found["units"]) + place) * size
    return cells[first : first + size]


def names(alignment) -> list[tuple[str, str, str]]:
    return [(one.phase.value, one.what.value, one.unit) for one in alignment.moments]


STAGE_1_AND_3 = [
    ("forward", "begins", ""),
    ("forward", "computes", "embedding"),
    ("forward", "computed", "embedding"),
    ("forward", "computes", "block"),
    ("forward", "computed", "block"),
    ("backward", "begins", ""),
    ("backward", "computes", "block"),
    ("backward", "computed", "block"),
    ("backward", "computes", "embedding"),
    ("backward", "computed", "embedding"),
    ("backward", "reduced", "block"),
    ("backward", "reduced", "embedding"),
    ("update", "begins", ""),
    ("update", "computed", "embedding"),
    ("update", "computed", "block"),
    ("update", "gathered", "embedding"),
    ("update", "gathered", "block"),
    ("outside", "over", ""),
]
"""Nothing overlaps; the messages of a bucket are asked for when its gradient is there."""


@pytest.fixture(scope="module")
def pair():
    return [document("one", stage=1), document("three", stage=3)]


def test_two_stages_have_these_moments(pair):
    alignment = align(pair)
    found = names(alignment)
    assert sorted(found) == sorted(STAGE_1_AND_3)
    program = [one for one in STAGE_1_AND_3 if one[1] not in ("reduced", "gathered")]
    assert [one for one in found if one[1] not in ("reduced", "gathered")] == program
    assert [run.title for run in alignment.runs] == ["ZeRO-1", "ZeRO-3"]
    assert [run.law for run in alignment.runs] == [
        stage_states(stage, 1, 1).law() for stage in (1, 3)
    ]
    assert alignment.ranks == (0, 1)
    assert alignment.notes == ()


def test_each_run_is_at_the_step_at_which_it_happens(pair):
    alignment = align(pair)
    for found, run in zip(pair, alignment.runs, strict=True):
        for moment, step, came in zip(alignment.moments, run.steps, run.came, strict=True):
            here = found["steps"][step]
            if moment.what is What.COMPUTES:
                assert (here["kind"], here["unit_name"]) == ("compute", moment.unit)
                assert here["phase"] == moment.phase
            elif moment.what in (What.BEGINS, What.OVER):
                assert (here["kind"], here["phase"]) == ("mark", moment.phase)
            elif moment.what is What.COMPUTED:
                before = [
                    (number, one)
                    for number, one in enumerate(found["steps"][:step])
                    if one["kind"] == "compute"
                    and (one["unit_name"], one["phase"]) == (moment.unit, moment.phase)
                ]
                assert len(before) == 1
                assert before[0][1]["until"] < step
            assert came == (moment.what is not What.GATHERED or found["run"]["stage"] == 1)


def test_what_a_moment_says_is_what_the_ranks_hold(pair):
    alignment = align(pair)
    for found, run in zip(pair, alignment.runs, strict=True):
        shards_of = (KEPT, KEPT) if found["run"]["stage"] == 1 else (KEPT, GATHERED)
        for moment, step in zip(alignment.moments, run.steps, strict=True):
            cells = cells_at(found, step)
            held = shards(found, cells, 0, "parameters", moment.unit) if moment.unit else []
            own = shards(found, cells, 0, "gradients", moment.unit) if moment.unit else []
            if moment.what is What.COMPUTES:
                assert tuple(held) == shards_of
            elif moment.what is What.COMPUTED and moment.phase == "forward":
                assert held == ([KEPT, KEPT] if found["run"]["stage"] == 1 else [KEPT, 0])
            elif moment.what is What.REDUCED:
                assert own[0] == REDUCED
            elif moment.what is What.GATHERED and found["run"]["stage"] == 1:
                assert held == [KEPT, KEPT]


def test_what_is_said_of_a_moment_and_of_what_follows(pair):
    alignment = align(pair)
    said = dict(zip(names(alignment), zip(alignment.titles, *(r.follows for r in alignment.runs),
                                          strict=True), strict=True))  # fmt: skip
    assert said["forward", "begins", ""] == (
        "Forward begins", "next: no communication", "next: all-gather of embedding",
    )  # fmt: skip
    assert said["forward", "computes", "block"] == (
        "Forward: block computes", "next: its parameters are kept",
        "next: its gathered parameters are freed",
    )  # fmt: skip
    title, one, three = said["backward", "computed", "embedding"]
    assert title == "Backward: the gradient of embedding has just been computed"
    assert re.fullmatch(r"(next|now): reduce-scatter(, hop 1 of 1)?, then 1/2 is used; the buffer "
                        "stays whole", one)  # fmt: skip
    assert re.fullmatch(r"(next|now): reduce-scatter(, hop 1 of 1)?, then all but 1/2 is freed",
                        three)  # fmt: skip
    assert said["backward", "reduced", "block"][1:] == (
        "next: the update uses 1/2; the buffer stays whole",
        "next: 1/2 is kept until the update",
    )
    assert said["update", "gathered", "block"][2] == "next: no communication until the next forward"
    assert said["outside", "over", ""] == (
        "The iteration ends", "next: the next iteration", "next: the next iteration",
    )  # fmt: skip


def test_a_run_beside_itself_is_at_the_same_steps(pair):
    alignment = align([pair[1], pair[1]])
    assert alignment.runs[0].steps == alignment.runs[1].steps
    assert all(alignment.runs[0].came)
    # two of one kind are told apart by their names alone
    assert {run.title for run in alignment.runs} == {"ZeRO-3 · three"}


@st.composite
def groups(draw: st.DrawFn) -> list[Plan]:
    """Two to four runs of one model, each otherwise as it likes."""
    first = draw(plans())
    others = draw(st.lists(plans(), min_size=1, max_size=3))
    fields = ("num_ranks", "iterations", "stage", "overlap", "hop_ns", "gap_ns", "handover_ns")
    return [first] + [
        Plan(units=first.units, **{name: getattr(other, name) for name in fields})
        for other in others
    ]


@settings(max_examples=30, deadline=None)
@given(groups())
def test_any_runs_of_one_model_are_aligned(group):
    found = [
        replay_document(load_plan(plan), name=f"run {number}") for number, plan in enumerate(group)
    ]
    alignment = align(found)
    plain = alignment.to_plain()
    assert json.loads(json.dumps(plain, allow_nan=False)) == json.loads(json.dumps(plain))
    assert len(set(alignment.moments)) == len(alignment.moments)
    lengths = {len(alignment.moments), len(alignment.titles), len(alignment.whats)}
    for one, run in zip(found, alignment.runs, strict=True):
        lengths |= {len(run.steps), len(run.came), len(run.follows)}
        assert list(run.steps) == sorted(run.steps)
        assert 0 <= run.steps[0] <= run.steps[-1] <= last_step(one)
        if one["broken"] is None:
            assert run.steps[-1] == last_step(one)
        assert all(run.follows)
        own = happenings(one)
        at = dict(zip(alignment.moments, run.steps, strict=True))
        for happening in own.program:  # what is communicated may be shown later, never earlier
            assert at[happening.moment] == happening.step
        for happening in own.communication:
            assert at[happening.moment] >= happening.step
        assert {m for m, came in zip(alignment.moments, run.came, strict=True) if came} == {
            one.moment for one in (*own.program, *own.communication)
        }
    assert len(lengths) == 1
    assert alignment.ranks == tuple(range(min(plan.num_ranks for plan in group)))
    assert len({run.title for run in alignment.runs}) == len(alignment.runs)


# ----------------------------------------------------------------------- unlike, broken, strange


def test_different_numbers_of_ranks_are_aligned_with_a_note():
    alignment = align([document("two", num_ranks=2), document("four", num_ranks=4)])
    assert [run.title for run in alignment.runs] == ["ZeRO-3 · 2 ranks", "ZeRO-3 · 4 ranks"]
    assert alignment.notes == ("2 and 4 ranks: ranks 0-1 can be inspected",)


def test_one_rank_sends_nothing():
    alignment = align([document("one", num_ranks=1), document("two", num_ranks=2)])
    said = {*alignment.runs[0].follows}
    assert said == {
        "next: no communication, because one rank has everything",
        "next: the next iteration",
    }


def test_other_models_share_the_units_that_have_the_same_name():
    other = document("other", units=("embedding", "block", "head"))
    alignment = align([document("one"), other])
    one, more = units_of(alignment)
    assert more - one == {"head"}
    assert "block" in one & more
    assert any("compute different units" in note for note in alignment.notes)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_two_to_four(pair, count):
    with pytest.raises(ConfigError, match=f"{count} runs: expected 2 to 4"):
        align([pair[0]] * count)


@pytest.mark.parametrize("other", ["profiles/fsdp2", "profiles/ddp-zero", "deepspeed/deepspeed-3"])
def test_programs_are_aligned_by_what_they_compute(other):
    documents = [replay_document(load(COMMITTED / name)) for name in ("profiles/ddp", other)]
    alignment = align(documents)
    own, others = units_of(alignment)
    assert own == others == {"", "embedding", "hidden.0", "hidden.1", "hidden.2", "head"}
    assert alignment.runs[0].title == "DDP"
    assert alignment.runs[0].law == "16Ψ"
    assert not any("units" in note for note in alignment.notes)


def test_runs_without_a_common_rank_are_refused(pair):
    with pytest.raises(ConfigError, match="no rank is in all of one, three"):
        align([{**pair[0], "ranks": [0]}, {**pair[1], "ranks": [1]}])


def test_runs_of_another_order_share_their_phases(pair):
    swapped = copy.deepcopy(pair[0])
    first, second = [
        step
        for step in swapped["steps"]
        if step["kind"] == "compute" and step["phase"] == "forward"
    ]
    for field in ("unit", "unit_name"):
        first[field], second[field] = second[field], first[field]
    alignment = align([pair[1], swapped])
    assert {moment.unit for moment in alignment.moments} == {""}
    assert {moment.phase for moment in alignment.moments} >= {Phase.FORWARD, Phase.BACKWARD}
    assert any("in different orders" in note for note in alignment.notes)


def test_a_broken_run_stays_where_it_ends(pair):
    broken = {**pair[1], "broken": {"step": 9, "reason": "a shard came twice"}}
    alignment = align([pair[0], broken])
    run = alignment.runs[1]
    assert max(run.steps) <= 9
    assert run.follows[-1] == "this run ended before this moment"
    assert run.came.index(False) < len(run.came) - 1
    assert alignment.notes == ("three ends at step 10: a shard came twice",)


def test_a_run_that_was_cut_short_says_so(pair):
    cut = copy.deepcopy(pair[1])
    cut["steps"] = cut["steps"][:12]
    for collective in cut["collectives"]:
        collective["last"] = min(collective["last"], 11)
    for step in cut["steps"]:
        step["until"] = min(step["until"], 11)
    cut["run"] |= {"complete": False, "iteration": 0}
    alignment = align([pair[0], cut])
    assert alignment.notes == (
        "incomplete: three; the runs are therefore shown at iterations 1, 0",
        "three did not reach the end of the iteration",
    )
    assert [run.title for run in alignment.runs] == ["ZeRO-1", "ZeRO-3 · incomplete"]
    assert not alignment.runs[1].came[-1]


def test_hostile_names_are_kept_as_they_are(pair):
    name = "{0} {unit} <script>\u2028%s"
    units = [{**unit, "name": unit["name"].replace("block", name)} for unit in pair[0]["units"]]
    steps = [
        {**step, "unit_name": step["unit_name"].replace("block", name)} for step in pair[0]["steps"]
    ]
    one = {**pair[0], "units": units, "steps": steps, "name": name}
    alignment = align([one, one])
    assert f"Forward: {name} computes" in alignment.titles
    assert alignment.runs[0].title == f"ZeRO-1 · {name}"


# ------------------------------------------------------------------------------------ sentences


def every_text() -> dict[str, str]:
    def walk(path, value):
        if isinstance(value, dict):
            for key, below in value.items():
                yield from walk((*path, key), below)
        else:
            yield ".".join(path), value

    return dict(walk((), texts()))


KNOWN_FIELDS = {
    "N", "common", "count", "fewest", "hop", "hops", "law", "micro_step", "most", "name", "names",
    "note", "number", "op", "other", "other_size", "phase", "purpose", "reason", "size", "sizes",
    "step", "then", "tier", "unit",
}  # fmt: skip


@pytest.mark.parametrize("path", every_text())
def test_every_text_can_be_filled_in(path):
    text = every_text()[path]
    fields = {name for _, name, _, _ in string.Formatter().parse(text) if name}
    assert fields <= KNOWN_FIELDS
    assert not text.endswith(".")


def test_every_stage_has_its_words():
    assert set(texts()["then"]) == {str(stage) for stage in STAGE_NAMES}
    assert set(texts()["next"]["reduced"]) == {str(stage) for stage in STAGE_NAMES}


# ------------------------------------------------------------------------------------ real runs

VARIANTS = {
    "ring": ["--stage", "all"],
    "native": ["--stage", "all", "--collectives", "native"],
    "micro-steps": ["--stage", "all", "--accumulate", "2", "--bucket-elements", "500000"],
}


@pytest.mark.ranks
@pytest.mark.parametrize(
    "variant",
    # with micro-steps it is a ring as well
    [pytest.param(one, marks=pytest.mark.long) if one == "ring" else one for one in VARIANTS],
)
def test_real_runs(tmp_path, variant):
    flags = ["--ranks", "2", "--steps", "1", "--out", tmp_path, *VARIANTS[variant]]
    answer = command("run", *flags)
    assert answer.code == 0, answer.err
    found = [
        replay_document(load(tmp_path / f"stage-{stage}"), name=f"stage-{stage}")
        for stage in STAGE_NAMES
    ]
    alignment = align(found)
    units = [unit["name"] for unit in found[0]["units"]]
    for one, run in zip(found, alignment.runs, strict=True):
        for moment, step, came in zip(alignment.moments, run.steps, run.came, strict=True):
            if not came or moment.what is not What.REDUCED:
                continue
            cells = cells_at(one, step)
            for rank in range(2):
                assert shards(one, cells, rank, "gradients", moment.unit)[rank] == REDUCED
        last = {m.unit for m in alignment.moments if m.what is What.REDUCED}
        assert last == {*units}
        stage = one["run"]["stage"]
        gathered = [m for m, came in zip(alignment.moments, run.came, strict=True)
                    if came and m.what is What.GATHERED]  # fmt: skip
        assert {m.unit for m in gathered} == ({*units} if stage in (1, 2) else set())
    assert [run.title for run in alignment.runs] == ["Data parallel", "ZeRO-1", "ZeRO-2", "ZeRO-3"]


def test_a_unit_that_its_computation_gathers_is_seen_when_it_has_come():
    documents = [replay_document(load(COMMITTED / f"profiles/{name}")) for name in ("ddp", "fsdp2")]
    alignment = align(documents)
    place = next(
        number
        for number, moment in enumerate(alignment.moments)
        if (moment.phase, moment.what, moment.unit) == (Phase.FORWARD, What.COMPUTES, "hidden.1")
    )
    ddp, fsdp2 = (
        document["steps"][run.steps[place]]
        for document, run in zip(documents, alignment.runs, strict=True)
    )
    assert (ddp["kind"], fsdp2["kind"]) == ("compute", "compute")
    assert [run.follows[place] for run in alignment.runs] == [
        say("next", "stays"),
        say("next", "freed"),
    ]


def test_owners_that_update_side_by_side_are_compared_unit_by_unit():
    """Whose unit is updated first is chance: what is left is one order of all else."""
    folders = [COMMITTED / name / "stage-3" for name in ("cut", "owned")]
    alignment = align([replay_document(load(folder), 1) for folder in folders])
    assert alignment.notes == ()
    seen = {(moment.phase, moment.unit) for moment in alignment.moments}
    assert {(Phase.FORWARD, "blocks.2"), (Phase.BACKWARD, "blocks.2")} <= seen
    assert not {unit for phase, unit in seen if phase is Phase.UPDATE and unit}
    assert {len(run.steps) for run in alignment.runs} == {len(alignment.moments)}
