"""What each system keeps of its model states: by hand, and that law and causes are the bytes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.programs import (
    data_parallel,
    ddp,
    deepspeed,
    fsdp,
    module,
    parameter,
    pipeline,
    sharded,
    zero,
)
from zerosim.schema.memory import MOMENTS, OPTIMIZER_STATES, Role
from zerosim.theory.programs import program_states

W, B = parameter("w", 5, 3), parameter("b", 3, trainable=False)
"""15 parameters that are trained and 3 that are not, in fp32."""
ROWS = module("m", W, B, shard_ranks=[0, 1], shard_dims=[0, 0])
FLAT = module("m", W, B, shard_ranks=[0, 1], padded_elements=20)
STAGES = {
    rank: tuple(
        replace(one, bundles=tuple(replace(b, parameters=(own,)) for b in one.bundles))
        for one in strategies
    )
    for (rank, strategies), own in zip(pipeline([0, 1], 2, (3,)).items(), (W, B), strict=True)
}
CASES = {
    # strategies, law, bytes of parameters, gradients, momentum and variance of ranks 0 and 1
    "ddp": ((ddp(2, W, B),), "16Ψ", [(72, 60, 120), (72, 60, 120)]),
    "owners": ((ddp(2, W, B), zero(2, W, B)), "8Ψ + 8Ψ/N", [(72, 60, 120), (72, 60, 0)]),
    "fsdp2": ((fsdp(2, ROWS),), "16Ψ/N", [(44, 36, 72), (44, 36, 48)]),
    "fsdp1": ((fsdp(2, FLAT, system="FSDP1"),), "16Ψ/N", [(40, 40, 80), (40, 40, 80)]),
    "pipeline": (STAGES, "16Ψ/N", [(60, 60, 120), (12, 0, 0)]),
    "deepspeed 1": (
        (deepspeed(2, 1, module("0", W, padded_elements=16)),),
        "4Ψ + 8Ψ/N",
        [(64, 0, 64), (64, 0, 64)],
    ),
    "deepspeed 3": (
        (deepspeed(2, 3, module("root", W, B), partition_count=2),),
        "12Ψ/N",
        [(40, 0, 64), (40, 0, 64)],
    ),
}


def kept(strategies, rank, optimizer=MOMENTS):
    of_ranks = strategies if isinstance(strategies, dict) else dict.fromkeys(range(2), strategies)
    return program_states(of_ranks, rank, optimizer)


def require_whole(states):
    exact = sum(states.bytes().values())
    assert states.law_bytes() + sum((d.bytes for d in states.deviations()), Fraction()) == exact


@pytest.mark.parametrize("name", CASES)
def test_bytes_by_hand(name):
    strategies, law, sizes = CASES[name]
    for rank, (parameters, gradients, moments) in enumerate(sizes):
        states = kept(strategies, rank)
        found = states.bytes()
        assert states.law() == law
        assert found.get((Role.PARAMETERS, ""), 0) == parameters
        assert found.get((Role.GRADIENTS, ""), 0) == gradients
        assert sum(found.get((role, ""), 0) for role in MOMENTS) == moments
        assert bool(states.unknown) == name.startswith("deepspeed")
        assert sum(states.bytes(iteration=0).values()) == parameters + gradients
        require_whole(states)


@given(st.sampled_from([1, 2, 4]), st.data())
def test_law_and_causes_are_the_bytes_of_every_rank(ranks, data):
    strategies = data.draw(st.one_of(data_parallel(ranks), sharded(ranks)))
    strategies = tuple(map(with_rows, strategies))
    optimizer = data.draw(st.sets(st.sampled_from(OPTIMIZER_STATES)))
    for rank in range(ranks):
        states = program_states(dict.fromkeys(range(ranks), strategies), rank, optimizer)
        if states is not None:
            require_whole(states)


def with_rows(strategy):
    """FSDP2 tells the dim by which it divides each parameter, FSDP1 the size of what is flat."""
    if strategy.system not in ("FSDP1", "FSDP2"):
        return strategy
    bundles = []
    for one in strategy.bundles:
        among = len(one.options["shard_ranks"])
        size = sum(each.elements for each in one.parameters)
        more = {
            "shard_dims": [0 for _ in one.parameters],
            "padded_elements": -(-size // among) * among,
        }
        bundles.append(replace(one, options=one.options | more))
    return replace(strategy, bundles=tuple(bundles))


def test_a_master_copy_comes_with_the_first_update():
    half = parameter("w", 4, dtype="bfloat16")
    states = program_states({0: (ddp(1, half),)}, 0, OPTIMIZER_STATES, first_update=2)
    assert states.law() == "16Ψ"
    assert states.unsettled == 2
    assert (states.is_whole(2), states.is_whole(3)) == (False, True)


def test_what_has_no_law():
    assert kept((deepspeed(2, 3, module("root", W)),), 0) is None
    assert kept((deepspeed(2, 1, module("0", W), offload_optimizer="cpu"),), 0) is None


def told(strategy, **states):
    """The strategy tells the states of its parameters."""
    names = {" ".join(sorted(of.split())): [name] for name, of in states.items()}
    return replace(strategy, options=strategy.options | {"states": names})


ADAM = "exp_avg exp_avg_sq"
A, M = parameter("a", 4, 6), parameter("m", 10)


@pytest.mark.parametrize(
    ("strategies", "momentum", "variance"),
    [
        ((told(ddp(2, A, M), a=ADAM, m=""),), 96, 96),
        ((told(ddp(2, A, M), a="momentum_buffer", m=ADAM),), 136, 40),
        ((told(ddp(2, A), a="exp_avg exp_avg_sq max_exp_avg_sq"),), 96, 192),
        # Adafactor's 4 rows and 6 columns
        ((told(ddp(2, A, M), a="row_var col_var", m="variance"),), 0, 80),
        (
            (
                told(
                    fsdp(2, module("x", A, M, shard_ranks=[0, 1], shard_dims=[0, 0])), a="", m=ADAM
                ),
            ),
            20,
            20,
        ),
    ],
)
def test_each_optimizer_keeps_its_own_states(strategies, momentum, variance):
    for rank in range(2):
        states = kept(strategies, rank)
        found = states.bytes()
        assert found.get((Role.MOMENTUM, ""), 0) == momentum
        assert found.get((Role.VARIANCE, ""), 0) == variance
        assert not states.deviations()


def test_several_models_are_a_sum():
    other = replace(ddp(2, A), name="other", options={"label": "other"})
    states = kept((replace(ddp(2, W), options={"label": ""}), other), 0)
    assert (states.law(), states.num_parameters) == ("16Ψ", 15 + 24)
    rows = module("x", A, shard_ranks=[0, 1], shard_dims=[0])
    states = kept((ddp(2, A), fsdp(2, rows)), 0)
    assert (states.law(), sum(states.bytes().values())) == ("8Ψ + 8Ψ/N", 16 * 24 * 3 // 2)
    assert kept((*STAGES[0], replace(STAGES[0][0], name="other")), 0) is None
