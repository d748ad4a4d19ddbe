"""The result of a diagnosis."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from zerosim.base.language import Words
from zerosim.schema.events import Event

_SAID = Words.beside(__file__)


class Wrong(StrEnum):
    """The kinds of fault of a rank."""

    LEFT_OUT = "left out a call"
    MORE = "made an extra call"
    ORDER = "called in a different order"
    OTHER_CALL = "made a different call"
    SIZE = "passed a different size"
    DTYPE = "passed a different dtype"
    GROUP = "called in a different group"
    PEER = "sent to or received from the wrong rank"
    CROSSED = "wait for each other in a cycle"
    FAILED = "failed"
    DIED = "died"
    STANDS_STILL = "makes no progress"
    ENDED_EARLY = "ended early"
    NEVER_READY = "has parameters without a gradient that a reduction waits for"
    NOT_FINITE = "has a value that is not finite"
    TOO_LARGE = "has a value that is far too large"
    DIFFERS = "has a different value from its replicas"
    CHANGED = "has a corrupted value"
    ON_THE_WAY = "sent data that arrived changed"
    SETTING = "has a different setting"
    SLOW = "is slow"
    SLOW_LINK = "has a slow link"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A position in the training run, as far as known."""

    iteration: int = -1
    phase: str = ""
    unit: str = ""
    op: str = ""
    purpose: str = ""
    source: str = ""

    @classmethod
    def of(cls, event: Event) -> Place:
        """The position of a call."""
        return cls(
            iteration=event.iteration,
            phase=event.phase.value,
            unit=event.unit,
            op="" if event.op is None else event.op.value,
            purpose="" if event.purpose is None else event.purpose.value,
            source=event.source,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault, with its culprit.

    Attributes:
        ranks: the culprits; for a link, sender and receiver; if undecided, all candidates.
        place: position of the call or value.
        sentence: the finding in one sentence.
        evidence: its evidence, one sentence each.
        advice: the next thing to try.
    """

    wrong: Wrong
    ranks: tuple[int, ...]
    place: Place
    sentence: str
    evidence: tuple[str, ...] = ()
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The faults of a run.

    Attributes:
        findings: the first is the cause, others concern other ranks or places; empty if there is no
            fault.
        looked_at: the examined calls and iterations, in words.
        notes: limits of the examination, one sentence each.
        is_running: ranks still run.
        failed: the first call that ended in an error, in words; "" if there is a culprit.
    """

    findings: tuple[Finding, ...]
    looked_at: str
    notes: tuple[str, ...] = ()
    is_running: bool = False
    failed: str = ""

    @property
    def headline(self) -> str:
        """One sentence."""
        if self.findings:
            return self.findings[0].sentence
        key = f"headline.{'failed' if self.failed else 'nothing'}{'_so_far' * self.is_running}"
        return _SAID(key, failed=self.failed, looked_at=self.looked_at)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            "headline": self.headline,
            "is_running": self.is_running,
            "findings": [
                {
                    "wrong": one.wrong.value,
                    "ranks": list(one.ranks),
                    "place": {
                        name: getattr(one.place, name) for name in Place.__dataclass_fields__
                    },
                    "sentence": one.sentence,
                    "evidence": list(one.evidence),
                    "advice": one.advice,
                }
                for one in self.findings
            ],
            "looked_at": self.looked_at,
            "notes": list(self.notes),
        }
