"""Memory laws, exact bytes with padding, and the paper's Table 1."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.config import DType
from zerosim.errors import ConfigError
from zerosim.memory import MODEL_STATES
from zerosim.theory import (
    Cause,
    Optimizer,
    UnitSize,
    bytes_a_parameter,
    exact_model_states,
    ideal_model_states,
    law_words,
    optimizer_bytes,
    paper_table_1,
    role_laws,
    state_deviations,
)

CELLS = paper_table_1()


def test_table_1_has_54_cells_as_the_paper_prints_them():
    assert len({(c.num_ranks, c.model, c.stage) for c in CELLS}) == len(CELLS) == 54
    printed = {(c.num_ranks, c.model, c.stage): c.printed for c in CELLS}
    assert printed[4, "7.5B", 2] == "41.3"
    assert printed[64, "7.5B", 3] == "1.88"
    assert printed[1024, "1T", 2] == "2013"


@pytest.mark.parametrize("cell", CELLS, ids=lambda c: f"{c.model}-stage{c.stage}-{c.num_ranks}")
def test_table_1_within_one_unit_of_the_last_printed_place(cell):
    assert abs(Fraction(cell.printed) - cell.exact_gb) < cell.last_place
    assert cell.exact_gb == ideal_model_states(cell.stage, cell.num_ranks, cell.num_parameters) / (
        10**9
    )


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
    everything = sum(each.bytes for each in bytes_a_parameter(dtype, optimizer))
    assert everything == expected + 2 * dtype.element_bytes


@pytest.mark.parametrize("num_ranks", [1, 3, 64])
def test_the_four_laws_with_adam(num_ranks):
    psi = 1001
    assert [ideal_model_states(stage, num_ranks, psi) for stage in range(4)] == [
        16 * psi,
        4 * psi + Fraction(12 * psi, num_ranks),
        2 * psi + Fraction(14 * psi, num_ranks),
        Fraction(16 * psi, num_ranks),
    ]


def test_exact_bytes_by_hand():
    # 5 trainable and 6 frozen parameters on 4 ranks: 8 and 8 with padding
    units = (UnitSize("a", 5), UnitSize("frozen", 6, trainable=False))

    def of(stage, **more):
        return {each.role: each.bytes for each in exact_model_states(stage, 4, units, **more)}

    parameters, gradients, master, momentum, variance = MODEL_STATES
    assert of(0) == {parameters: 32, gradients: 16, master: 32, momentum: 32, variance: 32}
    assert of(1) == {parameters: 32, gradients: 16, master: 8, momentum: 8, variance: 8}
    assert of(2) == {parameters: 32, gradients: 4, master: 8, momentum: 8, variance: 8}
    assert of(3) == {parameters: 8, gradients: 4, master: 8, momentum: 8, variance: 8}
    assert of(3, dtype=DType.FP32, optimizer=Optimizer.MOMENTUM) == {
        parameters: 16,
        gradients: 8,
        momentum: 8,
    }


@given(
    st.integers(0, 3),
    st.integers(1, 64),
    st.lists(st.integers(1, 10**9), min_size=1, max_size=5),
    st.sampled_from(DType),
    st.sampled_from(Optimizer),
)
def test_exact_is_ideal_and_its_padding(stage, num_ranks, sizes, dtype, optimizer):
    units = tuple(UnitSize(f"u{i}", n) for i, n in enumerate(sizes))
    exact = sum(e.bytes for e in exact_model_states(stage, num_ranks, units, dtype, optimizer))
    ideal = ideal_model_states(stage, num_ranks, sum(sizes), dtype, optimizer)
    padded = sum(-(-n // num_ranks) * num_ranks for n in sizes)
    assert exact == ideal_model_states(stage, num_ranks, padded, dtype, optimizer)
    assert ideal <= exact


def test_what_has_no_law_is_refused():
    for stage, num_ranks in ((4, 2), (-1, 2), (1, 0)):
        with pytest.raises(ConfigError, match="expected stage"):
            ideal_model_states(stage, num_ranks, 10)
        with pytest.raises(ConfigError, match="expected stage"):
            exact_model_states(stage, num_ranks, (UnitSize("a", 1),))


@pytest.mark.parametrize(
    ("dtype", "optimizer", "words"),
    [
        (DType.BF16, Optimizer.ADAM, ["16Ψ", "4Ψ + 12Ψ/N", "2Ψ + 14Ψ/N", "16Ψ/N"]),
        (DType.FP32, Optimizer.ADAM, ["16Ψ", "8Ψ + 8Ψ/N", "4Ψ + 12Ψ/N", "16Ψ/N"]),
        (DType.FP16, Optimizer.MOMENTUM, ["12Ψ", "4Ψ + 8Ψ/N", "2Ψ + 10Ψ/N", "12Ψ/N"]),
        (DType.FP16, Optimizer.SGD, ["8Ψ", "4Ψ + 4Ψ/N", "2Ψ + 6Ψ/N", "8Ψ/N"]),
        (DType.FP32, Optimizer.SGD, ["8Ψ", "8Ψ", "4Ψ + 4Ψ/N", "8Ψ/N"]),
    ],
)
def test_the_laws_in_words(dtype, optimizer, words):
    assert [law_words(stage, dtype, optimizer) for stage in range(4)] == words
    with pytest.raises(ConfigError, match="expected stage"):
        law_words(4)


@given(st.integers(0, 3), st.integers(1, 9), st.sampled_from(DType), st.sampled_from(Optimizer))
def test_roles_add_up_to_the_law(stage, num_ranks, dtype, optimizer):
    psi = 1001
    laws = role_laws(stage, num_ranks, psi, dtype, optimizer)
    assert sum(law.bytes for law in laws) == ideal_model_states(
        stage, num_ranks, psi, dtype, optimizer
    )
    assert [law.role for law in laws] == [r.role for r in bytes_a_parameter(dtype, optimizer)]
    for law in laws:
        number = int(law.words.partition("Ψ")[0])
        held_by = num_ranks if law.words.endswith("/N") else 1
        assert law.bytes == Fraction(number * psi, held_by)


def test_deviations_by_hand():
    # 5 trainable and 6 frozen parameters on 4 ranks, stage 2: 8 and 8 with padding
    units = (UnitSize("a", 5), UnitSize("frozen", 6, trainable=False))
    found = {each.cause: each.bytes for each in state_deviations(2, 4, units)}
    frozen = -Fraction(14 * 6, 4)
    exact = 2 * 16 + 14 * 8 // 4
    assert found == {
        Cause.PADDING: exact - (2 * 11 + Fraction(14 * 5, 4)),
        Cause.FROZEN_PARAMETERS: frozen,
    }
    assert state_deviations(3, 4, (UnitSize("a", 8),)) == ()


@given(
    st.integers(0, 3),
    st.integers(1, 9),
    st.lists(st.tuples(st.integers(1, 500), st.booleans()), min_size=1, max_size=5),
    st.sampled_from(DType),
)
def test_deviations_leave_nothing(stage, num_ranks, sizes, dtype):
    units = tuple(UnitSize(f"u{i}", n, trains) for i, (n, trains) in enumerate(sizes))
    exact = sum(each.bytes for each in exact_model_states(stage, num_ranks, units, dtype))
    law = ideal_model_states(stage, num_ranks, sum(n for n, _ in sizes), dtype)
    found = state_deviations(stage, num_ranks, units, dtype)
    assert law + sum(each.bytes for each in found) == exact
    for each in found:
        assert each.bytes > 0 if each.cause is Cause.PADDING else each.bytes < 0
