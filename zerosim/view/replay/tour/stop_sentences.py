"""The explanation of a tour's stop: the sentences of `tour.toml`, and their values.

Every number is counted in the document: a sentence with an unknown number is omitted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from zerosim.analysis.beats import Sign
from zerosim.base import language
from zerosim.base.language import begun, joined, listed, term
from zerosim.base.quantities import PSI, format_bytes, format_exact
from zerosim.base.tiers import Tier
from zerosim.schema.events import Phase, Purpose
from zerosim.view.replay.moments import Document
from zerosim.view.replay.tour.held import RankCells, role_bytes
from zerosim.view.replay.tour.numbers import BeatNumbers
from zerosim.view.replay.tour.telling import (
    Telling,
    fill,
    format_time,
    rows,
    sentence,
    summed,
    texts,
    verbs,
)

_NUMBERS_PER_WAIT = 3
_LEAST_PART = 50
"""A purpose is named if it has at least this fraction of the sum of an iteration."""


@dataclass(frozen=True, slots=True)
class LongestWait:
    """The longest wait of a rank in one beat.

    Attributes:
        rank: its index in the document; step: the step with most of the wait.
        ns: in this beat; all_ns: in the whole iteration.
    """

    rank: int
    step: int
    ns: int
    all_ns: int


def longest_wait(document: Document, last: int) -> LongestWait | None:
    """The longest wait of a rank within one beat; None if there is none.

    Args:
        last: the last step that counts.
    """
    by_beat: dict[tuple[int, int], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    whole: dict[int, int] = defaultdict(int)
    for number, beat in enumerate(document["beats"]):
        for step in range(beat["first"], min(beat["last"], last) + 1):
            for rank, start, end in rows(document["steps"][step]["waits"], _NUMBERS_PER_WAIT):
                by_beat[number, rank][step] += end - start
                whole[rank] += end - start
    if not by_beat:
        return None
    (_, rank), parts = max(by_beat.items(), key=lambda one: sum(one[1].values()))
    return LongestWait(
        rank, max(parts, key=lambda one: parts[one]), sum(parts.values()), whole[rank]
    )


_Said = tuple[str, list[str]]
"""A headline, and sentences; empty ones are left out."""


class TourWords:
    """Writes the explanation of a stop; stops are requested in order of their steps."""

    def __init__(self, document: Document) -> None:
        """Prepare."""
        self._document, self._tell, self._held = document, Telling(document), RankCells(document)
        self._numbers = BeatNumbers(document, self._held)
        self._steps, self._collectives = document["steps"], document["collectives"]
        self._firsts = [beat["first"] for beat in document["beats"]]
        self._ranks = range(len(document["ranks"]))

    def said(self, about: str, step: int) -> tuple[str, str]:
        """A headline and a text.

        Args:
            about: a value of `About`.
        """
        self._held.go_on(step)
        say: dict[str, Callable[[int], _Said]] = {
            "run": self._run,
            "free": self._free,
            "turn": self._turn,
            "again": self._again,
            "beat": self._beat,
            "reduced": self._reduced,
            "wait": self._wait,
            "peak": self._peak,
            "sum": self._sum,
        }
        title, sentences = say[about](step)
        return title, joined(sentences)

    # ------------------------------------------------------------------------------- the run

    def _run(self, _: int) -> _Said:
        run, memory = self._document["run"], self._document["memory"]
        said = texts()["run"]
        system = run["stage_name"] or said["program"]
        ranks = language.fill(said["ranks"][run["num_ranks"] != 1], {"number": run["num_ranks"]})
        size = law = ""
        if run["num_parameters"]:
            # under tensor parallelism a trace has only each rank's part of a layer
            together = any(Sign.COMBINE in beat["signs"] for beat in self._document["beats"])
            size = fill(
                "run",
                "part_size" if together else "size",
                model=run["model"] or said["the_model"],
                parameters=format_exact(run["num_parameters"]),
                dtype=fill("run", "dtype", dtype=run["dtype"]) if run["dtype"] else "",
            )
        if memory is not None and memory["law_bytes"]:
            given = format_bytes(Fraction(memory["law_bytes"]))
            law = fill("run", "law", law=memory["law"], bytes=given)
        duration = format_time(self._document["timeline"]["duration_ns"])
        beats = len(self._document["beats"])
        took = fill(
            "run",
            "took",
            iteration=run["iteration"],
            took=said["is_predicted" if run["is_predicted"] else "happened"],
            time=duration,
            beats=beats,
        )
        title = fill("title", "run", system=begun(system), ranks=ranks)
        return title, [size, self._keeps(), law, took if run["iteration"] >= 0 else ""]

    def _keeps(self) -> str:
        """The contents of each rank at the start of the iteration; "" if unknown."""
        parts: dict[tuple[str, str], list[str]] = {}
        for state, said in enumerate(self._document["states"]):
            shares = set(self._held.shares(state))
            if any(shares):
                share = "some" if len(shares) > 1 else "all" if 1 in shares else str(*shares)
                parts.setdefault((said["tier"], share), []).append(term(said["role"]))
        kept = [sum(self._held.kept_bytes(rank).values()) for rank in self._ranks]
        all_parts = listed([_part(*which, listed(states)) for which, states in parts.items()])
        return self._tell.who(
            kept, lambda who, size: fill("run", "keeps", **who, parts=all_parts, bytes=size)
        )

    def _sum(self, _: int) -> _Said:
        traffic, verdict = self._document["traffic"], self._document["verdict"]
        law = sent = more = ""
        if traffic["law_bytes"]:
            write = format_bytes if traffic["law"].endswith(PSI) else self._tell.in_psi
            given = write(Fraction(traffic["law_bytes"]))
            law = fill("sum", "law", law=traffic["law"], bytes=given)
        if None not in traffic["total"]:
            excess = summed([one for one in self._collectives if one["is_more"]], "excess")
            sent = self._tell.sent("sum", "asked" if any(excess) else "total", traffic["total"])
            more = self._tell.sent("sum", "more", excess)
        said = [sent, self._parts(), more, law, sentence(verdict["headline"])]
        return fill("title", "sum"), said

    def _parts(self) -> str:
        """The parts of the sum; "" if the ranks differ, or the calls do not add up to it."""
        total, sent = self._document["traffic"]["total"], summed(self._collectives, "trace")
        if not sent or sent != total or len(set(sent)) > 1 or not sent[0]:
            return ""
        parts: dict[tuple[str, str], int] = defaultdict(int)
        for call in self._collectives:
            parts[call["purpose"], call["phase"]] += call["trace"][0]
        shown = {which: size for which, size in parts.items() if size * _LEAST_PART >= total[0]}
        if len(shown) < 2:
            return ""
        named = texts()["purpose"]
        said = [
            fill(
                "sum",
                "part",
                what=named.get(what, term(what)),
                phase=term(phase),
                sent=self._tell.psi(size),
            )
            for (what, phase), size in shown.items()
        ]
        rest = total[0] - sum(shown.values())
        if rest:
            said.append(fill("sum", "rest", sent=format_bytes(rest)))
        return fill("sum", "parts", parts=listed(said))

    # ----------------------------------------------------------------------------- its beats

    def _beat(self, step: int) -> _Said:
        beat, said = self._beat_of(step), self._document["texts"]
        meanwhile = said[beat["meanwhile"]] if beat["meanwhile"] >= 0 else ""
        return said[beat["title"]], [said[beat["what"]], meanwhile, *self._numbers.of(beat)]

    def _again(self, step: int) -> _Said:
        title, words = self._beat(step)
        micro_steps = self._document["run"]["accumulate"]
        said = [sentence(title), words[0], self._so_far(step)]
        return fill("title", "again", micro_steps=micro_steps), said

    def _reduced(self, step: int) -> _Said:
        _, words = self._beat(step)
        calls = [one for one in self._collectives if one["purpose"] == Purpose.REDUCE_GRADIENTS]
        which = "asked" if any(call["is_more"] for call in calls) else "reduced"
        sent = self._tell.sent("sent", which, summed(calls, "trace"))
        return fill("title", "reduced"), [words[0], sent]

    # --------------------------------------------------------------------------- the contents

    def _free(self, step: int) -> _Said:
        """The units that a step frees at its end."""
        now = self._steps[step]
        names = [self._document["units"][unit]["name"] for unit in now["freed"]]
        phase, is_one = begun(term(now["phase"])), len(names) == 1
        title = fill("title", "free", phase=phase, units=listed(names), **verbs(is_one=is_one))
        after = RankCells(self._document)
        after.go_on(step + 1)
        freed = [
            self._held.gathered_bytes(rank, now["freed"]) - after.gathered_bytes(rank, now["freed"])
            for rank in self._ranks
        ]
        said = self._tell.who(freed, lambda who, size: fill("free", "freed", **who, bytes=size))
        return title, [said]

    def _turn(self, step: int) -> _Said:
        """Forward is over, or that of the first of several micro-steps."""
        several = any(one["phase"] == Phase.FORWARD for one in self._steps[step:])
        held = [role_bytes(self._document, "activations", rank, step) for rank in self._ranks]
        if len(set(held)) > 1:  # the ranks are at different positions: use one of them
            largest = held.index(max(held))
            held = [size if rank == largest else 0 for rank, size in enumerate(held)]
        loss = None if several else self._document["run"]["loss"]
        return fill("title", "turns" if several else "turn"), [
            self._tell.who(held, lambda who, size: fill("turn", "holds", **who, bytes=size)),
            "" if loss is None else fill("turn", "loss", loss=f"{loss:.2f}"),
            self._so_far(step),
        ]

    def _wait(self, _: int) -> _Said:
        longest = longest_wait(self._document, len(self._steps) - 1)
        assert longest is not None, "somebody waits"
        title = self._document["texts"][self._beat_of(longest.step)["title"]]
        fields = {
            "rank": self._document["ranks"][longest.rank],
            "time": format_time(longest.ns),
            "all": format_time(longest.all_ns),
            "duration": format_time(self._document["timeline"]["duration_ns"]),
            "predicted": fill("wait", "predicted") if self._document["run"]["is_predicted"] else "",
        }
        said = [fill("wait", "where", title=title, **fields), fill("wait", "whole", **fields)]
        return fill("title", "wait", **fields), said

    def _peak(self, _: int) -> _Said:
        ranks = zip(self._document["ranks"], self._document["memory"]["ranks"], strict=True)
        tops = {rank: own for rank, own in ranks if own is not None}
        least = format_bytes(min(own["peak_bytes"] for own in tops.values()))
        rank, own = max(tops.items(), key=lambda one: one[1]["peak_bytes"])
        most, cause = format_bytes(own["peak_bytes"]), self._document["texts"][own["cause"]]
        said = fill("peak", "rank", bytes=most, rank=rank, cause=cause)
        others = fill("peak", "ranks", least=least, most=most) if least != most else ""
        return fill("title", "peak", bytes=most), [said, others]

    # -------------------------------------------------------------------------------- helpers

    def _beat_of(self, step: int) -> dict[str, Any]:
        beat: dict[str, Any] = self._document["beats"][bisect_right(self._firsts, step) - 1]
        return beat

    def _so_far(self, step: int) -> str:
        """Bytes that each rank has sent in the collectives that ended before a step."""
        over = [one for one in self._collectives if one["last"] < step]
        return self._tell.sent("sent", "so_far", summed(over, "trace"))


def _part(tier: str, share: str, states: str) -> str:
    """A rank's part of some states."""
    text = fill("run", share if share in ("all", "some") else "part", share=share, states=states)
    return text if tier == Tier.DEVICE else fill("run", "away", part=text, tier=term(tier))
