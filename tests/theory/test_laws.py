"""The laws, and the deviations that explain every byte of the difference."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tests.theory.workloads import ALGORITHMS, WORKLOADS, sent, thousand
from tests.theory.workloads import workload as make
from zerosim.base.config import DType, Offload
from zerosim.base.tiers import Link
from zerosim.schema.events import STEP_PHASES, Algorithm
from zerosim.theory import Cause, UnitSize, deviations, law


def test_padding_is_counted_in_every_pass():
    workload = make(3, 4, (UnitSize("a", 1001),))
    assert sent(workload) == 3 * 1004 * 2 * 3 // 4
    assert law(workload).sent_bytes == Fraction(3 * 1001 * 2 * 3, 4) == Fraction(9009, 2)
    assert [(d.cause, d.bytes) for d in deviations(workload, 0)] == [
        (Cause.PADDING, Fraction(27, 2))
    ]


def test_gloo_sends_3_psi_for_zero_2_and_4_psi_for_zero_3():
    # 1024 elements: Gloo's segments divide equally
    for stage, payloads in ((0, 2), (1, 3), (2, 3), (3, 4)):
        workload = make(stage, 4, (UnitSize("a", 1024),))
        assert sent(workload, Algorithm.GLOO) == payloads * 1024 * 2 * 3 // 4
        found = deviations(workload, 0, Algorithm.GLOO)
        if stage == 0:
            assert found == ()
        else:
            assert [(d.cause, d.bytes) for d in found] == [(Cause.BACKEND_ALGORITHM, 1536)]
            assert found[0].words == ("Gloo implements reduce-scatter as all-reduce: + Ψ(N-1)/N")


def test_rounding_of_gloo_segments_is_a_cause_of_its_own():
    workload = make(0, 4, (UnitSize("a", 1004),), dtype=DType.FP32)
    # segments of 126 floats: blocks of 252, 252, 252, 248; the ring has 251 four times
    rounding = [deviations(workload, rank, Algorithm.GLOO) for rank in range(4)]
    assert [[(d.cause, d.bytes) for d in each] for each in rounding] == [
        [(Cause.SEGMENT_ROUNDING, 8)],
        [(Cause.SEGMENT_ROUNDING, -8)],
        [(Cause.SEGMENT_ROUNDING, -8)],
        [(Cause.SEGMENT_ROUNDING, 8)],
    ]


@given(WORKLOADS, ALGORITHMS, st.data())
def test_deviations_explain_every_byte(workload, algorithm, data):
    rank = data.draw(st.integers(0, workload.num_ranks - 1))
    for phase in (None, *STEP_PHASES):
        found = deviations(workload, rank, algorithm, phase)
        pure = law(workload, phase)
        expected = sent(workload, algorithm, rank, phase)
        assert sum((d.bytes for d in found), Fraction(0)) == expected - pure.sent_bytes
        assert all(d.bytes and d.words for d in found)
        assert len({d.cause for d in found}) == len(found)
        assert [d.cause for d in found] == sorted((d.cause for d in found), key=list(Cause).index)
    assert law(workload).payloads == sum(law(workload, phase).payloads for phase in STEP_PHASES)


def test_the_law_says_where_it_comes_from():
    assert [law(thousand(stage)).payloads for stage in range(4)] == [2, 2, 2, 3]
    assert [law(thousand(stage, accumulate=4)).payloads for stage in range(4)] == [2, 2, 5, 12]
    pure = law(thousand(2, accumulate=4))
    assert pure.words.startswith("ZeRO-2: reduce-scatter of the gradients in each micro-step")
    assert "1910.02054, section 7.2.1; with 4 micro-steps" in pure.source


def test_what_no_paper_prints_is_said_to_be_derived():
    """Stage 1 alone, and owners that are sent rows of reduce-scattered gradients."""
    units = (UnitSize("a", 10),)
    sources = {stage: law(make(stage, 2, units)).source for stage in range(4)}
    assert "derived" in sources[1]
    assert all("derived" not in sources[stage] for stage in (0, 2, 3))
    assert "owners broadcast" in sources[3]
    owned = make(3, 2, units, offload_param=Offload.CPU, owner_broadcast="parameters")
    assert law(owned).source.startswith("derived")
    assert "2104.07857" not in law(owned).source
    as_printed = law(make(3, 2, units, owner_broadcast="states"))
    assert "derived" not in as_printed.source
    assert (as_printed.symbols, law(make(3, 2, units)).symbols) == ("3Ψ(N-1)/N",) * 2
    assert "derived" in law(owned, link=Link.BUS).source
