"""Figures of memory."""

from __future__ import annotations

from zerosim.base.language import term
from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, BarPart, Bars, FigureTable
from zerosim.lessons.views.wording import each, said
from zerosim.schema.memory import MODEL_STATES, Role

_SHOWN = (*MODEL_STATES, Role.GATHERED, Role.BUFFERS, Role.ACTIVATIONS)
_UNIT = "memory.unit"


def roles(facts: Facts, run: str) -> FigureTable:
    """Bytes of each role per parameter: by theory, and in memory after the first update."""
    psi, dtype = facts.psi(run), facts.dtype(run)
    rows = []
    for role in MODEL_STATES:
        theory, measured = facts.bytes_a_parameter(dtype, role), facts.held_at(run, "end", role)
        if theory or measured:
            rows.append((term(role), str(theory), f"{measured / psi:.3f}", f"{measured:,}"))
    theory = facts.bytes_a_parameter(dtype)
    measured = sum(facts.held_at(run, "end", role) for role in MODEL_STATES)
    rows.append((said("roles.together"), str(theory), f"{measured / psi:.3f}", f"{measured:,}"))
    return FigureTable(
        said("roles.title", psi=f"{psi:,}", dtype=dtype),
        each("roles.columns"),
        tuple(rows),
    )


def moments(facts: Facts, run: str) -> Bars:
    """Memory of rank 0 at the start of each phase, by role, in bytes per parameter."""
    psi = facts.psi(run)
    bars = tuple(
        Bar(
            label,
            tuple(BarPart(str(role), facts.held_at(run, at, role) / psi) for role in _SHOWN),
        )
        for at, label in facts.moments(run)
    )
    return Bars(said("moments.title"), said(_UNIT), bars)


def states(facts: Facts, *runs: str) -> Bars:
    """The model states of rank 0 when the update begins, in bytes a parameter, and the law."""
    bars = []
    for run in runs:
        psi = facts.psi(run)
        parts = tuple(BarPart(str(role), facts.held(run, role) / psi) for role in MODEL_STATES)
        bars.append(Bar(facts.title(run), parts, facts.law_held(run) / psi))
    return Bars(said("states.title"), said(_UNIT), tuple(bars), said("states.law"))


def gradients(facts: Facts, *runs: str) -> Bars:
    """The gradients of rank 0 during backward: whole ones, and its own shards of others."""
    bars = []
    for run in runs:
        psi, num_ranks = facts.psi(run), facts.num_ranks(run)
        for at, label in facts.moments(run, "backward"):
            if not at.startswith(("backward", "update")):
                continue
            whole = facts.whole_gradients(run, at)
            own = facts.held_at(run, at, Role.GRADIENTS) - whole
            parts = [BarPart("whole gradients", whole / psi), BarPart("own shards", own / psi)]
            if num_ranks == 1:
                parts = parts[:1]
            bars.append(Bar(said("labels.with", run=facts.title(run), what=label), tuple(parts)))
    return Bars(said("gradients.title"), said(_UNIT), tuple(bars))
