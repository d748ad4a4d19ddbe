"""What DeepSpeed's stages send by their configuration; tests/deepspeed runs the real one."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.programs import causes, deepspeed, parameter, plan_of, plans_of, sent
from zerosim.errors import ConfigError
from zerosim.events import Algorithm, Op, Phase
from zerosim.strategies import Bundle
from zerosim.theory.programs import deviations, in_force, plan_step

W = parameter("w", 128)
GROUP = Bundle(name="group 0", parameters=(W,), options={"padded_elements": 128})
A, B = parameter("a.w", 96), parameter("b.w", 32)
MODULES = (
    Bundle(name="root", options={"persistent": []}),
    Bundle(name="a", parameters=(A,), options={"persistent": []}),
    Bundle(name="b", parameters=(B,), options={"persistent": []}),
)
PSI = 128 * 4
"""Bytes."""


@pytest.mark.parametrize(("stage", "payloads"), [(0, 2), (1, 3), (2, 3), (3, 3)])
def test_each_stage_by_default_and_what_it_keeps_to_zero(stage, payloads):
    plan = plan_of(4, deepspeed(4, stage, *(MODULES if stage == 3 else (GROUP,))))
    assert sent(plan) == payloads * PSI * 3 // 4
    assert plan.law.payloads == (2, 2, 2, 3)[stage]
    beyond = {"gradients all-reduced": PSI * Fraction(3, 4)} if stage in (1, 2) else {}
    assert causes(plan) == beyond
    assert plan.title == f"DeepSpeed stage {stage}"


def test_micro_steps_as_the_documentation_counts_them():
    counts = {
        stage: plan_of(
            2, deepspeed(2, stage, *(MODULES if stage == 3 else (GROUP,))), micro_steps=2
        )
        for stage in range(4)
    }
    assert [plan.law.payloads for plan in counts.values()] == [2, 2, 3, 6]
    assert [plan.scale.multiple(sent(plan)) for plan in counts.values()] == [2, 3, 5, 6]


def test_the_cause_names_the_option():
    plan = plan_of(2, deepspeed(2, 2, GROUP))
    (why,) = deviations(plan, 0, Algorithm.RING)
    assert why.words == (
        "buckets are all-reduced instead of reduce-scattered (use_multi_rank_bucket_allreduce): "
        "+ 1.00 Ψ"
    )


def test_a_reduce_for_each_owner_is_the_law_in_the_mean():
    plan = plan_of(4, deepspeed(4, 2, GROUP, use_multi_rank_bucket_allreduce=False))
    assert [call.op for call in plan.calls] == [Op.REDUCE, Op.ALL_GATHER]
    assert causes(plan).keys() <= {"unequal parts of ranks"}


def test_gradients_in_another_dtype():
    narrow = {"dtype": "bfloat16", "communication_data_type": "float32"}
    plan = plan_of(2, deepspeed(2, 2, GROUP, **narrow))
    assert plan.law.sent_bytes == 256 / 2 * 2
    assert causes(plan) == {"gradients all-reduced": 256, "dtype of the reduction": 128}


def test_groups_are_padded():
    padded = replace(GROUP, options={"padded_elements": 136})
    assert causes(plan_of(2, deepspeed(2, 1, padded)))["padding"] == 16
    both = plan_of(2, deepspeed(2, 1, padded, optimizer="BF16_Optimizer"))
    assert causes(both)["padding"] == 48
    assert [call.elements for call in both.calls] == [136, 136]
    assert not any(call.is_cut for call in both.calls)


def gathers(plan, phase):
    """What is gathered in a phase, in calls."""
    return [c.elements for c in plan.calls if c.phase is phase and c.op is Op.ALL_GATHER]


def test_reuse_distance_keeps_what_is_used_again_soon():
    # b is used last in forward and first in backward
    plan = plan_of(2, deepspeed(2, 3, *MODULES, max_reuse_distance=1))
    assert gathers(plan, Phase.FORWARD) == [96, 32]
    assert gathers(plan, Phase.BACKWARD) == [96]
    assert causes(plan) == {"parameters kept": -32 * 4 / 2}


def test_prefetch_gathers_ahead():
    plan = plan_of(2, deepspeed(2, 3, *MODULES, prefetch_bucket_size=10))
    # a is fetched ahead with the root, b with a; and with b already what backward needs of a
    assert gathers(plan, Phase.FORWARD) == [96, 32, 96]
    assert gathers(plan, Phase.BACKWARD) == []
    everything = plan_of(2, deepspeed(2, 3, *MODULES, prefetch_bucket_size=10**6))
    assert gathers(everything, Phase.FORWARD) == [128]
    assert gathers(everything, Phase.BACKWARD) == []
    one = plan_of(2, deepspeed(2, 3, *MODULES, allgather_sequential=True))
    assert gathers(one, Phase.FORWARD)[0] == 96


def test_persistent_parameters_are_gathered_once_a_step():
    small = replace(MODULES[2], options={"persistent": ["b.w"]})
    later = deepspeed(2, 3, *MODULES[:2], small)
    held = {0: in_force((later,), 1, 2), 1: ()}
    (plan,) = plan_step(held, 0, iteration=1, rows=(later,))
    assert gathers(plan, Phase.UPDATE) == [32]
    assert gathers(plan, Phase.FORWARD) == [96, 96]
    assert causes(plan) == {"parameters kept": -3 * 32 * 4 / 2}


def test_a_recording_micro_step_keeps_nothing():
    limits = {"max_reuse_distance": 10**6, "prefetch_bucket_size": 10**6}
    first = deepspeed(2, 3, *MODULES, **limits, trace="record", module_order=[])
    second = replace(deepspeed(2, 3, *MODULES, **limits), iteration=1)
    rows = (first, second)
    (recorded,) = plan_step({0: in_force(rows, 0, 1)}, 0, iteration=0, rows=rows)
    assert causes(recorded) == {}
    (repeated,) = plan_step({0: in_force(rows, 1, 1)}, 0, iteration=1, rows=rows)
    assert causes(repeated) == {"parameters kept": -PSI // 2}
    (later,) = plan_step({0: in_force(rows, 9, 1)}, 0, iteration=9, rows=rows)
    assert later.calls == repeated.calls


def test_variants_that_all_reduce():
    plan = plan_of(2, deepspeed(2, 3, *MODULES, reduce_scatter=False))
    assert causes(plan) == {"gradients all-reduced": PSI // 2}
    two = replace(MODULES[1], parameters=(A, parameter("a.b", 4)))
    plan = plan_of(2, deepspeed(2, 3, two, use_all_reduce_for_fetch_params=True))
    assert causes(plan) == {"gradients all-reduced": 2 * 100 * 4 / 2}


def test_what_cannot_be_planned_is_said():
    with pytest.raises(ConfigError, match="has not told in which order its modules compute"):
        plan_of(2, deepspeed(2, 3, *MODULES, module_order=[], trace="record"))
    with pytest.raises(ConfigError, match="is of stage 4: expected 0 to 3"):
        plan_of(2, deepspeed(2, 4, GROUP))


@given(
    st.integers(0, 3),
    st.sampled_from([2, 3, 4]),
    st.integers(1, 2),
    st.booleans(),
    st.lists(st.integers(1, 50), min_size=3, max_size=3),
    st.lists(st.sampled_from([0, 20, 40, 10**6]), min_size=3, max_size=3),
    st.sampled_from([Algorithm.RING, Algorithm.GLOO]),
)
def test_causes_are_exactly_the_difference(
    stage, ranks, micro_steps, flag, sizes, limits, algorithm
):
    names = ("root", "a", "b")
    bundles = [
        Bundle(
            name=name,
            parameters=(parameter(f"{name}.w", size, trainable=flag or place > 0),),
            options={
                "persistent": [f"{name}.w"] if size < 20 else [],
                "padded_elements": -(-size // ranks) * ranks,
            },
        )
        for place, (name, size) in enumerate(zip(names, sizes, strict=True))
    ]
    strategy = deepspeed(
        ranks,
        stage,
        *bundles,
        use_multi_rank_bucket_allreduce=flag,
        **(
            dict(zip(("prefetch_bucket_size", "max_live_parameters"), limits, strict=False))
            | {"max_reuse_distance": limits[2]}
            if stage == 3
            else {}
        ),
    )
    for plan in plans_of(ranks, strategy, micro_steps=micro_steps):
        total = sum((one.bytes for one in deviations(plan, 0, algorithm)), Fraction(0))
        assert plan.law.sent_bytes + total == sent(plan, 0, algorithm)
