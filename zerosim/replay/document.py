"""A replay as one document: plain JSON values, all that the player shows of an iteration.

Its fields are described in `dashboards/player/types.d.ts`, which the player is checked against.
Imports the standard library, zerosim's L0, record, graph, analysis, theory, verify.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from zerosim.analysis.frames import Frames, Layout, Step, Steps, play, steps
from zerosim.config import STAGE_NAMES, EngineConfig
from zerosim.errors import ConfigError, TraceError
from zerosim.events import Event, Kind, Phase
from zerosim.graph import EventGraph, build_graph
from zerosim.memory import MODEL_STATES, Role
from zerosim.quantities import PSI, format_decimal
from zerosim.record import Trace, iterations
from zerosim.replay.ledger import CollectiveLedger, Ledgers
from zerosim.replay.memory import Memory, memory_of
from zerosim.replay.timeline import bars_of, path_of
from zerosim.replay.words import Setting, describe
from zerosim.theory import Workload, bytes_a_parameter, law, padded_elements
from zerosim.theory.memory import Optimizer
from zerosim.verify import verify
from zerosim.verify.ledgers import config_of, is_engine_trace, workload_of
from zerosim.verify.measure import algorithm_of

SCHEMA = 1
MOST_RANKS = 64
MOST_CELLS = 2_000_000
"""Beyond, the model-state map is left out."""


def replay_document(trace: Trace, iteration: int | None = None, name: str = "") -> dict[str, Any]:
    """Everything that the player needs to replay one iteration.

    Args:
        trace: complete or not, of up to 64 ranks.
        iteration: the last complete one by default; of a run that ended in its first, that one.
        name: how the trace is called where it is shown; its folder's name by default.

    Returns:
        JSON values only; no number is infinite or NaN.

    Raises:
        TraceError: there is no such iteration, nothing to replay, or too much of it.
    """
    if not trace.ranks or max(len(trace.ranks), trace.manifest.num_ranks) > MOST_RANKS:
        raise TraceError(
            f"{trace.folder} has {trace.manifest.num_ranks:,} ranks, {len(trace.ranks):,} of them "
            f"recorded: a replay shows 1 to {MOST_RANKS}"
        )
    shown = _choose(trace, iteration)
    return _Maker(trace, shown, name or trace.folder.name).document()


def shown_iterations(trace: Trace) -> tuple[int, ...]:
    """The iterations that can be replayed: all that left events, or -1 for a program without."""
    seen = {event.iteration for rank in trace.ranks for event in rank.events}
    return tuple(sorted(number for number in seen if number >= 0)) or ((-1,) if seen else ())


def _choose(trace: Trace, wanted: int | None) -> int:
    known = shown_iterations(trace)
    if not known:
        raise TraceError(f"{trace.folder} holds no events: nothing to replay")
    if wanted is None:
        complete = iterations(trace)
        return complete[-1] if complete else known[0]
    if wanted not in known:
        raise TraceError(
            f"iteration {wanted} is not in {trace.folder}: expected one of {known[0]} to "
            f"{known[-1]}"
        )
    return wanted


class _Texts:
    """Texts by number, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The position of a text; -1 for none."""
        return self._numbers.setdefault(text, len(self._numbers)) if text else -1

    def all(self) -> list[str]:
        """In the order of their numbers."""
        return list(self._numbers)


class _Maker:
    """Puts one document together."""

    def __init__(self, trace: Trace, iteration: int, name: str) -> None:
        self.trace, self.iteration, self.name = trace, iteration, name
        self.texts = _Texts()
        self.notes = list(trace.warnings)
        self.notes += [
            f"rank {rank.rank} failed: {rank.failure.message}"
            for rank in trace.ranks
            if rank.failure is not None
        ]
        self.config: EngineConfig | None = None
        self.workload: Workload | None = None
        if is_engine_trace(trace):
            self.config = config_of(trace)
            self.workload = workload_of(trace, iteration)
        self.graph: EventGraph = build_graph(trace)
        self.steps: Steps = steps(self.graph, iteration)
        self.notes += self.steps.notes
        self.units = {unit.name: place for place, unit in enumerate(trace.manifest.units)}
        self.places = {rank.rank: place for place, rank in enumerate(trace.ranks)}
        self.local_times = {rank: self.steps.local_times(rank) for rank in self.places}
        used = {step.collective for step in self.steps.steps if step.collective is not None}
        self.collectives = {index: place for place, index in enumerate(sorted(used))}
        ledgers = Ledgers(trace, self.workload)
        self.ledgers = {index: ledgers.of(self._matched(index)) for index in self.collectives}

    def document(self) -> dict[str, Any]:
        """The whole of it."""
        frames = self._frames()
        made = [self._step(number, frames) for number in range(len(self.steps.steps))]
        verdict, total = self._verdict()
        path, why_none = path_of(self.graph, self.iteration, self.steps.zero_ns)
        if why_none:
            self.notes.append(why_none)
        duration = max(step.end_ns for step in self.steps.steps)
        return {
            "schema": SCHEMA,
            "name": self.name,
            "run": self._run(),
            "ranks": list(self.places),
            "units": [
                {
                    "name": unit.name,
                    "elements": unit.elements,
                    "padded_elements": padded_elements(unit.elements, self._num_shards),
                    "trainable": unit.trainable,
                }
                for unit in self.trace.manifest.units
            ],
            "states": [] if frames is None else self._states(),
            "steps": made,
            "local_ns": list(self.local_times.values()),
            "collectives": [self._collective(index) for index in self.collectives],
            "cells": "" if frames is None else "".join(str(int(c)) for c in frames.initial),
            "num_shards": self._num_shards,
            "timeline": {
                "duration_ns": duration,
                "bars": bars_of(self.graph, self.iteration, self.steps.zero_ns, self.steps.steps),
                "path": path,
            },
            "traffic": self._traffic(total),
            "memory": self._memory(),
            "verdict": verdict,
            "texts": self.texts.all(),
            "notes": self.notes,
            "broken": None
            if frames is None or frames.broken is None
            else {"step": frames.broken.step, "reason": frames.broken.reason},
        }

    # --------------------------------------------------------------------------- the run

    @property
    def _num_shards(self) -> int:
        return self.trace.manifest.num_ranks

    def _matched(self, index: int) -> Any:
        return self.graph.matching.collectives[index]

    def _run(self) -> dict[str, Any]:
        manifest, config, workload = self.trace.manifest, self.config, self.workload
        losses = [
            metric.value
            for rank in self.trace.ranks
            for metric in rank.metrics
            if metric.name == "loss" and metric.iteration == self.iteration
        ]
        loss = sum(losses) / len(losses) if losses else math.nan
        return {
            "model": str(manifest.run.get("model", "")),
            "stage": -1 if config is None else config.stage,
            "stage_name": "" if config is None else STAGE_NAMES[config.stage],
            "dtype": "" if config is None else config.dtype.value,
            "num_ranks": manifest.num_ranks,
            "algorithm": algorithm_of(self.trace).value,
            "backend": manifest.backend,
            "device": manifest.device,
            "num_parameters": 0 if workload is None else workload.num_parameters,
            "element_bytes": 0 if workload is None else workload.element_bytes,
            "accumulate": 1 if workload is None else workload.accumulate,
            "iteration": self.iteration,
            "iterations": list(shown_iterations(self.trace)),
            "loss": loss if math.isfinite(loss) else None,
        }

    # ------------------------------------------------------------------------- the frames

    def _frames(self) -> Frames | None:
        manifest, config = self.trace.manifest, self.config
        if config is None or not manifest.units:
            return None
        num_cells = len(self.places) * len(MODEL_STATES) * len(manifest.units) * self._num_shards
        if num_cells > MOST_CELLS:
            self.notes.append(
                f"{len(manifest.units):,} units on {len(self.places)} ranks are more than the "
                "model-state map can show"
            )
            return None
        num_pieces = Counter(
            segment.unit for bucket in manifest.buckets for segment in bucket.segments
        )
        roles = tuple(self._state_bytes())
        layout = Layout(
            stage=config.stage,
            ranks=tuple(self.places),
            num_ranks=self._num_shards,
            trainable={unit.name: unit.trainable for unit in manifest.units},
            num_pieces=dict(num_pieces),
            states=roles,
            first_update=not self._has_updated(),
            keeps_gradients=config.stage < 2 and self.iteration > 0,
        )
        return play(layout, manifest.buckets, self.steps.steps)

    def _has_updated(self) -> bool:
        """Whether an earlier iteration made momentum and variance; an overflow makes none."""
        return any(
            event.kind is Kind.COMPUTE
            and event.phase is Phase.UPDATE
            and event.iteration < self.iteration
            for event in self.trace.ranks[0].events
        )

    def _state_bytes(self) -> dict[Role, int]:
        """Bytes that each model state takes for one parameter; nothing without an engine."""
        if self.config is None:
            return {}
        return {r.role: r.bytes for r in bytes_a_parameter(self.config.dtype, Optimizer.ADAM)}

    def _states(self) -> list[dict[str, Any]]:
        assert self.config is not None
        name = {Role.PARAMETERS: self.config.dtype.value, Role.GRADIENTS: self.config.dtype.value}
        return [
            {
                "role": role.value,
                "label": f"{role.removeprefix('fp32 ')} · {name.get(role, 'fp32')}",
                "bytes_per_parameter": size,
            }
            for role, size in self._state_bytes().items()
        ]

    # -------------------------------------------------------------------------- the steps

    def _step(self, number: int, frames: Frames | None) -> dict[str, Any]:
        step = self.steps.steps[number]
        event, awaited = step.event, self._awaited(step)
        subject = event if awaited is None else awaited
        words = describe(
            step,
            Setting(
                stage=None if self.config is None else self.config.stage,
                num_ranks=self._num_shards,
                accumulate=1 if self.config is None else self.config.accumulate,
                iteration=self.iteration,
                backend=self.trace.manifest.backend,
                states=self._state_bytes(),
            ),
            num_hops=self.steps.num_hops.get(-1 if step.collective is None else step.collective, 0),
            awaited=awaited,
        )
        changes = () if frames is None or number >= len(frames.changes) else frames.changes[number]
        unit = "" if subject is None else subject.unit
        is_call = step.kind in (Kind.TRANSFER, Kind.COLLECTIVE)
        ranks = list(step.events) or [rank.rank for rank in self.trace.ranks]
        return {
            "kind": step.kind.value,
            "phase": step.phase.value,
            "micro_step": step.micro_step,
            "unit": self.units.get(unit, -1),
            "unit_name": unit,
            "op": subject.op.value if is_call and subject and subject.op else "",
            "purpose": subject.purpose.value if is_call and subject and subject.purpose else "",
            "collective": -1 if step.collective is None else self.collectives[step.collective],
            "hop": -1 if step.hop is None else step.hop,
            "time_ns": step.time_ns,
            "start_ns": step.start_ns,
            "end_ns": step.end_ns,
            "until": step.until,
            "title": self.texts.number(words.title),
            "what": self.texts.number(words.what),
            "why": self.texts.number(words.why),
            "source": self.texts.number("" if subject is None else subject.source),
            "ranks": [self.places[rank] for rank in ranks],
            "packets": [number for message in step.messages for number in self._packet(message)],
            "sent": self._sent(step),
            "cells": [number for change in changes for number in (change[0], int(change[1]))],
        }

    def _awaited(self, step: Step) -> Event | None:
        if step.kind is not Kind.WAIT or step.collective is None:
            return None
        found: Event = next(iter(self._matched(step.collective).events.values()))
        return found

    def _packet(self, message: Any) -> tuple[int, ...]:
        zero = self.steps.zero_ns
        return (
            self.places.get(message.source, -1),
            self.places.get(message.target, -1),
            -1 if message.shard is None else message.shard,
            message.payload_bytes,
            message.start_ns - zero,
            message.end_ns - zero,
        )

    def _sent(self, step: Step) -> list[int]:
        """What each rank sends in a call whose messages are not known."""
        if step.kind is not Kind.COLLECTIVE or step.messages or step.collective is None:
            return []
        return [sent or 0 for sent in self.ledgers[step.collective].trace]

    # ------------------------------------------------------------------------ the ledgers

    def _collective(self, index: int) -> dict[str, Any]:
        matched, ledger = self._matched(index), self.ledgers[index]
        event: Event = next(iter(matched.events.values()))
        numbers = [
            number
            for number, step in enumerate(self.steps.steps)
            if step.collective == index and step.kind is not Kind.WAIT
        ]
        return {
            "unit": self.units.get(event.unit, -1),
            "unit_name": event.unit,
            "op": matched.op.value,
            "purpose": "" if event.purpose is None else event.purpose.value,
            "phase": event.phase.value,
            "algorithm": "" if event.algorithm is None else event.algorithm.value,
            "first": min(numbers, default=0),
            "last": max(numbers, default=0),
            "num_hops": self.steps.num_hops.get(index, 0),
            "payload_bytes": event.payload_bytes,
            "elements": event.elements,
            "element_bytes": event.payload_bytes // event.elements if event.elements else 0,
            **self._numbers(ledger),
        }

    def _numbers(self, ledger: CollectiveLedger) -> dict[str, Any]:
        return {
            "formula": self.texts.number(ledger.formula),
            "filled": self.texts.number(ledger.filled),
            "theory": list(ledger.theory),
            "trace": list(ledger.trace),
            "wire": list(ledger.wire),
            "framing": list(ledger.framing),
        }

    def _verdict(self) -> tuple[dict[str, Any], list[int | None]]:
        """What `zerosim verify` says, and what it says each rank sent in this iteration."""
        try:
            report = verify(self.trace, self.iteration)
        except (TraceError, ConfigError) as error:
            # where the trace lies on this machine concerns nobody who is sent the page
            why = str(error).removeprefix(f"{self.trace.folder}: ")
            total: list[int | None] = [None for _ in self.places]
            return {"headline": why, "holds": None}, total
        sums: Counter[int] = Counter()
        for row in report.rows:
            for sent in row.sent:
                sums[sent.rank] += sent.trace
        known = not any(ledger.trace.count(None) for ledger in self.ledgers.values())
        total = [sums[rank] if known else None for rank in self.places]
        return {"headline": report.headline, "holds": report.holds}, total

    def _traffic(self, total: list[int | None]) -> dict[str, Any]:
        workload = self.workload
        words, law_bytes, psi_bytes = "", None, 0
        if workload is not None:
            expected = law(workload)
            times = "" if expected.payloads == 1 else format_decimal(expected.payloads, 0)
            words = f"{times}{PSI}(N−1)/N"  # noqa: RUF001 - the minus sign of mathematics
            law_bytes = float(expected.sent_bytes)
            psi_bytes = workload.num_parameters * workload.element_bytes
        return {"law": words, "law_bytes": law_bytes, "psi_bytes": psi_bytes, "total": total}

    def _memory(self) -> dict[str, Any] | None:
        found: Memory | None = memory_of(
            self.graph,
            self.iteration,
            self.steps.zero_ns,
            self.local_times,
            self.config,
        )
        if found is None:
            return None
        return {
            "roles": [role.value for role in found.roles],
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
        }
