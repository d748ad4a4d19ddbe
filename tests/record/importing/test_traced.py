"""A profile that is imported says what tracing the same steps says."""

import gzip
import json

import pytest

import zerosim
from tests.cli.command import command
from tests.ranks import run_ranks
from tests.record.importing.programs import PROFILED, PROGRAMS, record_all
from zerosim.record import load
from zerosim.record.importing import import_run
from zerosim.schema.events import Kind, Purpose
from zerosim.verify import verify

pytestmark = pytest.mark.ranks

SAME = (
    *("op", "phase", "iteration", "micro_step", "purpose", "group", "peers", "dtype", "elements"),
    *("payload_bytes", "parts", "received_parts", "algorithm", "sent_bytes", "received_bytes"),
)
"""All but the unit and the sequence number, of which below."""
UNSAID = ("by_hand", "purpose")
"""Which tensors a program called a collective for by itself, no profile says."""
NAMES = [program.__name__ for program in PROGRAMS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("at-once")
    run_ranks(record_all, 2, str(made))
    for name in NAMES:
        import_run([made / f"{name}-profiled"], made / f"{name}-imported")
    return made


def calls(folder):
    """The calls of the profiled steps, by rank."""
    return {
        rank.rank: [
            event
            for event in rank.events
            if event.kind is Kind.COLLECTIVE and event.iteration in PROFILED
        ]
        for rank in load(folder).ranks
    }


@pytest.mark.parametrize("name", NAMES)
def test_calls_are_those_that_were_traced(folder, name):
    traced, imported = (calls(folder / f"{name}-{how}") for how in ("traced", "imported"))
    assert sum(map(len, traced.values())) > 0
    for rank, events in traced.items():
        mine = imported[rank]
        same = [key for key in SAME if (name, key) != UNSAID]
        assert [[getattr(e, key) for key in same] for e in mine] == [
            [getattr(e, key) for key in same] for e in events
        ]
        begins = {}
        for before, after in zip(events, mine, strict=True):
            assert after.end_ns >= after.start_ns >= after.issue_ns
            if before.sequence is not None:  # which counts from where a recording begins
                begins.setdefault(before.group, before.sequence - after.sequence)
                assert before.sequence - after.sequence == begins[before.group]


def test_units_are_those_that_frameworks_annotate(folder):
    for name in ("ddp", "fsdp2", "fsdp2_rooted"):
        traced, imported = (calls(folder / f"{name}-{how}") for how in ("traced", "imported"))
        for rank, events in traced.items():
            assert [e.unit for e in imported[rank]] == [e.unit for e in events]
    units = {e.unit for e in calls(folder / "fsdp2-imported")[0]}
    assert units == {"0", "2"}


def test_purposes_of_a_program_that_calls_by_itself_are_not_known(folder):
    (first, _) = calls(folder / "by_hand-imported").values()
    assert {e.purpose for e in first} == {Purpose.UNLABELLED, Purpose.SYNCHRONIZE}


@pytest.mark.parametrize(
    ("name", "law", "beside"),
    [
        ("ddp", "data parallel", {"metadata", "outside of the step"}),
        ("fsdp2", "ZeRO-3", set()),
        ("fsdp1", "ZeRO-3", set()),
        ("zero1", "ZeRO-1 with an all-reduce in place of the reduce-scatter", {"metadata"}),
        ("by_hand", "data parallel", {"not attributed"}),
    ],
)
def test_the_nearest_law(folder, name, law, beside):
    report = verify(load(folder / f"{name}-imported"), PROFILED[0])
    (system,) = report.systems
    assert system.law_name == law
    assert system.is_likeness
    assert not system.is_far
    size = 8 * 16 + 16 + 16 * 8 + 8 + (16 if name == "ddp" else 0)
    assert report.num_parameters == size  # whose gradients autograd added up
    names = {cause.cause for cause in report.causes if cause.bytes}
    assert beside <= names
    assert "unlike the law" not in names
    assert report.holds is None


@pytest.mark.parametrize("name", ["fsdp2", "fsdp2_rooted"])
def test_fsdp2_has_the_same_law_and_the_same_causes(folder, name):
    traced, imported = (
        verify(load(folder / f"{name}-{how}"), PROFILED[1]) for how in ("traced", "imported")
    )
    (planned,), (seen,) = traced.systems, imported.systems
    assert seen.formula == planned.formula == "3Ψ(N-1)/N"
    assert (seen.law_name, seen.law_bytes) == (planned.law_name, planned.law_bytes)
    told = [
        sorted((one.cause, one.bytes, one.words) for one in system.causes if one.bytes)
        for system in (planned, seen)
    ]
    assert told[0] == told[1]
    assert {one[0] for one in told[0]} >= ({"parameters kept", "padding"} if "_" in name else set())
    assert [row.sent for row in imported.rows] != []
    assert imported.holds is None
    assert not seen.is_far


def test_fsdp1_is_like_zero_3_without_names_of_units(folder):
    events = calls(folder / "fsdp1-imported")[0]
    assert {e.unit for e in events} == {""}
    assert {e.unit for e in calls(folder / "fsdp1-traced")[0]} == {"0", "2"}


def test_tensor_parallel_obeys_no_law_of_parameters(folder):
    report = verify(load(folder / "tensor_parallel-imported"))
    assert not report.systems
    assert {row.purpose for row in report.rows} == {Purpose.ACTIVATIONS}


def test_what_computes_and_waits_is_said_to_be_unknown(folder):
    answer = command("graph", folder / "fsdp2-imported")
    assert answer.code == 0
    assert "its critical path, exposed communication and overlap are unknown" in answer.out
    answer = command("verify", folder / "fsdp2-imported")
    assert answer.code == 0
    assert "an imported run: memory, waits and the wire are not recorded" in answer.out
    assert command("compare", folder / "fsdp2-traced", folder / "fsdp2-imported").code == 0


def test_units_of_a_comparison_add_up_to_all_that_is_sent(folder):
    names = ("fsdp2-traced", "fsdp2-imported", "ddp-imported")
    first, *others = (zerosim.load(folder / name) for name in names)
    for side in first.compare(*others).sides:
        assert sum(side.unit_bytes.values()) == side.total_bytes > 0


def test_without_shapes_sizes_are_not_recorded_and_never_zero(folder, tmp_path):
    for rank in range(2):
        with gzip.open(folder / "fsdp2-profiled" / f"{rank}.json.gz", "rt") as file:
            whole = json.load(file)
        for event in whole["traceEvents"]:
            for key in ("Input Dims", "Input type", "Concrete Inputs"):
                event.get("args", {}).pop(key, None)
        (tmp_path / f"{rank}.json").write_text(json.dumps(whole))
    answer = command("import", tmp_path, "--out", tmp_path / "out")
    assert "the sizes of 24 of 24 calls are not recorded" in answer.err
    full, bare = calls(folder / "fsdp2-imported"), calls(tmp_path / "out")
    for key in ("op", "phase", "iteration", "unit", "purpose", "group", "sequence"):
        assert [getattr(e, key) for e in bare[1]] == [getattr(e, key) for e in full[1]]
    (row,) = zerosim.load(tmp_path / "out").traffic()
    assert (row["calls"], row["payload_bytes"], row["sent_bytes"]) == (12, None, None)
    assert command("verify", tmp_path / "out").code == 0


def test_one_rank_of_two_is_enough_and_says_so(folder, tmp_path):
    out = tmp_path / "one"
    answer = command("import", folder / "fsdp2-profiled" / "1.json.gz", "--out", out)
    assert answer.code == 0
    assert "calls of rank 1 of 2" in answer.out
    run = zerosim.load(out)
    assert run.iterations == PROFILED
    assert run.verify().report.systems[0].law_name == "ZeRO-3"
    answer = command("verify", out)
    assert answer.code == 0
    assert "the files of rank 0 are missing: the recording has only rank 1" in answer.out
    assert run.replay().document["run"]["iteration"] == PROFILED[-1]
