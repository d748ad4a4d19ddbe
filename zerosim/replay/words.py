"""The sentences of a replay: which text of `words.toml` a step has, and what is filled in.

Imports the standard library, zerosim's L0 and analysis.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from zerosim.analysis.frames import Step
from zerosim.events import Algorithm, Event, Kind, Op, Phase, Purpose
from zerosim.memory import Role
from zerosim.record.text import name_ranks


@cache
def texts() -> dict[str, Any]:
    """All texts, as `words.toml` has them."""
    return tomllib.loads(files("zerosim.replay").joinpath("words.toml").read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class Words:
    """What is said of one step.

    Attributes:
        title: a headline; what: what happens; why: the reason.
    """

    title: str
    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What the sentences of a run have in common.

    Attributes:
        stage: None for a program that zerosim's engine did not run.
        num_ranks: N.
        accumulate: micro-steps of an iteration.
        backend: who carries native calls out.
        states: bytes that each model state takes for one parameter.
    """

    stage: int | None
    num_ranks: int
    accumulate: int
    iteration: int
    backend: str
    states: Mapping[Role, int]

    @property
    def optimizer_bytes(self) -> int:
        """K: what the optimizer keeps for one parameter."""
        kept = (Role.PARAMETERS, Role.GRADIENTS)
        return sum(size for role, size in self.states.items() if role not in kept)


def describe(step: Step, setting: Setting, *, num_hops: int, awaited: Event | None) -> Words:
    """Say what a step is.

    Args:
        num_hops: of its collective.
        awaited: the collective that a wait waits for.
    """
    event = step.event
    unit = "" if event is None else event.unit
    if awaited is not None:
        unit = awaited.unit
    fields = {
        "phase": texts()["phase"][step.phase],
        "unit": unit or "several units",
        "op": "" if event is None or event.op is None else event.op.value,
        "backend": setting.backend,
        "N": setting.num_ranks,
        "hop": (step.hop or 0) + 1,
        "hops": num_hops,
        "iteration": setting.iteration,
        "element_bytes": setting.states.get(Role.GRADIENTS, 0),
        "optimizer_bytes": setting.optimizer_bytes,
        "micro_step": _micro_step(step, setting),
    }
    if step.kind is Kind.WAIT:
        fields |= _of_wait(step, awaited)
    keys = _keys(step, setting, num_hops)
    return Words(*(find(*key).format_map(fields) for key in keys))


def find(*path: str) -> str:
    """A text by its path in `words.toml`; KeyError if there is none."""
    here: Any = texts()
    for name in path:
        here = here[name]
    assert isinstance(here, str), path
    return here


Path = tuple[str, ...]


def _keys(step: Step, setting: Setting, num_hops: int) -> tuple[Path, Path, Path]:
    """Where the title, the description and the reason of a step are."""
    if step.kind is Kind.MARK:
        return _of_mark(step, setting)
    if step.kind is Kind.WAIT:
        return ("title", "wait"), ("what", "wait"), ("why", "wait")
    if step.kind is Kind.COMPUTE:
        return _of_computation(step, setting)
    event = step.event
    purpose = Purpose.UNLABELLED if event is None or event.purpose is None else event.purpose
    return ("title", purpose), _how(step, num_hops), _reason(purpose, step.phase, setting)


def _of_mark(step: Step, setting: Setting) -> tuple[Path, Path, Path]:
    if step.phase is Phase.OUTSIDE:
        return ("title", "end"), ("what", "end"), ("why", "end")
    why = f"begin_{step.phase}"
    stage = setting.stage or 0
    if step.phase is Phase.FORWARD and stage == 3:
        why += "_3"
    elif step.phase is Phase.UPDATE and stage >= 1:
        why += "_1"
    elif step.phase is Phase.SETUP:
        why = "computation"
    return ("title", "begin"), ("what", "begin"), ("why", why)


def _of_computation(step: Step, setting: Setting) -> tuple[Path, Path, Path]:
    phase = str(step.phase)
    if setting.stage is None or step.phase not in (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE):
        return ("title", "computation"), ("what", "computation"), ("why", "computation")
    what = "update_all" if step.phase is Phase.UPDATE and setting.stage == 0 else phase
    return ("title", phase), ("what", what), ("why", phase, str(setting.stage))


def _how(step: Step, num_hops: int) -> Path:
    """What is said of a hop, or of a collective whose hops are not known."""
    event = step.event
    op = None if event is None else event.op
    if step.kind is not Kind.TRANSFER or op is None or event is None:
        return ("what", "send" if op in (Op.SEND, Op.RECEIVE) else "native")
    of_ring = texts()["what"]["ring"].get(op) if event.algorithm is Algorithm.RING else None
    if of_ring is None:
        return ("what", "send")
    hop = step.hop or 0
    adding = num_hops // 2 if op is Op.ALL_REDUCE else num_hops
    if hop >= adding:
        which = "second"
    elif hop == adding - 1:
        which = "last"
    else:
        which = "first" if hop == 0 else "later"
    if which not in of_ring:
        which = "first" if hop == 0 else "later"
    return ("what", "ring", op, which)


def _reason(purpose: Purpose, phase: Phase, setting: Setting) -> Path:
    why = texts()["why"].get(purpose)
    if isinstance(why, str):
        return ("why", purpose)
    stage = str(setting.stage)
    if why is not None and stage in why.get(phase, {}):
        return ("why", purpose, phase, stage)
    return ("why", "unlabelled")


def _micro_step(step: Step, setting: Setting) -> str:
    if setting.accumulate == 1 or step.phase not in (Phase.FORWARD, Phase.BACKWARD):
        return ""
    return f", micro-step {step.micro_step + 1} of {setting.accumulate}"


def _of_wait(step: Step, awaited: Event | None) -> dict[str, object]:
    longest = max(
        (event.end_ns or 0) - (event.start_ns or 0)
        for event in step.events.values()
        if event.kind is Kind.WAIT
    )
    what = "a collective"
    if awaited is not None:
        of_unit = f" of {awaited.unit}" if awaited.unit else ""
        what = f"{awaited.purpose or awaited.op}{of_unit}"
    return {
        "awaited": what,
        "ranks": name_ranks(tuple(step.events)),
        "stand": "stands" if len(step.events) == 1 else "stand",
        "longest": f"{max(0, longest) / 1e6:.1f} ms",
    }
