"""DeepSpeed for real, untouched: what it asks for is what its configuration says, call by call."""

import importlib.util
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.held import check_bytes
from tests.ranks import free_port, run_ranks
from tests.train.deepspeed import expected, training
from zerosim.record import load, match_collectives
from zerosim.schema.events import Kind, Op, Phase, Purpose
from zerosim.schema.memory import OPTIMIZER_STATES, Role
from zerosim.theory import Cause
from zerosim.verify import verify
from zerosim.view.replay.subject import Subject

pytestmark = [
    pytest.mark.deepspeed,
    pytest.mark.ranks,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        importlib.util.find_spec("deepspeed") is None,
        reason="DeepSpeed is not installed: make deepspeed",
    ),
]

SIZES = (2, 4)
ON_FOUR = (
    "stage 0, bf16",
    "stage 1, two micro-steps",
    "stage 1, bf16, summed in fp32",
    "stage 2",
    "stage 2, a reduce for each rank and bucket",
    "stage 3",
    "stage 3, keeps nothing, two micro-steps",
    "stage 3, few parameters persist",
    "stage 3, fetched ahead",
    "stage 3, few live",
    "stage 3, no reduce-scatter",
    "stage 3, sub-groups",
    "stage 3, offloaded",
)
"""One of each kind: what is padded or divided in another way on four ranks."""
PROGRAMS = {2: tuple(training.PROGRAMS), 4: tuple(training.WITH_SECONDARY)}
RUNS = [(2, name) for name in training.CASES] + [(4, name) for name in ON_FOUR]
WITNESSED = {
    "allreduce_": Op.ALL_REDUCE,
    "_allgather_base_": Op.ALL_GATHER,
    "_reduce_scatter_base_": Op.REDUCE_SCATTER,
    "broadcast_": Op.BROADCAST,
    "reduce_": Op.REDUCE,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """By number of ranks: the folder of the traces, and what the ranks returned."""
    found = {}
    for num_ranks in SIZES:
        folder = tmp_path_factory.mktemp(f"ranks-{num_ranks}")
        names = [name for number, name in RUNS if number == num_ranks]
        returned = run_ranks(
            training.train_all, num_ranks, str(folder), names, PROGRAMS[num_ranks], deadline_s=600
        )
        found[num_ranks] = (folder, returned)
    return found


def collectives(rank):
    return [event for event in rank.events if event.kind is Kind.COLLECTIVE]


def in_training(rank):
    return [event for event in collectives(rank) if event.iteration >= 0]


@pytest.mark.parametrize(("num_ranks", "name"), RUNS)
def test_each_call_is_the_one_that_the_configuration_asks_for(trained, num_ranks, name):
    wanted = {
        position: _by_kind(calls)
        for position, calls in expected.of(training.CASES[name], num_ranks).items()
    }
    assert sum(len(one) for kinds in wanted.values() for one in kinds.values()) > 0
    for rank in load(trained[num_ranks][0] / name, strict=True).ranks:
        found = defaultdict(list)
        for call in in_training(rank):
            place = (call.iteration, call.micro_step)
            found[place].append((call.phase, call.purpose, call.op, call.dtype, call.elements))
        assert {place: _by_kind(calls) for place, calls in found.items()} == {
            place: kinds for place, kinds in wanted.items() if kinds
        }


def _by_kind(calls):
    kinds = defaultdict(list)
    for *kind, elements in calls:
        kinds[tuple(kind)].append(elements)
    return dict(kinds)


@pytest.mark.parametrize(("num_ranks", "name"), RUNS)
def test_pytorchs_own_count_is_the_same(trained, num_ranks, name):
    folder, returned = trained[num_ranks]
    for rank, seen in zip(load(folder / name, strict=True).ranks, returned, strict=True):
        witnessed = Counter({WITNESSED[key]: count for key, count in seen[name][2].items()})
        # CommDebugMode does not know barriers
        traced = Counter(call.op for call in collectives(rank) if call.op is not Op.BARRIER)
        assert traced == witnessed
        assert traced.total() > 0


@pytest.mark.parametrize(("num_ranks", "name"), RUNS)
def test_weights_are_bit_equal_with_and_without_tracing(trained, num_ranks, name):
    for seen in trained[num_ranks][1]:
        same, moved, _ = seen[name]
        assert same
        assert moved


@pytest.mark.parametrize("num_ranks", SIZES)
def test_every_call_is_attributed_and_all_ranks_agree(trained, num_ranks):
    for name in [one for number, one in RUNS if number == num_ranks]:
        trace = load(trained[num_ranks][0] / name, strict=True)
        matching = match_collectives(trace)
        assert matching.mismatches == ()
        assert all(call.complete for call in matching.collectives)
        for rank in trace.ranks:
            assert rank.unfinished == ()
            for call in collectives(rank):
                assert call.purpose not in (None, Purpose.UNLABELLED), (name, call)
                if call in in_training(rank):
                    assert call.phase in (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)
            setup = {call.purpose for call in collectives(rank) if call.iteration < 0}
            assert Purpose.BROADCAST_STATE in setup


@pytest.mark.parametrize(
    ("name", "forward", "backward"),
    [
        ("stage 3, keeps nothing", expected.MODULES, expected.MODULES),
        ("stage 3, nothing persists", ("prefetch", "root"), ()),
    ],
)
def test_parameters_are_gathered_for_the_module_that_computes(trained, name, forward, backward):
    (rank, *_) = load(trained[2][0] / name, strict=True).ranks
    last = [call for call in in_training(rank) if call.iteration == training.STEPS - 1]
    units = {
        phase: {call.unit for call in last if _gathers(call) and call.phase is phase}
        for phase in (Phase.FORWARD, Phase.BACKWARD)
    }
    empty = {module for module, sizes in expected.MODULES.items() if not sizes}
    assert units == {
        Phase.FORWARD: set(forward) - empty,
        Phase.BACKWARD: set(backward) - empty,
    }


def _gathers(call):
    return call.purpose is Purpose.GATHER_PARAMETERS


def test_buckets_have_the_same_numbers_in_each_step(trained):
    (rank, *_) = load(trained[2][0] / "stage 2, small buckets", strict=True).ranks
    reduced = [c for c in in_training(rank) if c.purpose is Purpose.REDUCE_GRADIENTS]
    for iteration in range(training.STEPS):
        units = [call.unit for call in reduced if call.iteration == iteration]
        assert units == [f"bucket {number}" for number in range(len(units))]
        assert len(units) > 1


@pytest.mark.parametrize(("num_ranks", "name"), RUNS)
def test_it_says_its_stage_and_its_parameters(trained, num_ranks, name):
    config = training.CASES[name]
    for rank in load(trained[num_ranks][0] / name, strict=True).ranks:
        rows = [row for row in rank.strategies if row.system == "DeepSpeed"]
        assert rows == list(rank.strategies)
        for row in rows:
            assert row.options["stage"] == config["zero_optimization"]["stage"]
            assert row.num_parameters == expected.PSI
            assert row.ranks == tuple(range(num_ranks))
            agreed = {call.purpose for call in in_training(rank)}
            assert row.options["reduces_norm"] == (Purpose.GRADIENT_NORM in agreed)
            assert row.options["reduces_overflow"] == (Purpose.OVERFLOW_FLAG in agreed)
        # stage 3 records in its first micro-step what it repeats from the second on
        if row.options["stage"] == 3:
            assert [one.options["trace"] for one in rows[:2]] == ["record", "complete"]
            # and of a micro-step without an update before it says what is not whole
            rest = [one.options | {"partitioned": []} for one in rows[2:]]
            assert rest == [rows[1].options | {"partitioned": []}] * len(rest)
            assert len(rest) == bool(rows[1].options["partitioned"])
            order = rows[-1].options["module_order"]
            assert order[: len(expected.MODULES)] == list(expected.MODULES)
            assert len(order) == 2 * len(expected.MODULES)
        else:
            assert len(rows) == 1


@pytest.mark.parametrize(("num_ranks", "name"), RUNS)
def test_law_trace_and_wire_agree_with_every_cause_named(trained, num_ranks, name):
    report = verify(load(trained[num_ranks][0] / name, strict=True))
    assert [verdict for verdict in report.verdicts if verdict.holds is False] == []
    assert report.holds is True
    (law,) = report.systems
    assert law.system == f"DeepSpeed stage {training.CASES[name]['zero_optimization']['stage']}"
    assert report.unexplained_wire == 0


@pytest.mark.parametrize(
    ("name", "says", "is_silent_about"),
    [
        ("stage 2", Cause.ALL_REDUCED, Cause.KEPT_PARAMETERS),
        ("stage 2, a reduce for each rank", Cause.PADDING, Cause.ALL_REDUCED),
        ("stage 3", Cause.KEPT_PARAMETERS, Cause.ALL_REDUCED),
        ("stage 3, keeps nothing", Cause.PADDING, Cause.KEPT_PARAMETERS),
        ("stage 3, no reduce-scatter", Cause.ALL_REDUCED, Cause.OVERFLOW_FLAG),
    ],
)
def test_what_is_not_the_law_has_its_cause(trained, name, says, is_silent_about):
    causes = {one.cause for one in verify(load(trained[2][0] / name, strict=True)).causes}
    assert says in causes
    assert is_silent_about not in causes


RECOMPUTED, TWICE, KEPT = Cause.RECOMPUTATION, Cause.USED_AGAIN, Cause.KEPT_PARAMETERS
ASKED, FEWER = Cause.ASKED_FOR, Cause.SMALLER_GROUP
CAUSES = {
    "tied": {KEPT},
    "tied, keeps nothing": {TWICE},
    "tied, fetched ahead": {KEPT},
    "external": set(),
    "external, small parameters persist": {KEPT},
    "external, fetched ahead": {KEPT},
    "external, registered": {KEPT},
    "external in the head": {TWICE},
    "external in the head, leaf modules": {KEPT},
    "handed out": {KEPT},
    "handed out, reused soon": {KEPT},
    "checkpoints": {RECOMPUTED},
    "checkpoints, reused soon": {RECOMPUTED, KEPT},
    "checkpoints that end early": {RECOMPUTED},
    "checkpoints that end early, reused soon": {RECOMPUTED, KEPT},
    "checkpoints that end early, fetched ahead": {KEPT},
    "leaf modules": set(),
    "leaf modules, fetched ahead": {KEPT},
    "leaf modules, reused soon": {KEPT},
    "small parameters let go": {KEPT},
    "parameters gathered": {ASKED},
    "parameters changed": {ASKED},
    "a collective after the step": {Cause.OUTSIDE},
    "hpZ": {FEWER},
    "hpZ, small parameters persist": {KEPT},
    "hpZ, two micro-steps, partly frozen": {FEWER},
    "hpZ, fetched ahead": {FEWER, KEPT},
}
"""Which of these causes a program's last step has, and no other of them."""


@pytest.mark.parametrize(
    ("num_ranks", "name"), [(ranks, name) for ranks, names in PROGRAMS.items() for name in names]
)
def test_programs_are_planned_to_the_byte(trained, num_ranks, name):
    report = verify(load(trained[num_ranks][0] / name, strict=True))
    assert [verdict for verdict in report.verdicts if verdict.holds is False] == []
    assert report.holds is True
    assert report.unexplained_trace == 0
    assert report.unexplained_wire == 0
    shared = training.NUM_TOKENS * training.WIDTH if name.startswith(("tied", "external")) else 0
    assert report.num_parameters == expected.PSI - shared
    found = {one.cause for one in report.causes}
    assert found & (set.union(*CAUSES.values())) == CAUSES[name]


def test_what_comes_after_the_engines_step_is_outside_of_it(trained):
    for rank in load(trained[2][0] / "a collective after the step", strict=True).ranks:
        own = [call for call in collectives(rank) if call.elements == 3 and call.iteration >= 0]
        assert [call.phase for call in own] == [Phase.OUTSIDE] * training.STEPS
        # and the engine's own, after its optimizer, is not
        gathered = [call for call in in_training(rank) if _gathers(call)]
        assert {call.phase for call in gathered} == {Phase.UPDATE}


def test_a_launched_program_is_traced_without_a_line_in_it(tmp_path):
    folder = tmp_path / "trace"
    program = Path(__file__).with_name("ds_train.py")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    launched = [*torchrun, "--master-port", str(free_port()), str(program)]
    done = subprocess.run(
        [sys.executable, "-m", "zerosim", "trace", "--out", str(folder), "--", *launched],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "trained to a loss of" in done.stdout
    trace = load(folder, strict=True)
    assert [rank.rank for rank in trace.ranks] == [0, 1]
    for rank in trace.ranks:
        sent = Counter((call.op, call.elements) for call in in_training(rank) if _gathers(call))
        # two layers, 8 * 16 + 16 and 16 + 1, padded for two ranks; three steps
        assert sent == {(Op.ALL_GATHER, 164): 3}
        assert {row.options["stage"] for row in rank.strategies} == {2}


WHOLE = (Role.PARAMETERS, Role.GATHERED, Role.GRADIENTS, *OPTIMIZER_STATES)


@pytest.mark.parametrize(
    ("name", "roles"),
    # gradients of stage 3 are in DeepSpeed's own buffers
    [("stage 0", WHOLE), ("stage 3, keeps nothing", (Role.PARAMETERS, Role.GATHERED))],
)
def test_each_frame_is_legal_and_holds_what_the_memory_ledger_has(trained, name, roles):
    trace = load(trained[2][0] / name)
    for iteration in (1, 2):
        subject = Subject(trace, iteration)
        frames = subject.frames()
        assert frames is not None, subject.notes
        assert frames.broken is None
        check_bytes(subject, frames, roles)
