"""The messages of collectives: matching of sends and receives, and of receives with forwards.

Within one hop of a matched collective, the n-th message from a to b is the n-th that b receives
from a. A rank of a ring forwards at hop h + 1 the data received at hop h: the n-th piece of that
shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zerosim.analysis.graph.kinds import NodeKind
from zerosim.analysis.graph.table import NONE, EventTable, Ints

_Keys = tuple[Ints, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hops:
    """Messages as rows of the table.

    Attributes:
        sends, receives: matched messages, at the same index of both.
        different: indices of those whose two ends differ in size or shard.
        lost: sends without a receive.
        unsent: receives without a send.
        received, passed_on: a receive, and the send that forwards it.
        first: messages that only depend on their call: all receives, sends of the first hop.
    """

    sends: Ints
    receives: Ints
    different: Ints
    lost: Ints
    unsent: Ints
    received: Ints
    passed_on: Ints
    first: Ints


def match_hops(table: EventTable, collective: Ints) -> Hops:
    """Pair the messages.

    Args:
        collective: by row, the matched collective of a call; `NONE` for others.
    """
    sends, receives = table.rows(NodeKind.SEND), table.rows(NodeKind.RECEIVE)
    sent_in, received_in = (_within(table, rows, collective) for rows in (sends, receives))
    is_sent, is_received = _pair(
        (sent_in, table.rank[sends], table.peer[sends], table.hop[sends]),
        (received_in, table.peer[receives], table.rank[receives], table.hop[receives]),
    )
    lost = np.setdiff1d(sends[sent_in != NONE], sends[is_sent], assume_unique=True)
    unsent = np.setdiff1d(receives[received_in != NONE], receives[is_received], assume_unique=True)
    has_hop = table.hop[receives] != NONE
    passing, passed = receives[has_hop], sends[table.hop[sends] > 0]
    arrives, leaves = _pair(
        (table.parent[passing], table.hop[passing] + 1, table.shard[passing]),
        (table.parent[passed], table.hop[passed], table.shard[passed]),
    )
    follows = np.zeros(len(table.id), np.bool_)
    follows[passed[leaves]] = True
    sent, arrived = sends[is_sent], receives[is_received]
    differs = (table.payload[sent] != table.payload[arrived]) | (
        table.shard[sent] != table.shard[arrived]
    )
    return Hops(
        sends=sent,
        receives=arrived,
        different=np.flatnonzero(differs),
        lost=lost,
        unsent=unsent,
        received=passing[arrives],
        passed_on=passed[leaves],
        first=np.concatenate([sends[~follows[sends]], receives]),
    )


def _within(table: EventTable, rows: Ints, collective: Ints) -> Ints:
    """The matched collective that each message belongs to."""
    parent = table.parent[rows]
    return np.where(parent == NONE, NONE, collective[parent])


def _pair(left: _Keys, right: _Keys) -> tuple[Ints, Ints]:
    """Indices of both sides with equal keys: the n-th of a key is paired with the n-th.

    Keys whose first part is `NONE` have no partner.
    """
    here, there = np.flatnonzero(left[0] != NONE), np.flatnonzero(right[0] != NONE)
    keys = zip(left, right, strict=True)
    numbers = _number([np.concatenate([mine[here], theirs[there]]) for mine, theirs in keys])
    mine, theirs = _ordinal(numbers[: len(here)]), _ordinal(numbers[len(here) :])
    most = max(int(mine.max(initial=0)), int(theirs.max(initial=0))) + 1
    _, in_mine, in_theirs = np.intersect1d(
        numbers[: len(here)] * most + mine,
        numbers[len(here) :] * most + theirs,
        assume_unique=True,
        return_indices=True,
    )
    return here[in_mine], there[in_theirs]


def _number(parts: Sequence[Ints]) -> Ints:
    """One number for each different key."""
    number = np.zeros(len(parts[0]), np.int64)
    for part in parts:
        low = int(part.min(initial=0))
        span = int(part.max(initial=0)) - low + 1
        number = number * span + (part - low)
        if int(number.max(initial=0)) > _LARGEST:
            number = np.unique(number, return_inverse=True)[1].astype(np.int64)
    return number


_LARGEST = 2**40


def _ordinal(numbers: Ints) -> Ints:
    """The number of equal ones before each."""
    order = np.argsort(numbers, kind="stable")
    ranked = numbers[order]
    begins = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    lengths = np.diff(np.concatenate([begins, [len(ranked)]]))
    ordinal = np.empty(len(numbers), np.int64)
    ordinal[order] = np.arange(len(ranked)) - np.repeat(begins, lengths)
    return ordinal
