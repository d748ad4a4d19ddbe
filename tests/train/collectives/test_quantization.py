"""What quantization keeps of a number, what it occupies, and what cannot be hidden by it."""

import math

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from zerosim.train.collectives import quantization
from zerosim.train.collectives.quantization import Bits, Error, Quantizer

CPU = torch.device("cpu")
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)
SCALE_BYTES = 4


def there_and_back(rows, bits, block):
    """Dequantized in fp32, and the packed bytes."""
    quantizer = Quantizer(bits, block, *rows.shape, CPU)
    packed = torch.full((len(rows), quantizer.packing(rows.shape[1]).row_bytes), 99).byte()
    quantizer.quantize(rows, packed)
    found = torch.full(rows.shape, math.nan)
    quantizer.dequantize(packed, found)
    return found, packed


def by_hand(rows, bits, block):
    """The definition, block by block, in fp64: what is found, and each element's scale."""
    found, scales = torch.zeros(rows.shape).double(), torch.zeros(rows.shape).double()
    for row, values in enumerate(rows):
        for start in range(0, len(values), block):
            part = slice(start, start + block)
            scale = values[part].abs().max().float() / bits.largest
            scales[row, part] = scale.double()
            if scale > 0:
                whole = (values[part].float() / scale).round()
                found[row, part] = (whole * scale).double()
    return found, scales


def noise(num_rows, columns, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(num_rows, columns, generator=generator).to(dtype)


@given(
    values=st.lists(FINITE, max_size=40),
    num_rows=st.integers(1, 3),
    block=st.integers(1, 8).map(lambda half: 2 * half),
    bits=st.sampled_from(Bits),
)
@example(values=[], num_rows=2, block=4, bits=Bits.INT4)
@example(values=[0.0] * 9, num_rows=1, block=4, bits=Bits.INT8)
@example(values=[1e-45, -1e-45, 3e-39], num_rows=1, block=2, bits=Bits.INT8)
@example(values=[3.4e38, -3.4e38, 1.0], num_rows=1, block=4, bits=Bits.INT4)
@example(values=[3.4028234663852886e38], num_rows=1, block=2, bits=Bits.INT8)
@example(values=[0.5, 1.5, 2.5, 7.0], num_rows=1, block=4, bits=Bits.INT4)
def test_no_element_is_off_by_more_than_half_a_scale(values, num_rows, block, bits):
    columns = len(values) // num_rows
    rows = torch.tensor(values[: num_rows * columns]).view(num_rows, columns)
    found, _ = there_and_back(rows, bits, block)
    _, scales = by_hand(rows, bits, block)
    # a quotient and a product are rounded to fp32: each is off by 2^-24 of at most 127 scales
    bound = scales * (0.5 + 2**-16) + torch.finfo(torch.float32).tiny / 2
    assert ((found.double() - rows.double()).abs() <= bound).all()


@pytest.mark.parametrize("bits", Bits)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("num_rows", "columns", "block"), [(1, 1, 2), (4, 64, 8), (3, 67, 8), (2, 9, 256), (5, 257, 2)]
)
@pytest.mark.parametrize("piece", [2, 24, 1 << 18])
def test_the_definition_is_met_to_the_bit(
    monkeypatch, bits, dtype, num_rows, columns, block, piece
):
    monkeypatch.setattr(quantization, "_PIECE_ELEMENTS", piece)
    rows = noise(num_rows, columns, dtype)
    found, packed = there_and_back(rows, bits, block)
    assert torch.equal(found.double(), by_hand(rows, bits, block)[0])
    values = columns if bits is Bits.INT8 else math.ceil(columns / 2)
    assert packed.shape == (num_rows, values + SCALE_BYTES * math.ceil(columns / block))


def test_ties_go_to_even_numbers():
    rows = torch.tensor([[0.5, 1.5, 2.5, -0.5, -1.5, 7.0]])
    assert there_and_back(rows, Bits.INT4, 6)[0].tolist() == [[0, 2, 2, 0, -2, 7]]


@pytest.mark.parametrize("bits", Bits)
def test_rows_may_be_columns_of_a_wider_matrix(bits):
    wide, target = noise(3, 50, torch.bfloat16), torch.zeros(3, 60)
    inner = wide[:, 7:30]
    quantizer = Quantizer(bits, 4, 3, 23, CPU)
    bytes_ = torch.zeros(3, quantizer.packing(23).row_bytes + 9, dtype=torch.uint8)
    packed = bytes_[:, 5:-4]
    quantizer.quantize(inner, packed)
    quantizer.dequantize(packed, target[:, 11:34])
    assert torch.equal(target[:, 11:34], there_and_back(inner, bits, 4)[0])
    assert not target[:, :11].any()
    assert not target[:, 34:].any()
    assert not bytes_[:, :5].any()
    assert not bytes_[:, -4:].any()


@pytest.mark.parametrize("bits", Bits)
def test_the_same_rows_make_the_same_bytes_wherever_they_stand(bits):
    rows = noise(4, 37)
    _, together = there_and_back(rows, bits, 8)
    for row, packed in zip(rows, together, strict=True):
        assert torch.equal(there_and_back(row.unsqueeze(0), bits, 8)[1][0], packed)


@pytest.mark.parametrize("bits", Bits)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wrong", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_is_found_in_its_block_and_nowhere_else(bits, dtype, wrong):
    for place in range(19):
        rows = noise(2, 19, dtype)
        rows[1, place] = wrong
        found, _ = there_and_back(rows, bits, 8)
        block = place // 8
        assert not torch.isfinite(found[1, 8 * block : 8 * block + 8]).any()
        found[1, 8 * block : 8 * block + 8] = 0
        assert torch.isfinite(found).all()


@pytest.mark.parametrize("bits", Bits)
def test_what_is_added_is_what_is_found(bits):
    rows, total = noise(3, 21), noise(3, 21, seed=1)
    quantizer = Quantizer(bits, 4, 3, 21, CPU)
    packed = torch.zeros(3, quantizer.packing(21).row_bytes, dtype=torch.uint8)
    quantizer.quantize(rows, packed)
    expected = total + there_and_back(rows, bits, 4)[0]
    quantizer.dequantize(packed, total, adds=True)
    assert torch.equal(total, expected)


@pytest.mark.parametrize("bits", Bits)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_error_is_that_of_what_comes_back(bits, dtype):
    rows = noise(3, 70, dtype)
    quantizer, error = Quantizer(bits, 8, 3, 70, CPU), Error(CPU)
    packed = torch.zeros(3, quantizer.packing(70).row_bytes, dtype=torch.uint8)
    for part in rows.split(2):
        quantizer.quantize(part, packed[: len(part)], error)
    found = there_and_back(rows, bits, 8)[0].double()
    expected = (found - rows.double()).norm() / rows.double().norm()
    assert error.take() == pytest.approx(float(expected), rel=1e-5)
    assert error.take() is None, "counting begins anew"


@pytest.mark.parametrize("content", [0.0, math.inf, math.nan])
def test_of_nothing_or_of_what_is_not_finite_there_is_no_error(content):
    quantizer, error = Quantizer(Bits.INT4, 8, 1, 9, CPU), Error(CPU)
    packed = torch.zeros(1, quantizer.packing(9).row_bytes, dtype=torch.uint8)
    quantizer.quantize(torch.full((1, 9), content), packed, error)
    assert error.take() is None
