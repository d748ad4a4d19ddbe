"""The peak of a rank: where it was, what made it, and how it comes from the law.

Imports zerosim's L0, record, theory, analysis and this package. No torch.
"""

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
from zerosim.events import Kind, Phase
from zerosim.memory import MODEL_STATES, Moment, Role
from zerosim.quantities import format_bytes
from zerosim.theory import Workload, whole_bytes
from zerosim.verify.memory_plan import MemoryPlan
from zerosim.verify.memory_report import RankPeak, RolePart
from zerosim.verify.report import CauseBytes
from zerosim.verify.states import name_units

_BESIDE = {
    Role.SECONDARY: "each group's copy of all parameters, for backward",
    Role.GATHERED: "",
    Role.BUFFERS: "what collectives were given",
    Role.CHECKPOINTS: "inputs of blocks that backward computes again",
    Role.ACTIVATIONS: "saved in forward for backward",
}
"""What is on the device beside the model states, and why; units are named where nothing is said."""


def rank_peak(
    line: Timeline,
    plan: MemoryPlan | None,
    *,
    place: str = "",
    positions: Bytes | None = None,
) -> RankPeak:
    """The most that a rank held: where that was, what made it, how it comes from the law.

    Args:
        plan: None for a program whose law is not known.
        place: of the line's tier, in words; "" where there is no other.
        positions: samples that count; by default all within iterations, or all there are.
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
    return _with_sentence(found, place and f"{place} ", counts_host=bool(line.beside.any()))


def when(line: Timeline, position: int, *, accumulate: int = 1) -> str:
    """The moment of a sample: "when backward of blocks.3 ended in iteration 2"."""
    sample = line.samples[position]
    event = line.event_of(position)
    verb = "ended" if sample.moment is Moment.END else "began"
    if sample.iteration < 0:
        place = ""
    elif accumulate > 1 and sample.phase is not Phase.UPDATE:
        place = f" in micro-step {sample.micro_step} of iteration {sample.iteration}"
    else:
        place = f" in iteration {sample.iteration}"
    if event is None and sample.phase is Phase.OUTSIDE:
        return f"when {place.removeprefix(' in ') or 'set-up'} was over"
    if event is None:
        what = {Phase.SETUP: "set-up", Phase.UPDATE: "the update"}
        return f"when {what.get(sample.phase, sample.phase.value)} {verb}{place}"
    if sample.moment is Moment.RECOMPUTED:
        return f"when {event.unit or 'a unit'} had been recomputed in {event.phase}{place}"
    if event.kind is Kind.COMPUTE:
        article = "the " if event.phase is Phase.UPDATE else ""
        return f"when {article}{event.phase} of {event.unit or 'a unit'} {verb}{place}"
    of_unit = f" of {event.unit}" if event.unit else ""
    phase = "" if sample.phase is Phase.OUTSIDE else f" in {sample.phase}"
    called = "copy" if event.kind is Kind.COPY else event.op
    return f"when the {called}{of_unit} ({event.purpose}) {verb}{phase}{place}"


def _during(line: Timeline, position: int) -> str:
    """What went on before a sample: the computation that it ends, or the way to it."""
    sample, event = line.samples[position], line.event_of(position)
    if event is not None and event.kind is Kind.COMPUTE and sample.moment is Moment.END:
        article = "the " if event.phase is Phase.UPDATE else ""
        place = f" in iteration {sample.iteration}" if sample.iteration >= 0 else ""
        return f"during {article}{event.phase} of {event.unit or 'a unit'}{place}"
    return f"before {when(line, position).removeprefix('when ')}"


def parts_at(line: Timeline, position: int, plan: MemoryPlan | None = None) -> tuple[RolePart, ...]:
    """The roles that something has at a sample, the largest first."""
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
    """Units whose whole gradient is there in a stage that keeps only rows."""
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
    """From the law of model states to all that is alive; an unexplained rest is not excused.

    Nothing of a program of which it is not known what it may hold for a time.

    Args:
        state: what is alive on the device, by role and unit.
        other: what no role explains; None if it was not measured.
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
        ("not there at this moment", Fraction(missing[role]), role.value)
        for role in MODEL_STATES
        if missing.get(role)
    ]
    if whole:
        words = f"{name_units(whole)}: computed, or on their way"
        found.append(("whole gradients", Fraction(sum(whole.values())), words))
    for role, words in _BESIDE.items():
        size = sum(held for (one, _), held in state.items() if one is role)
        if size:
            names = name_units(unit for one, unit in state if one is role and unit)
            found.append((role.value, Fraction(size), words or names))
    if other:
        found.append((Role.OTHER.value, Fraction(other), "what no role explains"))
    causes = [CauseBytes(cause=c, bytes=b, words=w, is_excused=True) for c, b, w in found]
    if unexplained:
        words = "model states that are not what theory says"
        causes.append(
            CauseBytes(
                cause="unexplained", bytes=Fraction(unexplained), words=words, is_excused=False
            )
        )
    return tuple(causes)


def _with_sentence(found: RankPeak, place: str, *, counts_host: bool) -> RankPeak:
    words = [_part_words(part) for part in found.parts]
    if found.other_bytes is None:
        rest = "; what no role explains was not measured then"
    else:
        words.append(f"other {format_bytes(found.other_bytes)}")
        rest = ""
    both = ", of device and host together," if counts_host else ""
    sentence = (
        f"Rank {found.rank} peaked {place}at {format_bytes(found.bytes)} {found.when}: "
        f"{', '.join(words)}{rest}."
    )
    if found.between_bytes is not None:
        sentence += (
            f" Between events PyTorch's record{both} reached {format_bytes(found.between_bytes)} "
            f"({found.between})."
        )
    if found.setup_bytes is not None:
        sentence += f" Before training it held more: {format_bytes(found.setup_bytes)}."
    return replace(found, sentence=sentence)


def _part_words(part: RolePart) -> str:
    text = f"{part.role} {format_bytes(part.bytes)}"
    if not part.units:
        return text
    whole = "whole of " if part.role is Role.GRADIENTS else ""
    return f"{text} ({whole}{name_units(part.units)})"
