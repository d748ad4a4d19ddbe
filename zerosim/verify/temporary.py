"""A rank's temporary memory in addition to its model states, checked against its law.

The checks:

    residency      whole gradients and gathered units, during their computation
    secondary      hpZ: a part of every unit, from forward to the update (ZeRO++)
    checkpoints    the inputs of blocks, from forward to backward (ZeRO-R, P_a)
    buffers        buckets use two buffers of a size independent of the model (ZeRO-R, C_B)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from zerosim.analysis.memory import Timeline, states_of
from zerosim.base.language import term
from zerosim.base.quantities import PSI, first_of, format_exact, format_exact_bytes
from zerosim.base.tiers import Tier
from zerosim.record import Trace
from zerosim.schema.events import Phase
from zerosim.schema.memory import Moment, Role
from zerosim.theory import Workload, bucket_columns, secondary_bytes
from zerosim.theory.residency import NUM_BUFFERS
from zerosim.verify.report import Verdict
from zerosim.verify.residency import gathered_verdict, gradients_verdict
from zerosim.verify.states import name_units
from zerosim.verify.wording import said

Lines = Mapping[Tier, Mapping[int, Timeline]]
"""Memory over time by tier and rank; the device is always present."""


def temporary_verdicts(trace: Trace, workload: Workload, lines: Lines) -> list[Verdict]:
    """The checks that apply to the configuration of the run."""
    config, device, found = workload.config, lines[Tier.DEVICE], []
    if config.stage >= 2:
        found.append(gradients_verdict(trace, workload, device))
    if config.stage == 3:
        found.append(gathered_verdict(trace, workload, device))
    if config.has_secondary:
        found.append(secondary_verdict(workload, device))
    if config.checkpoint_activations:
        found.append(checkpoints_verdict(workload, lines))
    if config.constant_buffers and workload.num_ranks > 1:
        found.append(buffers_verdict(trace, workload, device))
    return found


def secondary_verdict(workload: Workload, lines: Mapping[int, Timeline]) -> Verdict:
    """hpZ: from forward to the update, a rank keeps its part of all gathered units."""
    size, group = workload.element_bytes, workload.config.secondary_partition
    parts = secondary_bytes(workload)
    strays, measured = [], []
    for line in lines.values():
        gathered = _gathered_in_forward(line)
        expected = {unit: part for unit, part in parts.items() if unit in gathered}
        for number, held in _at_phases(line, Role.SECONDARY, (Phase.FORWARD, Phase.UPDATE)):
            sample = line.samples[number]
            if sample.phase is Phase.FORWARD and sample.micro_step > 0:
                continue
            wanted = expected if sample.phase is Phase.UPDATE else {}
            if sample.phase is Phase.UPDATE:
                measured.append(sum(held.values()))
            strays += [
                _stray(line, number, unit, held.get(unit, 0), wanted.get(unit, 0))
                for unit in held.keys() | wanted.keys()
                if held.get(unit, 0) != wanted.get(unit, 0)
            ]
    return _verdict(
        "secondary-parameters",
        said("temporary.secondary", law=f"{size}{PSI}/{group}"),
        said(
            "temporary.secondary_formula",
            psi=format_exact(workload.num_parameters),
            bytes=format_exact_bytes(Fraction(size * workload.num_parameters, group)),
            padded=format_exact_bytes(sum(parts.values())),
        ),
        measured,
        strays,
    )


def checkpoints_verdict(workload: Workload, lines: Lines) -> Verdict:
    """When backward begins, only the inputs of blocks, or parts of them, are kept."""
    config, known = workload.config, workload.activations
    together = workload.tensor_parallel if config.partition_activations else 1
    tier = Tier.HOST if config.cpu_checkpointing else Tier.DEVICE
    each = workload.part_elements * workload.element_bytes
    strays, measured = [], []
    for line in lines.get(tier, lines[Tier.DEVICE]).values():
        for number, held in _at_phases(line, Role.CHECKPOINTS, (Phase.BACKWARD,)):
            measured.append(sum(held.values()))
            if known is not None:
                if len(held) != known.num_blocks:
                    words = said(
                        "temporary.inputs",
                        where=_where(line, number),
                        count=len(held),
                        blocks=known.num_blocks,
                        names=name_units(held),
                    )
                    strays.append(words)
                strays += [
                    _stray(line, number, unit, found, each)
                    for unit, found in held.items()
                    if found != each
                ]
    return _verdict(
        "checkpoints",
        said(
            "temporary.checkpoints_cut" if together > 1 else "temporary.checkpoints",
            place=tier.place,
            ranks=together,
        ),
        ""
        if known is None
        else said(
            "temporary.checkpoints_formula",
            blocks=known.num_blocks,
            bytes=format_exact_bytes(known.num_blocks * each),
        ),
        measured,
        strays,
        is_known=known is not None,
    )


def buffers_verdict(trace: Trace, workload: Workload, lines: Mapping[int, Timeline]) -> Verdict:
    """C_B: no bucket has memory of its own, and the shared buffers do not grow."""
    assert workload.config.bucket_elements is not None
    columns = bucket_columns(workload.config.bucket_elements, workload.num_ranks)
    least = NUM_BUFFERS * columns * workload.num_ranks * workload.element_bytes
    names = {bucket.name for bucket in trace.manifest.buckets}
    strays, measured = [], []
    for line in lines.values():
        sizes = []
        for number, held, changed in states_of(line, Role.BUFFERS):
            sample = line.samples[number]
            own = names & held.keys() if changed and sample.iteration >= 0 else set()
            strays += [
                said("temporary.own_bucket", where=_where(line, number), name=name) for name in own
            ]
            if sample.phase is Phase.UPDATE and sample.moment is Moment.PHASE:
                sizes.append(held.get("", 0))
        strays += [
            said(
                "temporary.grown",
                rank=line.rank,
                bytes=format_exact_bytes(found),
                first=format_exact_bytes(sizes[0]),
            )
            for found in sizes
            if found != sizes[0] or found < least
        ]
        measured += sizes
    return _verdict(
        "constant-buffers",
        said("temporary.buffers"),
        said(
            "temporary.buffers_formula",
            elements=format_exact(columns * workload.num_ranks),
            bytes=format_exact_bytes(least),
        ),
        measured,
        strays,
    )


def _gathered_in_forward(line: Timeline) -> set[str]:
    """Units that were complete in some forward of an iteration."""
    return {
        unit
        for (role, unit), (numbers, sizes) in line.holders.items()
        if role is Role.GATHERED
        and any(
            line.samples[number].phase is Phase.FORWARD and line.samples[number].iteration >= 0
            for number in numbers[sizes > 0].tolist()
        )
    }


def _at_phases(
    line: Timeline, role: Role, phases: tuple[Phase, ...]
) -> Iterator[tuple[int, dict[str, int]]]:
    """The samples at the start of one of these phases, with the contents of a role by unit."""
    for number, held, _ in states_of(line, role):
        sample = line.samples[number]
        if sample.moment is Moment.PHASE and sample.phase in phases and sample.iteration >= 0:
            yield number, held


def _where(line: Timeline, number: int) -> str:
    sample = line.samples[number]
    return said(
        "temporary.where",
        rank=line.rank,
        phase=term(sample.phase),
        iteration=sample.iteration,
    )


def _stray(line: Timeline, number: int, unit: str, found: int, expected: int) -> str:
    return said(
        "temporary.stray",
        where=_where(line, number),
        bytes=format_exact_bytes(found),
        unit=unit,
        expected=format_exact_bytes(expected),
    )


def _verdict(
    identity: str,
    title: str,
    formula: str,
    measured: list[int],
    strays: list[str],
    *,
    is_known: bool = True,
) -> Verdict:
    if not measured:
        words = said("temporary.nothing")
    else:
        least, most = min(measured), max(measured)
        words = format_exact_bytes(most)
        if least != most:
            words = said("temporary.from_to", least=format_exact(least), most=words)
    if strays:
        words = said("claims.then", measured=words, more=first_of(strays))
    if not is_known:
        words = said("temporary.unknown", measured=words)
    holds = False if strays else True if measured and is_known else None
    return Verdict(id=identity, title=title, formula=formula, holds=holds, measured=words)
