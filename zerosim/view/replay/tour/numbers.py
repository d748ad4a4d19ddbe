"""The numbers of a beat, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from zerosim.analysis.beats import Sign
from zerosim.base.language import listed, term
from zerosim.base.quantities import format_bytes, format_exact
from zerosim.schema.events import Kind, Phase
from zerosim.view.replay.moments import Document
from zerosim.view.replay.tour.held import RankCells
from zerosim.view.replay.tour.telling import Telling, fill, rows, summed, texts

_NUMBERS_PER_COPY = 4
_COMPUTING = (Phase.FORWARD, Phase.BACKWARD)
_OPTIMIZER = ("fp32 master", "optimizer states", "momentum")
"""States that show which optimizer states a rank has."""
_WITHOUT_PAYLOAD = ("agree", "send")
_MOST_NAMES = 2


class BeatNumbers:
    """Describes how much a beat moves, computes or updates."""

    def __init__(self, document: Document, held: RankCells) -> None:
        """Prepare.

        Args:
            held: the contents of ranks at the step.
        """
        self._document, self._held, self._tell = document, held, Telling(document)
        self._steps, self._collectives = document["steps"], document["collectives"]

    def of(self, beat: dict[str, Any]) -> list[str]:
        """The sentences of a beat; empty without numbers."""
        step, signs = self._steps[beat["main"]], beat["signs"]
        if step["kind"] == Kind.COPY:
            return self._copies(beat)
        if "update" in signs:
            return [self._updates()]
        if step["collective"] >= 0:
            return self._sends(beat)
        if "compute" not in signs:
            return []
        return [self._size(beat), self._most_at_once(beat) if beat["within"] else ""]

    def _most_at_once(self, beat: dict[str, Any]) -> str:
        """How much of a module is present at a time, if its units are processed one after the
        other.
        """
        held, most = RankCells(self._document), 0
        for step in range(beat["first"], beat["last"] + 1):
            held.go_on(step)
            ranks = range(len(self._document["ranks"]))
            most = max(most, *(held.parameter_bytes(rank, beat["units"]) for rank in ranks))
        whole = held.whole_bytes(beat["units"])
        if not 0 < most < whole:
            return ""
        return fill("beat", "most", most=format_bytes(most), whole=format_bytes(whole))

    def _sends(self, beat: dict[str, Any]) -> list[str]:
        calls = self._calls(beat)
        sent, excess = summed(calls, "trace"), summed(calls, "excess")
        if not any(sent):
            return []
        hops = calls[0]["num_hops"]
        how = ""
        if len(calls) > 1:
            how = fill("beat", "calls", calls=len(calls))
        elif hops > 1:
            how = fill("beat", "hops", hops=hops)
        payload = format_bytes(calls[0]["payload_bytes"])
        has_payload = len(calls) == 1 and beat["signs"][0] not in _WITHOUT_PAYLOAD
        is_more = any(call["is_more"] for call in calls) and any(excess)
        return [
            fill("beat", "payload", payload=payload) if has_payload else "",
            self._tell.sent("beat", "asked" if is_more else "sends", sent, how=how),
            self._tell.sent("beat", "more", excess) if is_more else "",
            self._nth(beat),
        ]

    def _calls(self, beat: dict[str, Any]) -> list[dict[str, Any]]:
        """The main collectives of a beat, without those of which it contains only some hops."""
        own = self._steps[beat["first"] : beat["last"] + 1]
        numbers = dict.fromkeys(step["collective"] for step in own if step["collective"] >= 0)
        main = self._collectives[self._steps[beat["main"]]["collective"]]
        calls = [self._collectives[number] for number in numbers]
        return [
            call
            for call in calls
            if call is main
            or (call["purpose"] == main["purpose"] and call["first"] >= beat["first"])
        ]

    def _nth(self, beat: dict[str, Any]) -> str:
        """How often a unit has been gathered for computation, from the second time on."""
        alike = [
            one
            for one in self._document["beats"]
            if "gather" in one["signs"]
            and one["units"] == beat["units"]
            and one["phase"] in _COMPUTING
        ]
        if beat not in alike or len(beat["units"]) != 1:
            return ""
        nth = texts()["nth"].get(str(alike.index(beat) + 1))
        name = self._document["units"][beat["units"][0]]["name"]
        return fill("beat", "again", nth=nth, units=name) if nth else ""

    def _size(self, beat: dict[str, Any]) -> str:
        if any(Sign.COMBINE in one["signs"] for one in self._document["beats"]):
            return ""  # under tensor parallelism a trace has only each rank's part of a layer
        units = [self._document["units"][unit] for unit in beat["units"]]
        elements = format_exact(sum(unit["elements"] for unit in units))
        names = beat["within"] or listed([unit["name"] for unit in units])
        if len(units) > _MOST_NAMES and not beat["within"]:
            names = fill("beat", "units", units=len(units))
        return fill("beat", "size", units=names, elements=elements) if units else ""

    def _updates(self) -> str:
        """The number of parameters whose optimizer states each rank keeps."""
        whole = self._document["run"]["num_parameters"]
        ranks = range(len(self._document["ranks"]))
        for state, said in enumerate(self._document["states"]):
            kept = [self._held.kept_elements(state, rank) for rank in ranks]
            if said["role"] in _OPTIMIZER and any(kept) and whole:
                which = "updates_all" if min(kept) >= whole else "updates"
                say = partial(_kept, which, format_exact(whole))
                return self._tell.who(kept, say, format_exact)
        return ""

    def _copies(self, beat: dict[str, Any]) -> list[str]:
        """The copies, by direction."""
        ways: dict[tuple[str, str], list[int]] = {}
        for step in self._steps[beat["first"] : beat["last"] + 1]:
            nothing = [0] * len(self._document["ranks"])
            way = ways.setdefault((step["origin"], step["target"]), nothing)
            for rank, size, _, _ in rows(step["copies"], _NUMBERS_PER_COPY):
                way[rank] += size
        return [
            self._tell.who(copied, partial(_copied, origin, target))
            for (origin, target), copied in ways.items()
            if any(copied)
        ]


def _copied(origin: str, target: str, who: Mapping[str, str], size: str) -> str:
    return fill("beat", "copies", **who, bytes=size, origin=term(origin), target=term(target))


def _kept(which: str, parameters: str, who: Mapping[str, str], size: str) -> str:
    return fill("beat", which, **who, elements=size, parameters=parameters)
