"""The claim about what blocks send that several ranks compute together.

Imports zerosim's L0, theory, and this package. No torch.
"""

from __future__ import annotations

from collections.abc import Mapping

from zerosim.events import Purpose
from zerosim.quantities import format_exact, format_exact_bytes
from zerosim.theory.checkpoints import SUMS_A_PASS
from zerosim.verify.report import Verdict
from zerosim.verify.verdicts import Checked

_PURPOSES = (Purpose.ACTIVATIONS, Purpose.GATHER_ACTIVATIONS)


def activation_verdicts(checked: Mapping[int, Checked]) -> list[Verdict]:
    """Whether blocks send what Megatron's law and P_a say; nothing without tensor parallelism."""
    if not checked:
        return []
    last = checked[max(checked)]
    kept, together = last.workload.activations, last.workload.tensor_parallel
    if kept is None or together == 1:
        return []
    problems = [
        f"rank {cell.rank} sends {format_exact_bytes(cell.trace)} in {row.phase} of iteration "
        f"{iteration} ({row.purpose}: {row.op}), theory says {format_exact_bytes(cell.theory)}"
        for iteration, step in checked.items()
        for row in step.rows
        if row.purpose in _PURPOSES
        for cell in row.sent
        if cell.unexplained_trace
    ]
    num_sums = SUMS_A_PASS * (3 if kept.is_recomputed else 2)
    gathers = kept.is_recomputed and kept.is_partitioned
    sent = {
        purpose: sum(row.sent[0].trace for row in last.rows if row.purpose is purpose)
        for purpose in _PURPOSES
    }
    sums, gathered = sent.values()
    measured = f"{format_exact_bytes(sums)} for the sums"
    if gathers:
        measured += f", {format_exact_bytes(gathered)} to gather, {format_exact(sums)} / "
        measured += f"{format_exact(gathered)} = {sums / gathered:.3f}" if gathered else "none"
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        measured += f"; {problems[0]}{more}"
    expected = sum(row.sent[0].theory for row in last.rows if row.purpose in _PURPOSES)
    blocks = kept.num_blocks * last.workload.accumulate
    size = f"{format_exact(kept.elements)} x {last.workload.element_bytes} B"
    return [
        Verdict(
            id="activations",
            title=(
                f"A block on {together} ranks sums b·s·h {num_sums} times in a micro-step"
                + (", and gathers its checkpoint once: 1/12 of that" if gathers else "")
            ),
            formula=(
                f"{blocks} x {num_sums} x {size} x {2 * together - 2}/{together}"
                + (f" + {blocks} x {size} x {together - 1}/{together}" if gathers else "")
                + f" = {format_exact_bytes(expected)}"
            ),
            holds=not problems,
            measured=measured,
        )
    ]
