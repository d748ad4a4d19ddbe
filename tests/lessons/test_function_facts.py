"""Who asked: DeepSpeed's functions in its traces, zerosim's in its own, and what a file tells."""

from __future__ import annotations

import pytest

from tests.lessons.committed import facts
from zerosim.base.errors import ConfigError
from zerosim.lessons.recordings import committed
from zerosim.lessons.views import view
from zerosim.verify.outcome import Outcome

DEEPSPEED = [run for run in committed() if run.partition("/")[0].endswith("-deepspeed")]
OURS = [f"{setting}/stage-{stage}" for setting in ("hugging-face", "walk") for stage in (1, 2, 3)]


@pytest.mark.parametrize("run", DEEPSPEED)
def test_every_call_of_deepspeed_names_its_functions(run):
    steps = facts().asked_steps(run)
    assert {one.phase for one in steps} >= {"initialize", "backward", "update"}
    assert all(place.file.startswith("deepspeed/") for one in steps for place in one.way)
    asked = list(facts()._asked(run))
    assert sum(one.calls for one in steps) == len(asked)
    assert all(event.source.startswith("programs/") for event in asked)


@pytest.mark.parametrize("run", OURS)
def test_so_does_every_call_of_our_engine(run):
    for one in facts().asked_steps(run):
        assert all(place.file.startswith("zerosim/") for place in one.way)
        assert one.way[-1].line > 0


@pytest.mark.parametrize("run", DEEPSPEED)
def test_what_deepspeed_sent_is_explained_to_the_byte(run):
    assert facts()._report(run).outcome in (Outcome.AS_PREDICTED, Outcome.EXPLAINED)
    assert facts().unexplained(run) == 0


@pytest.mark.parametrize("run", OURS)
def test_our_engine_sends_what_the_law_says(run):
    assert facts().keeps_law(run)


def test_what_was_told_before_is_what_was_measured():
    assert facts().sends_told() == pytest.approx(
        facts().asked("hugging-face-deepspeed/stage-2"), rel=1e-3
    )
    stage_1 = facts().sends_told("zero_optimization.stage", 1)
    assert stage_1 == pytest.approx(facts().asked("hugging-face-deepspeed/stage-1"), rel=1e-3)
    assert facts().law_told() == pytest.approx(facts().asked("hugging-face/stage-2"), rel=1e-3)


def test_a_hook_sends_full_buckets_and_the_epilogue_the_last():
    run, hook = "walk-deepspeed/stage-2", "grad_handling_hook"
    epilogue = "overlapping_partition_gradients_reduce_epilogue"
    assert facts().asked_through(run, hook, "backward", 0) == 2
    assert facts().asked_through(run, epilogue, "backward", 0) == 1
    assert facts().asked_through(run, "reduce_ipg_grads", "backward", 0) == 3
    assert facts().asked_through("walk-deepspeed/stage-1", hook, "backward", 0) == 0


def test_stage_3_asks_for_each_parameter_three_times_before_it_begins():
    run = "walk-deepspeed/stage-3"
    count = facts().parameters(run)
    broadcasts = facts().first_asked(run, "initialize", "broadcast initial state", "broadcast")
    gathers = facts().first_asked(run, "initialize", "gather parameters", "all-gather")
    assert (broadcasts, gathers) == (2 * count, count)
    assert facts().asked_through(run, "_zero_init_param") == count


def test_the_way_to_a_call_that_nobody_makes_is_refused():
    with pytest.raises(ConfigError, match="nobody asks for gather parameters in backward"):
        facts().way_of("walk-deepspeed/stage-1", "backward", "gather parameters")


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_each_step_stands_beside_ours(stage):
    table = view(facts(), "asked", f"walk-deepspeed/stage-{stage}", f"walk/stage-{stage}")
    ours = {row[0].partition(": ")[2]: row[3] for row in table.rows}
    assert "reducer.py" in ours["reduce gradients"]
    assert all(".py:" in row[2] for row in table.rows)
