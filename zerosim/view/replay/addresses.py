"""A moment of a replay as in its links: "beat:17", "tour:3", "#beat=17&rank=2&theme=dark".

`dashboards/player/address.js` writes these; here a link is checked against the document, so that a
mistake is reported instead of ignored. Words (`replay.places`) name a moment as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zerosim.base.errors import ConfigError
from zerosim.view.replay.places import names_hop, place

THEMES = ("light", "dark")
_FIELD = re.compile(r"([a-z]+)[:=](.*)", re.DOTALL)
_OF_THE_PAGE = frozenset({"speed", "table", "break"})
"""Keys of a link besides the moment that have no effect on a picture."""


@dataclass(frozen=True, slots=True)
class ReplayMoment:
    """The view of a replay.

    Attributes:
        step: from 0.
        hops: one hop after the other, instead of beat by beat.
        rank: the selected one, as an index in the document's ranks.
        theme: light, dark; "" if not given.
        present: the large layout for presentations.
        tour: its stop in the tour, from 0; -1 if it is not a stop.
    """

    step: int = 0
    hops: bool = False
    rank: int = 0
    theme: str = ""
    present: bool = False
    tour: int = -1


def read_moment(document: Mapping[str, Any], at: str) -> ReplayMoment:
    """The view given by a link or by words.

    Args:
        document: the result of `zerosim.view.replay.replay_document`.
        at: "beat:17", "tour:3", "step:40", the part of a link after "#", a whole link, or words
            such as "backward reduce blocks.1"; "" for the first beat.

    Raises:
        ConfigError: there is no such moment.
    """
    text = at.rpartition("#")[2].strip()
    if not text:
        return ReplayMoment(_beat(document, "1"))
    if not _FIELD.match(text):
        return ReplayMoment(place(document, text), hops=names_hop(text))
    fields = dict(_read(part, at) for part in text.split("&"))
    step, tour = _beat(document, fields.get("beat", "1")), -1
    if "tour" in fields:
        tour = _number("tour", fields["tour"], len(document["tour"])) - 1
        step = int(document["tour"][tour]["step"])
    for name in ("at", "step"):
        if name in fields:
            step = _number(name, fields[name], len(document["steps"])) - 1
    return ReplayMoment(
        step=step,
        hops=_one_of("hops", fields.get("hops", "0"), ("0", "1")) == "1",
        rank=_rank(document, fields["rank"]) if "rank" in fields else 0,
        theme=_one_of("theme", fields["theme"], THEMES) if "theme" in fields else "",
        tour=tour,
        present=_one_of("mode", fields.get("mode", "work"), ("work", "present")) == "present",
    )


_KNOWN = ("beat", "tour", "at", "step", "hops", "rank", "mode", "theme")


def _read(part: str, at: str) -> tuple[str, str]:
    found = _FIELD.fullmatch(part)
    if found is None or found[1] not in {*_KNOWN, *_OF_THE_PAGE}:
        raise ConfigError(
            f"at is {at[:80]!r}: {part[:40]!r} is not one of {', '.join(_KNOWN)}; try beat:1"
        )
    return found[1], found[2]


def _beat(document: Mapping[str, Any], text: str) -> int:
    """The step that a beat is about."""
    beats = document["beats"]
    return int(beats[_number("beat", text, len(beats)) - 1]["main"])


def _number(name: str, text: str, most: int) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= most:
        raise ConfigError(f"{name} is {text[:40]!r}: expected a number from 1 to {most}")
    return int(text)


def _rank(document: Mapping[str, Any], text: str) -> int:
    ranks = [str(rank) for rank in document["ranks"]]
    return ranks.index(_one_of("rank", text, ranks))


def _one_of(name: str, text: str, known: tuple[str, ...] | list[str]) -> str:
    if text not in known:
        raise ConfigError(f"{name} is {text[:40]!r}: expected one of {', '.join(known)}")
    return text
