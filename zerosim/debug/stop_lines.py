"""The text of a stop."""

from __future__ import annotations

from zerosim.analysis.beats import Beat, Sign
from zerosim.debug.controller import Controller
from zerosim.debug.outcomes import StepEnd, Why, of_ranks
from zerosim.debug.steps import LiveStep
from zerosim.schema.events import Kind, Op, Phase
from zerosim.schema.stands import Stand


def lines_of(controller: Controller, outcome: StepEnd) -> list[str]:
    """Why the ranks stopped, and the position of each."""
    found = []
    if outcome.said:
        is_hit = outcome.why is Why.BREAKPOINT
        found.append(f"{outcome.why}: {outcome.said}" if is_hit else outcome.said)
    elif outcome.why is Why.PAUSED:
        found.append("paused")
    if outcome.is_last:
        return found
    steps, history = controller.steps(), controller.history
    if steps and not steps[0].missing and history.iteration is not None:
        beats = history.beats(steps[0])
        found.append(of_beat(len(beats) - 1, beats[-1]))
    found += [f"  {of_step(step)}" for step in steps]
    there = {one.rank for one in controller.standing()}
    for rank in controller.here:
        why = "" if rank in there else controller.why_waiting(rank)
        if why not in ("", outcome.said):
            found.append(f"  {why}")
    return found


def of_stand(stand: Stand) -> str:
    """The next event of a thread."""
    when = f"{stand.phase} of iteration {stand.iteration}"
    if stand.iteration < 0:
        when = "before iteration 0"
    elif stand.phase is Phase.OUTSIDE:
        when = f"after iteration {stand.iteration}"
    if stand.micro_step:
        when += f", micro-step {stand.micro_step}"
    of_unit = f" of {stand.unit}" if stand.unit else ""
    match stand.kind:
        case Kind.MARK if stand.phase is Phase.OUTSIDE:
            return f"the end of {'the setup' if stand.iteration < 0 else when[6:]}"
        case Kind.MARK:
            return f"the {when}" if stand.phase is not Phase.SETUP else "the setup"
        case Kind.COMPUTE:
            done = "update" if stand.phase is Phase.UPDATE else "compute"
            return f"{done} {stand.unit or 'the model'} ({when})"
        case Kind.COPY:
            return f"copy{of_unit}: {stand.purpose} ({when})"
        case Kind.TRANSFER:
            hop = (stand.hop or 0) + 1  # as Replay counts
            return f"hop {hop} of the {stand.op}{of_unit}: {stand.purpose} ({when})"
    to = ""
    if stand.peer is not None:
        to = f" {'to' if stand.op is Op.SEND else 'from'} rank {stand.peer}"
    return f"{stand.op}{of_unit}{to}: {stand.purpose}, {stand.payload_bytes:,} B ({when})"


def of_step(step: LiveStep) -> str:
    """The common next event of ranks, and the ranks that are missing."""
    there = of_ranks([one.rank for one in step.standing])
    missing = f"; {of_ranks(step.missing)} not yet" if step.missing else ""
    return f"{there} before {of_stand(step.stand)}{missing}"


def of_beat(number: int, beat: Beat) -> str:
    """The beat, and its subject."""
    what = ", ".join(sign.value for sign in beat.signs)
    if beat.sign is Sign.BEGIN:
        what = f"the {beat.phase} begins"
    elif beat.sign is Sign.END:
        what = "the iteration ends"
    units = f" {', '.join(beat.units)}" if beat.units else ""
    return f"beat {number + 1}: {what}{units}"
