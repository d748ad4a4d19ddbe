"""What is said of a beat of a pipeline: which micro-batch each rank computes, how many it keeps.

Imports the standard library, zerosim's L0, record, analysis.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from zerosim.analysis.beats import Beat, Turn
from zerosim.events import Phase
from zerosim.record.text import name_ranks

Texts = Mapping[str, str]
_PHASES = (Phase.FORWARD, Phase.BACKWARD)


def title_of_turns(beat: Beat, said: Texts) -> str:
    """A headline.

    Args:
        said: the texts of `beats.toml` about turns.
    """
    of_phase: dict[Phase, set[int]] = defaultdict(set)
    for _, turn in beat.turns:
        of_phase[turn.phase].add(turn.micro_batch + 1)
    parts = [
        f"{phase} {listed([str(number) for number in sorted(of_phase[phase])])}"
        for phase in _PHASES
        if phase in of_phase
    ]
    return said["title"].format_map({"turns": ", ".join(parts)})


def said_of_turns(beat: Beat, said: Texts, *, is_interleaved: bool) -> str:
    """A sentence for what the ranks compute.

    Args:
        is_interleaved: ranks have several stages.
    """
    alike: dict[Turn, list[int]] = defaultdict(list)
    for rank, turn in beat.turns:
        alike[turn if is_interleaved else turn._replace(stage="")].append(rank)
    parts = []
    for phase in _PHASES:
        own = [
            said["stage_turn" if turn.stage else "turn"].format_map(
                {"number": turn.micro_batch + 1, "stage": turn.stage, "ranks": name_ranks(ranks)}
            )
            for turn, ranks in alike.items()
            if turn.phase is phase
        ]
        parts += [said[phase].format_map({"turns": listed(own)})] if own else []
    sentence = said["what"].format_map({"turns": "; ".join(parts)})
    return sentence[:1].upper() + sentence[1:]


def kept_meanwhile(beat: Beat, said: Texts, *, is_interleaved: bool) -> str:
    """Of how many micro-batches each rank keeps activations."""
    kept = listed([str(count) for _, count in beat.kept])
    which = "stages_kept" if is_interleaved else "kept"
    return said[which].format_map({"kept": kept, "ranks": name_ranks([r for r, _ in beat.kept])})


def listed(things: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join(filter(None, (", ".join(things[:-1]), things[-1]))) if things else ""
