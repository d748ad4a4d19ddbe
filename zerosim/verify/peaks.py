"""The peak of a rank: its moment, its parts, and its derivation from the law."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from zerosim.analysis.memory import (
    Bytes,
    Holders,
    Timeline,
    in_training,
    peak,
    peak_between,
)
from zerosim.base.language import enumerated, joined, term
from zerosim.base.quantities import format_bytes
from zerosim.schema.events import Event, Kind, Phase
from zerosim.schema.memory import MODEL_STATES, Moment, Role
from zerosim.theory import Workload, whole_bytes
from zerosim.verify.memory_plan import MemoryPlan
from zerosim.verify.memory_report import RankPeak, RolePart
from zerosim.verify.report import CauseBytes
from zerosim.verify.states import name_units
from zerosim.verify.wording import said

_BESIDE = {
    Role.SECONDARY: "peak.secondary",
    Role.GATHERED: "",
    Role.BUFFERS: "peak.buffers",
    Role.CHECKPOINTS: "peak.checkpoints",
    Role.ACTIVATIONS: "peak.activations",
    Role.WORKSPACES: "peak.workspaces",
}
"""Roles on the device other than model states, with reasons; units are named by default."""


def rank_peak(
    line: Timeline,
    plan: MemoryPlan | None,
    *,
    place: str = "",
    positions: Bytes | None = None,
) -> RankPeak:
    """The peak of a rank: its moment, its parts, its derivation from the law.

    Args:
        plan: None for a program without a known law.
        place: name of the line's tier; "" if there is no other.
        positions: the samples to consider; by default all within iterations, or all there are.
    """
    everything = np.arange(len(line.samples), dtype=np.int64)
    training = in_training(line)
    positions = training if positions is None else positions
    top = peak(line, positions)
    assert top is not None, "a timeline has samples"
    state = line.at(top.position)
    parts = parts_at(line, top.position, plan)
    other = line.other(top.position)
    other = None if other is None else max(0, other)
    between = peak_between(line, positions)
    if between is not None and between.bytes <= int((line.alive() + line.beside)[positions].max()):
        between = None
    outside = peak(line, np.setdiff1d(everything, training))
    sample = line.samples[top.position]
    workload = None if plan is None else plan.workload
    accumulate = 1 if workload is None else workload.config.accumulate
    found = RankPeak(
        rank=line.rank,
        sample=top.position,
        iteration=sample.iteration,
        phase=sample.phase,
        bytes=top.bytes,
        when=when(line, top.position, accumulate=accumulate),
        parts=parts,
        other_bytes=other,
        causes=peak_causes(plan, line.rank, state, other),
        between_bytes=None if between is None else between.bytes,
        between="" if between is None else _during(line, between.position),
        setup_bytes=outside.bytes if outside is not None and outside.bytes > top.bytes else None,
        sentence="",
    )
    return _with_sentence(found, place, counts_host=bool(line.beside.any()))


def when(
    line: Timeline, position: int, *, accumulate: int = 1, names_iteration: bool = True
) -> str:
    """The moment of a sample: "when backward of blocks.3 ended in iteration 2"."""
    moment = _moment(line, position, accumulate=accumulate, names_iteration=names_iteration)
    return said("when.when", moment=moment)


def _moment(line: Timeline, position: int, *, accumulate: int, names_iteration: bool) -> str:
    """The same without "when"."""
    sample = line.samples[position]
    event = line.event_of(position)
    verb = "when.ended" if sample.moment is Moment.END else "when.began"
    counts = {"iteration": sample.iteration, "micro_step": sample.micro_step}
    in_micro_step = accumulate > 1 and sample.phase is not Phase.UPDATE
    if event is None and sample.phase is Phase.OUTSIDE:
        what = "when.micro_step" if in_micro_step else "when.iteration"
        return said(
            "when.over", what=said(what if sample.iteration >= 0 else "when.setup", **counts)
        )
    place = ""
    if sample.iteration >= 0 and in_micro_step:
        place = said(
            "when.in_micro_step" if names_iteration else "when.in_own_micro_step", **counts
        )
    elif sample.iteration >= 0 and names_iteration:
        place = said("when.in_iteration", **counts)
    if event is None:
        own = {Phase.SETUP: "when.setup", Phase.UPDATE: "when.update"}.get(sample.phase)
        what = term(sample.phase) if own is None else said(own)
        return said(verb, what=what, phase="", place=place)
    if sample.moment is Moment.RECOMPUTED:
        unit = event.unit or said("when.unit")
        return said("when.recomputed", unit=unit, phase=term(event.phase), place=place)
    if event.kind is Kind.COMPUTE:
        return said(verb, what=_computation(event), phase="", place=place)
    what = said(
        "when.call_of" if event.unit else "when.call",
        op=term(Kind.COPY if event.kind is Kind.COPY else event.op or ""),
        unit=event.unit,
        purpose=term(event.purpose or ""),
    )
    is_outside = sample.phase is Phase.OUTSIDE
    phase = "" if is_outside else said("when.in_phase", phase=term(sample.phase))
    return said(verb, what=what, phase=phase, place=place)


def _computation(event: Event) -> str:
    key = "when.update_of_unit" if event.phase is Phase.UPDATE else "when.of_unit"
    return said(key, phase=term(event.phase), unit=event.unit or said("when.unit"))


def _during(line: Timeline, position: int) -> str:
    """The activity before a sample: the computation that ends there, or the time before it."""
    sample, event = line.samples[position], line.event_of(position)
    if event is not None and event.kind is Kind.COMPUTE and sample.moment is Moment.END:
        is_known = sample.iteration >= 0
        place = said("when.in_iteration", iteration=sample.iteration) if is_known else ""
        return said("when.during", what=_computation(event), place=place)
    moment = _moment(line, position, accumulate=1, names_iteration=True)
    return said("when.before", moment=moment)


def parts_at(line: Timeline, position: int, plan: MemoryPlan | None = None) -> tuple[RolePart, ...]:
    """The roles with bytes at a sample, the largest first."""
    state = line.at(position)
    units: dict[Role, tuple[str, ...]] = {
        Role.GATHERED: tuple(unit for role, unit in state if role is Role.GATHERED and unit)
    }
    if plan is not None and plan.workload is not None:
        units[Role.GRADIENTS] = tuple(_whole_gradients(plan.workload, state))
    found = [
        RolePart(role=role, bytes=size, units=units.get(role, ()))
        for role, size in line.roles_at(position).items()
        if size
    ]
    return tuple(sorted(found, key=lambda part: -part.bytes))


def _whole_gradients(workload: Workload, state: Holders) -> dict[str, int]:
    """Units with a whole gradient in a stage that only keeps rows."""
    if workload.num_ranks == 1 or workload.config.stage < 2:
        return {}
    whole = whole_bytes(workload)
    return {
        unit: whole[unit]
        for (role, unit), size in state.items()
        if role is Role.GRADIENTS and unit in whole and size >= whole[unit]
    }


def peak_causes(
    plan: MemoryPlan | None, rank: int, state: Holders, other: int | None
) -> tuple[CauseBytes, ...]:
    """The causes from the law of model states to all live bytes; a remainder is not excused.

    Empty for a program with unknown temporary memory.

    Args:
        state: live bytes on the device, by role and unit.
        other: bytes that no role explains; None if not measured.
    """
    if plan is None or plan.workload is None:
        return ()
    states = plan.of_ranks[rank]
    found = [(each.cause.value, each.bytes, each.words) for each in states.deviations()]
    whole = _whole_gradients(plan.workload, state)
    missing: dict[Role, int] = {}
    unexplained = 0
    expected = states.bytes()
    for place in expected.keys() | {key for key in state if key[0] in MODEL_STATES}:
        role, unit = place
        present = state.get(place, 0) - (whole.get(unit, 0) if role is Role.GRADIENTS else 0)
        size = expected.get(place, 0)
        if present == 0 and role not in (Role.PARAMETERS, Role.MASTER):
            missing[role] = missing.get(role, 0) - size
        else:
            unexplained += present - size
    found += [
        ("not there at this moment", Fraction(missing[role]), term(role))
        for role in MODEL_STATES
        if missing.get(role)
    ]
    if whole:
        words = said("peak.whole", names=name_units(whole))
        found.append(("whole gradients", Fraction(sum(whole.values())), words))
    for role, key in _BESIDE.items():
        size = sum(held for (one, _), held in state.items() if one is role)
        if size:
            names = name_units(unit for one, unit in state if one is role and unit)
            found.append((role.value, Fraction(size), said(key) if key else names))
    if other:
        found.append((Role.OTHER.value, Fraction(other), said("peak.other")))
    causes = [CauseBytes(cause=c, bytes=b, words=w, is_excused=True) for c, b, w in found]
    if unexplained:
        words = said("peak.unexplained")
        causes.append(
            CauseBytes(
                cause="unexplained", bytes=Fraction(unexplained), words=words, is_excused=False
            )
        )
    return tuple(causes)


def _with_sentence(found: RankPeak, place: str, *, counts_host: bool) -> RankPeak:
    words = [_part_words(part) for part in found.parts]
    if found.other_bytes is not None:
        other = format_bytes(found.other_bytes)
        words.append(said("peak.part", role=term(Role.OTHER), bytes=other))
    parts = enumerated(words)
    if found.other_bytes is None:
        parts = said("peak.unmeasured", parts=parts)
    sentences = [
        said(
            "peak.sentence_at" if place else "peak.sentence",
            rank=found.rank,
            place=place,
            bytes=format_bytes(found.bytes),
            when=found.when,
            parts=parts,
        )
    ]
    if found.between_bytes is not None:
        key = "peak.between_both" if counts_host else "peak.between"
        reached = format_bytes(found.between_bytes)
        sentences.append(said(key, bytes=reached, when=found.between))
    if found.setup_bytes is not None:
        sentences.append(said("peak.setup", bytes=format_bytes(found.setup_bytes)))
    return replace(found, sentence=joined(sentences))


def _part_words(part: RolePart) -> str:
    key = "peak.part_whole" if part.role is Role.GRADIENTS else "peak.part_of"
    return said(
        key if part.units else "peak.part",
        role=term(part.role),
        bytes=format_bytes(part.bytes),
        units=name_units(part.units),
    )
