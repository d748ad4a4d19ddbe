"""The law of memory: bytes by hand, in each tier, the paper's Table 1, and that no byte is lost."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.workloads import UNITS, workload
from zerosim.base.config import DType, EngineConfig, Offload
from zerosim.base.errors import ConfigError
from zerosim.base.tiers import Tier
from zerosim.schema.memory import MODEL_STATES, MOMENTS, OPTIMIZER_STATES, Role
from zerosim.theory import (
    Cause,
    Optimizer,
    UnitSize,
    bytes_a_parameter,
    optimizer_bytes,
    paper_table_1,
    stage_states,
    zero_states,
)

DEVICE, HOST, DISK = Tier
AT = {DEVICE: Offload.NONE, HOST: Offload.CPU, DISK: Offload.NVME}
FAMILY = [
    # stage, optimizer, parameters, on the device, on the host, on the disk; bf16
    (0, DEVICE, DEVICE, "16Ψ", "0", "0"),
    (1, DEVICE, DEVICE, "4Ψ + 12Ψ/N", "0", "0"),
    (2, DEVICE, DEVICE, "2Ψ + 14Ψ/N", "0", "0"),
    (3, DEVICE, DEVICE, "16Ψ/N", "0", "0"),
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
CELLS = paper_table_1()


def law_bytes(*args):
    return stage_states(*args).law_bytes()


def placed(stage, num_ranks, units, states=DEVICE, parameters=DEVICE, **more):
    options = {"offload_optimizer": AT[states], "offload_param": AT[parameters]}
    return workload(stage, num_ranks, units, nvme_path="disk", **options, **more)


def test_table_1_has_54_cells_as_the_paper_prints_them():
    assert len({(c.num_ranks, c.model, c.stage) for c in CELLS}) == len(CELLS) == 54
    printed = {(c.num_ranks, c.model, c.stage): c.printed for c in CELLS}
    assert printed[4, "7.5B", 2] == "41.3"
    assert printed[64, "7.5B", 3] == "1.88"
    assert printed[1024, "1T", 2] == "2013"


@pytest.mark.parametrize("cell", CELLS, ids=lambda c: f"{c.model}-stage{c.stage}-{c.num_ranks}")
def test_table_1_within_one_unit_of_the_last_printed_place(cell):
    assert abs(Fraction(cell.printed) - cell.exact_gb) < cell.last_place
    assert cell.exact_gb == law_bytes(cell.stage, cell.num_ranks, cell.num_parameters) / 10**9


def test_last_printed_place():
    places = {c.printed: c.last_place for c in CELLS}
    assert places["52.5"] == Fraction(1, 10)
    assert places["1.88"] == Fraction(1, 100)
    assert places["120"] == 1


@pytest.mark.parametrize(
    ("dtype", "optimizer", "expected"),
    [
        (DType.BF16, Optimizer.ADAM, 12),
        (DType.FP16, Optimizer.MOMENTUM, 8),
        (DType.BF16, Optimizer.SGD, 4),
        (DType.FP32, Optimizer.ADAM, 8),
        (DType.FP32, Optimizer.MOMENTUM, 4),
        (DType.FP32, Optimizer.SGD, 0),
    ],
)
def test_k(dtype, optimizer, expected):
    assert optimizer_bytes(dtype, optimizer) == expected
    found = bytes_a_parameter(EngineConfig(dtype=dtype), optimizer)
    assert sum(each.bytes for each in found) == expected + 2 * dtype.element_bytes


@pytest.mark.parametrize("num_ranks", [1, 3, 64])
def test_the_four_laws_with_adam(num_ranks):
    psi = 1001
    assert [law_bytes(stage, num_ranks, psi) for stage in range(4)] == [
        16 * psi,
        4 * psi + Fraction(12 * psi, num_ranks),
        2 * psi + Fraction(14 * psi, num_ranks),
        Fraction(16 * psi, num_ranks),
    ]


@pytest.mark.parametrize(
    ("dtype", "optimizer", "words"),
    [
        (DType.FP32, Optimizer.ADAM, ["16Ψ", "8Ψ + 8Ψ/N", "4Ψ + 12Ψ/N", "16Ψ/N"]),
        (DType.FP16, Optimizer.MOMENTUM, ["12Ψ", "4Ψ + 8Ψ/N", "2Ψ + 10Ψ/N", "12Ψ/N"]),
        (DType.FP16, Optimizer.SGD, ["8Ψ", "4Ψ + 4Ψ/N", "2Ψ + 6Ψ/N", "8Ψ/N"]),
        (DType.FP32, Optimizer.SGD, ["8Ψ", "8Ψ", "4Ψ + 4Ψ/N", "8Ψ/N"]),
    ],
)
def test_the_laws_in_words(dtype, optimizer, words):
    assert [stage_states(stage, 1, 1, dtype, optimizer).law() for stage in range(4)] == words


@pytest.mark.parametrize(("stage", "states", "parameters", "device", "host", "disk"), FAMILY)
def test_the_laws_in_words_by_tier(stage, states, parameters, device, host, disk):
    found = zero_states(placed(stage, 4, (UnitSize("a", 64),), states, parameters))
    assert [found.law(tier) for tier in Tier] == [device, host, disk]
    told = {tier for tier, words in zip(Tier, (device, host, disk), strict=True) if words != "0"}
    assert found.tiers == tuple(tier for tier in Tier if tier in told | {DEVICE})


def test_zero_offload_on_one_gpu():
    """Section 4: of 16 bytes a parameter 2 stay, so a card holds a model of 8 times the size."""
    found = zero_states(placed(2, 1, (UnitSize("a", 10**10),), HOST))
    assert (found.law_bytes(DEVICE), found.law_bytes(HOST)) == (20 * 10**9, 140 * 10**9)


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
    step = placed(
        3, 2, (UnitSize("a", 2),), states, parameters, dtype=DType.FP32, owner_broadcast=owners
    )
    found = [part.tier for part in zero_states(step).parts if part.role is Role.MASTER]
    assert found == ([] if master is None else [master])


def test_exact_bytes_by_hand():
    # 5 trainable and 6 frozen parameters on 4 ranks: 8 and 8 with padding
    units = (UnitSize("a", 5), UnitSize("frozen", 6, trainable=False))

    def of(stage, optimizer=Optimizer.ADAM, **more):
        found = zero_states(workload(stage, 4, units, **more), optimizer=optimizer).bytes()
        roles = {role for role, _ in found}
        return {role: sum(size for (of, _), size in found.items() if of is role) for role in roles}

    parameters, gradients, master, momentum, variance = MODEL_STATES
    assert of(0) == {parameters: 32, gradients: 16, master: 32, momentum: 32, variance: 32}
    assert of(1) == {parameters: 32, gradients: 16, master: 8, momentum: 8, variance: 8}
    assert of(2) == {parameters: 32, gradients: 4, master: 8, momentum: 8, variance: 8}
    assert of(3) == {parameters: 8, gradients: 4, master: 8, momentum: 8, variance: 8}
    assert of(3, Optimizer.MOMENTUM, dtype=DType.FP32) == {
        parameters: 16,
        gradients: 8,
        momentum: 8,
    }


def test_deviations_by_hand():
    # 5 trainable and 6 frozen parameters on 4 ranks, stage 2: 8 and 8 with padding
    units = (UnitSize("a", 5), UnitSize("frozen", 6, trainable=False))
    found = {each.cause: each.bytes for each in zero_states(workload(2, 4, units)).deviations()}
    assert found == {
        Cause.PADDING: 2 * 16 + 14 * 8 // 4 - (2 * 11 + Fraction(14 * 5, 4)),
        Cause.FROZEN_PARAMETERS: -Fraction(14 * 6, 4),
    }
    assert zero_states(workload(3, 4, (UnitSize("a", 8),))).deviations() == ()


def test_owners_by_hand():
    """Rows of 31, 64, 10 and 40 parameters on 3 ranks: 11, 22, 4 and 14."""
    units = (
        UnitSize("embedding", 31),
        UnitSize("blocks.0", 64),
        UnitSize("blocks.0.frozen", 10, trainable=False),
        UnitSize("head", 40),
    )
    step = placed(3, 3, units, DISK, HOST, owner_broadcast="parameters")
    sizes = {"embedding": 11, "blocks.0": 22, "head": 14}
    own = [
        {"embedding": 2 * 3 * 11, "head": 2 * 3 * 14},
        {"blocks.0": 2 * 3 * 22},
        {"blocks.0.frozen": 2 * 3 * 4},
    ]
    for rank, kept in enumerate(own):
        found = zero_states(step, rank)
        gradients = {(Role.GRADIENTS, unit): 2 * row for unit, row in sizes.items()}
        assert found.bytes(HOST) == gradients | {
            (Role.PARAMETERS, unit): size for unit, size in kept.items()
        }
        assert found.bytes(DISK) == {
            (role, unit): 4 * row for unit, row in sizes.items() for role in OPTIMIZER_STATES
        }


def test_owners_of_all_states_by_hand():
    """Rows of 31, 64, 10 and 40 parameters on 3 ranks: what is whole is three of them."""
    units = (
        UnitSize("embedding", 31),
        UnitSize("blocks.0", 64),
        UnitSize("blocks.0.frozen", 10, trainable=False),
        UnitSize("head", 40),
    )
    step = workload(3, 3, units, owner_broadcast="states")
    own = [{"embedding": 33, "head": 42}, {"blocks.0": 66}, {"blocks.0.frozen": 12}]
    for rank, sizes in enumerate(own):
        found = zero_states(step, rank)
        trained = {unit: size for unit, size in sizes.items() if not unit.endswith("frozen")}
        assert found.bytes() == {
            **{(Role.PARAMETERS, unit): 2 * size for unit, size in sizes.items()},
            **{(Role.GRADIENTS, unit): 2 * size for unit, size in trained.items()},
            **{
                (role, unit): 4 * size
                for unit, size in trained.items()
                for role in OPTIMIZER_STATES
            },
        }
        less = "10 frozen parameters have no gradients and no optimizer states"
        keeps = "16Ψ/N bytes of model states on each rank on average"
        assert found.keeps == f"{keeps} (less 0.97Ψ/N bytes: {less})"
    in_all = sum(sum(zero_states(step, rank).bytes().values()) for rank in range(3))
    assert in_all == 16 * (33 + 42 + 66) + 2 * 12


def test_what_comes_later():
    """Moments with the first update, on a disk at once; a second generation of gradients."""
    units = (UnitSize("a", 4),)
    device = zero_states(workload(1, 2, units), first_update=1)
    assert device.bytes().keys() - device.bytes(iteration=1).keys() == {(m, "a") for m in MOMENTS}
    assert device.bytes(iteration=2) == device.bytes()
    assert (device.is_whole(1), device.is_whole(2)) == (False, True)
    disk = zero_states(placed(2, 2, units, DISK))
    assert disk.bytes(DISK, iteration=0) == disk.bytes(DISK)
    delayed = zero_states(placed(2, 2, units, HOST, delayed_update=True))
    sizes = [delayed.bytes(HOST, iteration)[Role.GRADIENTS, "a"] for iteration in range(3)]
    assert sizes == [4, 8, 8]
    assert (delayed.law(HOST), delayed.unsettled) == ("16Ψ/N", 1)


@given(
    UNITS,
    st.sampled_from([of[:3] for of in FAMILY]),
    st.integers(1, 9),
    st.sampled_from(DType),
    st.sampled_from(Optimizer),
    st.booleans(),
)
def test_law_and_causes_are_the_bytes_and_no_byte_gets_lost(
    units, place, num_ranks, dtype, optimizer, flag
):
    stage, states, parameters = place
    owners = "parameters" if parameters is not DEVICE else "states"
    can_own = parameters is not DEVICE or (stage == 3 and states is DEVICE)
    step = placed(
        stage, num_ranks, units, states, parameters, dtype=dtype,
        owner_broadcast=owners if flag and can_own else "none",
        delayed_update=flag and (states, parameters) == (HOST, DEVICE),
    )  # fmt: skip
    owned: dict[str, int] = {}
    for rank in range(num_ranks):
        found = zero_states(step, rank, optimizer=optimizer)
        for tier in Tier:
            causes = found.deviations(tier)
            exact = sum(found.bytes(tier).values())
            law = found.law_bytes(tier)
            assert law + sum((cause.bytes for cause in causes), Fraction()) == exact
            assert law == sum((one.bytes for one in found.role_laws(tier)), Fraction())
            for one in found.role_laws(tier):
                times = int(one.words.partition("Ψ")[0])
                held_by = num_ranks if one.words.endswith("/N") else 1
                assert one.bytes == Fraction(times * step.num_parameters, held_by)
            for cause in causes:
                assert cause.bytes > 0 or cause.cause is not Cause.PADDING
                assert cause.bytes < 0 or cause.cause is not Cause.FROZEN_PARAMETERS
            for (role, unit), size in found.bytes(tier).items():
                if role is Role.PARAMETERS:
                    owned[unit] = owned.get(unit, 0) + size
    times = num_ranks if stage < 3 else 1
    size = dtype.element_bytes * num_ranks * times
    assert owned == {unit.name: -(-unit.elements // num_ranks) * size for unit in units}


@pytest.mark.parametrize("stage", [2, 3])
@pytest.mark.parametrize("states", [HOST, DISK])
def test_to_move_states_makes_no_more_of_them(stage, states):
    units = (UnitSize("a", 31), UnitSize("frozen", 10, trainable=False))
    there, moved = (zero_states(placed(stage, 3, units, where)) for where in (DEVICE, states))
    assert sum(there.bytes().values()) == sum(
        sum(moved.bytes(tier).values()) for tier in moved.tiers
    )


@pytest.mark.parametrize(("stage", "num_ranks"), [(4, 2), (-1, 2), (1, 0)])
def test_what_has_no_law_is_refused(stage, num_ranks):
    with pytest.raises(ConfigError, match="expected"):
        stage_states(stage, num_ranks, 10)
