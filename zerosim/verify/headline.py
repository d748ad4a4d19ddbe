"""The answer of a verification in one sentence.

Imports zerosim's L0, theory, and this package. No torch.
"""

from __future__ import annotations

from fractions import Fraction

from zerosim.events import Algorithm
from zerosim.quantities import PSI
from zerosim.theory import Workload, copy_law, law, system_name
from zerosim.theory.laws import multiple
from zerosim.tiers import Link
from zerosim.verify.report import Verdict
from zerosim.verify.verdicts import Checked, step_causes


def headline(step: Checked | None, algorithm: Algorithm, verdicts: list[Verdict]) -> str:
    """The answer in one sentence."""
    if step is None:
        return "No law is known for this program: its trace and its wire are shown as they are."
    workload = step.workload
    name = system_name(workload)
    copied = _copied(workload, verdicts)
    if workload.world_size == 1:
        return f"One rank of {name} has nobody to send to{copied}."
    expected = law(workload)
    causes = step_causes(step, 0, algorithm)
    beyond = sum((cause.bytes for cause in causes if not cause.is_excused), Fraction(0))
    if beyond:
        ring_share = Fraction(workload.num_ranks - 1, workload.num_ranks)
        unit = workload.num_parameters * workload.element_bytes * ring_share
        more = round(beyond / unit)
        why = "; ".join(cause.words for cause in causes if not cause.is_excused)
        if expected.symbols != f"{multiple(expected.payloads)}{PSI}(N-1)/N":
            extra = f"{multiple(Fraction(more))}{PSI}(N-1)/N"
            return f"This run of {name} sends {extra} a step beside {expected.symbols}: {why}."
        actual = f"{multiple(expected.payloads + more)}{PSI}(N-1)/N"
        return f"This run of {name} sends {actual} a step, not {expected.symbols}: {why}."
    step_claim = next(verdict for verdict in verdicts if verdict.id == "sent-a-step")
    if step_claim.holds:
        return f"This run of {name} sends {expected.symbols} a step{copied}, as the law says."
    return f"This run of {name} does not send {expected.symbols} a step: {step_claim.measured}."


def _copied(workload: Workload, verdicts: list[Verdict]) -> str:
    """What is copied between tiers, as far as it is what the law says."""
    holding = {verdict.id for verdict in verdicts if verdict.holds}
    parts = [
        f"{copy_law(workload, link).symbols} {where}"
        for link, identity, where in (
            (Link.BUS, "copied-over-the-bus", "over its bus"),
            (Link.STORAGE, "copied-to-and-from-the-disk", "to and from its disk"),
        )
        if identity in holding and copy_law(workload, link).payloads
    ]
    return f" and copies {' and '.join(parts)}" if parts else ""
