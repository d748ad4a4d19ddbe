"""Memory by tier: a line of each, and what of the allocator's count is the device's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.test_memory import rank_of, sample
from zerosim.analysis.memory import (
    NOT_MEASURED,
    ROLES,
    states,
    states_of,
    tiers_of,
    timeline,
    updates_begin,
)
from zerosim.base.tiers import Tier
from zerosim.schema.events import Phase
from zerosim.schema.memory import Allocations, Holding, Moment, Role

holdings = st.builds(
    Holding,
    role=st.sampled_from(ROLES),
    unit=st.sampled_from(["", "a"]),
    bytes=st.integers(0, 2**40),
    tier=st.sampled_from(Tier),
)


@given(st.lists(st.lists(holdings, max_size=4), min_size=1, max_size=8))
def test_each_tier_is_the_fold_of_its_own_changes(history):
    rank = rank_of([sample(i, changes) for i, changes in enumerate(history)])
    assert set(tiers_of(rank)) == {one.tier for changes in history for one in changes} | {
        Tier.DEVICE
    }
    for tier in Tier:
        line = timeline(rank, tier)
        alive = {}
        for (number, state), changes in zip(states(line), history, strict=True):
            alive |= {(one.role, one.unit): one.bytes for one in changes if one.tier is tier}
            expected = {place: size for place, size in alive.items() if size}
            assert state == line.at(number) == expected
            assert int(line.known[number]) == sum(expected.values())
        for number, held, _ in states_of(line, Role.GRADIENTS):
            expected = {u: size for (r, u), size in line.at(number).items() if r is Role.GRADIENTS}
            assert held == expected


def test_what_the_host_has_is_taken_off_the_count_of_the_process():
    changes = [Holding(Role.PARAMETERS, "a", 100), Holding(Role.MASTER, "a", 40, Tier.HOST)]
    disk = [Holding(Role.VARIANCE, "a", 7000, Tier.DISK)]
    samples = [sample(0, changes), sample(1, disk, unrecorded_bytes=5)]
    row = Allocations(numbers=(0, 1), allocated_bytes=(143, 150), peak_bytes=(143, 200))
    line = timeline(rank_of(samples, [row]))
    assert line.allocated.tolist() == [103, 115]
    assert line.between.tolist() == [143, 205]
    assert line.beside.tolist() == [40, 40]
    assert [line.other(number) for number in (0, 1)] == [3, 15]
    assert line.alive().tolist() == [103, 115]
    for tier in (Tier.HOST, Tier.DISK):
        beyond = timeline(rank_of(samples, [row]), tier)
        assert set(beyond.allocated.tolist()) == {NOT_MEASURED}
        assert beyond.alive().tolist() == beyond.known.tolist()


def test_a_device_counts_its_own_only():
    changes = [Holding(Role.PARAMETERS, "a", 100), Holding(Role.MASTER, "a", 40, Tier.HOST)]
    line = timeline(rank_of([sample(0, changes, allocated_bytes=101)]))
    assert (line.allocated.tolist(), line.beside.tolist(), line.other(0)) == ([101], [0], 1)


def test_an_update_begins_at_its_phase_whatever_is_written_late():
    """A copy of the update before may be over while the next iteration computes."""
    samples = [
        sample(0, iteration=0, phase=Phase.UPDATE),
        sample(1, iteration=1, phase=Phase.FORWARD),
        sample(2, iteration=0, phase=Phase.UPDATE, moment=Moment.END, event=None),
        sample(3, iteration=1, phase=Phase.UPDATE),
        sample(4, iteration=2, phase=Phase.FORWARD),
        sample(5, iteration=1, phase=Phase.UPDATE, moment=Moment.END, event=None),
    ]
    assert updates_begin(timeline(rank_of(samples)), [0, 1]) == {0: 0, 1: 3}
