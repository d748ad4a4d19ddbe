"""The verdict on memory: it holds on a good trace, and each thing that is planted is found."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from tests.cli.command import command
from tests.strategies import header, write_trace
from tests.verify.memory_traces import (
    OTHER_BYTES,
    UNITS,
    change,
    memory_trace,
    position_of,
    samples,
    write,
)
from zerosim.base.errors import TraceError
from zerosim.lessons.recordings import COMMITTED
from zerosim.record import load
from zerosim.schema.events import Event, Kind, Phase
from zerosim.schema.memory import Holding, MemorySample, Moment, Role
from zerosim.verify import verify_memory

RANKS = 3
LAWS = {0: "16Ψ", 1: "4Ψ + 12Ψ/N", 2: "2Ψ + 14Ψ/N", 3: "16Ψ/N"}
LAWS_FP32 = {0: "16Ψ", 1: "8Ψ + 8Ψ/N", 2: "4Ψ + 12Ψ/N", 3: "16Ψ/N"}
PSI = sum(UNITS.values())


def report_of(folder, iteration=None):
    return verify_memory(load(folder, strict=True), iteration)


def failed(folder) -> dict[str, str]:
    """The claims that are false, with what they say; the command line agrees."""
    report = report_of(folder)
    answer = command("memory", folder)
    assert answer.code == (0 if report.holds else 1)
    assert answer.err == ""
    found = {v.id: v.measured for v in report.verdicts if v.holds is False}
    assert bool(found) != bool(report.holds)
    assert answer.out.startswith("✓" if report.holds else "✗")
    for words in found.values():
        assert words in answer.out
    return found


@pytest.mark.parametrize("stage", range(4))
@pytest.mark.parametrize("num_ranks", [1, 2, 5])
@pytest.mark.parametrize(("dtype", "frozen"), [("bf16", False), ("fp32", False), ("fp16", True)])
def test_a_trace_that_is_as_theory_says_holds(tmp_path, stage, num_ranks, dtype, frozen):
    folder = write(tmp_path, memory_trace(stage, num_ranks, dtype=dtype, frozen=frozen))
    assert failed(folder) == {}
    report = report_of(folder)
    assert report.law == (LAWS_FP32 if dtype == "fp32" else LAWS)[stage]
    assert report.unexplained_bytes == 0
    assert report.law in report.headline
    roles = [row.role for row in report.rows]
    assert (Role.MASTER in roles) == (dtype != "fp32")
    for row in report.rows:
        assert len(row.measured_bytes) == num_ranks
        assert set(row.measured_bytes) == {row.theory_bytes}
    measured = sum(row.measured_bytes[0] for row in report.rows)
    assert report.law_bytes + sum(cause.bytes for cause in report.causes) == measured
    named = {cause.cause for cause in report.causes}
    assert ("frozen parameters" in named) == frozen
    assert ("padding" in named) == (num_ranks > 1)


def test_the_numbers_by_hand(tmp_path):
    """Units of 31, 64, 64 and 40 parameters on 3 ranks: rows of 11, 22, 22 and 14."""
    report = report_of(write(tmp_path, memory_trace(2, RANKS)))
    row = 11 + 22 + 22 + 14
    assert {r.role: r.measured_bytes for r in report.rows} == {
        Role.PARAMETERS: (2 * 3 * row,) * 3,
        Role.GRADIENTS: (2 * row,) * 3,
        Role.MASTER: (4 * row,) * 3,
        Role.MOMENTUM: (4 * row,) * 3,
        Role.VARIANCE: (4 * row,) * 3,
    }
    assert report.law_bytes == 2 * PSI + Fraction(14 * PSI, 3)
    assert [(c.cause, c.bytes) for c in report.causes] == [
        ("padding", 20 * row - 2 * PSI - Fraction(14 * PSI, 3))
    ]


@pytest.mark.parametrize("stage", range(4))
@pytest.mark.parametrize(
    ("role", "by"),
    [
        (Role.PARAMETERS, 1), (Role.GRADIENTS, -1), (Role.MASTER, 1), (Role.MOMENTUM, -1),
        (Role.VARIANCE, 1),
    ],
)  # fmt: skip
def test_a_byte_too_many_or_too_few(tmp_path, stage, role, by):
    written = memory_trace(stage, RANKS)
    begin = position_of(written, 1, 2, Phase.UPDATE, Moment.PHASE)
    report = report_of(write(tmp_path / "good", written))
    theory = next(row.theory_bytes for row in report.rows if row.role is role)
    of_unit = {
        holding.unit: holding.bytes
        for place in samples(written, 1)
        for holding in written.rows[1][place][1].changes
        if holding.role is role and written.rows[1][place][1].number <= begin
    }["blocks.1"]
    change(written, 1, begin, role, "blocks.1", of_unit + by)
    found = failed(write(tmp_path / "bad", written))
    assert (
        f"rank 1 keeps {of_unit + by} B of {role} for blocks.1 when the update of iteration 2 "
        f"begins; theory says {of_unit} B" in found["model-states"]
    )
    report = report_of(tmp_path / "bad")
    assert report.unexplained_bytes == 1
    row = next(row for row in report.rows if row.role is role)
    assert row.measured_bytes == (theory, theory + by, theory)
    assert "does not keep" in report.headline


def test_an_earlier_iteration_is_verified_as_well(tmp_path):
    written = memory_trace(1, RANKS)
    begin = position_of(written, 2, 0, Phase.UPDATE, Moment.PHASE)
    change(written, 2, begin, Role.MASTER, "head", 1)
    change(written, 2, begin + 1, Role.MASTER, "head", 4 * 14)
    found = failed(write(tmp_path, written))
    assert "rank 2 keeps 1 B of fp32 master for head" in found["model-states"]
    assert "iteration 0" in found["model-states"]
    assert report_of(tmp_path).unexplained_bytes == 0
    shown = report_of(tmp_path, 0)
    assert shown.unexplained_bytes == 4 * 14 - 1


def test_bytes_too_many_in_one_unit_do_not_make_up_for_another(tmp_path):
    written = memory_trace(0, RANKS)
    begin = position_of(written, 0, 1, Phase.UPDATE, Moment.PHASE)
    change(written, 0, begin, Role.MASTER, "blocks.0", 4 * 66 + 8)
    change(written, 0, begin, Role.MASTER, "blocks.1", 4 * 66 - 8)
    found = failed(write(tmp_path, written))
    assert "blocks.0" in found["model-states"]
    assert "(and " in found["model-states"]


def test_a_state_of_no_unit_is_too_much(tmp_path):
    written = memory_trace(3, RANKS)
    begin = position_of(written, 0, 2, Phase.UPDATE, Moment.PHASE)
    change(written, 0, begin, Role.VARIANCE, "", 12)
    assert (
        "12 B of variance for an unknown unit" in failed(write(tmp_path, written))["model-states"]
    )


def test_moments_come_with_the_first_update(tmp_path):
    folder = write(tmp_path, memory_trace(1, RANKS))
    first, second = report_of(folder, 0), report_of(folder, 1)
    row = 11 + 22 + 22 + 14
    theory = {r.role: r.theory_bytes for r in first.rows}
    assert (theory[Role.MOMENTUM], theory[Role.VARIANCE]) == (0, 0)
    causes = {cause.cause: cause.bytes for cause in first.causes}
    assert causes["before the first update"] == -8 * row
    assert "do not exist yet" in command("memory", folder, "--iteration", 0).out
    assert "before the first update" not in {cause.cause for cause in second.causes}


def test_an_update_that_was_skipped_makes_no_moments(tmp_path):
    folder = write(tmp_path, memory_trace(2, RANKS, dtype="fp16", overflows=(0, 1), steps=4))
    assert failed(folder) == {}
    for iteration, expected in ((1, 0), (2, 0), (3, 4 * 69)):
        theory = {r.role: r.theory_bytes for r in report_of(folder, iteration).rows}
        assert theory[Role.MOMENTUM] == expected
    # the same bytes without the word of an overflow are a stray
    written = memory_trace(2, RANKS, dtype="fp16", overflows=(0, 1), steps=4)
    written.rows[0] = [row for row in written.rows[0] if row[0] != "metric"]
    assert "momentum" in failed(write(tmp_path / "lie", written))["model-states"]


def test_one_step_proves_not_all(tmp_path):
    folder = write(tmp_path, memory_trace(3, RANKS, steps=1))
    report = report_of(folder)
    states = report.verdicts[0]
    assert (states.id, states.holds) == ("model-states", None)
    assert "record a second step" in states.measured
    assert "the first update allocates momentum and variance" in report.headline
    assert command("memory", folder).code == 0


def test_a_unit_gathered_too_early(tmp_path):
    written = memory_trace(3, RANKS, counts_allocations=False)
    begin = position_of(written, 1, 1, Phase.FORWARD, Moment.BEGIN, "embedding")
    change(written, 1, begin, Role.GATHERED, "head", 2 * 42)
    found = failed(write(tmp_path, written))
    assert found.keys() == {"gathered-parameters"}
    assert "rank 1 in forward of iteration 1: 2 units ahead" in found["gathered-parameters"]
    assert "head" in found["gathered-parameters"]


def test_a_unit_that_is_never_resharded(tmp_path):
    written = memory_trace(3, RANKS)
    for place in samples(written, 0):
        name, sample = written.rows[0][place]
        kept = tuple(
            one
            for one in sample.changes
            if (one.role, one.unit, one.bytes) != (Role.GATHERED, "embedding", 0)
        )
        written.rows[0][place] = (name, replace(sample, changes=kept))
    assert "embedding" in failed(write(tmp_path, written))["gathered-parameters"]


def test_a_gathered_unit_that_is_not_whole(tmp_path):
    written = memory_trace(3, RANKS)
    begin = position_of(written, 2, 1, Phase.FORWARD, Moment.BEGIN, "blocks.0")
    change(written, 2, begin, Role.GATHERED, "blocks.0", 2 * 64)
    found = failed(write(tmp_path, written))
    assert "128 B of blocks.0, which has 132 B when gathered" in found["gathered-parameters"]


@pytest.mark.parametrize("stage", [2, 3])
def test_a_whole_gradient_that_stays(tmp_path, stage):
    written = memory_trace(stage, RANKS, counts_allocations=False)
    begin = position_of(written, 1, 1, Phase.BACKWARD, Moment.BEGIN, "blocks.0")
    change(written, 1, begin, Role.GRADIENTS, "head", 2 * (42 + 14))
    found = failed(write(tmp_path, written))
    assert found.keys() == {"whole-gradients"}
    assert "rank 1 in backward of iteration 1" in found["whole-gradients"]
    assert "the whole gradient of head is still live" in found["whole-gradients"]


def test_half_a_gradient(tmp_path):
    written = memory_trace(2, RANKS)
    end = position_of(written, 0, 1, Phase.BACKWARD, Moment.END, "blocks.1")
    change(written, 0, end, Role.GRADIENTS, "blocks.1", 50)
    assert (
        "50 B of gradients for blocks.1, whose shard has 44 B"
        in failed(write(tmp_path, written))["whole-gradients"]
    )


def test_stages_that_may_keep_gradients_have_no_such_claim(tmp_path):
    for stage in (0, 1):
        ids = {v.id for v in report_of(write(tmp_path / str(stage), memory_trace(stage))).verdicts}
        assert ids == {"model-states", "other", "allocated"}


def test_roles_that_have_more_than_the_allocator(tmp_path):
    written = memory_trace(1, RANKS)
    rows = written.rows[1]
    place = next(at for at, (name, _) in enumerate(rows) if name == "allocations")
    row = rows[place][1]
    less = (*row.allocated_bytes[:-1], row.allocated_bytes[-1] - OTHER_BYTES - 5)
    rows[place] = ("allocations", replace(row, allocated_bytes=less))
    found = failed(write(tmp_path, written))
    assert found.keys() == {"allocated"}
    assert "the roles exceed the allocator by up to 5 B" in found["allocated"]


def test_much_that_no_role_explains_refutes_nothing_and_is_told(tmp_path):
    written = memory_trace(1, RANKS)
    for place, (name, row) in enumerate(written.rows[2]):
        if name == "allocations":
            more = tuple(size + 2_000_000 for size in row.allocated_bytes)
            written.rows[2][place] = (name, replace(row, allocated_bytes=more))
    folder = write(tmp_path, written)
    assert failed(folder) == {}
    found = {verdict.id: verdict for verdict in report_of(folder).verdicts}
    assert found["other"].holds is None
    assert "2,000,024 B of 2.01 MB on rank 2" in found["other"].measured
    assert found["allocated"].holds is None


@pytest.mark.parametrize("run", ["made-ddp/stage-0", "profiles/ddp", "profiles/ddp-zero"])
def test_buckets_that_only_the_reducer_holds_until_they_are_reduced_are_no_finding(run):
    assert verify_memory(load(COMMITTED / run)).headline.endswith(", as the law says.")


def test_without_the_allocator_other_is_not_measured(tmp_path):
    folder = write(tmp_path, memory_trace(2, RANKS, counts_allocations=False))
    assert failed(folder) == {}
    report = report_of(folder)
    found = {verdict.id: verdict for verdict in report.verdicts}
    assert (found["other"].holds, found["allocated"].holds) == (None, None)
    assert "not measured" in " ".join(report.notes)
    for top in report.peaks:
        assert (top.other_bytes, top.between_bytes) == (None, None)
        assert "was not measured" in top.sentence
        assert "other 0" not in top.sentence


def test_the_peak_in_a_sentence(tmp_path):
    written = memory_trace(3, RANKS)
    report = report_of(write(tmp_path, written))
    top = report.peaks[1]
    assert (top.iteration, top.phase) == (1, Phase.BACKWARD)
    activations = 1000 + 1010 + 1020 + 1030 + 16
    gathered = 2 * 3 * (22 + 14)
    states = (2 + 4 + 4 + 4) * 69
    assert top.bytes == activations + gathered + states + OTHER_BYTES
    assert [(part.role, part.bytes, part.units) for part in top.parts[:2]] == [
        (Role.ACTIVATIONS, activations, ()),
        (Role.MASTER, 4 * 69, ()),
    ]
    assert top.sentence == (
        "Rank 1 peaked at 5.28 kB when backward of head began in iteration 1: activations "
        "4.08 kB, fp32 master 276 B, momentum 276 B, variance 276 B, gathered parameters 216 B "
        "(blocks.1, head), parameters 138 B, other 24 B. Between events, the allocated memory "
        "reached 5.38 kB (before backward of head began in iteration 1)."
    )
    assert top.bytes == report.law_bytes + sum(cause.bytes for cause in top.causes)
    assert {cause.cause: cause.bytes for cause in top.causes} == {
        "padding": 16 * 69 - Fraction(16 * PSI, 3),
        "not there at this moment": -2 * 69,
        "gathered parameters": gathered,
        "activations": activations,
        "other": OTHER_BYTES,
    }


def test_a_peak_counts_where_the_allocator_was_not_asked(tmp_path):
    """What another thread saw between has no `other`, but it was alive."""
    written = memory_trace(0, 2)
    position = position_of(written, 0, 2, Phase.BACKWARD, Moment.PHASE)
    change(written, 0, position, Role.ACTIVATIONS, "", 100_000)
    change(written, 0, position + 1, Role.ACTIVATIONS, "", 16)
    for place, (name, row) in enumerate(written.rows[0]):
        if name == "allocations" and position in row.numbers:
            kept = [at for at, number in enumerate(row.numbers) if number != position]
            columns = {
                field: tuple(getattr(row, field)[at] for at in kept)
                for field in ("numbers", "allocated_bytes", "peak_bytes")
            }
            written.rows[0][place] = (name, replace(row, **columns))
    report = report_of(write(tmp_path, written))
    top = report.peaks[0]
    assert top.sample == position
    assert top.other_bytes is None
    assert top.bytes == sum(part.bytes for part in top.parts)
    assert "memory without a role was not measured at this event" in top.sentence
    other = next(verdict for verdict in report.verdicts if verdict.id == "other")
    assert f"{OTHER_BYTES:,} B of" in other.measured  # of the highest one that it was asked at
    bare = memory_trace(0, 2, counts_allocations=False)
    change(bare, 0, position, Role.ACTIVATIONS, "", 100_000)
    assert report_of(write(tmp_path / "bare", bare)).peaks[0].sample == position


@pytest.mark.parametrize("stage", range(4))
@pytest.mark.parametrize("frozen", [False, True])
def test_every_peak_comes_from_the_law_without_a_gap(tmp_path, stage, frozen):
    report = report_of(write(tmp_path, memory_trace(stage, RANKS, frozen=frozen)))
    for top in report.peaks:
        assert top.bytes == report.law_bytes + sum(cause.bytes for cause in top.causes)
        assert all(cause.is_excused for cause in top.causes)


def test_a_state_that_is_wrong_at_the_peak_is_not_excused(tmp_path):
    written = memory_trace(3, RANKS)
    begin = position_of(written, 1, 1, Phase.BACKWARD, Moment.BEGIN, "head")
    change(written, 1, begin, Role.MASTER, "head", 4 * 14 + 3)
    top = report_of(write(tmp_path, written)).peaks[1]
    assert [c.bytes for c in top.causes if not c.is_excused] == [3]


def test_set_up_that_holds_more_is_told(tmp_path):
    written = memory_trace(3, RANKS)
    change(written, 0, 0, Role.PARAMETERS, "head", 10_000_000)
    for place, (name, row) in enumerate(written.rows[0]):
        if name == "allocations" and row.numbers[0] == 0:
            sizes = (10_000_500, *row.allocated_bytes[1:])
            written.rows[0][place] = (name, replace(row, allocated_bytes=sizes))
    top = report_of(write(tmp_path, written)).peaks[0]
    assert top.setup_bytes == 10_000_500
    assert "Before training, its peak was higher: 10.0 MB." in top.sentence


def test_a_program_without_a_law(tmp_path):
    rows = {}
    for rank in range(2):
        event = Event(
            id=0, rank=rank, kind=Kind.COMPUTE, iteration=0, phase=Phase.FORWARD, unit="net",
            issue_ns=1, start_ns=1, end_ns=2,
        )  # fmt: skip
        sample = MemorySample(
            number=0, event=0, moment=Moment.END, iteration=0, micro_step=0, phase=Phase.FORWARD,
            time_ns=2, allocated_bytes=160 + rank, unrecorded_bytes=40,
            changes=(Holding(Role.PARAMETERS, "net", 100), Holding(Role.ACTIVATIONS, "net", 50)),
        )  # fmt: skip
        rows[rank] = [("header", header(rank, 2)), ("event", event), ("memory", sample)]
    folder = write_trace(tmp_path, rows)
    report = report_of(folder)
    assert (report.law_bytes, report.causes, report.unexplained_bytes) == (None, (), None)
    assert [(row.role, row.measured_bytes) for row in report.rows] == [
        (Role.PARAMETERS, (100, 100)),
        (Role.ACTIVATIONS, (50, 50)),
    ]
    assert [(top.bytes, top.other_bytes) for top in report.peaks] == [(160, 10), (161, 11)]
    assert "when forward of net ended in iteration 0" in report.peaks[0].sentence
    answer = command("memory", folder)
    assert answer.code == 0
    assert "No law is known for this program" in answer.out.splitlines()[0]
    assert "parameters  " in answer.out


def test_roles_that_have_more_in_a_program_without_a_law_prove_nothing(tmp_path):
    """Its other threads may allocate what the record of one thread does not hold."""
    written = memory_trace(0, 2)
    written.manifest.config.clear()
    for place, (name, row) in enumerate(written.rows[1]):
        if name == "allocations":
            less = tuple(size - 100 for size in row.allocated_bytes)
            written.rows[1][place] = (name, replace(row, allocated_bytes=less))
    folder = write(tmp_path, written)
    found = {verdict.id: verdict for verdict in report_of(folder).verdicts}
    assert found["allocated"].holds is None
    assert "exceed the allocator by up to 76 B" in found["allocated"].measured
    assert command("memory", folder).code == 0


def test_a_trace_without_memory(tmp_path):
    folder = write_trace(tmp_path, {0: [("header", header(0, 1))]})
    with pytest.raises(TraceError, match=r"recorded without memory: .* without --no-memory"):
        report_of(folder)


def test_a_rank_without_memory_is_named(tmp_path):
    written = memory_trace(2, 2)
    written.rows[1] = [row for row in written.rows[1] if row[0] not in ("memory", "allocations")]
    report = report_of(write(tmp_path, written))
    assert report.ranks == (0,)
    assert report.holds is True
    assert "rank 1 recorded no memory" in report.notes
