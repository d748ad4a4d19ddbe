"""States of ranks: replicas that differ, and states that changed without an update."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from zerosim.base.language import term
from zerosim.record import RankTrace, Trace
from zerosim.schema.events import Held, Phase
from zerosim.schema.memory import MODEL_STATES, Role
from zerosim.systems.registry import find
from zerosim.verify.diagnosis import wording
from zerosim.verify.diagnosis.compared import ORDER, PlacedFinding, minority
from zerosim.verify.diagnosis.evidence import advice
from zerosim.verify.diagnosis.findings import Finding, Place, Wrong

Moment = tuple[int, Phase, str, str]


def _replicated(trace: Trace) -> list[tuple[tuple[int, ...], tuple[str, ...]]]:
    """Groups of ranks, and the roles of states that are replicated in a group."""
    config = trace.manifest.config
    together = trace.manifest.run.get("tensor_parallel", 1)
    stage = config.get("stage")
    if isinstance(stage, int):
        if together != 1:
            return []
        roles = {0: MODEL_STATES, 1: (Role.PARAMETERS,), 2: (Role.PARAMETERS,)}.get(stage, ())
        return [(tuple(range(trace.manifest.num_ranks)), tuple(role.value for role in roles))]
    found: dict[tuple[int, ...], set[str]] = {}
    names = {one.system for rank in trace.ranks for one in rank.strategies}
    systems = {name: find(name) for name in names}
    known = [one for one in systems.values() if one is not None and (one.replicates or one.joins)]
    if len(known) < len(systems):
        return []
    taken = {role for system in known for role in system.divides}
    for rank in trace.ranks:
        for one in rank.strategies:
            system = systems[one.system]
            if system is not None and system.replicates:
                found[tuple(one.ranks)] = {role.value for role in system.replicates - taken}
    return [(ranks, tuple(roles)) for ranks, roles in found.items() if len(ranks) > 1]


def _kept_by(rank: RankTrace) -> dict[Moment, int]:
    return {
        (one.iteration, one.phase, one.role, one.unit): one.digest
        for one in rank.checksums
        if one.held is Held.STATE
    }


def of_states(trace: Trace) -> Iterator[PlacedFinding]:
    """Replicas that have diverged."""
    kept = {rank.rank: _kept_by(rank) for rank in trace.ranks}
    for ranks, roles in _replicated(trace):
        present = [rank for rank in ranks if rank in kept]
        moments = dict.fromkeys(moment for rank in present for moment in kept[rank])
        reported: set[tuple[str, str]] = set()
        for number, moment in enumerate(moments):
            iteration, phase, role, unit = moment
            crcs = {r: kept[r][moment] for r in present if moment in kept[r]}
            is_whole = len(crcs) == len(present) > 1
            if role not in roles or not is_whole or len(set(crcs.values())) == 1:
                continue
            if (role, unit) in reported:
                continue
            reported.add((role, unit))
            yield PlacedFinding(
                (iteration, ORDER[phase] - 0.5 * (phase is not Phase.OUTSIDE), 2, number),
                _other_state(crcs, iteration, phase, role, unit),
            )


def _other_state(
    crcs: Mapping[int, int], iteration: int, phase: Phase, role: str, unit: str
) -> Finding:
    wrong, is_known = minority(crcs)
    began = {Phase.FORWARD: "values.forward_began", Phase.UPDATE: "values.update_began"}
    when = wording.said(began.get(phase, "values.after_update"), iteration=iteration)
    return Finding(
        wrong=Wrong.DIFFERS,
        ranks=wrong,
        place=Place(iteration=iteration, phase=phase.value, unit=unit),
        sentence=wording.said(
            "values.state" if is_known else "values.states",
            ranks=wording.ranks(wrong),
            role=term(role),
            unit=unit or wording.said("parts.no_unit"),
            when=when,
            **wording.forms(wrong),
        ),
        evidence=wording.checksums(crcs),
        advice=advice("replicas"),
    )


def of_changes(trace: Trace) -> Iterator[PlacedFinding]:
    """A state that one rank alone changed without an update."""
    changes: dict[tuple[int, Phase, str, str], dict[int, bool]] = defaultdict(dict)
    for rank in trace.ranks:
        kept = _kept_by(rank)
        for (iteration, phase, role, unit), crc in kept.items():
            before = {
                Phase.FORWARD: (iteration - 1, Phase.OUTSIDE),
                Phase.UPDATE: (iteration, Phase.FORWARD),
            }.get(phase)
            old = None if before is None else kept.get((*before, role, unit))
            if old is not None and role != Role.GRADIENTS.value:
                changes[iteration, phase, role, unit][rank.rank] = crc != old
    for number, ((iteration, phase, role, unit), changed) in enumerate(changes.items()):
        those = [rank for rank, has in changed.items() if has]
        if not those or 2 * len(those) > len(changed):
            continue
        when = wording.said(
            "values.before_forward" if phase is Phase.FORWARD else "values.before_update",
            before=iteration - 1,
            iteration=iteration,
        )
        yield PlacedFinding(
            (iteration, ORDER[phase] - 0.6, 0, number),
            Finding(
                wrong=Wrong.CHANGED,
                ranks=tuple(those),
                place=Place(iteration=iteration, phase=phase.value, unit=unit),
                sentence=wording.said(
                    "values.changed",
                    role=term(role),
                    unit=unit or wording.said("parts.no_unit"),
                    ranks=wording.ranks(those),
                    when=when,
                ),
                advice=advice("changed"),
            ),
        )
