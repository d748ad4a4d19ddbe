"""How far predictions are from real runs, and how long placing takes.

Ranks that are slowed on purpose sleep, so that they do not need each other's processor: what a run
without the sleep takes is recorded, too, and the other is asked what it would take.
"""

from __future__ import annotations

import gc
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

from tests.analysis.graph.plans import load_plan
from tests.analysis.graph.runs import Plan
from tests.analysis.slowed import NUM_RANKS, SLOW_RANK, SLOW_S, train_only
from tests.bench import cable, real
from tests.bench.events import quiet
from tests.ranks import run_ranks
from zerosim.predict.placement import Recorded, place
from zerosim.predict.placement.changes import Changes
from zerosim.predict.placement.disturbed import Disturbed
from zerosim.record import Events, Trace
from zerosim.record.eventrows import OccurrenceRow
from zerosim.schema.events import Algorithm, Group, Kind, Op, Phase, Purpose, Template
from zerosim.view.reading import load

LAYERS = 32
WIDE = (256, 1024, 4096)
LONG = 1_000_000
"""Events of a few ranks."""


def table(kept: Path | None = None) -> list[str]:
    """The report's part; `kept` is where recordings of real runs are, or stay."""
    load_before = os.getloadavg()[0]
    return [
        "## Prediction",
        "",
        *real.table(kept),
        "",
        "Three ranks that sleep instead of computing were run, and compared with predictions of",
        "`zerosim whatif` from another run: medians of the iterations after the first.",
        "",
        "| recorded run | what if | recorded, ms | predicted, ms | real run, ms | error |",
        "| --- | --- | --- | --- | --- | --- |",
        *_pairs(),
        *cable.cable(),
        "",
        "The placement of a loaded trace takes these CPU seconds:",
        "",
        "| run | events | s |",
        "| --- | --- | --- |",
        *_speed(),
        "",
        quiet(load_before),
    ]


def _pairs() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        run_ranks(train_only, NUM_RANKS, folder, deadline_s=600)
        for recorded, words, changes, real in (
            (
                "slow",
                f"without rank {SLOW_RANK}'s {SLOW_S} s",
                Changes(without_straggler=True),
                "fast",
            ),
            ("no overlap", "`--overlap`", Changes(overlap=True), "overlap"),
            ("overlap", "`--serial`", Changes(overlap=False), "no overlap"),
        ):
            run, other = (load(Path(folder, name)) for name in (recorded, real))
            chosen = run.iterations[1:]
            predictions = [run.what_if(changes, iteration=one)[0] for one in chosen]
            was, would = (
                median(report.path.duration_ns for report in reports)
                for reports in (
                    [one.before for one in predictions],
                    [one.after for one in predictions],
                )
            )
            truth = median(other.graph_report(iteration=one).path.duration_ns for one in chosen)
            times = " | ".join(f"{ns / 1e6:.1f}" for ns in (was, would, truth))
            yield f"| {recorded} | {words} | {times} | {100 * (would / truth - 1):+.1f} % |"


def _speed() -> Iterator[str]:
    plan = Plan(num_ranks=4, units=tuple(f"u{one}" for one in range(8)), iterations=1)
    of_one = sum(len(rank.events) for rank in load_plan(plan).ranks)
    iterations = -(-LONG // of_one)
    yield _timed("4 ranks, rings hop by hop", load_plan(replace(plan, iterations=iterations)))
    for num_ranks in WIDE:
        yield _timed(f"{num_ranks:,} unequal ranks, {LAYERS} layers", wide(num_ranks, LAYERS))


def _timed(name: str, trace: Trace) -> str:
    count = sum(len(rank.events) for rank in trace.ranks)
    unequal = Disturbed(Recorded(), jitter=0.1, seed=0)
    gc.collect()
    begin = time.process_time()
    place(trace, unequal)
    return f"| {name} | {count:,} | {time.process_time() - begin:.1f} |"


def wide(num_ranks: int, layers: int) -> Trace:
    """One iteration of ZeRO-3 with a backend's own collectives, on many ranks."""
    first = load_plan(Plan(num_ranks=1, iterations=1))
    group = Group(name="world", backend="nccl", ranks=tuple(range(num_ranks)))
    ranks = []
    for rank in range(num_ranks):
        events = _Iteration(rank, layers).events()
        header = replace(first.ranks[0].header, rank=rank, num_ranks=num_ranks)
        ranks.append(
            replace(
                first.ranks[0], rank=rank, header=header, events=events,
                groups={"world": group}, wire_samples=(),
            )
        )  # fmt: skip
    manifest = replace(first.manifest, num_ranks=num_ranks)
    return replace(first, manifest=manifest, ranks=tuple(ranks))


_templates: dict[tuple[object, ...], Template] = {}


def _template(kind: Kind, phase: Phase, unit: str, op: Op | None = None) -> Template:
    key = kind, phase, unit, op
    if key not in _templates:
        call = {} if op is None else _CALL | {"op": op, "purpose": _PURPOSES[op]}
        number = len(_templates)
        _templates[key] = Template(number=number, kind=kind, phase=phase, unit=unit, **call)
    return _templates[key]


_CALL = {"algorithm": Algorithm.NCCL, "group": "world", "elements": 8, "payload_bytes": 16}
_PURPOSES = {
    Op.ALL_GATHER: Purpose.GATHER_PARAMETERS,
    Op.REDUCE_SCATTER: Purpose.REDUCE_GRADIENTS,
}


class _Iteration:
    """Events of one rank, one after another; what is gathered is waited for."""

    def __init__(self, rank: int, layers: int) -> None:
        self.rank, self.layers = rank, layers
        self.rows: list[object] = []
        self.now = self.sequence = 0

    def events(self) -> Events:
        names = [f"blocks.{one}" for one in range(self.layers)]
        for phase, units in ((Phase.FORWARD, names), (Phase.BACKWARD, names[::-1])):
            for unit in units:
                self._call(phase, unit, Op.ALL_GATHER)
                self._add(_template(Kind.COMPUTE, phase, unit), 1000)
                if phase is Phase.BACKWARD:
                    self._call(phase, unit, Op.REDUCE_SCATTER)
        for unit in names:
            self._add(_template(Kind.COMPUTE, Phase.UPDATE, unit), 100)
        return Events(self.rows)

    def _call(self, phase: Phase, unit: str, op: Op) -> None:
        call = self._add(_template(Kind.COLLECTIVE, phase, unit, op), 300, sequence=self.sequence)
        self.sequence += 1
        self._add(_template(Kind.WAIT, phase, unit), 10, parent=call)

    def _add(self, template: Template, lasts_ns: int, **fields: int) -> int:
        row = OccurrenceRow(
            template=template.number, id=len(self.rows), iteration=0, issue_ns=self.now,
            start_ns=self.now, end_ns=self.now + lasts_ns, **fields,
        )  # fmt: skip
        row.said, row.rank, row.peers = template, self.rank, ()
        self.rows.append(row)
        self.now += lasts_ns
        return row.id


if __name__ == "__main__":
    print("\n".join(table()))
