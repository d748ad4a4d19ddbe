"""Differences between two calls that should match."""

from __future__ import annotations

from collections.abc import Sequence

from zerosim.schema.events import OF_MICRO_BATCHES, STEP_PHASES, Event, Op

MESSAGES = (Op.SEND, Op.RECEIVE)
_UNSIZED = frozenset({Op.BARRIER, Op.ALL_TO_ALL, Op.GATHER, Op.SCATTER})
"""Operations in which ranks may pass different sizes."""


def differences(one: Event, other: Event) -> set[str]:
    """Differences between two calls that should be one collective."""
    if one.op in MESSAGES and other.op in MESSAGES:
        return _differences_of_ends(one, other)
    found = set()
    if one.op is not other.op:
        found.add("op")
    if one.unit and other.unit and one.unit != other.unit:
        found.add("unit")
    if one.iteration != other.iteration:  # a rank without data may skip a micro-step
        found.add("iteration")
    if one.op is not None and one.op not in _UNSIZED and not (one.operator or other.operator):
        if one.dtype and other.dtype and one.dtype != other.dtype:
            found.add("dtype")
        if one.elements != other.elements:
            found.add("size")
    return found


def _differences_of_ends(one: Event, other: Event) -> set[str]:
    """Differences between two calls that are the ends of one message, or the same end of two."""
    found = set()
    if one.purpose in OF_MICRO_BATCHES and other.purpose in OF_MICRO_BATCHES:
        if one.purpose is not other.purpose:
            found.add("purpose")
        if one.micro_step != other.micro_step:
            found.add("micro-batch")
        if one.iteration != other.iteration:
            found.add("iteration")
    if one.dtype != other.dtype:
        found.add("dtype")
    if one.elements != other.elements:
        found.add("size")
    return found


def is_alike(one: Event, other: Event) -> bool:
    """Whether two calls are equal, regardless of the iteration."""
    return not differences(one, other) - {"iteration"}


def are_of_phases(calls: Sequence[Event]) -> bool:
    """Whether calls, even equal ones, belong to different phases of an iteration."""
    if any(one.op in MESSAGES or one.phase not in STEP_PHASES for one in calls):
        return False
    return len({one.phase for one in calls}) > 1
