"""The answer of a verification in one sentence.

Imports zerosim's L0, theory, and this package. No torch.
"""

from __future__ import annotations

from fractions import Fraction

from zerosim.events import Algorithm
from zerosim.quantities import PSI, format_decimal
from zerosim.theory import Workload, copy_law, law, system_name
from zerosim.theory.laws import multiple
from zerosim.tiers import Link
from zerosim.verify.outcome import Outcome
from zerosim.verify.report import Verdict
from zerosim.verify.verdicts import Checked, step_causes


def headline(step: Checked | None, algorithm: Algorithm, verdicts: list[Verdict]) -> str:
    """The answer in one sentence."""
    if step is None:
        answer = "No law is known for this program: its trace and its wire are shown as they are."
        wrong = next((verdict for verdict in verdicts if verdict.holds is False), None)
        return answer if wrong is None else f"{answer} But {wrong.measured}."
    workload = step.workload
    name = system_name(workload)
    copied = _copied(workload, verdicts)
    if workload.world_size == 1:
        return f"One rank of {name} has nobody to send to{copied}."
    expected = law(workload)
    step_claim = next(verdict for verdict in verdicts if verdict.id == "sent-a-step")
    if step_claim.holds is False:
        return f"This run of {name} does not send {expected.symbols} a step: {step_claim.measured}."
    causes = step_causes(step, 0, algorithm)
    differing = [cause for cause in causes if cause.outcome is Outcome.EXPLAINED]
    if differing:
        ring_share = Fraction(workload.num_ranks - 1, workload.num_ranks)
        unit = workload.num_parameters * workload.element_bytes * ring_share
        more = sum((cause.bytes for cause in differing), Fraction(0)) / unit
        why = "; ".join(cause.words for cause in differing)
        if expected.symbols != f"{multiple(expected.payloads)}{PSI}(N-1)/N":
            extra = f"{_amount(abs(more))}{PSI}(N-1)/N a step {'more' if more > 0 else 'less'}"
            return f"This run of {name} sends {extra} than {expected.symbols}: {why}."
        actual = f"{_amount(expected.payloads + more)}{PSI}(N-1)/N"
        return f"This run of {name} sends {actual} a step, not {expected.symbols}: {why}."
    return f"This run of {name} sends {expected.symbols} a step{copied}, as the law says."


def _amount(payloads: Fraction) -> str:
    """Payloads before a Psi, to two digits."""
    text = format_decimal(payloads, 2).removesuffix(".00")
    return "" if text == "1" else text


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
