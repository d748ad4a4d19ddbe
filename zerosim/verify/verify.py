"""The whole verification of a trace. Imports zerosim's L0, record, theory, and this package."""

from __future__ import annotations

from collections.abc import Mapping

from zerosim.errors import TraceError
from zerosim.events import Algorithm, Kind, Phase
from zerosim.record import Trace, ended_early, iterations, num_nodes, why_early
from zerosim.theory import Workload, law
from zerosim.verify.activation_verdicts import activation_verdicts
from zerosim.verify.copies import copy_rows, measure_copies
from zerosim.verify.copy_verdicts import CheckedCopies, copy_verdicts
from zerosim.verify.headline import headline
from zerosim.verify.interfaces import interface_rows
from zerosim.verify.ledgers import is_engine_trace, ledger_rows, workload_of
from zerosim.verify.link_verdicts import CheckedLinks, link_verdicts
from zerosim.verify.links import link_rows, measure_links
from zerosim.verify.measure import STEP_PHASES, RankLedger, algorithm_of, backend_of, measure
from zerosim.verify.program_strategies import strategies_of
from zerosim.verify.programs import verify_program
from zerosim.verify.report import LedgerRow, Report, Verdict
from zerosim.verify.verdicts import (
    Checked,
    calls_verdict,
    claim_verdicts,
    conservation_verdict,
    early_notes,
    matching_verdict,
    operator_verdicts,
    step_causes,
    wire_verdict,
)

WHOLE = -1
"""In place of an iteration: a program that told of none is shown as a whole."""


def verify(trace: Trace, iteration: int | None = None) -> Report:
    """Hold a trace's three ledgers against each other.

    Args:
        iteration: whose ledgers to show; the last complete one by default. The verdicts always
            cover all complete iterations.

    Returns:
        The report; of a program that zerosim's engine did not run, a `ProgramReport` if its
        trace says how it divides its training, and otherwise one without a law.

    Raises:
        TraceError: no iteration is complete on all ranks, or not the one asked for; or nothing
            was recorded at all.
    """
    of_engine = is_engine_trace(trace)
    complete = _complete(trace, of_engine=of_engine)
    shown = _shown(trace, complete, iteration)
    if not of_engine and shown != WHOLE and (strategies := strategies_of(trace)):
        return verify_program(trace, strategies, complete, shown)
    ledgers = measure(trace)
    algorithm = algorithm_of(trace)
    empty = {rank.rank: RankLedger(rank.rank, {}, {}, "") for rank in trace.ranks}
    checked: dict[int, Checked] = {}
    plain_rows: tuple[LedgerRow, ...] = ()
    for number in complete:
        found = ledgers.get(number, {})
        ledger = empty | (_of_step(found) if of_engine else found)
        if of_engine:
            workload = workload_of(trace, number)
            rows = ledger_rows(ledger, workload, algorithm)
            checked[number] = Checked(workload, ledger, rows)
        elif number == shown:
            plain_rows = ledger_rows(ledger, None, algorithm)
    workloads = {number: step.workload for number, step in checked.items()}
    copies = _checked_copies(trace, workloads)
    links = _checked_links(trace, workloads)
    interfaces = interface_rows(trace)
    verdicts: list[Verdict] = []
    if of_engine:
        verdicts += claim_verdicts(checked, algorithm)
        verdicts.append(calls_verdict(checked))
        verdicts.append(wire_verdict(checked, _outside(ledgers, complete)))
        verdicts += activation_verdicts(checked)
    else:
        verdicts += operator_verdicts(trace)
    verdicts += [*copy_verdicts(copies), *link_verdicts(links, interfaces)]
    verdicts += [conservation_verdict(trace), matching_verdict(trace)]
    step = checked.get(shown)
    holds = _all_hold(verdicts)
    if holds and not of_engine:  # nothing was predicted
        holds = None
    sentence = headline(step, algorithm, verdicts)
    if shown == WHOLE and ended_early(trace):
        # whatever was called, no claim about a training is true of it
        sentence = f"No iteration was finished{_why_early(trace)}."
        holds = False if holds is False else None
    return Report(
        folder=str(trace.folder),
        headline=sentence,
        holds=holds,
        stage=step.workload.stage if step else None,
        law=law(step.workload).words if step else "",
        dtype=str(trace.manifest.config.get("dtype", "")),
        algorithm=algorithm.value,
        backend=backend_of(trace),
        num_ranks=trace.manifest.num_ranks,
        num_parameters=step.workload.num_parameters if step else 0,
        element_bytes=step.workload.element_bytes if step else 0,
        accumulate=step.workload.accumulate if step else 1,
        iteration=shown,
        iterations=complete,
        law_bytes=law(step.workload).sent_bytes if step else None,
        rows=tuple(step.rows) if step else plain_rows,
        causes=step_causes(step, 0, algorithm) if step else (),
        outside_bytes=_outside_by_rank(
            ledgers.get(shown, {}), STEP_PHASES if of_engine else tuple(Phase)
        ),
        verdicts=tuple(verdicts),
        notes=_notes(trace, ledgers.get(shown, {})),
        num_nodes=num_nodes(trace),
        law_symbols=law(step.workload).symbols if step else "",
        links=tuple(links[shown].rows) if shown in links else (),
        copies=tuple(copies[shown].rows) if shown in copies else (),
        interfaces=interfaces,
    )


def _why_early(trace: Trace) -> str:
    """To end a sentence with; "" if all ended in order."""
    return f": {why}" if (why := why_early(trace)) else ""


def _complete(trace: Trace, *, of_engine: bool) -> tuple[int, ...]:
    """The iterations to judge; `WHOLE` alone of a program that told of none."""
    if complete := iterations(trace):
        return complete
    what, why = f"no iteration is complete on all {trace.manifest.num_ranks} ranks", ""
    if trace.complete and not of_engine:
        if any(event.kind is Kind.COLLECTIVE for rank in trace.ranks for event in rank.events):
            return (WHOLE,)
        what, why = "no collective and no training step was recorded", "; zerosim trace said why"
    raise TraceError(
        f"{trace.folder}: {what}: nothing to verify{_why_early(trace)}{why}; zerosim show "
        f"{trace.folder} prints what was recorded"
    )


def _shown(trace: Trace, complete: tuple[int, ...], iteration: int | None) -> int:
    shown = complete[-1] if iteration is None else iteration
    if shown not in complete:
        raise TraceError(
            f"iteration {shown} is not complete in {trace.folder}: expected one of "
            f"{complete[0]} to {complete[-1]}"
        )
    return shown


def _checked_copies(trace: Trace, workloads: Mapping[int, Workload]) -> dict[int, CheckedCopies]:
    """What was copied in each iteration, and was to be."""
    measured = measure_copies(trace)
    found = {}
    for number, workload in workloads.items():
        copied = {rank.rank: measured.get(number, {}).get(rank.rank, {}) for rank in trace.ranks}
        found[number] = CheckedCopies(workload, copied, copy_rows(workload, copied))
    return found


def _checked_links(trace: Trace, workloads: Mapping[int, Workload]) -> dict[int, CheckedLinks]:
    """What was sent within and between nodes; nothing with one node, or if it is not known."""
    measured = measure_links(trace) if workloads and num_nodes(trace) > 1 else None
    if measured is None:
        return {}
    found = {}
    for number, workload in workloads.items():
        sent = {rank.rank: measured.get(number, {}).get(rank.rank, {}) for rank in trace.ranks}
        found[number] = CheckedLinks(workload, link_rows(workload, sent))
    return found


def _of_step(ledgers: dict[int, RankLedger]) -> dict[int, RankLedger]:
    """Only what belongs to the optimizer step: an evaluation or a checkpoint does not."""
    return {
        rank: RankLedger(
            ledger.rank,
            {reason: row for reason, row in ledger.moved.items() if reason.phase in STEP_PHASES},
            ledger.outside,
            ledger.unknown,
        )
        for rank, ledger in ledgers.items()
    }


def _outside_by_rank(
    ledgers: dict[int, RankLedger], phases: tuple[Phase, ...] = STEP_PHASES
) -> tuple[int, ...]:
    return tuple(
        sum(ledger.outside[phase].sent_bytes for phase in phases if phase in ledger.outside)
        for _, ledger in sorted(ledgers.items())
    )


def _outside(ledgers: dict[int, dict[int, RankLedger]], complete: tuple[int, ...]) -> int:
    return sum(abs(number) for it in complete for number in _outside_by_rank(ledgers.get(it, {})))


def _all_hold(verdicts: list[Verdict]) -> bool | None:
    answers = [verdict.holds for verdict in verdicts if verdict.holds is not None]
    return all(answers) if answers else None


def _notes(trace: Trace, ledgers: dict[int, RankLedger]) -> tuple[str, ...]:
    notes = [*trace.warnings, *early_notes(trace)]
    if (
        num_nodes(trace) > 1
        and is_engine_trace(trace)
        and algorithm_of(trace) is not Algorithm.RING
    ):
        notes.append("which messages of a backend's own calls leave a node is not in the trace")
    notes += sorted({ledger.unknown for ledger in ledgers.values() if ledger.unknown})
    for rank in trace.ranks:
        if rank.failure is not None:
            notes.append(f"rank {rank.rank} failed: {rank.failure.message}")
    return tuple(notes)
