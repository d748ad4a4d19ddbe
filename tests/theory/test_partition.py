"""Padding, shards and buckets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.base.errors import ConfigError
from zerosim.schema.manifest import BucketLayout, Segment
from zerosim.theory import (
    UnitSize,
    bucket_columns,
    bucket_size,
    cut_buckets,
    padded_elements,
    padding_elements,
    shard_elements,
)

UNITS = st.lists(st.tuples(st.integers(1, 200), st.booleans()), min_size=1, max_size=6).map(
    lambda sizes: tuple(UnitSize(f"u{i}", n, t) for i, (n, t) in enumerate(sizes))
)


def bucket(name, *segments):
    return BucketLayout(
        name=name, segments=tuple(Segment(unit=u, start=a, stop=b) for u, a, b in segments)
    )


def test_padding_by_hand():
    assert [padded_elements(n, 4) for n in (0, 1, 4, 5, 1001)] == [0, 4, 4, 8, 1004]
    assert [shard_elements(n, 4) for n in (0, 1, 4, 5, 1001)] == [0, 1, 1, 2, 251]
    assert [padding_elements(n, 4) for n in (0, 1, 4, 5, 1001)] == [0, 3, 0, 3, 3]


@given(st.integers(0, 10**15), st.integers(1, 5000))
def test_padding_is_the_next_multiple(elements, num_ranks):
    padded = padded_elements(elements, num_ranks)
    assert padded % num_ranks == 0
    assert 0 <= padded - elements == padding_elements(elements, num_ranks) < num_ranks
    assert shard_elements(elements, num_ranks) * num_ranks == padded


def test_without_a_size_each_trainable_unit_is_a_bucket_in_backward_order():
    units = (UnitSize("a", 7), UnitSize("frozen", 9, trainable=False), UnitSize("c", 4))
    assert cut_buckets(units, 2, None) == (bucket("c", ("c", 0, 2)), bucket("a", ("a", 0, 4)))


def test_small_units_share_a_bucket_and_large_ones_are_cut():
    units = (UnitSize("a", 10), UnitSize("b", 3), UnitSize("c", 4))
    # columns of 2 rows: c 2, b 2, a 5; a bucket of 7 elements holds 3 columns
    assert cut_buckets(units, 2, 7) == (
        bucket("bucket 0", ("c", 0, 2), ("b", 0, 1)),
        bucket("bucket 1", ("b", 1, 2), ("a", 0, 2)),
        bucket("bucket 2", ("a", 2, 5)),
    )


def test_a_bucket_that_is_a_whole_unit_has_its_name():
    units = (UnitSize("a", 9), UnitSize("b", 6), UnitSize("c", 6))
    assert [each.name for each in cut_buckets(units, 2, 6)] == ["c", "b", "bucket 2", "bucket 3"]


def test_a_bucket_holds_at_least_a_column():
    assert bucket_columns(1, 8) == 1
    assert [bucket_size(each, 8) for each in cut_buckets((UnitSize("a", 17),), 8, 1)] == [8] * 3


def test_nothing_trainable_makes_no_bucket():
    units = (UnitSize("a", 9, trainable=False),)
    assert cut_buckets(units, 2, None) == cut_buckets(units, 2, 4) == ()


@given(UNITS, st.integers(1, 9), st.none() | st.integers(1, 300))
def test_buckets_cover_every_trainable_column_once_in_order(units, num_ranks, bucket_elements):
    buckets = cut_buckets(units, num_ranks, bucket_elements)
    covered = [
        (segment.unit, column)
        for each in buckets
        for segment in each.segments
        for column in range(segment.start, segment.stop)
    ]
    assert covered == [
        (unit.name, column)
        for unit in reversed(units)
        if unit.trainable
        for column in range(shard_elements(unit.elements, num_ranks))
    ]
    if bucket_elements is not None and buckets:
        capacity = num_ranks * max(1, bucket_elements // num_ranks)
        sizes = [bucket_size(each, num_ranks) for each in buckets]
        assert all(size == capacity for size in sizes[:-1])
        assert 0 < sizes[-1] <= capacity
    whole = {
        unit.name: ((unit.name, 0, shard_elements(unit.elements, num_ranks)),) for unit in units
    }
    for position, each in enumerate(buckets):
        segments = tuple((s.unit, s.start, s.stop) for s in each.segments)
        is_whole = segments == whole[segments[0][0]]
        assert each.name == (segments[0][0] if is_whole else f"bucket {position}")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: shard_elements(3, 0),
        lambda: shard_elements(-1, 2),
        lambda: bucket_columns(0, 2),
        lambda: cut_buckets((UnitSize("a", 1),), 2, 0),
        lambda: cut_buckets((UnitSize("a", 1), UnitSize("a", 2)), 2, None),
        lambda: UnitSize("a", 0),
    ],
)
def test_what_cannot_be_partitioned_is_refused(wrong):
    with pytest.raises(ConfigError, match="expected"):
        wrong()
