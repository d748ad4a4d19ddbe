"""Steps and collectives as JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from zerosim.analysis.beats import Beat
from zerosim.analysis.frames import Frames, Message, Step, Wait
from zerosim.record.nodes import ranks_per_node
from zerosim.schema.events import Event, Kind
from zerosim.verify.measure import backend_of
from zerosim.view.replay.ledger import CollectiveLedger
from zerosim.view.replay.names import name_backend
from zerosim.view.replay.reached import reached
from zerosim.view.replay.step_sentences import BITS, Setting, describe, describe_waits
from zerosim.view.replay.subject import Subject


class Texts:
    """Texts by number, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The index of a text; -1 for none."""
        return self._numbers.setdefault(text, len(self._numbers)) if text else -1

    def all(self) -> list[str]:
        """All texts, in the order of their numbers."""
        return list(self._numbers)


class Plain:
    """Converts a subject to JSON values; texts are referred to by number."""

    def __init__(self, subject: Subject, texts: Texts, beats: Sequence[Beat]) -> None:
        """Prepare."""
        self.subject, self.texts = subject, texts
        mains = [subject.steps.steps[beat.main] for beat in beats if beat.is_prefetch]
        self._prefetched = {main.collective for main in mains} - {None}
        setting = Setting(
            num_ranks=subject.trace.manifest.num_ranks,
            iteration=subject.iteration,
            backend=name_backend(backend_of(subject.trace)),
            ranks_per_node=ranks_per_node(subject.trace),
            config=subject.config,
            together=subject.ranks_together,
            is_skipped=subject.is_skipped,
            has_update=subject.has_update,
            modules={one.name: one.module for one in subject.unit_layouts if one.module},
            is_interleaved=subject.is_interleaved,
            is_predicted=subject.trace.manifest.is_predicted,
            states={role: size for (role, _), size in subject.bands().items()},
        )
        steps = subject.steps.steps
        self.setting = replace(setting, reached=reached(steps, setting))

    def step(self, number: int, frames: Frames | None) -> dict[str, Any]:
        """One step."""
        subject = self.subject
        step = subject.steps.steps[number]
        about = step.event
        num_hops = subject.num_hops(-1 if step.collective is None else step.collective)
        told = None if subject.carried is None else subject.carried.describe(step, num_hops)
        is_prefetch = step.collective in self._prefetched
        words = told or describe(step, self.setting, num_hops=num_hops, is_prefetch=is_prefetch)
        freed = () if frames is None else frames.freed.get(number, ())
        changes = () if frames is None or number >= len(frames.changes) else frames.changes[number]
        unit = "" if about is None else about.unit
        is_call = step.kind in (Kind.TRANSFER, Kind.COLLECTIVE)
        is_copy = step.kind is Kind.COPY
        ranks = list(step.events) or [rank.rank for rank in subject.trace.ranks]
        return {
            "kind": step.kind.value,
            "phase": step.phase.value,
            "micro_step": step.micro_step,
            "unit": subject.units.get(unit, -1),
            "unit_name": unit,
            "origin": about.origin.value if is_copy and about and about.origin else "",
            "target": about.target.value if is_copy and about and about.target else "",
            "op": about.op.value if is_call and about and about.op else "",
            "purpose": about.purpose.value
            if (is_call or is_copy) and about and about.purpose
            else "",
            "collective": -1 if step.collective is None else subject.collectives[step.collective],
            "hop": -1 if step.hop is None else step.hop,
            "time_ns": step.time_ns,
            "start_ns": step.start_ns,
            "end_ns": step.end_ns,
            "until": step.until,
            "title": self.texts.number(words.title),
            "what": self.texts.number(words.what),
            "why": self.texts.number(words.why),
            "waiting": self.texts.number(
                describe_waits(step.waits, is_predicted=self.setting.is_predicted)
            ),
            "source": self.texts.number("" if about is None else about.source),
            "ranks": [subject.places[rank] for rank in ranks],
            "packets": [number for message in step.messages for number in self._packet(message)],
            "sent": self._sent(step),
            "waits": [number for wait in step.waits for number in self._wait(wait)],
            "copies": [number for one in step.events.values() for number in self._copy(one)]
            if is_copy
            else [],
            "copy": self._copy_ledger(number),
            "cells": [number for change in changes for number in (change[0], int(change[1]))],
            "freed": [subject.units[unit] for unit in freed],
        }

    def _packet(self, message: Message) -> tuple[int, ...]:
        zero = self.subject.steps.zero_ns
        return (
            self.subject.places.get(message.source, -1),
            self.subject.places.get(message.target, -1),
            -1 if message.shard is None else message.shard,
            message.payload_bytes,
            message.start_ns - zero,
            message.end_ns - zero,
        )

    def _wait(self, wait: Wait) -> tuple[int, ...]:
        return self.subject.places[wait.rank], wait.start_ns, wait.end_ns

    def _copy(self, event: Event) -> tuple[int, ...]:
        subject = self.subject
        shift = subject.graph.clocks.offset_ns(event.rank) - subject.steps.zero_ns
        start = event.issue_ns if event.start_ns is None else event.start_ns
        end = start if event.end_ns is None else event.end_ns
        place = subject.places[event.rank]
        return place, event.payload_bytes, start + shift, max(start, end) + shift

    def _copy_ledger(self, number: int) -> dict[str, Any] | None:
        ledger = self.subject.copies.get(number)
        if ledger is None:
            return None
        return {
            "formula": self.texts.number(ledger.formula),
            "filled": self.texts.number(ledger.filled),
            "theory": list(ledger.theory),
            "trace": list(ledger.trace),
            "counted": list(ledger.counted),
            "framing": list(ledger.framing),
        }

    def _sent(self, step: Step) -> list[int]:
        """Bytes that each rank sends in a call with unknown messages."""
        if step.kind is not Kind.COLLECTIVE or step.messages or step.collective is None:
            return []
        return [sent or 0 for sent in self.subject.ledgers[step.collective].trace]

    def collective(self, index: int) -> dict[str, Any]:
        """One collective, by its position in the matching."""
        subject = self.subject
        matched, ledger = subject.matched(index), subject.ledgers[index]
        event: Event = next(iter(matched.events.values()))
        own = [
            (number, step)
            for number, step in enumerate(subject.steps.steps)
            if step.collective == index
        ]
        numbers = [number for number, _ in own]
        group = own[0][1].groups[0] if own and own[0][1].groups else range(subject.num_shards)
        return {
            "unit": subject.units.get(event.unit, -1),
            "unit_name": event.unit,
            "op": matched.op.value,
            "purpose": "" if event.purpose is None else event.purpose.value,
            "phase": event.phase.value,
            "algorithm": "" if event.algorithm is None else event.algorithm.value,
            "first": min(numbers, default=0),
            "last": max(numbers, default=0),
            "num_hops": subject.num_hops(index),
            "shards_each": max(1, subject.num_shards // len(group)),
            "payload_bytes": event.payload_bytes,
            "elements": event.elements,
            "element_bytes": event.payload_bytes // event.elements if event.elements else 0,
            "dtype": event.dtype,
            "bits": BITS.get(event.dtype, 0),
            **self._numbers(ledger),
        }

    def _numbers(self, ledger: CollectiveLedger) -> dict[str, Any]:
        return {
            "formula": self.texts.number(ledger.formula),
            "filled": self.texts.number(ledger.filled),
            "theory": list(ledger.theory),
            "trace": list(ledger.trace),
            "wire": list(ledger.wire),
            "excess": list(ledger.excess),
            "is_more": ledger.is_more,
            "framing": list(ledger.framing),
        }
