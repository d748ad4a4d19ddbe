"""The whole verification of a trace.

Theory derives from the declarations in the trace: the configuration of zerosim's engine, or the
strategies of a program. Each call and copy is then planned, named overhead, or unexplained. Several
strategies may be in force together, each with its own law and group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zerosim.base.errors import TraceError
from zerosim.base.language import begun, enumerated, term
from zerosim.record import (
    Trace,
    ended_early,
    iterations,
    left_out,
    num_nodes,
    why_early,
    without_update,
)
from zerosim.record.text import name_iterations
from zerosim.schema.events import STEP_PHASES, WHOLE, Algorithm, Kind
from zerosim.schema.manifest import Source
from zerosim.theory.nccl import CHOSEN
from zerosim.theory.programs import ZeroPlan
from zerosim.verify import headline
from zerosim.verify.activations import activation_verdicts
from zerosim.verify.attribution import RankStep
from zerosim.verify.bubbles import bubble_verdicts
from zerosim.verify.checks import attributed_verdict, disk_verdicts, planned_verdict, wire_verdict
from zerosim.verify.claims import Checked, claim_verdicts, what_is_unrecorded
from zerosim.verify.interfaces import interface_rows
from zerosim.verify.laws import causes_to_wire, laws_of, overhead_of
from zerosim.verify.link_verdicts import Rows, between_nodes_verdict, interface_verdict
from zerosim.verify.links import link_rows, measure_links
from zerosim.verify.measure import algorithm_of, backend_of
from zerosim.verify.outcome import Outcome
from zerosim.verify.report import CauseBytes, InterfaceBytes, Report, SystemLaw, Verdict
from zerosim.verify.rows import ledger_rows, sources_of
from zerosim.verify.steps import TracedStep, TracedSteps
from zerosim.verify.strategies import strategies_of
from zerosim.verify.verdicts import (
    conservation_verdict,
    early_notes,
    matching_verdict,
    operator_verdicts,
)
from zerosim.verify.wording import said


def verify(trace: Trace, iteration: int | None = None) -> Report:
    """Compare a trace's ledgers: theory, trace and wire.

    Args:
        iteration: the one whose ledgers are shown; the last complete one by default. The verdicts
            always cover all complete iterations.

    Returns:
        The report; without a law if the partitioning of training is neither declared nor
        recognizable from calls.

    Raises:
        TraceError: no iteration, or not the requested one, is complete on all ranks, or nothing
            was recorded.
    """
    complete = _complete(trace)
    shown = _shown(trace, complete, iteration)
    return report_on(trace, check(trace, complete), shown)


def check(trace: Trace, complete: Sequence[int]) -> list[Checked]:
    """Iterations with their ledgers.

    Args:
        complete: those that all ranks finished, in order.
    """
    strategies = {} if WHOLE in complete else strategies_of(trace)
    algorithm = algorithm_of(trace)
    return [_checked(step, algorithm) for step in TracedSteps(trace, strategies).all_of(complete)]


def report_on(trace: Trace, checked: Sequence[Checked], shown: int) -> Report:
    """Check these iterations, all of which all ranks finished, and show one of them."""
    one = next(one for one in checked if one.step.iteration == shown)
    first = one.step.ranks[0]
    overhead = overhead_of(first)
    systems = laws_of(one)
    algorithm = algorithm_of(trace)
    links = _links(trace, checked)
    interfaces = interface_rows(trace)
    # claims about all iterations come from the last iteration's strategies
    claimed = systems if one is checked[-1] else laws_of(checked[-1])
    verdicts = tuple(_verdicts(trace, checked, shown, claimed, links, interfaces))
    holds, answer = _answer(trace, one, systems, overhead, verdicts)
    if _zero(first) is None and one.step.is_told and first.plans:
        answer = headline.with_others(answer, *_most_beside(checked, one))
    psi = [plan for plan in first.plans if plan.num_parameters]
    is_one = len(psi) == len(first.plans) == 1 and len(psi[0].ranks) == trace.manifest.num_ranks
    num_parameters = psi[0].num_parameters if is_one else 0
    zero = _zero(first)
    return Report(
        folder=str(trace.folder),
        headline=answer,
        holds=holds,
        stage=None if zero is None else zero.workload.config.stage,
        law=" + ".join(
            law.words if plan.is_complete else f"{law.formula} ({term(law.law_name)})"
            for law, plan in zip(systems, first.plans, strict=True)
        ),
        dtype=str(trace.manifest.config.get("dtype", "")),
        algorithm=algorithm.value,
        backend=backend_of(trace),
        num_ranks=trace.manifest.num_ranks,
        num_nodes=num_nodes(trace),
        num_parameters=num_parameters,
        element_bytes=psi[0].scale.unit_bytes // num_parameters if num_parameters else 0,
        accumulate=one.step.num_micro_steps,
        iteration=shown,
        iterations=tuple(one.step.iteration for one in checked),
        systems=systems,
        rows=one.rows,
        sources=sources_of(one.step) if one.step.is_told and zero is None else (),
        wires=one.step.wires,
        wires_received=one.step.wires_received,
        wire_by_call=one.step.wire_by_call or not one.step.is_told,
        causes=causes_to_wire(one, systems, overhead, backend_of(trace)),
        outside_bytes=one.step.outside,
        verdicts=verdicts,
        notes=_notes(trace, one.step),
        links=tuple(links.get(shown, ())),
        copies=one.copies,
        interfaces=interfaces,
        unrecorded=_unrecorded(one.step),
    )


def _checked(step: TracedStep, algorithm: Algorithm) -> Checked:
    """A step with its ledger; for a plan that covers everything, only the calls in the step."""
    rows = ledger_rows(step)
    if any(plan.is_complete for rank in step.ranks for plan in rank.plans):
        rows = tuple(row for row in rows if row.phase in STEP_PHASES)
    return Checked(
        step,
        tuple(row for row in rows if row.op is not None),
        tuple(row for row in rows if row.op is None),
        algorithm,
    )


def _zero(step: RankStep) -> ZeroPlan | None:
    """The plan of zerosim's engine; None for another system."""
    return next((plan for plan in step.plans if isinstance(plan, ZeroPlan)), None)


def _complete(trace: Trace) -> tuple[int, ...]:
    """The iterations to judge; `WHOLE` alone for a program without iterations."""
    if complete := iterations(trace):
        return complete
    what, why = f"no iteration is complete on all {trace.manifest.num_ranks} ranks", ""
    if trace.complete and not trace.manifest.config:
        if any(event.kind is Kind.COLLECTIVE for rank in trace.ranks for event in rank.events):
            return (WHOLE,)
        what, why = "no collective and no training step was recorded", "; zerosim trace printed why"
    raise TraceError(
        f"{trace.folder}: {what}: nothing to verify{_why_early(trace)}{why}; zerosim show "
        f"{trace.folder} prints the recording"
    )


def _why_early(trace: Trace) -> str:
    """The end of a sentence; "" if all ranks ended properly."""
    return said("systems.because", why=why) if (why := why_early(trace)) else ""


def _shown(trace: Trace, complete: tuple[int, ...], iteration: int | None) -> int:
    shown = complete[-1] if iteration is None else iteration
    if shown not in complete:
        raise TraceError(
            f"iteration {shown} is not complete in {trace.folder}: expected one of "
            f"{name_iterations(complete)}"
        )
    return shown


def _links(trace: Trace, checked: Sequence[Checked]) -> Rows:
    """Traffic within and between nodes; empty with one node, or if unknown."""
    has_workload = all(_zero(rank) is not None for one in checked for rank in one.step.ranks)
    measured = measure_links(trace) if has_workload and num_nodes(trace) > 1 else None
    if measured is None:
        return {}
    steps = [one.step for one in checked]
    return {step.iteration: link_rows(step, measured.get(step.iteration, {})) for step in steps}


def _verdicts(
    trace: Trace,
    checked: Sequence[Checked],
    shown: int,
    systems: Sequence[SystemLaw],
    links: Rows,
    interfaces: Sequence[InterfaceBytes],
) -> Iterator[Verdict]:
    one = next(one for one in checked if one.step.iteration == shown)
    first = one.step.ranks[0]
    zero, claimed = _zero(first), list(claim_verdicts(checked, systems))
    if not one.step.is_told:
        yield from operator_verdicts(trace)
    else:
        yield from (one for one, link in claimed if link is None)
        yield planned_verdict(checked)
        if zero is None:
            yield attributed_verdict(checked)
        yield wire_verdict(checked)
        yield from bubble_verdicts(trace, first.plans, shown)
        if zero is not None:
            yield from activation_verdicts(checked, zero.workload)
    if any(each.copies for each in checked):
        yield planned_verdict(checked, copies=True)
        yield from (one for one, link in claimed if link is not None)
        yield from disk_verdicts(checked)
    if links:
        yield between_nodes_verdict(checked, links)
    if interfaces:
        yield interface_verdict(interfaces)
    yield conservation_verdict(trace)
    yield matching_verdict(trace)


def _answer(
    trace: Trace,
    one: Checked,
    systems: Sequence[SystemLaw],
    overhead: Sequence[CauseBytes],
    verdicts: Sequence[Verdict],
) -> tuple[bool | None, str]:
    """Whether every byte has a name, None if nothing is predicted; and the answer in words."""
    plans = one.step.ranks[0].plans
    answers = [verdict.holds for verdict in verdicts if verdict.holds is not None]
    holds: bool | None = all(answers)
    if holds and not any(not plan.is_likeness for plan in plans):
        holds = None
    if one.step.iteration == WHOLE and ended_early(trace):
        # whatever was called, no claim about training applies
        return holds if holds is False else None, said("systems.unfinished", why=_why_early(trace))
    zero = _zero(one.step.ranks[0])
    if zero is not None:
        return holds, headline.of_zero(zero.workload, systems[0].causes, verdicts)
    answer = headline.of_systems(systems, overhead if one.step.is_told else (), verdicts)
    if one.step.iteration == WHOLE and trace.manifest.source is Source.IMPORTED and not systems:
        answer = said("systems.no_iterations")
    if unrecorded := _unrecorded(one.step):
        words = what_is_unrecorded(unrecorded, more=bool(one.rows))
        answer = said("systems.unrecorded", answer=answer, what=begun(words))
    return holds, answer


def _most_beside(
    checked: Sequence[Checked], shown: Checked
) -> tuple[headline.Place | None, headline.Told]:
    """Where most bytes outside of all laws were sent, if the headline does not mention them.

    The headline covers the first rank of one iteration. Others may send more such messages.
    """
    own = _told(shown.step.ranks[0])
    most, told = sum(cause.bytes for cause in own), own
    place: headline.Place | None = None
    for one in (shown, *checked):
        for rank in one.step.ranks:
            found = _told(rank)
            size = sum(cause.bytes for cause in found)
            if size > most:
                is_shown = one.step.iteration == shown.step.iteration
                place = (rank.rank, None if is_shown else one.step.iteration)
                most, told = size, found
    return place, told


def _told(step: RankStep) -> headline.Told:
    return [cause for cause in overhead_of(step) if cause.outcome is Outcome.EXPLAINED]


def _unrecorded(step: TracedStep) -> int:
    """Calls of a rank without a recorded size."""
    return max((rank.unrecorded for rank in step.ranks), default=0)


def _notes(trace: Trace, step: TracedStep) -> tuple[str, ...]:
    notes = [*trace.warnings, *left_out(trace), *early_notes(trace)]
    of_zero = _zero(step.ranks[0]) is not None
    if num_nodes(trace) > 1 and of_zero and algorithm_of(trace) is not Algorithm.RING:
        notes.append(said("notes.nodes"))
    notes += [words for rank in step.ranks for words in rank.unknown]
    if step.tuning != CHOSEN:
        forced = filter(None, (step.tuning.algorithm, step.tuning.protocol))
        notes.append(said("notes.forced", what=enumerated(map(str.upper, forced))))
    if unrecorded := _unrecorded(step):
        notes.append(said("notes.unrecorded", what=what_is_unrecorded(unrecorded)))
    notes += [
        said("notes.failed", rank=rank.rank, message=rank.failure.message)
        for rank in trace.ranks
        if rank.failure is not None
    ]
    if not of_zero and step.is_told:
        notes += [
            said("notes.no_update", iteration=iteration) for iteration in without_update(trace)
        ]
    return tuple(dict.fromkeys(notes))
