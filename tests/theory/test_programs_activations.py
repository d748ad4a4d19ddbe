"""What tensor and pipeline parallel send: activations, against the laws of their papers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.programs import (
    causes,
    ddp,
    divided,
    fsdp,
    layer,
    module,
    parameter,
    pipeline,
    plan_of,
    plans_of,
    sent,
    tensor_parallel,
)
from zerosim.base.errors import ConfigError
from zerosim.schema.events import Algorithm, Op, Phase, Purpose
from zerosim.theory.programs import Bubble, in_force, plan_step

H, WIDE = (2, 16, 64), (2, 16, 256)
BSH = 2 * 16 * 64 * 4
"""Bytes of the activations of one boundary."""


def test_a_layer_all_reduces_4_bsh_and_more_where_inputs_are_summed_one_by_one():
    plan = plan_of(4, tensor_parallel(4, *layer(H, WIDE)))
    assert plan.law.payloads == 4
    assert plan.law.sent_bytes == 4 * 2 * BSH * Fraction(3, 4)
    assert plan.law.unit == "b·s·h"
    forward = [call for call in plan.calls if call.phase is Phase.FORWARD]
    assert [call.unit for call in forward] == ["o", "down"]
    assert {call.op for call in plan.calls} == {Op.ALL_REDUCE}
    # q, k and v each sum their own input's gradient: two sums more than one for all three
    (why,) = plan.deviations(0, Algorithm.RING)
    assert why.bytes == 2 * 2 * BSH * Fraction(3, 4)
    assert (
        why.words
        == "the gradient of the input of q, k, v is all-reduced separately: + 2b·s·h 2(N-1)/N"
    )
    assert plan.scale.amount(sent(plan)) == "6b·s·h 2(N-1)/N"


def test_sequence_parallel_sends_the_same_bytes_by_other_operations():
    halves = {"input_layout": "shard 1"}
    quiet = {"input_is_tensor": False}
    blocks = [
        divided("norm", "sequence", H, H),
        divided("attention", "prepare input", H, H, input_layout="shard 1", made_layout=""),
        *(divided(name, "column", H, H, **quiet) for name in "qkv"),
        divided("o", "row", H, H, output_layout="shard 1"),
        divided("up", "column", H, WIDE, **halves),
        divided("down", "row", WIDE, H, output_layout="shard 1"),
    ]
    plan = plan_of(4, tensor_parallel(4, *blocks))
    assert causes(plan) == {}
    assert sent(plan) == plan.law.sent_bytes == 4 * 2 * BSH * Fraction(3, 4)
    ops = [(call.phase, call.op) for call in plan.calls]
    assert ops.count((Phase.FORWARD, Op.ALL_GATHER)) == 2
    assert ops.count((Phase.FORWARD, Op.REDUCE_SCATTER)) == 2
    assert ops.count((Phase.BACKWARD, Op.ALL_GATHER)) == 2
    assert ops.count((Phase.BACKWARD, Op.REDUCE_SCATTER)) == 2


def test_recomputation_adds_2_bsh_a_layer():
    blocks = [replace(one, options=one.options | {"recomputed": 1}) for one in layer(H, WIDE)]
    found = causes(plan_of(2, tensor_parallel(2, *blocks)))
    assert found["recomputation"] == 2 * 2 * BSH * Fraction(1, 2)


def test_micro_steps_and_several_forwards():
    once = plan_of(2, tensor_parallel(2, *layer(H, WIDE)))
    twice = plan_of(2, tensor_parallel(2, *layer(H, WIDE)), micro_steps=2)
    assert twice.law.sent_bytes == 2 * once.law.sent_bytes
    shared = [replace(one, options=one.options | {"forwards": 2}) for one in layer(H, WIDE)]
    assert sent(plan_of(2, tensor_parallel(2, *shared))) == sent(twice)


def test_a_head_and_an_embedding_are_beside_the_layers():
    embedding = divided("embedding", "row", (2, 16), H, input_has_gradient=False)
    embedding = replace(embedding, options=embedding.options | {"input_layout": "replicate"})
    head = divided("head", "column", H, (2, 16, 100), output_layout="replicate")
    plan = plan_of(2, tensor_parallel(2, embedding, *layer(H, WIDE), head))
    assert plan.law.payloads == 4
    logits = 2 * 16 * 100 * 4
    found = causes(plan)
    # the embedding's sum, the head's sum of its input's gradient, the gather of the logits
    assert found["beside the layers"] == BSH + BSH + logits // 2
    gather = next(call for call in plan.calls if call.op is Op.ALL_GATHER)
    assert gather.elements == 3200


def test_an_input_that_needs_no_gradient_is_not_summed():
    blocks = layer(H, WIDE, input_has_gradient=False)
    found = causes(plan_of(2, tensor_parallel(2, *blocks)))
    assert found == {"gradients not reduced": -2 * BSH}


@pytest.mark.parametrize(("device", "op"), [("cpu", Op.ALL_GATHER), ("cuda", Op.ALL_TO_ALL)])
def test_another_sharded_dimension_is_exchanged(device, op):
    """On a CPU by a gather of all shards."""
    blocks = [
        divided("up", "column", H, WIDE, output_layout="shard 0"),
        divided("down", "row", WIDE, H, input_layout="shard 0"),
    ]
    plan = plan_of(2, tensor_parallel(2, *blocks, options={"device": device}))
    # the output of one and the input of the other, their gradients as well; half is sent
    assert causes(plan) == {"beside the layers": 4 * (4 * BSH) // 2}
    exchanged = [call for call in plan.calls if call.op is op]
    assert [call.phase for call in exchanged] == [Phase.FORWARD, Phase.BACKWARD] * 2
    assert {call.payload_bytes for call in exchanged} == {4 * BSH}
    (why,) = plan.deviations(0, Algorithm.RING)
    assert (
        why.words == "the activations of up, down change their sharded dimension: + 8b·s·h 2(N-1)/N"
    )


def test_layouts_that_do_not_divide_are_padded():
    odd = (2, 5, 8)
    plan = plan_of(4, tensor_parallel(4, divided("n", "row", odd, odd, output_layout="shard 1")))
    assert {call.elements for call in plan.calls} == {2 * 8 * 8}


def test_data_parallel_beside_tensor_parallel_works_on_what_is_left_of_parameters():
    weights = [parameter("q.weight", 64, 64), parameter("q.bias", 64)]
    rows = [parameter("o.weight", 64, 64), parameter("o.bias", 64)]
    tensor = tensor_parallel(
        2,
        divided("q", "column", H, H, parameters=tuple(weights)),
        divided("o", "row", H, H, parameters=tuple(rows)),
    )
    tensor = replace(tensor, ranks=(0, 1))
    local = 32 * 64 + 32 + 64 * 32 + 64
    first = replace(ddp(2, *weights, *rows, buckets=[local]), ranks=(0, 2))
    plans = plans_of(4, tensor, first)
    data = next(plan for plan in plans if plan.system == "DDP")
    assert data.num_parameters == local
    assert causes(data) == {}
    # DDP tells what is left by itself
    left = [parameter("q.weight", 32, 64), parameter("q.bias", 32)]
    left += [parameter("o.weight", 64, 32), parameter("o.bias", 64)]
    own = replace(ddp(2, *left), ranks=(0, 2))
    data = next(p for p in plans_of(4, tensor, own) if p.system == "DDP")
    assert (data.num_parameters, causes(data)) == (local, {})
    second = replace(fsdp(2, module("a", *weights, *rows, shard_ranks=[0, 2])), ranks=(0, 2))
    plans = plans_of(4, tensor, second)
    data = next(plan for plan in plans if plan.system == "FSDP2")
    assert {call.elements for call in data.calls} == {local}
    assert causes(data) == {}


# ------------------------------------------------------------------------------ pipeline


def plan_pipeline_of(strategies, rank):
    held = {one: in_force(mine, 0, 1) for one, mine in strategies.items()}
    (plan,) = plan_step(held, rank)
    return plan


def test_a_pipeline_sends_bsh_for_each_micro_batch_and_boundary_both_ways():
    strategies = pipeline([0, 1, 2], 4, (16, 8))
    row = 16 * 8 * 4
    first, middle, last = (plan_pipeline_of(strategies, rank) for rank in range(3))
    assert first.law.sent_bytes == sent(first, 0) == 4 * row
    # its gradient back over boundary 0, its activations over boundary 1, twice as large
    assert middle.law.sent_bytes == sent(middle, 1) == 4 * row + 4 * 2 * row
    assert last.law.sent_bytes == sent(last, 2) == 4 * 2 * row
    assert [causes(plan, rank) for rank, plan in enumerate((first, middle, last))] == [{}] * 3
    seen = {(c.purpose, c.op, c.root, c.elements, c.times) for c in first.calls}
    assert seen == {
        (Purpose.SEND_ACTIVATIONS, Op.SEND, 1, 128, 4),
        (Purpose.SEND_GRADIENTS, Op.RECEIVE, 1, 128, 4),
    }
    assert first.law.payloads == 4
    assert first.formula == "4b·s·h"


def test_what_one_rank_sends_another_receives():
    strategies = pipeline([0, 1, 2, 0, 1, 2], 3, (4, 4), "Interleaved1F1B")
    plans = {rank: plan_pipeline_of(strategies, rank) for rank in range(3)}
    sends, receives = [], []
    for rank, plan in plans.items():
        for call in plan.calls:
            what = (call.purpose, call.elements, call.times)
            if call.op is Op.SEND:
                sends.append((rank, call.root, *what))
            else:
                receives.append((call.root, rank, *what))
    assert sorted(sends) == sorted(receives)
    assert len(sends) == 2 * 5


def test_neighbouring_stages_of_one_rank_need_no_message():
    strategies = pipeline([0, 1, 1, 0], 2, (4, 4))
    plan = plan_pipeline_of(strategies, 1)
    row = 4 * 4 * 4
    assert causes(plan, 1) == {"stages on one rank": -2 * 2 * (2 * row)}
    assert plan.law.sent_bytes + causes(plan, 1)["stages on one rank"] == sent(plan, 1)


@pytest.mark.parametrize(
    ("schedule", "rank_of", "of_ideal", "of_total"),
    [
        ("GPipe", [0, 1, 2, 3], Fraction(3, 8), Fraction(3, 11)),
        ("1F1B", [0, 1], Fraction(1, 8), Fraction(1, 9)),
        ("Interleaved1F1B", [0, 1, 0, 1], Fraction(1, 16), Fraction(1, 17)),
    ],
)
def test_the_bubble_has_two_denominators(schedule, rank_of, of_ideal, of_total):
    bubble = plan_pipeline_of(pipeline(rank_of, 8, (4,), schedule), 0).bubble
    assert isinstance(bubble, Bubble)
    assert (bubble.of_ideal, bubble.of_total) == (of_ideal, of_total)


def test_a_schedule_whose_bubble_is_not_known_has_none():
    assert plan_pipeline_of(pipeline([0, 1], 8, (4,), "InterleavedZeroBubble"), 0).bubble is None


@given(
    st.sampled_from([2, 3, 4]),
    st.sampled_from([Algorithm.RING, Algorithm.GLOO]),
    st.lists(
        st.sampled_from(["column", "row", "sequence", "prepare input"]), min_size=1, max_size=6
    ),
    st.sampled_from(["replicate", "shard 1", "shard 2"]),
    st.booleans(),
    st.integers(0, 2),
)
def test_causes_of_tensor_parallel_are_exactly_the_difference(
    ranks, algorithm, styles, layout, flag, recomputed
):
    bundles = [
        divided(
            f"m{place}",
            style,
            (ranks, 2 * ranks, 4 * ranks),
            (ranks, 2 * ranks, 4 * ranks),
            input_has_gradient=flag,
            recomputed=recomputed,
            **({"input_layout": layout} if style != "row" else {"output_layout": layout}),
        )
        for place, style in enumerate(styles)
    ]
    plan = plan_of(ranks, tensor_parallel(ranks, *bundles))
    for rank in range(ranks):
        found = plan.deviations(rank, algorithm)
        total = sum((one.bytes for one in found), Fraction(0))
        assert plan.law.sent_bytes + total == sent(plan, rank, algorithm)


def test_gradients_that_are_not_summed_are_completed_as_often_as_they_are_read():
    norm = divided("norm", "sequence", H, H, parameters=(parameter("norm.weight", 64),))
    options = {"optimizer": "AdamW", "partial_gradients": ["norm.weight"]}
    plan = plan_of(2, tensor_parallel(2, norm, options=options))
    (call,) = plan.calls
    assert (call.phase, call.elements, call.times) == (Phase.UPDATE, 64, 3)
    assert causes(plan) == {"partial gradients": 3 * 256}


def test_a_pipeline_leaves_the_reduction_to_the_end_of_the_step():
    strategies = pipeline([0, 2], 3, (16, 8))
    inside = (parameter("w", 8, 8),)
    sharded = replace(
        fsdp(2, module("a", *inside, shard_ranks=[0, 1], reduces=False)), ranks=(0, 1)
    )
    held = {
        rank: in_force((*mine, sharded), 0, 3) if rank == 0 else in_force(mine, 0, 3)
        for rank, mine in strategies.items()
    }
    plan = next(p for p in plan_step(held, 0) if p.system == "FSDP2")
    # forwards 0 and 1 gather, backward 0 gathers and keeps, so that forward 2 does not
    kinds = [(call.phase, call.op) for call in plan.calls]
    gather, reduce = Op.ALL_GATHER, Op.REDUCE_SCATTER
    assert kinds.count((Phase.FORWARD, gather)) == 2
    assert kinds.count((Phase.BACKWARD, gather)) == 2
    assert kinds.count((Phase.BACKWARD, reduce)) == 1
    assert causes(plan) == {"parameters kept": -2 * 128, "gradients not reduced": -2 * 128}
    data = replace(ddp(2, *inside, reduces=False), ranks=(0, 1))
    held[0] = in_force((*strategies[0], data), 0, 3)
    plan = next(p for p in plan_step(held, 0) if p.system == "DDP")
    assert causes(plan) == {}


def test_an_order_that_is_not_known_is_said():
    strategies = pipeline([0, 2, 0, 2], 3, (16, 8), "Interleaved1F1B")
    sharded = replace(fsdp(2, module("a", parameter("w", 8))), ranks=(0, 1))
    held = {rank: in_force((*mine, sharded), 0, 3) for rank, mine in strategies.items()}
    with pytest.raises(ConfigError, match="under schedule 'Interleaved1F1B' is unknown"):
        plan_step(held, 0)
