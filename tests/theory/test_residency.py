"""What may be gathered at a time, and which whole gradients may exist."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.workloads import workload
from zerosim.base.config import DType
from zerosim.schema.manifest import BucketLayout, Segment
from zerosim.theory import (
    Activations,
    UnitSize,
    cut_buckets,
    module_of,
    most_gathered_bytes,
    num_ahead,
    secondary_bytes,
    whole_gradients,
)
from zerosim.theory.residency import LEAVING
from zerosim.train.engine.host_rows import MOST_LEAVING

SIZES = {"root": 5, "a": 10, "b": 30, "b.frozen": 2, "c": 20}
ORDER = ["a", "b", "b.frozen", "c"]


def test_a_frozen_unit_belongs_to_its_module():
    assert [module_of(unit) for unit in SIZES] == ["root", "a", "b", "b", "c"]


@pytest.mark.parametrize(
    ("gathered", "computing", "ahead"),
    [
        ([], [], 0),
        (["a"], ["a"], 0),
        (["a", "b"], ["a"], 1),
        (["a", "b", "b.frozen"], ["a"], 2),
        (["b", "b.frozen", "c"], ["b"], 1),
        (["b", "c"], ["a"], 1),  # a is over, b is about to begin
        (["b", "b.frozen", "c"], ["a"], 1),
        (["root", "a", "b"], ["a"], 1),
        (["root"], [], 0),
        (["a", "b", "c"], ["a", "c"], 1),  # two that compute at once
    ],
)
def test_units_ahead(gathered, computing, ahead):
    assert num_ahead(gathered, computing, {"root"}) == ahead


def test_frozen_parameters_leave_late():
    held = ["b.frozen", "a"]
    assert num_ahead(held, ["b"], ()) == 1
    assert num_ahead(held, ["b"], (), leaving=["b"]) == 0
    assert num_ahead(["b.frozen", "c", "a"], ["a"], (), leaving=["b"]) == 1
    assert num_ahead(["b", "c"], ["c"], (), leaving=["b"]) == 1  # not frozen


@pytest.mark.parametrize(
    ("prefetch", "expected"),
    [(0, 5 + 32), (1, 5 + 32 + 20), (2, 5 + 32 + 20), (9, 5 + 62)],
)
def test_most_gathered(prefetch, expected):
    assert most_gathered_bytes(SIZES, ORDER, {"root"}, prefetch) == expected


def test_frozen_parameters_of_the_module_after_it_count():
    # while "a" computes in backward, the frozen part of "b" may still be there
    sizes = {"a": 50, "b": 1, "b.frozen": 7}
    assert most_gathered_bytes(sizes, ["a", "b", "b.frozen"], (), 0) == 57


def test_modules_that_compute_together():
    assert most_gathered_bytes(SIZES, ORDER, {"root"}, 0, {"a", "c"}) == 5 + 32
    assert most_gathered_bytes(SIZES, ORDER, {"root"}, 0, {"b", "c"}) == 5 + 52
    assert most_gathered_bytes(SIZES, ORDER, {"root"}, 1, {"b", "c"}) == 5 + 62
    assert most_gathered_bytes(SIZES, [], {"root", "a"}, 1) == 15


def test_the_order_decides():
    sizes = {"large": 100, "small": 1, "huge": 1000}
    assert most_gathered_bytes(sizes, ["large", "small", "huge"], (), 1) == 1001
    assert most_gathered_bytes(sizes, ["small", "large", "huge"], (), 1) == 1100


UNITS = tuple(UnitSize(name, 12) for name in ("a", "b", "c"))


def test_whole_gradients_of_one_bucket_a_unit():
    buckets = cut_buckets(UNITS, 2, None)
    assert whole_gradients(buckets, set(), {"c"}) == {"c"}
    assert whole_gradients(buckets, {"c"}, {"b"}) == {"c", "b"}
    assert whole_gradients(buckets, {"c", "b"}, {"a"}) == {"b", "a"}
    assert whole_gradients(buckets, {"c", "b", "a"}, set()) == {"a"}


def test_whole_gradients_wait_for_a_large_bucket():
    buckets = cut_buckets(UNITS, 2, 24)
    assert whole_gradients(buckets, {"c"}, {"b"}) == {"c", "b"}
    assert whole_gradients(buckets, {"c", "b"}, {"a"}) == {"a", "b", "c"}
    assert whole_gradients(buckets, {"a", "b", "c"}, set()) == {"a"}
    assert whole_gradients(cut_buckets(UNITS, 2, 1000), {"c", "b"}, {"a"}) == {"a", "b", "c"}


def test_whole_gradients_of_small_buckets():
    # two buckets a unit: the first of a unit is over when its second is on its way
    buckets = cut_buckets(UNITS, 2, 6)
    assert whole_gradients(buckets, {"c"}, {"b"}) == {"b", "c"}
    assert whole_gradients(buckets, {"c", "b"}, {"a"}) == {"a", "b"}


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(1, 50))
def test_only_what_was_computed_may_be_whole(sizes, bucket_elements):
    units = tuple(UnitSize(f"u{i}", n) for i, n in enumerate(sizes))
    buckets = cut_buckets(units, 2, bucket_elements)
    order = [unit.name for unit in reversed(units)]
    for place, name in enumerate(order):
        computed = set(order[:place])
        allowed = whole_gradients(buckets, computed, {name})
        assert name in allowed
        assert allowed <= computed | {name}
    assert whole_gradients(buckets, set(order), set()) <= {
        segment.unit for segment in buckets[-1].segments
    }


def test_secondary_parts_by_hand():
    """Units of 31 and 64 on 4 ranks are padded to 32 and 64; each of 2 ranks has half of them."""
    two = (UnitSize("a", 31), UnitSize("b", 64, trainable=False))
    found = [
        secondary_bytes(workload(3, 4, two, secondary_partition=parts, dtype=dtype))
        for parts, dtype in ((2, DType.BF16), (4, DType.FP32), (1, DType.BF16))
    ]
    assert found == [{"a": 32, "b": 64}, {"a": 32, "b": 64}, {}]


def test_a_checkpoint_is_divided_among_those_who_compute_it():
    kept = Activations(num_blocks=1, elements=10)
    options = {"checkpoint_activations": True, "activations": kept, "tensor_parallel": 4}
    units = (UnitSize("a", 8),)
    parts = [
        workload(1, 2, units, partition_activations=flag, **options).part_elements
        for flag in (False, True)
    ]
    assert parts == [10, 3]


def test_what_leaves_for_the_host_is_there_a_little_longer():
    names = "abcd"
    buckets = [BucketLayout(name=n, segments=(Segment(unit=n, start=0, stop=1),)) for n in names]
    assert whole_gradients(buckets, set("abc"), {"d"}) == {"c", "d"}
    assert whole_gradients(buckets, set("abc"), {"d"}, leaving=LEAVING) == {"b", "c", "d"}
    assert whole_gradients(buckets, set("abc"), {"d"}, leaving=2) == set("abcd")
    assert LEAVING == MOST_LEAVING
