"""A position in a replay, in words: "backward reduce blocks.1 hop 2" as a step's number.

    PHASE [what] [UNIT] [hop K] [micro-step K]

"what" is any of: compute, wait, transfer, collective (kinds of steps); all-gather, all-reduce,
reduce-scatter (ops); gather, reduce, parameters, gradients, loss (words of purposes). "update"
alone is the start of that phase, "end" the end of the iteration. Hops and micro-steps count from 1,
as in the displayed text. A collective without a hop is at the step shown by its beat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zerosim.base.errors import ConfigError

_HOP = "hop"
_COUNTED = {_HOP: "hop", "micro-step": "micro_step"}
_END = "end"


def place(document: Mapping[str, Any], at: str) -> int:
    """The first step of a replay document that matches all the words, or its beat's step.

    Args:
        document: the result of `zerosim.view.replay.replay_document`.
        at: the position, in words; "" for the first step.

    Returns:
        The step's number, from 0.

    Raises:
        ConfigError: no step has them.
    """
    words, counts = _read(at)
    for number, step in enumerate(document["steps"]):
        if words <= _words(step) and all(step[name] == count for name, count in counts.items()):
            return number if names_hop(at) else _shown(document, number)
    raise ConfigError(
        f"{document['name']} has no step {at[:80]!r}: expected PHASE [what] [UNIT] [hop K], as in "
        "'backward reduce blocks.1 hop 2', 'update' or 'end'"
    )


def names_hop(at: str) -> bool:
    """Whether the words name a hop: their step is then within a beat."""
    return _HOP in at.split()


def _shown(document: Mapping[str, Any], number: int) -> int:
    """The step at which a beat shows the collective of a step; for any other step itself."""
    collective = document["steps"][number]["collective"]
    if collective < 0:
        return number
    mains = (int(beat["main"]) for beat in document["beats"])
    of_it = (main for main in mains if document["steps"][main]["collective"] == collective)
    return next(of_it, number)


def _read(at: str) -> tuple[set[str], dict[str, int]]:
    """The words, and counted ones: their field, from 0."""
    words, counts = set(), {}
    rest = iter(at.split())
    for word in rest:
        if word not in _COUNTED:
            words.add(word)
            continue
        count = next(rest, "")
        if not count.isdecimal():
            raise ConfigError(f"{at[:80]!r}: {word} is {count!r}, expected a number from 1")
        counts[_COUNTED[word]] = int(count) - 1
    return words, counts


def _words(step: Mapping[str, Any]) -> set[str]:
    """All words that match a step."""
    if step["kind"] == "mark" and step["phase"] == "outside":
        return {_END}
    said = {step["phase"], step["kind"], step["unit_name"], step["op"]}
    return said | set(step["purpose"].split())
