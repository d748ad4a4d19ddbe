"""The text of a pipeline's beat: the micro-batch of each rank, and its live activations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from zerosim.analysis.beats import Beat, Turn
from zerosim.base.language import begun, enumerated, fill, listed, term
from zerosim.record.text import name_ranks
from zerosim.schema.events import Phase

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
        fill(
            said["of_phase"],
            {"phase": term(phase), "turns": listed([str(one) for one in sorted(of_phase[phase])])},
        )
        for phase in _PHASES
        if phase in of_phase
    ]
    return fill(said["title"], {"turns": enumerated(parts)})


def said_of_turns(beat: Beat, said: Texts, *, is_interleaved: bool) -> str:
    """A sentence about the ranks' computations.

    Args:
        is_interleaved: ranks have several stages.
    """
    alike: dict[Turn, list[int]] = defaultdict(list)
    for rank, turn in beat.turns:
        alike[turn if is_interleaved else turn._replace(stage="")].append(rank)
    parts = []
    for phase in _PHASES:
        own = [
            fill(
                said["stage_turn" if turn.stage else "turn"],
                {"number": turn.micro_batch + 1, "stage": turn.stage, "ranks": name_ranks(ranks)},
            )
            for turn, ranks in alike.items()
            if turn.phase is phase
        ]
        parts += [fill(said[phase], {"turns": listed(own)})] if own else []
    return begun(fill(said["what"], {"turns": said["then"].join(parts)}))


def kept_meanwhile(beat: Beat, said: Texts, *, is_interleaved: bool) -> str:
    """The number of micro-batches with live activations on each rank."""
    kept = listed([str(count) for _, count in beat.kept])
    which = "stages_kept" if is_interleaved else "kept"
    return fill(said[which], {"kept": kept, "ranks": name_ranks([r for r, _ in beat.kept])})
