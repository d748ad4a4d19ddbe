"""How parameters are padded, partitioned among ranks, and divided into buckets.

A unit is a flat buffer of all its parameters, padded with zeros to a multiple of the number of
ranks N and viewed as a matrix (N, columns). Row r is the shard of rank r. A bucket is the set of
elements reduced by one collective: columns [start, stop) of all rows of one or more units, so every
rank's share of a bucket has the same size and buckets add no padding of their own.

Only the arithmetic is here. The engine has its own implementation of the same rules; a test
compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zerosim.base.errors import ConfigError
from zerosim.schema.manifest import BucketLayout, Segment


@dataclass(frozen=True, slots=True)
class UnitSize:
    """A unit of a model, as input of the theory.

    Attributes:
        name: unique among the units of a model.
        elements: number of parameters, without padding; at least 1.
        trainable: False for parameters that receive no gradient.

    Raises:
        ConfigError: the unit has no elements.
    """

    name: str
    elements: int
    trainable: bool = True

    def __post_init__(self) -> None:
        if self.elements < 1:
            raise ConfigError(
                f"unit {self.name!r} has {self.elements} elements: expected 1 or more"
            )


def shard_elements(elements: int, num_ranks: int) -> int:
    """Number of elements of a unit in each rank's shard, with padding: ceil(elements / N).

    Args:
        elements: parameters of the unit, 0 or more.
        num_ranks: N, 1 or more.

    Raises:
        ConfigError: an argument is out of its range.
    """
    if num_ranks < 1 or elements < 0:
        raise ConfigError(
            f"{elements} elements over {num_ranks} ranks: expected 0 or more elements "
            "and 1 or more ranks"
        )
    return -(-elements // num_ranks)


def padded_elements(elements: int, num_ranks: int) -> int:
    """The next multiple of `num_ranks`: the size of a unit of `elements` parameters.

    Raises:
        ConfigError: as in `shard_elements`.
    """
    return shard_elements(elements, num_ranks) * num_ranks


def padding_elements(elements: int, num_ranks: int) -> int:
    """Number of zeros that a unit of `elements` parameters is padded with; 0 to N - 1.

    Raises:
        ConfigError: as in `shard_elements`.
    """
    return padded_elements(elements, num_ranks) - elements


def bucket_columns(bucket_elements: int, num_ranks: int) -> int:
    """Number of columns that fit in a bucket of `bucket_elements`; at least one.

    Raises:
        ConfigError: the bucket has no elements, or there are no ranks.
    """
    if bucket_elements < 1 or num_ranks < 1:
        raise ConfigError(
            f"buckets of {bucket_elements} elements over {num_ranks} ranks: "
            "expected 1 or more of each"
        )
    return max(1, bucket_elements // num_ranks)


def require_names(units: Sequence[UnitSize]) -> None:
    """Check that each unit has a unique name.

    Raises:
        ConfigError: two units have the same name.
    """
    names = [unit.name for unit in units]
    if len(set(names)) != len(names):
        raise ConfigError(f"units {', '.join(names)}: expected each name once")


def cut_buckets(
    units: Sequence[UnitSize], num_ranks: int, bucket_elements: int | None
) -> tuple[BucketLayout, ...]:
    """Place the trainable units one after another into buckets, in backward order.

    Backward computes the last unit's gradients first, so the units are taken in the reverse of the
    given order. A unit is split where a bucket is full, and small units share a bucket. A bucket
    that is exactly one whole unit has the unit's name; others are "bucket 0", "bucket 1", ... by
    their index among all buckets.

    Args:
        units: in forward order; frozen ones are skipped.
        num_ranks: N, at least 1.
        bucket_elements: maximum number of elements of a bucket, over all N rows; None makes each
            unit exactly one bucket.

    Returns:
        The buckets in the order in which they are reduced. Segments are in columns of a row.

    Raises:
        ConfigError: a size is out of its range, or two units have the same name.
    """
    require_names(units)
    columns_of = {
        unit.name: shard_elements(unit.elements, num_ranks)
        for unit in reversed(units)
        if unit.trainable
    }
    if bucket_elements is None:
        return tuple(
            BucketLayout(name=name, segments=(Segment(unit=name, start=0, stop=columns),))
            for name, columns in columns_of.items()
        )
    capacity = bucket_columns(bucket_elements, num_ranks)
    filled: list[list[Segment]] = [[]]
    room = capacity
    for name, columns in columns_of.items():
        start = 0
        while start < columns:
            if room == 0:
                filled.append([])
                room = capacity
            stop = min(columns, start + room)
            filled[-1].append(Segment(unit=name, start=start, stop=stop))
            room -= stop - start
            start = stop
    return tuple(
        BucketLayout(name=_bucket_name(position, segments, columns_of), segments=tuple(segments))
        for position, segments in enumerate(filled)
        if segments
    )


def _bucket_name(position: int, segments: list[Segment], columns_of: dict[str, int]) -> str:
    first = segments[0]
    is_whole_unit = len(segments) == 1 and first.start == 0 and first.stop == columns_of[first.unit]
    return first.unit if is_whole_unit else f"bucket {position}"


def bucket_size(bucket: BucketLayout, num_ranks: int) -> int:
    """Number of elements in the collective of this bucket, over all N rows."""
    return num_ranks * sum(segment.stop - segment.start for segment in bucket.segments)
