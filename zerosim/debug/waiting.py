"""The ranks for which ranks wait, and since when, derived from the calls in progress on each."""

from __future__ import annotations

from typing import Any

from zerosim.debug.ranks import Ranks


def taking_longer(ranks: Ranks, longest_s: float | None) -> str:
    """The collective that exceeds its time limit; "" if none does."""
    if longest_s is None:
        return ""
    for rank, answer in ranks.ask("where").items():
        for call in answer["in_flight"]:
            if call["kind"] == "collective" and call["since_s"] > longest_s:
                what = " of ".join(filter(None, [call["op"], call["unit"]]))
                return f"rank {rank}: {what} takes longer than {longest_s:g} s"
    return ""


def why_waiting(ranks: Ranks, rank: int) -> str:
    """The ranks for which a rank waits, according to its calls."""
    own = ranks.ask("where", (rank,)).get(rank, {})
    calls = [one for one in own.get("in_flight", ()) if one["kind"] == "collective"]
    if not calls:
        frames = [one["line"] for one in own.get("threads", ()) if one["line"]]
        where = f" ({frames[0]})" if frames else ""
        return f"rank {rank} waits in the program, not for another rank{where}"
    call = calls[-1]
    what = " of ".join(filter(None, [call["op"], call["unit"]]))
    late = _not_there(ranks, rank, call)
    others = f"rank{'s' if len(late) > 1 else ''} {', '.join(map(str, late))}"
    waits_for = others if late else "the other ranks to continue"
    return f"rank {rank} waits for {waits_for}: {what}, {call['purpose']}"


def _not_there(ranks: Ranks, rank: int, call: dict[str, Any]) -> list[int]:
    """The ranks that have not begun a call, or are hops behind in it."""
    members = [one for one in call["ranks"] or ranks.here if one != rank and one in ranks.here]
    if call["sequence"] is None:
        return [one for one in call["peers"] if one in ranks.here]
    answers = ranks.ask("where", tuple(members))
    begun = {
        other
        for other, answer in answers.items()
        for one in answer["in_flight"]
        if (one["group"], one["sequence"]) == (call["group"], call["sequence"])
    }
    late = [one for one in members if one not in begun and not _is_past(ranks, one, call)]
    return late or [one for one in members if _stands_in(ranks, one, call)]


def _is_past(ranks: Ranks, rank: int, call: dict[str, Any]) -> bool:
    answers = ranks.ask("num_called", (rank,), group=call["group"])
    standing = any(
        (one.stand.group, one.stand.sequence) == (call["group"], call["sequence"])
        for one in ranks.standing()
        if one.rank == rank and not one.stand.hop
    )
    return not standing and int(answers[rank]["num_called"]) > int(call["sequence"])


def _stands_in(ranks: Ranks, rank: int, call: dict[str, Any]) -> bool:
    return any(
        (one.stand.group, one.stand.sequence) == (call["group"], call["sequence"])
        for one in ranks.standing()
        if one.rank == rank
    )
