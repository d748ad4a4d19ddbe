"""What DeepSpeed's stages send by their configuration; tests/train/deepspeed runs the real one."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.programs import causes, deepspeed, parameter, plan_of, plans_of, sent
from zerosim.base.errors import ConfigError, UnplannedError
from zerosim.schema.events import Algorithm, Op, Phase
from zerosim.schema.strategies import Bundle
from zerosim.theory.programs import in_force, plan_step

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
    (why,) = plan.deviations(0, Algorithm.RING)
    assert why.words == (
        "buckets are all-reduced instead of reduce-scattered (use_multi_rank_bucket_allreduce): "
        "+ Ψ(N-1)/N"
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


def test_a_tied_weight_counts_once():
    head = replace(MODULES[2], parameters=(A,))
    plan = plan_of(4, deepspeed(4, 3, *MODULES[:2], head))
    assert plan.num_parameters == 96
    assert sum(c.elements for c in plan.calls if c.op is Op.REDUCE_SCATTER) == 96
    # each of the two modules that share it gathers it, in forward and in backward
    assert gathers(plan, Phase.FORWARD) == gathers(plan, Phase.BACKWARD) == [96, 96]
    assert causes(plan) == {"parameters used again": 2 * 96 * 4 * Fraction(3, 4)}
    persistent = [replace(one, options={"persistent": ["a.w"]}) for one in (MODULES[1], head)]
    later = plan_of(4, deepspeed(4, 3, MODULES[0], *persistent))
    assert gathers(later, Phase.UPDATE) == [96]


def recorded_and_repeated(*bundles, first=None, **options):
    """The gathers of the step that records, and of a later one."""
    before = deepspeed(2, 3, *(first or bundles), **options, trace="record", module_order=[])
    rows = (before, replace(deepspeed(2, 3, *bundles, **options), iteration=1))
    found = []
    for iteration in (0, 4):
        held = dict.fromkeys(range(2), in_force(rows, iteration, 1))
        (plan,) = plan_step(held, 0, iteration=iteration, rows=rows)
        found.append(tuple(gathers(plan, phase) for phase in (Phase.FORWARD, Phase.BACKWARD)))
    return found, causes(plan)


def test_an_external_parameter_is_gathered_for_the_module_that_reads_it():
    # b reads a's weight: when that is met, while the order is recorded, and with its own later
    reader = replace(MODULES[2], parameters=(A, B), options={"persistent": [], "external": ["a.w"]})
    found, why = recorded_and_repeated(
        *MODULES[:2], reader, first=MODULES, met=[["b", "a.w"]], met_at=[3]
    )
    assert found == [([96, 32, 96], [128, 96]), ([96, 128], [128, 96])]
    assert why == {"parameters used again": 2 * 96 * 4 / 2}
    # one that the program has registered is known from the beginning
    found, _ = recorded_and_repeated(*MODULES[:2], reader)
    assert found == [([96, 128], [128, 96])] * 2


def test_what_the_root_reads_stays_while_it_computes():
    root = replace(MODULES[0], parameters=(A,), options={"persistent": [], "external": ["a.w"]})
    found, why = recorded_and_repeated(
        root, *MODULES[1:], first=MODULES, met=[["root", "a.w"]], met_at=[3]
    )
    assert found == [([96, 32, 96], [96, 32]), ([96, 32], [96, 32])]
    assert why == {}
    # a look ahead from a leaf module sees it twice: in its owner, and where it is read
    leaf = replace(MODULES[2], options={"persistent": [], "direct": ["b.w"]})
    kept, _ = recorded_and_repeated(root, MODULES[1], leaf, max_reuse_distance=1)
    assert kept[1] == ([96, 32], [])


def test_what_a_module_hands_out_stays_until_the_update():
    hands = replace(MODULES[2], options={"persistent": [], "returned": ["b.w"]})
    root = replace(MODULES[0], parameters=(B,), options={"persistent": [], "external": ["b.w"]})
    found, why = recorded_and_repeated(
        root, MODULES[1], hands, first=MODULES, met=[["root", "b.w"]], met_at=[3]
    )
    assert found == [([96, 32], [96]), ([32, 96], [96])]
    assert why == {"parameters kept": -32 * 4 / 2}


def test_a_module_with_two_outputs_is_gone_back_through_once():
    order = ["root", "a", "b", "root", "b", "b", "a"]
    plan = plan_of(2, deepspeed(2, 3, *MODULES, module_order=order))
    assert gathers(plan, Phase.BACKWARD) == [32, 96]
    # one that was called twice is gone back through twice
    order = ["root", "a", "b", "b", "root", "b", "b", "a"]
    plan = plan_of(2, deepspeed(2, 3, *MODULES, module_order=order))
    assert gathers(plan, Phase.BACKWARD) == [32, 32, 96]


def test_an_external_parameter_that_is_told_wrongly():
    wrong = deepspeed(2, 3, *MODULES, met=[["b"]], met_at=[3])
    with pytest.raises(ConfigError, match=r"\['b'\]: expected a module and a parameter"):
        plan_of(2, wrong)


REENTRANT = {
    "module_order": ["root", "a", "b", "root", "b", "b", "a", "a"],
    "recomputed": [4, 6],
    "recomputed_within": [["root"], ["root"]],
}
NON_REENTRANT = REENTRANT | {
    "recomputed": [5, 7],
    "recomputed_within": [["root", "b"], ["root", "a"]],
    "cut_short": [5, 7],
}


def test_what_is_computed_again_in_backward_is_gathered_again():
    plan = plan_of(2, deepspeed(2, 3, *MODULES, **REENTRANT))
    assert gathers(plan, Phase.BACKWARD) == [32, 32, 96, 96]
    assert causes(plan) == {"recomputation": 128 * 4 / 2}
    (why,) = plan.deviations(0, Algorithm.RING)
    assert why.words == (
        "gathered again for the forward that backward recomputes (checkpoint): + Ψ(N-1)/N"
    )
    two = plan_of(2, deepspeed(2, 3, *MODULES, **REENTRANT), micro_steps=2)
    assert causes(two) == {"recomputation": 2 * 128 * 4 / 2}
    # what is kept until its own backward is gathered as often as without checkpoints
    kept = plan_of(2, deepspeed(2, 3, *MODULES, **REENTRANT, max_reuse_distance=1))
    assert gathers(kept, Phase.BACKWARD) == [96]
    assert causes(kept) == {"parameters kept": -32 * 4 / 2}


def test_a_forward_that_ends_early_lets_nothing_go():
    # its backward is under way, and has gathered what it needs
    plan = plan_of(2, deepspeed(2, 3, *MODULES, **NON_REENTRANT))
    assert gathers(plan, Phase.BACKWARD) == [32, 96]
    assert causes(plan) == {}
    # one that is not cut lets go what the backward around it needs: it is gathered again
    nested = ["root", "a", "b", "root", "b", "a", "b", "a"]
    whole = NON_REENTRANT | {
        "module_order": nested,
        "recomputed": [5, 6],
        "recomputed_within": [["root", "b"], ["root", "b"]],
        "cut_short": [6],
    }
    plan = plan_of(2, deepspeed(2, 3, *MODULES, **whole))
    assert gathers(plan, Phase.BACKWARD) == [32, 96, 96]
    assert causes(plan) == {"recomputation": 96 * 4 / 2}


def test_a_leaf_module_is_gathered_whole():
    both = Bundle(name="a", parameters=(A, B), options={"persistent": [], "direct": ["a.w"]})
    order = {"module_order": ["root", "a", "root", "a"]}
    plan = plan_of(2, deepspeed(2, 3, MODULES[0], both, **order))
    assert gathers(plan, Phase.FORWARD) == gathers(plan, Phase.BACKWARD) == [128]
    assert causes(plan) == {}
    # looking ahead it sees all that is in the root, itself too, and keeps it
    root = replace(MODULES[0], parameters=(parameter("w", 2),))
    kept = plan_of(2, deepspeed(2, 3, root, both, **order, max_reuse_distance=1))
    assert gathers(kept, Phase.BACKWARD) == []
    assert causes(kept) == {"parameters kept": -(128 + 2) * 4 / 2}


def test_a_secondary_partition_gathers_again_among_its_ranks():
    secondary = {"secondary_ranks": [0, 1]}
    row = deepspeed(4, 3, *MODULES, **secondary)
    held = {rank: in_force((row,), 1, 2) for rank in range(4)}
    (plan,) = plan_step(held, 0, iteration=1, rows=(row,))
    # forward of the first micro-step gathers from all, whatever comes after it from two
    ranks = [(call.phase, call.ranks) for call in plan.calls if call.op is Op.ALL_GATHER]
    all_four = (0, 1, 2, 3)
    assert ranks[:2] == [(Phase.FORWARD, all_four)] * 2
    assert ranks[2:4] == [(Phase.BACKWARD, (0, 1))] * 2
    assert ranks[4:6] == [(Phase.FORWARD, (0, 1))] * 2
    assert {call.ranks for call in plan.calls if call.op is Op.REDUCE_SCATTER} == {all_four}
    assert causes(plan) == {"smaller group": 3 * PSI * (Fraction(1, 2) - Fraction(3, 4))}
    (why,) = plan.deviations(0, Algorithm.RING)
    assert (
        why.words
        == "gathered again among 2 ranks instead of 4 (zero_hpz_partition_size): - Ψ(N-1)/N"
    )
    # before the first update there is one of everything; of what is frozen there always is
    (first,) = plan_step(held, 0, iteration=0, rows=(replace(row, iteration=0),))
    assert {c.ranks for c in first.calls if c.op is Op.ALL_GATHER} == {(0, 1)}
    frozen = tuple(
        replace(one, parameters=tuple(replace(p, trainable=False) for p in one.parameters))
        for one in MODULES
    )
    still = deepspeed(4, 3, *frozen, **secondary)
    held = {rank: in_force((still,), 5, 1) for rank in range(4)}
    (plan,) = plan_step(held, 0, iteration=5, rows=(still,))
    assert {c.ranks for c in plan.calls if c.op is Op.ALL_GATHER} == {(0, 1)}
    with pytest.raises(ConfigError, match=r"kept by ranks \[2, 3\]: expected some of"):
        plan_of(4, deepspeed(4, 3, *MODULES, secondary_ranks=[2, 3]))


def test_persistent_parameters_that_were_let_go_are_gathered_again():
    small = replace(MODULES[2], options={"persistent": ["b.w"]})
    usual = deepspeed(2, 3, *MODULES[:2], small)
    changed = replace(usual, iteration=7, options=usual.options | {"partitioned": ["b.w"]})
    rows = (usual, changed, replace(usual, iteration=8))
    found = []
    for iteration in (6, 7, 8):
        held = {rank: in_force(rows, iteration, 1) for rank in range(2)}
        (plan,) = plan_step(held, 0, iteration=iteration, rows=rows)
        found.append((gathers(plan, Phase.FORWARD), gathers(plan, Phase.UPDATE)))
    assert found == [([96], [32]), ([96, 32], [32]), ([96], [32])]


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("zero_quantized_weights", True, "quantizes gathered parameters (qwZ)"),
        ("zero_quantized_nontrainable_weights", True, "gathers frozen parameters quantized"),
        ("zero_quantized_gradients", True, "quantizes gradients for communication (qgZ)"),
        ("mics_shard_size", 2, "divides among a part of the ranks (MiCS)"),
    ],
)
def test_an_option_without_a_plan_is_named(option, value, words):
    with pytest.raises(UnplannedError) as raised:
        plan_of(2, deepspeed(2, 3, *MODULES, **{option: value}))
    assert words in str(raised.value)
    said = f"there is no plan for {option}, so its traffic is shown without a check"
    assert said in str(raised.value)
    off = -1 if option == "mics_shard_size" else False
    assert causes(plan_of(2, deepspeed(2, 3, *MODULES, **{option: off}))) == {}


def test_what_cannot_be_planned_is_said():
    with pytest.raises(ConfigError, match="did not record the order of its modules"):
        plan_of(2, deepspeed(2, 3, *MODULES, module_order=[], trace="record"))
    with pytest.raises(ConfigError, match="has stage 4: expected 0 to 3"):
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
        total = sum((one.bytes for one in plan.deviations(0, algorithm)), Fraction(0))
        assert plan.law.sent_bytes + total == sent(plan, 0, algorithm)
