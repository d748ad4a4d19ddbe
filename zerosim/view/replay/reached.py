"""The progress of the ranks in an unfinished iteration, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from zerosim.analysis.frames import Step
from zerosim.base.language import fill
from zerosim.record.text import name_ranks
from zerosim.view.replay.step_sentences import Setting, describe, find, verbs


def reached(steps: Sequence[Step], setting: Setting) -> str:
    """The last step that each rank began: "ranks 0 and 1 have reached: Backward begins".

    Args:
        steps: of one iteration, the mark of its end last.

    Returns:
        "" if the iteration is over.
    """
    if not steps or steps[-1].is_over:
        return ""
    last: dict[int, int] = {}
    for number, step in enumerate(steps[:-1]):
        last |= dict.fromkeys(step.starts, number)
    at: dict[str, list[int]] = defaultdict(list)
    for rank, number in sorted(last.items()):
        at[describe(steps[number], setting, num_hops=1).title].append(rank)
    return find("waiting", "then").join(
        fill(
            find("reached"),
            {
                "ranks": name_ranks(tuple(ranks)),
                **verbs(is_one=len(ranks) == 1),
                "title": title,
            },
        )
        for title, ranks in at.items()
    )
