"""Claims about copies between tiers, each held against every complete iteration of every rank.

Imports zerosim's L0, record, theory, and this package. No torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from zerosim.quantities import PSI, format_decimal, format_exact_bytes
from zerosim.theory import Cause, Workload, copy_deviations, copy_formula, copy_law
from zerosim.tiers import Link
from zerosim.verify.copies import Copied, CopyMeasure, CopyReason, planned_by_reason
from zerosim.verify.ledgers import has_no_law
from zerosim.verify.report import CopyLedger, Verdict

_IDS = {Link.BUS: "copied-over-the-bus", Link.STORAGE: "copied-to-and-from-the-disk"}
_WORDS = {Link.BUS: "over its bus", Link.STORAGE: "to and from its disk"}


@dataclass(frozen=True, slots=True)
class CheckedCopies:
    """One iteration: what was to be copied in it, and what was.

    Attributes:
        measured: by rank.
        rows: theory beside it.
    """

    workload: Workload
    measured: Mapping[int, CopyMeasure]
    rows: Sequence[CopyLedger]


def copy_verdicts(checked: Mapping[int, CheckedCopies]) -> list[Verdict]:
    """All claims about copies; none where nothing is to be copied and nothing was."""
    if not any(step.rows for step in checked.values()):
        return []
    links = [link for link in _IDS if any(_moves(step, link) for step in checked.values())]
    found = [_planned_verdict(checked), _unplanned_verdict(checked)]
    found += [_law_verdict(checked, link) for link in links]
    if Link.STORAGE in links:
        found.append(_disk_verdict(checked))
    return found


def _moves(step: CheckedCopies, link: Link) -> bool:
    return any(row.link is link for row in step.rows)


def _planned_verdict(checked: Mapping[int, CheckedCopies]) -> Verdict:
    """Each reason has as many copies, and as many bytes, as theory plans."""
    problems = [
        f"rank {rank} made {_copies(found)} in {key.phase} of iteration {iteration} "
        f"({_name(key)}), theory plans {_copies(planned)}"
        for iteration, rank, key, planned, found in _pairs(checked)
        if planned != (0, 0) != found and planned != found
    ]
    problems += [
        f"rank {rank} made no copies in {key.phase} of iteration {iteration} ({_name(key)}), "
        f"theory plans {_copies(planned)}"
        for iteration, rank, key, planned, found in _pairs(checked)
        if planned != (0, 0) == found
    ]
    count = sum(found[0] for *_, planned, found in _pairs(checked) if planned == found)
    return _verdict(
        "copies",
        "Every copy between tiers that theory plans was made",
        problems,
        f"{count:,} copies as planned",
    )


def _unplanned_verdict(checked: Mapping[int, CheckedCopies]) -> Verdict:
    """Nothing else was copied."""
    problems = [
        f"rank {rank} made {_copies(found)} in {key.phase} of iteration {iteration} "
        f"({_name(key)}), theory plans none"
        for iteration, rank, key, planned, found in _pairs(checked)
        if planned == (0, 0) != found
    ]
    return _verdict("no-other-copies", "Nothing else was copied", problems, "no copy unplanned")


def _pairs(
    checked: Mapping[int, CheckedCopies],
) -> Iterator[tuple[int, int, CopyReason, tuple[int, int], tuple[int, int]]]:
    """Iteration, rank, reason; number and bytes planned; number and bytes recorded."""
    for iteration, step in checked.items():
        for rank, measured in sorted(step.measured.items()):
            planned = planned_by_reason(step.workload, rank)
            for key in [*planned, *(key for key in measured if key not in planned)]:
                if has_no_law(key.purpose, step.workload):
                    continue
                row, copied = planned.get(key), measured.get(key) or Copied()
                yield (
                    iteration,
                    rank,
                    key,
                    (0, 0) if row is None else (row.num_copies, row.payload_bytes),
                    (copied.num_copies, copied.payload_bytes),
                )


def _law_verdict(checked: Mapping[int, CheckedCopies], link: Link) -> Verdict:
    """What went over one link class is what the law says and its causes."""
    problems = [
        f"rank {cell.rank} copied {format_exact_bytes(cell.trace)} in {row.phase} of iteration "
        f"{iteration} ({row.purpose}: {row.origin} to {row.target}), theory says "
        f"{format_exact_bytes(cell.theory or 0)}"
        for iteration, step in checked.items()
        for row in step.rows
        if row.link is link
        for cell in row.copied
        if cell.unexplained_trace
    ]
    last = checked[max(checked)]
    workload = last.workload
    law = copy_law(workload, link)
    copied = sum(row.copied[0].trace for row in last.rows if row.link is link)
    part = Fraction(copied * workload.num_ranks, max(1, workload.num_parameters))
    named = [(str(cause.cause), cause.bytes) for cause in copy_deviations(workload, 0, link)]
    without = sum(row.copied[0].trace for row in last.rows if row.copied[0].theory is None)
    if without and link is Link.BUS:
        named.append((Cause.ACTIVATIONS, Fraction(without)))
    causes = ", ".join(
        f"{name} {'+' if size > 0 else ''}{format_exact_bytes(size)}" for name, size in named
    )
    measured = f"{format_exact_bytes(copied)} = {format_decimal(part, 3)} B x {PSI}/N"
    what = law.symbols if law.payloads else "no parameters and no gradients"
    if causes:
        measured += f", of it beside the law: {causes}"
    return Verdict(
        id=_IDS[link],
        title=f"A rank copies {what} {_WORDS[link]} a step",
        formula=copy_formula(workload, link),
        holds=not problems,
        measured=f"{measured}; {_first(problems)}" if problems else measured,
    )


def _disk_verdict(checked: Mapping[int, CheckedCopies]) -> Verdict:
    """What the kernel counted is the files that the trace speaks of, to the byte."""
    title = "The kernel counted what the trace says of the disk, and nothing else"
    total = 0
    problems = []
    for iteration, step in checked.items():
        for row in step.rows:
            if row.link is not Link.STORAGE:
                continue
            for cell in row.copied:
                if cell.unexplained_kernel is None:
                    return Verdict(
                        id="disk-is-trace",
                        title=title,
                        formula="",
                        holds=None,
                        measured="the kernel's counter was not read",
                    )
                total += cell.kernel or 0
                if cell.unexplained_kernel:
                    problems.append(
                        f"the kernel counted {format_exact_bytes(cell.kernel or 0)} on rank "
                        f"{cell.rank} in {row.phase} of iteration {iteration} ({row.purpose}), the "
                        f"trace and its framing are {format_exact_bytes(cell.trace + cell.framing)}"
                    )
    counted = f"0 B unexplained of {format_exact_bytes(total)}"
    return _verdict("disk-is-trace", title, problems, counted)


def _verdict(identity: str, title: str, problems: Sequence[str], fine: str) -> Verdict:
    return Verdict(
        id=identity,
        title=title,
        formula="",
        holds=not problems,
        measured=_first(problems) if problems else fine,
    )


def _first(problems: Sequence[str]) -> str:
    return problems[0] + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else "")


def _name(key: CopyReason) -> str:
    return f"{key.purpose}: {key.origin} to {key.target}"


def _copies(pair: tuple[int, int]) -> str:
    number, size = pair
    return f"{number} of {format_exact_bytes(size)}" if number else "none"
