"""Model states by tier: the papers' laws, the exact bytes by hand, and that nothing gets lost."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.config import DType
from zerosim.engine.host_rows import MOST_LEAVING
from zerosim.errors import ConfigError
from zerosim.manifest import BucketLayout, Segment
from zerosim.memory import Role
from zerosim.theory import (
    Placement,
    UnitSize,
    placed_deviations,
    placed_laws,
    placed_states,
    placed_words,
    secondary_bytes,
    whole_gradients,
)
from zerosim.theory.residency import LEAVING, checkpoint_bytes
from zerosim.tiers import Tier

DEVICE, HOST, DISK = Tier
WORDS = [
    # stage, optimizer, parameters, on the device, on the host, on the disk; bf16
    (1, HOST, DEVICE, "4Ψ", "14Ψ/N", "0"),
    (2, HOST, DEVICE, "2Ψ", "14Ψ/N", "0"),
    (3, HOST, DEVICE, "2Ψ/N", "14Ψ/N", "0"),
    (2, DISK, DEVICE, "2Ψ", "2Ψ/N", "12Ψ/N"),
    (3, DEVICE, HOST, "14Ψ/N", "2Ψ/N", "0"),
    (3, HOST, HOST, "0", "16Ψ/N", "0"),
    (3, DISK, DISK, "0", "2Ψ/N", "14Ψ/N"),
    (3, DISK, HOST, "0", "4Ψ/N", "12Ψ/N"),
    (3, DEVICE, DISK, "14Ψ/N", "0", "2Ψ/N"),
]
UNITS = (
    UnitSize("embedding", 31),
    UnitSize("blocks.0", 64),
    UnitSize("blocks.0.frozen", 10, trainable=False),
    UnitSize("head", 40),
)


@pytest.mark.parametrize(("stage", "states", "parameters", "device", "host", "disk"), WORDS)
def test_the_laws_in_words(stage, states, parameters, device, host, disk):
    placement = Placement(stage=stage, num_ranks=4, states=states, parameters=parameters)
    assert [placed_words(placement, tier) for tier in Tier] == [device, host, disk]
    told = {tier for tier, words in zip(Tier, (device, host, disk), strict=True) if words != "0"}
    assert placement.tiers == tuple(tier for tier in Tier if tier in told | {DEVICE})


def test_zero_offload_on_one_gpu():
    """Section 4: of 16 bytes a parameter 2 stay, so a card holds a model of 8 times the size."""
    offload = Placement(stage=2, num_ranks=1, states=HOST)
    laws = placed_laws(offload, 10**10)
    assert sum(law.bytes for law in laws if law.tier is DEVICE) == 20 * 10**9
    assert sum(law.bytes for law in laws if law.tier is HOST) == 140 * 10**9


@pytest.mark.parametrize(
    ("states", "parameters", "owners", "master"),
    [
        (DEVICE, DEVICE, False, None),
        (HOST, HOST, False, None),
        (HOST, DEVICE, False, HOST),
        (DEVICE, HOST, False, DEVICE),
        (DEVICE, DISK, False, DEVICE),
        (HOST, HOST, True, HOST),
        (DISK, HOST, False, DISK),
        (DISK, DISK, False, DISK),
    ],
)
def test_in_fp32_a_row_is_its_own_master_where_the_optimizer_works(
    states, parameters, owners, master
):
    placement = Placement(
        stage=3, num_ranks=2, dtype=DType.FP32, states=states, parameters=parameters,
        owner_broadcast=owners,
    )  # fmt: skip
    found = [law.tier for law in placed_laws(placement, 1) if law.role is Role.MASTER]
    assert found == ([] if master is None else [master])


def test_the_bytes_by_hand():
    """Rows of 31, 64, 10 and 40 parameters on 3 ranks: 11, 22, 4 and 14."""
    placement = Placement(stage=3, num_ranks=3, states=DISK, parameters=HOST, owner_broadcast=True)
    sizes = {"embedding": 11, "blocks.0": 22, "head": 14}
    always = {(HOST, Role.GRADIENTS, unit): 2 * row for unit, row in sizes.items()} | {
        (DISK, role, unit): 4 * row
        for unit, row in sizes.items()
        for role in (Role.MASTER, Role.MOMENTUM, Role.VARIANCE)
    }
    own = [
        {"embedding": 2 * 3 * 11, "head": 2 * 3 * 14},
        {"blocks.0": 2 * 3 * 22},
        {"blocks.0.frozen": 2 * 3 * 4},
    ]
    for rank, kept in enumerate(own):
        found = placed_states(placement, UNITS, rank)
        expected = {(HOST, Role.PARAMETERS, unit): size for unit, size in kept.items()}
        assert found == always | expected


units = st.lists(st.tuples(st.integers(1, 200), st.booleans()), min_size=1, max_size=5).map(
    lambda sizes: tuple(
        UnitSize(f"unit {place}", elements, trainable)
        for place, (elements, trainable) in enumerate(sizes)
    )
)
places = st.sampled_from(
    [(1, HOST, DEVICE), *((stage, s, p) for stage, s, p, *_ in WORDS if stage > 1)]
)


@given(units, places, st.integers(1, 9), st.sampled_from(DType), st.booleans(), st.booleans())
def test_law_and_causes_are_the_bytes_and_no_byte_gets_lost(
    units, place, num_ranks, dtype, owners, delayed
):
    stage, states, parameters = place
    placement = Placement(
        stage=stage, num_ranks=num_ranks, dtype=dtype, states=states, parameters=parameters,
        owner_broadcast=owners and parameters is not DEVICE,
        delayed_update=delayed and states is not DEVICE,
    )  # fmt: skip
    laws = placed_laws(placement, sum(unit.elements for unit in units))
    owned: dict[str, int] = {}
    for rank in range(num_ranks):
        found = placed_states(placement, units, rank)
        for tier in Tier:
            causes = placed_deviations(placement, units, rank, tier)
            law = sum((law.bytes for law in laws if law.tier is tier), Fraction())
            exact = sum(size for (of, _, _), size in found.items() if of is tier)
            assert law + sum((cause.bytes for cause in causes), Fraction()) == exact
        for (_, role, unit), size in found.items():
            if role is Role.PARAMETERS:
                owned[unit] = owned.get(unit, 0) + size
    times = num_ranks if stage < 3 else 1
    size = dtype.element_bytes * num_ranks * times
    assert owned == {unit.name: -(-unit.elements // num_ranks) * size for unit in units}


@pytest.mark.parametrize("stage", [2, 3])
@pytest.mark.parametrize("states", [HOST, DISK])
def test_to_move_states_makes_no_more_of_them(stage, states):
    there = placed_states(Placement(stage=stage, num_ranks=3), UNITS, 0)
    moved = placed_states(Placement(stage=stage, num_ranks=3, states=states), UNITS, 0)
    assert sum(there.values()) == sum(moved.values())


@pytest.mark.parametrize(
    "wrong",
    [
        {"stage": 0, "num_ranks": 2, "states": HOST},
        {"stage": 2, "num_ranks": 2, "parameters": HOST},
        {"stage": 3, "num_ranks": 0},
    ],
)
def test_what_no_stage_knows_is_refused(wrong):
    with pytest.raises(ConfigError, match="expected"):
        Placement(**wrong)


def test_secondary_parts_by_hand():
    """Units of 31 and 64 on 4 ranks are padded to 32 and 64; each of 2 ranks has half of them."""
    two = (UnitSize("a", 31), UnitSize("b", 64, trainable=False))
    assert secondary_bytes(two, 4, 2, 2) == {"a": 32, "b": 64}
    assert secondary_bytes(two, 4, 4, 4) == {"a": 32, "b": 64}
    assert secondary_bytes(two, 4, 1, 2) == {}


def test_a_checkpoint_is_divided_among_those_who_compute_it():
    assert checkpoint_bytes(10, 1, 2) == 20
    assert checkpoint_bytes(10, 4, 2) == 6


def test_what_leaves_for_the_host_is_there_a_little_longer():
    names = "abcd"
    buckets = [BucketLayout(name=n, segments=(Segment(unit=n, start=0, stop=1),)) for n in names]
    assert whole_gradients(buckets, set("abc"), {"d"}) == {"c", "d"}
    assert whole_gradients(buckets, set("abc"), {"d"}, leaving=LEAVING) == {"b", "c", "d"}
    assert whole_gradients(buckets, set("abc"), {"d"}, leaving=2) == set("abcd")
    assert LEAVING == MOST_LEAVING
