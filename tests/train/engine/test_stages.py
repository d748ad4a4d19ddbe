"""Stages 0 to 3 train as one process does, and to the bit as each other, on 1 to 5 ranks."""

import itertools
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist

from tests.ranks import run_ranks
from tests.train.engine.samples import (
    ODD_MODELS,
    Case,
    build,
    engine_config,
    oracle,
    train,
)
from zerosim.base.config import CollectivesKind, DType
from zerosim.train.collectives import RankGroup

pytestmark = pytest.mark.ranks

STAGES = (0, 1, 2, 3)
CLIP = 0.05
LARGE_EPSILON = 1e-3
"""With it AdamW moves a weight by a smooth function of its gradient. With 1e-8, a gradient that is
0 but for rounding moves its weight by the whole learning rate, in a direction that is chance."""

ODD = ODD_MODELS

KNOBS = {
    "small odd buckets": {"bucket_elements": 997},
    "one huge bucket": {"bucket_elements": 10**9},
    "no overlap": {"overlap": False},
    "no prefetch": {"prefetch": 0},
    "prefetch 3": {"prefetch": 3},
    "short chunks": {"chunk_bytes": 512},
    "all at once": {"bucket_elements": 1001, "overlap": False, "prefetch": 3, "chunk_bytes": 256},
}


def _cases():
    """Everything that three ranks train, by name."""
    cases = {}
    for stage in STAGES:
        config = engine_config(stage=stage)
        cases["gpt", stage] = Case("gpt", config, steps=12)
        smooth = replace(config, epsilon=LARGE_EPSILON, weight_decay=0.1)
        cases["smooth", stage] = Case("gpt", smooth, steps=4)
        cases["clipped gpt", stage] = Case("gpt", replace(smooth, clip=CLIP), steps=4)
        cases["native", stage] = Case(
            "mlp",
            replace(config, epsilon=LARGE_EPSILON, collectives=CollectivesKind.NATIVE),
            steps=3,
        )
        smooth_mlp = replace(config, epsilon=LARGE_EPSILON)
        cases["native's reference", stage] = Case("mlp", smooth_mlp, steps=3)
        for dtype, clip in itertools.product(DType, (None, CLIP)):
            changed = replace(config, dtype=dtype, clip=clip, initial_loss_scale=1024.0)
            cases["dtype", dtype, clip, stage] = Case("mlp", changed, steps=3)
        for dtype, knobs in ((DType.FP32, KNOBS), (DType.FP16, {"all at once"})):
            for knob in knobs:
                values = KNOBS[knob]
                changed = replace(config, dtype=dtype, initial_loss_scale=1024.0, **values)
                cases["knob", dtype, knob, stage] = Case("mlp", changed, steps=2)
            plain = replace(config, dtype=dtype, initial_loss_scale=1024.0)
            cases["knob", dtype, "none", stage] = Case("mlp", plain, steps=2)
        for count, dtype in ((2, DType.FP32), (3, DType.FP32), (3, DType.BF16)):
            changed = replace(config, accumulate=count, dtype=dtype, epsilon=LARGE_EPSILON)
            cases["accumulate", count, dtype, stage] = Case("mlp", changed, steps=2)
        for model in ODD:
            odd = replace(config, epsilon=LARGE_EPSILON)
            cases["odd", model, stage] = Case(model, odd, steps=3)
        cases["evaluates", stage] = Case("Stack", config, steps=2, evaluates=True)
        cases["does not", stage] = Case("Stack", config, steps=2)
        cases["tied gpt", stage] = Case(
            "gpt tied", replace(config, epsilon=LARGE_EPSILON, accumulate=2, prefetch=2), steps=2
        )
        cases["units", stage] = Case("gpt", replace(config, units=("blocks.*",)), steps=2)
        cases["finer units", stage] = Case(
            "gpt", replace(config, units=("blocks.*.mlp", "head.norm"), prefetch=2), steps=2
        )
        cases["coarse unit", stage] = Case("gpt", replace(config, units=("head",)), steps=2)
        cases["default units", stage] = Case("gpt", config, steps=2)
    return cases


CASES = _cases()
ENDS = (0, 3)
IN_ALL_STAGES = ("FrozenFirst", "RootParameters", "Tied", "UnusedParameter")
"""Odd models whose gradients, as all keep them or some, are odd as well."""
MATTERS = {
    "none": STAGES,
    "small odd buckets": (1, 2),
    "one huge bucket": (0, 3),
    "no overlap": (0, 3),
    "no prefetch": (3,),
    "prefetch 3": (3,),
    "short chunks": (1, 3),
    "all at once": STAGES,
}
"""Stages in which `make test` turns a knob; the others do with it what one of these does."""


def _is_enough(name):
    """Whether `make test` trains it: each kind, model, dtype and knob, not each in each stage."""
    match name:
        case ("gpt" | "smooth", stage):
            return stage in ENDS
        case ("dtype", dtype, clip, _):
            return (dtype, clip) not in {(DType.FP16, None), (DType.BF16, CLIP)}
        case ("knob", _, knob, stage):
            return stage in MATTERS[knob]
        case ("accumulate", count, *_):
            return count == 3
        case ("odd", model, stage):
            return stage in ENDS or model in IN_ALL_STAGES
    return True


BIT_EQUAL_KINDS = sorted(
    {name[0] for name in CASES}
    - {"native", "native's reference", "does not", "default units"}
    - {"knob"}  # each is held against no knob in stage 0
)


def _train_all(cases):
    return {name: train(case) for name, case in cases.items()}


@pytest.fixture(scope="module", params=[3])
def num_ranks(request):
    return request.param


SOME = {name: case for name, case in CASES.items() if _is_enough(name)}


@pytest.fixture(
    scope="module",
    params=[pytest.param(SOME, id="some"), pytest.param(CASES, id="all", marks=pytest.mark.long)],
)
def ranks(request, num_ranks):
    return run_ranks(_train_all, num_ranks, request.param)


@pytest.fixture(scope="module")
def outcomes(ranks):
    return ranks[0]


def _bit_differences(outcomes, kind):
    """What differs from its reference: the same case without its last part, the stage, or 0."""
    return [
        f"{name}: {difference}"
        for name, outcome in outcomes.items()
        if name[0] == kind
        and (difference := outcome.differs_from(outcomes[*name[:-1], _reference_stage(name)]))
    ]


def _reference_stage(name):
    # stages 2 and 3 add micro-steps after they were reduced over the ranks, 0 and 1 before
    return name[-1] // 2 * 2 if CASES[name].config.accumulate > 1 else 0


def test_all_ranks_end_with_the_same_weights(ranks):
    differences = [
        f"{name} on rank {rank}: {difference}"
        for rank, outcomes in enumerate(ranks)
        for name, outcome in outcomes.items()
        if (difference := outcome.differs_from(ranks[0][name]))
    ]
    assert not differences


@pytest.mark.parametrize("kind", BIT_EQUAL_KINDS)
def test_stages_are_bit_equal(outcomes, kind):
    assert not _bit_differences(outcomes, kind)


@pytest.mark.parametrize("stage", ENDS)
def test_training_learns_what_one_process_learns(outcomes, num_ranks, stage):
    expected = oracle(CASES["gpt", stage], num_ranks)
    outcome = outcomes["gpt", stage]
    assert outcome.loss_distance(expected) < 1e-6
    assert outcome.losses[-1] < outcome.losses[0] - 0.2  # the text is another one in each Python


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [("smooth", 2e-6), ("tied gpt", 2e-6), ("clipped gpt", 2e-6)],
)
def test_weights_are_those_of_one_process(outcomes, num_ranks, name, tolerance):
    stages = [of for kind, *_, of in outcomes if kind == name]
    assert set(ENDS) <= set(stages)
    for stage in stages:
        expected = oracle(CASES[name, stage], num_ranks)
        outcome = outcomes[name, stage]
        assert outcome.loss_distance(expected) < 1e-6
        assert outcome.weight_distance(expected) < tolerance
        assert outcome.norms == pytest.approx(expected.norms, rel=1e-6)


def test_clipping_changes_the_training(outcomes):
    assert min(outcomes["clipped gpt", 0].norms) > CLIP
    assert outcomes["clipped gpt", 0].weight_distance(outcomes["smooth", 0]) > 1e-4


@pytest.mark.parametrize("model", ODD)
def test_odd_models_train_as_in_one_process(outcomes, num_ranks, model):
    expected = oracle(CASES["odd", model, 0], num_ranks)
    outcome = outcomes["odd", model, 0]
    assert outcome.loss_distance(expected) < 1e-6
    assert outcome.weight_distance(expected) < 2e-6
    start = dict(build(model, seed=0).named_parameters())
    for name, weight in outcome.weights.items():
        moved = not torch.equal(weight, start[name])
        assert moved == (start[name].requires_grad and weight.numel() > 0), name


def test_accumulation_means_over_micro_steps(outcomes, num_ranks):
    for name, outcome in outcomes.items():
        if name[0] == "accumulate" and name[2] is DType.FP32:
            expected = oracle(CASES[name], num_ranks)
            assert outcome.loss_distance(expected) < 1e-6, name
            assert outcome.weight_distance(expected) < 2e-6, name


def test_no_knob_changes_a_bit(outcomes):
    differences = [
        f"{name}: {difference}"
        for name, outcome in outcomes.items()
        if name[0] == "knob"
        and (difference := outcome.differs_from(outcomes["knob", name[1], "none", 0]))
    ]
    assert not differences


@pytest.mark.parametrize("how", ["units", "finer units", "coarse unit"])
def test_how_a_model_is_cut_into_units_changes_rounding_only(outcomes, how):
    for stage in STAGES:
        distance = outcomes[how, stage].loss_distance(outcomes["default units", stage])
        assert distance < 1e-6, stage


def test_native_collectives_train_the_same_but_for_rounding(outcomes):
    for stage in STAGES:
        native, ring = outcomes["native", stage], outcomes["native's reference", stage]
        assert native.loss_distance(ring) < 1e-6, stage
        assert native.weight_distance(ring) < 2e-6, stage


# six times what was measured for 2 to 4 ranks
TOLERANCES = {DType.BF16: 1e-3, DType.FP16: 1e-4}


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_half_precision_follows_fp32(outcomes, num_ranks, dtype):
    found = [name for name in outcomes if name[:2] == ("dtype", dtype)]
    assert {stage for *_, stage in found} == set(STAGES)
    for name in found:
        half, single = outcomes[name], outcomes["dtype", DType.FP32, *name[2:]]
        assert half.skipped == 0
        assert 0 < half.loss_distance(single) < TOLERANCES[dtype], name
        assert next(iter(half.weights.values())).element_size() == 2


def test_evaluation_between_steps_disturbs_nothing(outcomes):
    for stage in STAGES:
        assert not outcomes["evaluates", stage].differs_from(outcomes["does not", stage])


def _train_in_halves():
    """Ranks 0 and 1 train together, and apart from them ranks 2 and 3."""
    members = [(0, 1), (2, 3)]
    groups = [dist.new_group(list(ranks)) for ranks in members]
    half = dist.get_rank() // 2
    group = RankGroup(dist.get_rank() % 2, members[half], groups[half])
    return {
        (stage, kind): train(
            Case("RootParameters", engine_config(stage=stage, collectives=kind), steps=3), group
        )
        for stage, kind in zip(STAGES, 2 * list(CollectivesKind), strict=True)
    }


def test_two_groups_train_beside_each_other():
    expected = oracle(Case("RootParameters", engine_config(), steps=3), 2)
    for outcomes in run_ranks(_train_in_halves, 4):
        for name, outcome in outcomes.items():
            assert outcome.loss_distance(expected) < 1e-6, name


def _train_few():
    return {
        (model, stage): train(
            Case(model, engine_config(stage=stage, clip=CLIP, epsilon=LARGE_EPSILON), steps=2)
        )
        for stage in STAGES
        for model in ("mlp", "RootParameters", "FrozenFirst")
    }


# rings of 5 and what they send have tests in tests/train/collectives and tests/verify
@pytest.mark.parametrize("num_many", [1, 2, 4, pytest.param(5, marks=pytest.mark.long)])
def test_other_world_sizes(num_many):
    for outcomes in run_ranks(_train_few, num_many):
        for (model, stage), outcome in outcomes.items():
            expected = oracle(
                Case(model, engine_config(clip=CLIP, epsilon=LARGE_EPSILON), 2), num_many
            )
            assert not outcome.differs_from(outcomes[model, 0])
            assert outcome.loss_distance(expected) < 1e-6, (model, stage)
            assert outcome.weight_distance(expected) < 2e-6, (model, stage)
            assert outcome.norms == pytest.approx(expected.norms, rel=1e-6)
