"""Options that should be equal on all ranks: a learning rate, a batch size, a seed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from zerosim.base.language import enumerated
from zerosim.record import Trace
from zerosim.schema.events import Phase
from zerosim.verify.diagnosis import wording
from zerosim.verify.diagnosis.compared import ORDER, Key, PlacedFinding, minority
from zerosim.verify.diagnosis.evidence import advice
from zerosim.verify.diagnosis.findings import Finding, Place, Wrong

_NAMES = ("learning rate", "batch size", "seed")


def of_settings(trace: Trace) -> Iterator[PlacedFinding]:
    """The positions at which one rank has a different option."""
    by_name: dict[str, dict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for rank in trace.ranks:
        for metric in rank.metrics:
            if metric.name in _NAMES:
                by_name[metric.name][metric.iteration].setdefault(rank.rank, metric.value)
    for name, iterations in by_name.items():
        last: dict[int, float] = {}
        for iteration, values in sorted(iterations.items()):
            if len(set(values.values())) > 1 and _is_suspect(name, values):
                wrong, is_known = minority(values)
                if not is_known:
                    changed = tuple(r for r, v in values.items() if last.get(r, v) != v)
                    wrong, is_known = (changed, True) if len(changed) == 1 else (wrong, False)
                if not is_known and name == "batch size":
                    wrong = (min(values, key=lambda rank: values[rank]),)
                yield PlacedFinding(
                    _told_at(name, iteration), _other_setting(name, iteration, values, wrong)
                )
                break
            last = values


def _is_suspect(name: str, values: Mapping[int, float]) -> bool:
    """Seeds are either all equal or all different: a single outlier is a fault."""
    return name != "seed" or (len(values) > 2 and len(set(values.values())) == 2)


def _told_at(name: str, iteration: int) -> Key:
    return (
        (iteration, ORDER[Phase.UPDATE] - 0.55, 0, 0)
        if name == "learning rate"
        else (iteration, -0.9, 0, 0)
    )


def _other_setting(
    name: str, iteration: int, values: Mapping[int, float], wrong: Sequence[int]
) -> Finding:
    others = sorted({value for rank, value in values.items() if rank not in wrong})
    own = enumerated(f"{values[rank]:g}" for rank in wrong)
    rest = enumerated(f"{value:g}" for value in others)
    phase = Phase.UPDATE if name == "learning rate" else Phase.FORWARD
    return Finding(
        wrong=Wrong.SETTING,
        ranks=tuple(wrong),
        place=Place(iteration=iteration, phase=phase.value),
        sentence=wording.said(
            "values.setting_beside" if others else "values.setting",
            ranks=wording.ranks(wrong),
            name=wording.said(f"values.names.{name}"),
            own=own,
            rest=rest,
            iteration=iteration,
            **wording.forms(wrong),
        ),
        advice=advice("setting"),
    )
