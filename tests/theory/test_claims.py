"""The claims that a run can be held against."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tests.theory.workloads import ALGORITHMS, WORKLOADS, thousand
from zerosim.theory import Cause, Measure, UnitSize, Workload, claims


def test_claims_with_the_numbers_filled_in():
    units = (UnitSize("a", 3_188_000), UnitSize("b", 736))
    found = claims(Workload(stage=2, num_ranks=4, units=units, averages_loss=True), 1)
    assert [claim.id for claim in found] == [
        "sent-a-step",
        "sent-in-forward",
        "sent-in-backward",
        "sent-in-update",
        "sent-is-received",
    ]
    step, forward, backward, update, conserved = found
    assert step.title == "ZeRO-2 sends 2Ψ(N-1)/N a step"
    assert step.formula == "2 x 3,188,736 x 2 B x 3/4 = 9,566,208 B"
    assert (step.law_bytes, step.expected_bytes) == (9_566_208, 9_566_220)
    assert [d.cause for d in step.deviations] == [Cause.AVERAGE_LOSS]
    assert forward.title == "ZeRO-2 sends no gradients and no parameters in forward"
    assert (forward.law_bytes, forward.expected_bytes) == (0, 0)
    assert backward.title == "ZeRO-2 sends Ψ(N-1)/N in backward"
    assert backward.expected_bytes == 4_783_104
    assert update.expected_bytes == 4_783_104 + 12
    assert conserved.measure is Measure.SENT_AND_RECEIVED_BY_ALL
    assert (conserved.rank, conserved.expected_bytes) == (None, 4 * 9_566_220)
    assert conserved.formula == "38,264,880 B sent = 38,264,880 B received"


def test_titles_of_the_other_stages():
    titles = [claim.title for claim in claims(thousand(3, accumulate=2), 0)[:3]]
    assert titles == [
        "ZeRO-3 sends 6Ψ(N-1)/N a step of 2 micro-steps",
        "ZeRO-3 sends 2Ψ(N-1)/N in forward of 2 micro-steps",
        "ZeRO-3 sends 4Ψ(N-1)/N in backward of 2 micro-steps",
    ]
    assert claims(thousand(0), 0)[0].title == "Data parallel sends 2Ψ(N-1)/N a step"


@given(WORKLOADS, ALGORITHMS, st.data())
def test_a_claim_is_its_law_and_its_deviations(workload, algorithm, data):
    rank = data.draw(st.integers(0, workload.num_ranks - 1))
    found = claims(workload, rank, algorithm)
    for claim in found:
        explained = sum((d.bytes for d in claim.deviations), Fraction(0))
        assert claim.law_bytes + explained == claim.expected_bytes
    assert found[0].expected_bytes == sum(claim.expected_bytes for claim in found[1:4])
