"""`assert_collectives`: the number of calls of a rank in an iteration.

Keys are operations ("all-reduce"), purposes ("reduce gradients"), phases ("backward"), or several
of these together (("forward", "all-gather")). Messages (send, receive) and barriers count as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

from zerosim.base.errors import ConfigError
from zerosim.pytest_plugin.failure import describe_calls, ledgers, place_words
from zerosim.schema.events import Event, Op, Phase, Purpose
from zerosim.view.reading import Run
from zerosim.view.reading.selection import Selection, all_calls, purpose_of

_KINDS: tuple[type[StrEnum], ...] = (Phase, Purpose, Op)
_ONCE = (Purpose.METADATA, Purpose.BROADCAST_STATE)
Key = tuple[StrEnum, ...]
"""Members of some of `_KINDS`, in that order."""


def parse_counts(given: object) -> dict[Key, int]:
    """Parse a test's expectation.

    Raises:
        ConfigError: a key is unknown, keys are of different kinds, or a count is invalid.
    """
    if not isinstance(given, Mapping):
        raise ConfigError(f"{given!r} are not counts: expected, for example, {{'all-reduce': 3}}")
    counts: dict[Key, int] = {}
    for key, count in given.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise ConfigError(f"{key!r} has count {count!r}: expected 0 or more")
        parsed = _parse_key(key)
        if parsed in counts:
            raise ConfigError(f"{_words(parsed)} is given twice: expected one count")
        counts[parsed] = count
    if len({_kinds(key) for key in counts}) > 1:
        raise ConfigError(
            f"{', '.join(_words(key) for key in counts)} are keys of different kinds, so a call "
            f"may count twice: expected only operations, only purposes, or the same pairs"
        )
    return counts


def check_collectives(run: Run, selection: Selection, expected: dict[Key, int]) -> str:
    """Compare the calls with the expectation.

    Returns:
        Why they differ, with their lines in the program; "" if they are as expected.
    """
    kinds = _kinds(next(iter(expected), (Op.BARRIER,)))
    wrong = []
    num_places = 0
    for rank, iteration in selection.places():
        num_places += 1
        calls = selection.calls(rank, iteration)
        found = Counter(_key(each, kinds) for each in calls)
        if any(found[key] != expected.get(key, 0) for key in found | expected):
            wrong.append((rank, iteration, calls, found))
    if not wrong:
        return ""
    rank, iteration, calls, found = wrong[0]
    more = f" (and at {len(wrong) - 1} more of {num_places})" if len(wrong) > 1 else ""
    lines = [
        f"collectives are not as expected: {place_words(rank.rank, iteration)}{more}",
        f"  counted: {selection.words}",
    ]
    right = []
    for key in dict.fromkeys([*expected, *found]):
        wanted, number = expected.get(key, 0), found[key]
        if wanted == number:
            right.append(f"{number} x {_words(key)}")
            continue
        excess = _excess(number - wanted)
        lines.append(f"  {_words(key)}: expected {wanted}, found {number}, {excess}")
        lines += describe_calls([each for each in calls if _key(each, kinds) == key], "    ")
    if right:
        lines.append(f"  as expected: {', '.join(right)}")
    beside = [each for each in all_calls(rank, iteration) if each not in calls]
    if beside:
        lines += ["  not counted:", *describe_calls(beside, "    ")]
    if any(purpose_of(each) in _ONCE for each in calls):
        lines.append(
            f"  {' and '.join(_ONCE)} happen once, in the first two iterations, in most "
            "frameworks: iteration= or purpose= leaves them out"
        )
    return "\n".join([*lines, "", *ledgers(run, rank, iteration)])


def _parse_key(given: object) -> Key:
    parts = given if isinstance(given, tuple) else (given,)
    found: dict[type[StrEnum], StrEnum] = {}
    for part in parts:
        member = _member(part)
        if type(member) in found:
            raise ConfigError(
                f"{given!r} names two of one kind: expected a key like ('forward', 'send')"
            )
        found[type(member)] = member
    if not found:
        raise ConfigError("a key is empty: expected an operation such as 'all-reduce'")
    return tuple(found[kind] for kind in _KINDS if kind in found)


def _member(given: object) -> StrEnum:
    for kind in _KINDS:
        if isinstance(given, str) and given in list(kind):
            return kind(given)
    known = "; ".join(", ".join(kind) for kind in (Op, Purpose, Phase))
    raise ConfigError(f"{given!r} is not an operation, purpose or phase: expected one of {known}")


def _kinds(key: Key) -> tuple[type[StrEnum], ...]:
    return tuple(type(member) for member in key)


def _key(event: Event, kinds: tuple[type[StrEnum], ...]) -> Key:
    assert event.op is not None, "only calls are counted"
    parts: dict[type[StrEnum], StrEnum] = {
        Phase: event.phase,
        Purpose: purpose_of(event),
        Op: event.op,
    }
    return tuple(parts[kind] for kind in kinds)


def _excess(number: int) -> str:
    return f"{number} too many" if number > 0 else f"{-number} missing"


def _words(key: Key) -> str:
    return ", ".join(member.value for member in key)
