"""What programs send: plans against closed forms that a person can check, and exact causes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.programs import (
    causes,
    data_parallel,
    ddp,
    fsdp,
    module,
    parameter,
    plan_of,
    plans_of,
    sent,
    sharded,
    zero,
)
from zerosim.base.errors import ConfigError
from zerosim.schema.events import Algorithm, Op, Phase, Purpose
from zerosim.schema.strategies import HAND_WRITTEN, Bundle, Strategy
from zerosim.theory import Cause
from zerosim.theory.programs import in_force, plan_hand_written, plan_step

ALGORITHMS = st.sampled_from([Algorithm.RING, Algorithm.GLOO])
W, B = parameter("w", 12, 10), parameter("b", 8)
"""128 elements, 512 B: 2 and 4 ranks divide them, row by row."""


def test_ddp_sends_two_psi():
    plan = plan_of(4, ddp(4, W, B))
    assert plan.law.sent_bytes == 2 * 512 * Fraction(3, 4) == 768
    assert plan.formula == "2Ψ(N-1)/N"
    (call,) = plan.calls
    assert (call.phase, call.purpose, call.op) == (
        Phase.BACKWARD,
        Purpose.REDUCE_GRADIENTS,
        Op.ALL_REDUCE,
    )
    assert sent(plan) == 768
    assert causes(plan) == {}


def test_ddp_reduces_each_micro_step_unless_it_is_told_not_to():
    always = plan_of(2, ddp(2, W, B), micro_steps=3)
    assert causes(always) == {"gradients reduced again": 2 * 512}
    assert "no_sync()" in always.deviations(0, Algorithm.RING)[0].words
    rows = (ddp(2, W, B, reduces=False), replace(ddp(2, W, B), micro_step=2))
    once = plan_of(2, *rows, micro_steps=3)
    assert causes(once) == {}
    assert len(once.calls) == 1
    never = plan_of(2, ddp(2, W, B, reduces=False))
    assert causes(never) == {"gradients not reduced": -512}


def test_ddp_broadcasts_buffers_where_the_forward_before_was_reduced():
    buffers = {"float32": 10, "int64": 1}
    rows = (
        ddp(2, W, reduces=False, buffer_elements=buffers),
        replace(ddp(2, W, buffer_elements=buffers), micro_step=1),
    )
    plan = plan_of(2, *rows, micro_steps=2)
    broadcasts = [call for call in plan.calls if call.op is Op.BROADCAST]
    assert [(call.elements, call.element_bytes) for call in broadcasts] == [(10, 4), (1, 8)]
    assert causes(plan, 0) == {"buffers": 24, "unequal parts of ranks": 24}
    assert causes(plan, 1) == {"buffers": 24, "unequal parts of ranks": -24}


def test_what_a_compressing_hook_saves_and_what_another_hook_does():
    half = plan_of(2, ddp(2, W, B, comm_hook="bf16_compress_hook"))
    assert causes(half) == {"dtype of the reduction": -256}
    other = plan_of(2, ddp(2, W, B, comm_hook="powerSGD_hook"))
    assert causes(other) == {"communication hook": -512}
    assert other.left_to == {Purpose.REDUCE_GRADIENTS: "DDP's communication hook powerSGD_hook"}


def test_zero_redundancy_sends_a_psi_more_than_stage_1():
    plan = plan_of(2, ddp(2, W, B), zero(2, W, B))
    assert plan.title == "DDP + ZeroRedundancyOptimizer"
    assert plan.law.sent_bytes == 512
    assert causes(plan, 0) == {"gradients all-reduced": 256, "unequal parts of ranks": 480 - 256}
    assert causes(plan, 1) == {"gradients all-reduced": 256, "unequal parts of ranks": 32 - 256}
    assert [(call.root, call.elements) for call in plan.calls[1:]] == [(0, 120), (1, 8)]


def test_zero_redundancy_by_itself_gathers_what_was_updated():
    plan = plan_of(2, zero(2, W, B, bucket_view=True))
    assert plan.law.sent_bytes == 256
    assert len(plan.calls) == 2


def test_fsdp2_keeps_its_root():
    plan = plan_of(4, fsdp(4, module("root", B), module("a", W)))
    assert plan.law.sent_bytes == 3 * 512 * Fraction(3, 4)
    assert causes(plan) == {"parameters kept": Fraction(-32 * 3, 4)}
    assert sent(plan) == (3 * 480 + 2 * 32) * 3 // 4
    (why,) = plan.deviations(0, Algorithm.RING)
    assert why.words == "root parameters kept after forward: - 0.06Ψ(N-1)/N"


def test_fsdp2_pads_the_rows_of_each_parameter():
    plan = plan_of(4, fsdp(4, module("a", parameter("odd", 5, 3))))
    assert {call.elements for call in plan.calls} == {24}  # 8 rows of 3
    assert causes(plan) == {"padding": 3 * 9 * 4 * Fraction(3, 4)}
    flat = module("a", parameter("odd", 5, 3), padded_elements=16)
    assert {c.elements for c in plan_of(4, fsdp(4, flat, system="FSDP1")).calls} == {16}


def test_gloo_carries_fsdp2s_reduce_scatter_out_as_all_reduce():
    plan = plan_of(2, fsdp(2, module("a", W, B)))
    found = plan.deviations(0, Algorithm.GLOO)
    assert [(one.cause, one.bytes) for one in found] == [(Cause.BACKEND_ALGORITHM, 256)]
    assert found[0].words == "Gloo implements reduce-scatter as all-reduce: + Ψ(N-1)/N on the wire"


def test_gradients_in_a_wider_dtype():
    wide = {"parameter_dtype": "bfloat16", "reduce_dtype": "float32"}
    plan = plan_of(2, fsdp(2, module("a", W, B, **wide)))
    assert plan.law.sent_bytes == 3 * 128
    assert causes(plan) == {"dtype of the reduction": 128}


def test_fsdp2_accumulates():
    quiet = module("a", W, B, reduces=False, reshards_after_backward=False)
    rows = (fsdp(2, quiet), fsdp(2, module("a", W, B), micro_step=1))
    plan = plan_of(2, *rows, micro_steps=2)
    assert plan.law.sent_bytes == 6 * 256
    assert plan.formula == "6Ψ(N-1)/N"
    assert causes(plan) == {"parameters kept": -256, "gradients not reduced": -256}


def test_hsdp_sums_over_its_replicas():
    hybrid = {"shard_ranks": [0, 1], "replicate_ranks": [0, 2]}
    plan = plan_of(4, fsdp(4, module("a", W, B, **hybrid)))
    assert plan.title == "HSDP"
    # 3 Psi among 2 shards, and 2 Psi / 2 of it over 2 replicas
    assert plan.law.sent_bytes == 3 * 256 + 256
    assert sent(plan) == plan.law.sent_bytes
    assert {call.ranks for call in plan.calls} == {(0, 1), (0, 2)}
    assert plan.formula == "3Ψ(N-1)/N + 2Ψ/N(R-1)/R"


def test_frozen_modules_before_the_first_trainable_one_are_not_gathered_again():
    frozen = replace(W, trainable=False)
    modules = [module("a", frozen), module("b", B)]
    old = plan_of(2, fsdp(2, *modules, system="FSDP1"))
    assert causes(old) == {"frozen parameters": -480}
    assert [c.unit for c in old.calls] == ["a", "b", "b", "b"]
    # FSDP2 gathers the last of them ahead, in the backward of what comes after it in forward
    plan = plan_of(2, fsdp(2, *modules))
    assert causes(plan) == {"frozen parameters": -240}
    assert [c.unit for c in plan.calls] == ["a", "b", "b", "b", "a"]
    unreached = {"is_reached": False}
    root = module("root", B, is_reached=True)
    several = [module(name, frozen, **unreached) for name in ("a", "b")]
    plan = plan_of(2, fsdp(2, root, *several, module("c", B, is_reached=True)))
    backward = [c.unit for c in plan.calls if c.phase is Phase.BACKWARD]
    assert backward == ["c", "c", "b", "root"]


@given(st.sampled_from([2, 3, 4]), ALGORITHMS, st.integers(1, 3), st.data())
def test_causes_of_every_system_are_exactly_the_difference(ranks, algorithm, micro_steps, data):
    strategies = data.draw(data_parallel(ranks) | sharded(ranks))
    rank = data.draw(st.integers(0, ranks - 1))
    if strategies[0].system != "DDP":
        # a rank of a mesh has another row and column; the plan is of the first
        rank = 0
    for plan in plans_of(ranks, *strategies, rank=rank, micro_steps=micro_steps):
        found = plan.deviations(rank, algorithm)
        total = sum((one.bytes for one in found), Fraction(0))
        assert plan.law.sent_bytes + total == sent(plan, rank, algorithm)
        assert all(one.bytes and one.words for one in found)
        assert len({one.cause for one in found}) == len(found)


def test_a_later_row_takes_the_place_of_an_earlier_one():
    first, second = ddp(2, W), replace(ddp(2, W, reduces=False), iteration=1, micro_step=1)
    held = in_force((first, second), 0, 2)
    assert held == ((first, first),)
    assert in_force((first, second), 1, 2) == ((first, second),)
    assert in_force((first, second), 2, 1) == ((second,),)
    late = replace(first, micro_step=1)
    assert in_force((late,), 0, 2) == ((late, late),)


def test_one_rank_sends_nothing():
    assert plan_step({0: in_force((ddp(1, W),), 0, 1)}, 0) == ()


def test_wrong_options_are_named():
    with pytest.raises(ConfigError, match="option 'buckets' of 'model' is 'many': expected a list"):
        plan_of(2, ddp(2, W, buckets="many"))
    with pytest.raises(ConfigError, match="dtype 'quaternion' is unknown"):
        plan_of(2, ddp(2, parameter("w", 3, dtype="quaternion")))


@pytest.mark.parametrize(
    ("calls", "like", "payloads"),
    [
        ([(Phase.BACKWARD, Op.ALL_REDUCE)], "data parallel", 2),
        ([(Phase.BACKWARD, Op.REDUCE_SCATTER), (Phase.UPDATE, Op.ALL_GATHER)], "ZeRO-1 or", 2),
        ([(Phase.BACKWARD, Op.ALL_REDUCE), (Phase.UPDATE, Op.BROADCAST)], "ZeRO-1 with an", 3),
        (
            [
                (Phase.FORWARD, Op.ALL_GATHER),
                (Phase.BACKWARD, Op.ALL_GATHER),
                (Phase.BACKWARD, Op.REDUCE_SCATTER),
            ],
            "ZeRO-3",
            3,
        ),
    ],
)
def test_a_hand_written_program_is_like_the_nearest_law(calls, like, payloads):
    strategy = Strategy(
        system=HAND_WRITTEN,
        name="model",
        ranks=(0, 1),
        bundles=(Bundle(name="model", parameters=(W, B)),),
    )
    template = plan_of(2, ddp(2, W, B)).calls[0]
    seen = [replace(template, phase=phase, op=op) for phase, op in calls]
    plan = plan_hand_written(strategy, seen)
    assert plan.is_likeness
    assert plan.law_name.startswith(like)
    assert plan.law.payloads == payloads
    assert causes(plan, 0).keys() <= {"unequal parts of ranks"}
    more = plan_hand_written(strategy, [*seen, replace(template, elements=13)])
    assert causes(more, 0)["unlike the law"] == 13 * 4
    assert plan_step({0: ((strategy,),)}, 0) == ()
