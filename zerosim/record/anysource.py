"""Receives from any rank whose trace lacks the sender: matching them with sends.

The trace records the sender once a rank waits for such a receive (`Close.peers`). A receive without
a wait is matched here with the sends, by group, order, size and dtype. If sends of several ranks
match, the sender stays unknown.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from zerosim.schema.events import Event

Way = tuple[int, int, str]
"""Source, destination and group of a message."""
Messages = dict[Way, list["Event"]]
"""Sends or receives in their order."""
_Shape = tuple[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FromAny:
    """Messages of one size to one rank of a group whose sends and receives cannot be matched.

    Attributes:
        sends: sends of several ranks; empty if no rank sent such a message.
        receives: the receives, at least one of them from any rank.
    """

    sends: tuple[Event, ...]
    receives: tuple[Event, ...]

    @property
    def fits(self) -> bool:
        """Whether there are as many sends as receives."""
        return len(self.sends) == len(self.receives)


def settle(
    sends: Messages, receives: Messages, unsaid: dict[tuple[int, str], list[Event]]
) -> tuple[FromAny, ...]:
    """Match receives from any rank with the sends of the only rank that they can come from.

    Args:
        sends, receives: those with a known peer; matched receives are added, and ambiguous ones are
            removed from both.
        unsaid: receives with an unknown sender, by destination and group.

    Returns:
        The ambiguous sends and receives.
    """
    ways: dict[tuple[int, str], list[Way]] = {to: [] for to in unsaid}
    for way in sends:
        if way[1:] in ways:
            ways[way[1:]].append(way)
    left: list[FromAny] = []
    for to, asked in unsaid.items():
        more = {way: _count(sends[way]) - _count(receives.get(way, [])) for way in ways[to]}
        blurred = set()
        for event in asked:
            shape = _shape(event)
            able = [way for way in ways[to] if more[way][shape] > 0]
            if len(able) == 1:
                receives.setdefault(able[0], []).append(event)
            elif able:
                blurred.add(shape)
            else:
                left.append(FromAny(sends=(), receives=(event,)))
        for way in ways[to]:
            receives.get(way, []).sort(key=lambda event: event.id)
        left += _taken_out(sends, receives, ways[to], asked, blurred)
    return tuple(left)


def _taken_out(
    sends: Messages,
    receives: Messages,
    ways: list[Way],
    asked: list[Event],
    shapes: set[_Shape],
) -> list[FromAny]:
    """The sends and receives of one of these shapes for one rank."""
    found: dict[_Shape, tuple[list[Event], list[Event]]] = {shape: ([], []) for shape in shapes}
    for event in asked:
        if _shape(event) in shapes:
            found[_shape(event)][1].append(event)
    for side, messages in enumerate((sends, receives)):
        for way in ways if shapes else ():
            for event in messages.get(way, ()):
                if _shape(event) in shapes:
                    found[_shape(event)][side].append(event)
            if way in messages:
                messages[way] = [event for event in messages[way] if _shape(event) not in shapes]
    return [
        FromAny(sends=tuple(sent), receives=tuple(sorted(received, key=lambda event: event.id)))
        for sent, received in found.values()
    ]


def _shape(event: Event) -> _Shape:
    return event.payload_bytes, event.dtype


def _count(events: list[Event]) -> Counter[_Shape]:
    return Counter(map(_shape, events))
