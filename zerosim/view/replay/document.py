"""A replay as one document: plain JSON values with everything that the player shows.

Its fields are described in `dashboards/player/types.d.ts`, with which the player is type-checked.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from zerosim.base.errors import ConfigError, TraceError
from zerosim.base.language import fill, term
from zerosim.base.quantities import PSI, format_decimal
from zerosim.base.tiers import Link, link_of_copy
from zerosim.record import Trace, ended_early, iterations, require_times
from zerosim.record.nodes import ranks_per_node
from zerosim.record.text import as_text, name_iterations
from zerosim.schema.events import Algorithm, Kind
from zerosim.schema.manifest import UnitLayout
from zerosim.theory import law, law_bytes, padded_elements
from zerosim.theory.programs import in_force
from zerosim.verify import Report, SystemLaw, verify
from zerosim.verify.measure import algorithm_of, backend_of
from zerosim.verify.strategies import strategies_of
from zerosim.view.replay.bands import dtypes_of, name_of
from zerosim.view.replay.beats import PlainBeats, beats_of
from zerosim.view.replay.matrices import matrices_of
from zerosim.view.replay.memory_track import Memory, memory_of
from zerosim.view.replay.names import system_of
from zerosim.view.replay.plain import Plain, Texts
from zerosim.view.replay.step_sentences import find
from zerosim.view.replay.subject import Subject
from zerosim.view.replay.timeline import bars_of, launches_of, path_of
from zerosim.view.replay.tour import tour_of

SCHEMA = 2
MOST_RANKS = 64


def replay_document(trace: Trace, iteration: int | None = None, name: str = "") -> dict[str, Any]:
    """Everything that the player needs to replay one iteration.

    Args:
        trace: complete or not, of up to 64 ranks.
        iteration: the last complete one by default; for a run that ended in its first, that one.
        name: the displayed name of the trace; by default that of its folder.

    Returns:
        JSON values only; no number is infinite or NaN.

    Raises:
        TraceError: there is no such iteration, nothing to replay, or too much.
    """
    require_times(trace, "a replay shows")
    if not trace.ranks or max(len(trace.ranks), trace.manifest.num_ranks) > MOST_RANKS:
        raise TraceError(
            f"{trace.folder} has {trace.manifest.num_ranks:,} ranks, {len(trace.ranks):,} of them "
            f"recorded: a replay shows 1 to {MOST_RANKS}"
        )
    shown = _choose(trace, iteration)
    return _DocumentMaker(trace, shown, name or as_text(trace.folder.resolve().name)).document()


def shown_iterations(trace: Trace) -> tuple[int, ...]:
    """The iterations that can be replayed: all that left events, or -1 for a program without."""
    seen = {event.iteration for rank in trace.ranks for event in rank.events}
    return tuple(sorted(number for number in seen if number >= 0)) or ((-1,) if seen else ())


def _choose(trace: Trace, wanted: int | None) -> int:
    known = shown_iterations(trace)
    if not known:
        raise TraceError(f"{trace.folder} contains no events: nothing to replay")
    if wanted is None:
        complete = iterations(trace)
        return complete[-1] if complete else known[0]
    if wanted not in known:
        raise TraceError(
            f"iteration {wanted} is not in {trace.folder}: expected one of {name_iterations(known)}"
        )
    return wanted


def _label(state: str, dtype: str) -> str:
    """The name of a card's band, with its dtype, which is then not part of other names."""
    return f"{term(state).removeprefix('fp32 ')} · {dtype}"


class _DocumentMaker:
    """Puts one document together."""

    def __init__(self, trace: Trace, iteration: int, name: str) -> None:
        self.trace, self.iteration, self.name = trace, iteration, name
        self.texts = Texts()
        self.subject = Subject(trace, iteration)
        self.notes = self.subject.notes
        self.report, self.why_none = self._judge()

    def _say_what_is_illegal(self, made: Sequence[dict[str, Any]]) -> None:
        """The reason, at the step that a judge found to be illegal."""
        judged = self.subject.judged
        if judged is None or not judged.sentence:
            return
        place = self.subject.step_with(judged.rank, judged.event)
        if place is not None:
            why = fill(find("illegal"), {"why": judged.sentence})
            made[place]["why"] = self.texts.number(why)

    def document(self) -> dict[str, Any]:
        """The whole document."""
        subject = self.subject
        frames = subject.frames()
        shown = beats_of(subject, frames)
        plain = Plain(subject, self.texts, shown)
        made = [plain.step(number, frames) for number in range(len(subject.steps.steps))]
        self._say_what_is_illegal(made)
        beats = PlainBeats(subject, plain.setting, self.texts)
        verdict, total = self._verdict()
        path, why_none = path_of(self.subject.graph, self.iteration, self.subject.steps.zero_ns)
        if why_none:
            self.notes.append(why_none)
        duration = max(step.end_ns for step in self.subject.steps.steps)
        found = {
            "schema": SCHEMA,
            "name": self.name,
            "run": self._run(),
            "ranks": list(self.subject.places),
            "stands_for": self._stands_for(),
            "units": [
                {
                    "name": unit.name,
                    "elements": unit.elements,
                    "padded_elements": self._padded_elements(unit),
                    "trainable": unit.trainable,
                    "module": unit.module,
                    "stage": subject.stage_of(unit.name),
                    "hue": subject.hue_of(unit.name),
                }
                for unit in subject.unit_layouts
            ],
            "states": [] if frames is None else self._states(),
            "matrices": self._matrices(),
            "steps": made,
            "local_ns": list(self.subject.local_times.values()),
            "collectives": [plain.collective(index) for index in subject.collectives],
            "cells": "" if frames is None else "".join(str(int(c)) for c in frames.initial),
            "num_shards": self.subject.num_shards,
            "timeline": {
                "duration_ns": duration,
                "bars": bars_of(
                    self.subject.graph,
                    self.iteration,
                    self.subject.steps.zero_ns,
                    self.subject.steps.steps,
                ),
                "launches": launches_of(
                    self.trace, self.subject.graph, self.iteration, self.subject.steps.zero_ns
                ),
                "path": path,
            },
            "traffic": self._traffic(total),
            "memory": self._memory(),
            "verdict": verdict,
            "beats": [beats.beat(one) for one in shown],
            "texts": self.texts.all(),  # after everything that adds texts
            "notes": self.notes,
            "broken": None
            if frames is None or frames.broken is None
            else {"step": frames.broken.step, "reason": frames.broken.reason},
        }
        return found | {"tour": [asdict(stop) for stop in tour_of(found)]}

    # --------------------------------------------------------------------------- the run

    def _stands_for(self) -> list[int]:
        """The number of ranks that each displayed one represents: of equal ranks one is shown."""
        others: Counter[int] = Counter()
        for one in self.trace.manifest.alike:
            others[one.rank] += one.last - one.first + 1
        return [1 + others[rank] for rank in self.subject.places]

    def _run(self) -> dict[str, Any]:
        manifest, config, workload = self.trace.manifest, self.subject.config, self.subject.workload
        losses = [
            metric.value
            for rank in self.trace.ranks
            for metric in rank.metrics
            if metric.name == "loss" and metric.iteration == self.iteration
        ]
        loss = sum(losses) / len(losses) if losses else math.nan
        num_parameters, element_bytes = self._psi()
        return {
            "model": str(manifest.run.get("model", "")),
            "stage": -1 if config is None else config.stage,
            "stage_name": self._systems() if config is None else system_of(config),
            "dtype": config.dtype.value if config else self.report.dtype if self.report else "",
            "num_ranks": manifest.num_ranks,
            "is_predicted": manifest.is_predicted,
            "ranks_per_node": ranks_per_node(self.trace),
            "algorithm": algorithm_of(self.trace).value,
            "backend": backend_of(self.trace),
            "device": manifest.device,
            "num_parameters": num_parameters,
            "element_bytes": element_bytes,
            "accumulate": 1 if workload is None else workload.config.accumulate,
            "iteration": self.iteration,
            "iterations": list(shown_iterations(self.trace)),
            "complete": not ended_early(self.trace),
            "loss": loss if math.isfinite(loss) else None,
        }

    def _states(self) -> list[dict[str, Any]]:
        config, bands = self.subject.config, self.subject.bands()
        dtypes = dtypes_of(bands, config, self.subject.program)
        names = {band: name_of(band, config) for band in bands}
        own = "" if self.subject.carried is None else find("carried", "band")
        return [
            {
                "role": names[band],
                "name": own,
                "tier": band.tier.value,
                "label": _label(own or names[band], dtypes[band]),
                "bytes_per_parameter": size,
            }
            for band, size in bands.items()
        ]

    def _matrices(self) -> list[dict[str, Any]]:
        """The parameters sharded by tensor parallelism, as in the last micro-step of the
        iteration.
        """
        held = {
            rank: [
                each[-1]
                for each in in_force(rows, self.iteration, 1 + max(row.micro_step for row in rows))
            ]
            for rank, rows in strategies_of(self.trace).items()
            if rows
        }
        computed = dict.fromkeys(
            step.event.unit
            for step in self.subject.steps.steps
            if step.kind is Kind.COMPUTE and step.event is not None
        )
        return matrices_of(held, self.subject.places, computed)

    def _padded_elements(self, unit: UnitLayout) -> int:
        """The part of a partitioned unit that all ranks keep: for a program, as it partitions
        it.
        """
        if self.subject.program is not None:
            return unit.padded_elements
        return padded_elements(unit.elements, self.subject.num_shards)

    def _judge(self) -> tuple[Report | None, str]:
        """The result of `zerosim verify` for this iteration; None with a reason if there is
        none.
        """
        try:
            return verify(self.trace, self.iteration), ""
        except (TraceError, ConfigError) as error:
            # a page that is passed on must not contain the path of the trace on this machine
            folder = str(self.trace.folder)
            return None, str(error).removeprefix(f"{folder}: ").replace(folder, "DIR")

    def _systems(self) -> str:
        """The frameworks of a program without zerosim's engine, as far as known."""
        laws = () if self.report is None else self.report.systems
        return " + ".join(dict.fromkeys(law.system for law in laws if not law.is_likeness))

    def _only_law(self) -> SystemLaw | None:
        """The law of a program, if it has one that is equal for all ranks."""
        laws = () if self.report is None else self.report.systems
        return laws[0] if len(laws) == 1 and len(set(laws[0].formulas)) == 1 else None

    def _psi(self) -> tuple[int, int]:
        """Parameters in the law, and bytes of each; 0 if there is no law or several."""
        known = self.subject.workload or self.report
        return (0, 0) if known is None else (known.num_parameters, known.element_bytes)

    def _verdict(self) -> tuple[dict[str, Any], list[int | None]]:
        """The verdict on the run, and each rank's traffic in this iteration according to it."""
        report = self.report
        if report is None:
            return {"headline": self.why_none, "outcome": None}, [None for _ in self.subject.places]
        sums: Counter[int] = Counter()
        for row in report.rows:
            for sent in row.sent:
                sums[sent.rank] += sent.trace
        known = not any(ledger.trace.count(None) for ledger in self.subject.ledgers.values())
        total = [sums[rank] if known else None for rank in self.subject.places]
        return {"headline": report.headline, "outcome": report.outcome}, total

    def _traffic(self, total: list[int | None]) -> dict[str, Any]:
        workload, only = self.subject.workload, self._only_law()
        num_parameters, element_bytes = self._psi()
        psi_bytes = num_parameters * element_bytes
        words, expected_bytes = "", None
        if workload is not None:
            expected = law(workload)
            words, expected_bytes = expected.symbols, float(expected.sent_bytes)
            if " + " in words:  # of several groups: too long for a line on a scale
                words = f"{format_decimal(expected.sent_bytes / psi_bytes, 2)} {PSI}"
        elif only is not None:
            words, expected_bytes = only.formula, float(only.law_bytes)
        return {
            "law": words.replace("-", "−"),  # noqa: RUF001 - the minus of mathematics
            "law_bytes": expected_bytes,
            "psi_bytes": psi_bytes,
            "total": total,
            "links": self._links(),
        }

    def _links(self) -> list[dict[str, Any]]:
        """The link classes in use, with each rank's bytes under the law."""
        trace, workload, found = self.trace, self.subject.workload, []
        per_node = ranks_per_node(trace)
        says_links = not any(
            event.algorithm is Algorithm.NCCL
            for step in self.subject.steps.steps
            for event in step.events.values()
        )
        if per_node < trace.manifest.num_ranks and says_links:
            found += [
                {
                    "link": link.value,
                    "law": "",
                    "law_bytes": [
                        None if workload is None else float(law_bytes(workload, rank, link))
                        for rank in self.subject.places
                    ],
                }
                for link in (Link.NODE, Link.NETWORK)
            ]
        ways = {
            link_of_copy(event.origin, event.target)
            for step in self.subject.steps.steps
            for event in step.events.values()
            if event.origin is not None and event.target is not None
        }
        for link in (Link.BUS, Link.STORAGE):
            if link in ways:
                expected = None if workload is None else law(workload, link=link)
                each = None if expected is None else float(expected.sent_bytes)
                found.append(
                    {
                        "link": link.value,
                        "law": "" if expected is None else expected.symbols.replace(" x ", ""),
                        "law_bytes": [each for _ in self.subject.places],
                    }
                )
        return found

    def _memory(self) -> dict[str, Any] | None:
        found: Memory | None = memory_of(
            self.subject.graph,
            self.iteration,
            self.subject.steps.zero_ns,
            self.subject.local_times,
        )
        if found is None:
            return None
        return {
            "roles": [role.value for role in found.roles],
            "tiers": [tier.value for tier in found.tiers],
            "ranks": [
                None
                if rank is None
                else {
                    "times_ns": list(rank.times_ns),
                    "bytes": [list(row) for row in rank.bytes],
                    "peak_ns": rank.peak_ns,
                    "peak_bytes": rank.peak_bytes,
                    "peak_step": rank.peak_step,
                    "cause": self.texts.number(rank.cause),
                }
                for rank in found.ranks
            ],
            "law": found.law,
            "law_bytes": found.law_bytes,
            "laws": [
                {"tier": one.tier.value, "law": one.law, "law_bytes": one.law_bytes}
                for one in found.laws
            ],
        }
