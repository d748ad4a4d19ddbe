"""The claim about the traffic of blocks that several ranks compute together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zerosim.base.language import term
from zerosim.base.quantities import first_of, format_exact, format_exact_bytes
from zerosim.schema.events import Purpose
from zerosim.theory import Workload
from zerosim.theory.zero import SUMS_A_PASS
from zerosim.verify.claims import Checked, what_of
from zerosim.verify.report import Verdict
from zerosim.verify.wording import said

_PURPOSES = (Purpose.ACTIVATIONS, Purpose.GATHER_ACTIVATIONS)


def activation_verdicts(checked: Sequence[Checked], workload: Workload) -> Iterator[Verdict]:
    """Whether blocks follow Megatron's law and that of P_a; no claim without tensor parallelism."""
    kept, together = workload.activations, workload.tensor_parallel
    if kept is None or together == 1:
        return
    problems = [
        said(
            "activations.stray",
            rank=cell.rank,
            bytes=format_exact_bytes(cell.trace),
            phase=term(row.phase),
            iteration=one.step.iteration,
            what=what_of(row),
            theory=format_exact_bytes(cell.theory or 0),
        )
        for one in checked
        for row in one.rows
        if row.purpose in _PURPOSES
        for cell in row.sent
        if cell.unexplained_trace
    ]
    rows = [row for row in checked[-1].rows if row.purpose in _PURPOSES]
    sums, gathered = (
        sum(row.sent[0].trace for row in rows if row.purpose is purpose) for purpose in _PURPOSES
    )
    num_sums = SUMS_A_PASS * (3 if workload.config.checkpoint_activations else 2)
    gathers = workload.config.checkpoint_activations and workload.config.partition_activations
    measured = said("activations.sums", sums=format_exact_bytes(sums))
    if gathers:
        ratio = f"{format_exact(gathered)} = {sums / gathered:.3f}" if gathered else "none"
        measured = said(
            "activations.gathered",
            measured=measured,
            gathered=format_exact_bytes(gathered),
            ratio=f"{format_exact(sums)} / {ratio}",
        )
    if problems:
        measured = said("claims.then", measured=measured, more=first_of(problems))
    expected = sum(row.sent[0].theory or 0 for row in rows)
    blocks = kept.num_blocks * workload.config.accumulate
    size = f"{format_exact(kept.elements)} x {workload.element_bytes} B"
    yield Verdict(
        id="activations",
        title=said(
            "activations.title_gathers" if gathers else "activations.title",
            ranks=together,
            count=num_sums,
        ),
        formula=(
            f"{blocks} x {num_sums} x {size} x {2 * together - 2}/{together}"
            + (f" + {blocks} x {size} x {together - 1}/{together}" if gathers else "")
            + f" = {format_exact_bytes(expected)}"
        ),
        holds=not problems,
        measured=measured,
    )
