"""The duration of a training run, the time lost to failures, and the sizes that still fit."""

from math import exp, sqrt

import pytest

from zerosim.base.errors import ConfigError
from zerosim.predict.plan import ask, make_plan
from zerosim.predict.plan.layouts import Fixed
from zerosim.predict.plan.training import (
    Failures,
    Training,
    largest_batch,
    largest_model,
    largest_sequence,
    plan_for_days,
)
from zerosim.theory.footprint import peak


@pytest.fixture(scope="module")
def best():
    return make_plan(ask("gpt-2", 8, "h100", 1 << 19), Fixed(stages=(2,), buckets=(None,))).best


def test_failures_of_llama_3_are_those_of_its_paper():
    """419 in 54 days on 16,384 GPUs: one in 3.1 hours."""
    assert Failures().mtbf_s(16_384) == pytest.approx(54 * 86_400 / 419, rel=0.01)


def test_young_and_daly():
    one = Failures(gpu_mtbf_hours=100.0, checkpoint_s=36.0, restart_s=0.001)
    mtbf = 36_000.0  # of ten GPUs
    assert one.mtbf_s(10) == mtbf
    assert one.young_s(10) == pytest.approx(sqrt(2 * 36 * mtbf))
    part = sqrt(36 / (2 * mtbf))
    daly = one.young_s(10) * (1 + part / 3 + part**2 / 9) - 36
    assert one.daly_s(10) == pytest.approx(daly)
    wall = mtbf * (exp((daly + 36) / mtbf) - 1)
    assert one.goodput(10) == pytest.approx(daly / wall, rel=1e-6)
    # no other interval is better
    for factor in (0.7, 1.4):
        tau = factor * daly
        assert tau / (mtbf * (exp((tau + 36) / mtbf) - 1)) < one.goodput(10)


def test_a_run_that_fails_before_its_first_checkpoint_never_ends(best):
    hopeless = Failures(gpu_mtbf_hours=0.001, checkpoint_s=3600.0)
    assert hopeless.goodput(8) == 0.0
    assert Training(best, 10**9, hopeless).days == float("inf")


def test_days_hours_and_the_sum(best):
    rare = Failures(gpu_mtbf_hours=1e12)
    whole = Training(best, round(best.tokens_per_second * 86_400), rare, price=2.0)
    assert whole.days == pytest.approx(1, rel=1e-3)
    assert whole.gpu_hours == pytest.approx(8 * 24, rel=1e-3)
    assert whole.cost == 2.0 * whole.gpu_hours


def test_the_fewest_gpus_that_are_done_in_time():
    fixed = Fixed(stages=(1,), tensor=1, pipeline=1, buckets=(None,))

    def asked(gpus):
        return ask("gpt-2", gpus, "h100", 1 << 20)

    tokens, rare = 10**12, Failures()
    plan = plan_for_days(asked, tokens, 2.0, rare, fixed)
    gpus = plan.question.gpus
    assert Training(plan.best, tokens, rare).days <= 2
    half = make_plan(asked(gpus // 2), fixed).best
    assert Training(half, tokens, rare).days > 2
    with pytest.raises(ConfigError, match="at most 16,384 GPUs"):
        plan_for_days(asked, 10**18, 1.0, rare, fixed)


def test_what_still_fits_is_the_last_that_does(best):
    from dataclasses import replace

    def fits(layout):
        return peak(layout, best.question.margin).bytes <= best.question.memory_bytes

    batch, longest, deepest = largest_batch(best), largest_sequence(best), largest_model(best)
    assert fits(replace(best.layout, batch=batch))
    assert not fits(replace(best.layout, batch=batch + 1))
    assert fits(replace(best.layout, batch=1, sequence=longest))
    assert not fits(replace(best.layout, batch=1, sequence=longest + 128))
    assert fits(replace(best.layout, shape=deepest))
    assert not fits(replace(best.layout, shape=replace(deepest, layers=deepest.layers + 1)))
