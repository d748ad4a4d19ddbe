"""Tensor parallelism by `parallelize_module`, untouched, alone and with others, 2 and 4 ranks."""

from collections import Counter
from functools import partial

import pytest
import torch

from tests.held import check_bytes
from tests.ranks import run_ranks
from tests.systems import programs_parallel as programs
from tests.systems.witness import OPS, run_twice, seen_by_witness
from zerosim.record import load
from zerosim.schema.events import Kind, Op, Phase, Purpose
from zerosim.schema.memory import OPTIMIZER_STATES, Role
from zerosim.verify import verify, verify_memory
from zerosim.view.replay.subject import Subject

pytestmark = pytest.mark.ranks

ALONE = {
    "tensor": programs.tensor,
    "shared input": partial(programs.tensor, shares_input=True),
    "checkpointed": partial(programs.tensor, checkpointed=True),
    "accumulated": partial(programs.tensor, micro_steps=2),
    "exchanged": programs.exchanged,
    "sequence": programs.sequence,
    "sequence, SGD": partial(programs.sequence, optimizer=torch.optim.SGD),
    "sequence, clipped": partial(programs.sequence, clip=True),
}
TOGETHER = {"and DDP": programs.tensor_and_ddp, "and FSDP2": programs.tensor_and_fsdp2}
BSH = programs.BATCH * programs.SEQUENCE * programs.HIDDEN
BSV = programs.BATCH * programs.SEQUENCE * programs.VOCABULARY
L = programs.LAYERS
REDUCE, GATHER, SCATTER = Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER
FORWARD, BACKWARD = Phase.FORWARD, Phase.BACKWARD

MEGATRON = {(FORWARD, REDUCE): 2 * L * BSH, (BACKWARD, REDUCE): 2 * L * BSH}
"""4 b s h a layer."""
SEPARATE = MEGATRON | {(BACKWARD, REDUCE): 4 * L * BSH}
"""Query, key and value each sum the gradient of the same input: 2 b s h more in backward."""
SEQUENCE = {
    (FORWARD, GATHER): (2 * L + 1) * BSH + BSV,
    (FORWARD, SCATTER): (2 * L + 1) * BSH,
    (BACKWARD, GATHER): (2 * L + 1) * BSH,
    (BACKWARD, SCATTER): (2 * L + 1) * BSH,
}
"""Each all-reduce in two halves; embedding and head besides, with the logits made whole."""
ELEMENTS = {
    "tensor": SEPARATE,
    "shared input": MEGATRON,
    # a block is computed again until all is there that its backward needs: not its last sum
    "checkpointed": SEPARATE | {(BACKWARD, REDUCE): (4 + 1) * L * BSH},
    "accumulated": {key: 2 * elements for key, elements in SEPARATE.items()},
    # twice in an MLP, four times as wide; on a CPU DTensor gathers, and keeps its own part
    "exchanged": SEPARATE | {(FORWARD, GATHER): 8 * L * BSH, (BACKWARD, GATHER): 8 * L * BSH},
    "sequence": SEQUENCE,
    "sequence, SGD": SEQUENCE,
    "sequence, clipped": SEQUENCE,
    "and DDP": SEPARATE,
    "and FSDP2": SEPARATE,
}
"""Activations that a step communicates, closed forms."""
NUM_NORM_PARAMETERS = 2 * (2 * L + 1)
"""Weight and bias of two norms a layer and of the last."""


NAMES = {2: tuple(ALONE), 4: ("tensor", *TOGETHER)}
"""On four ranks what could differ from two, and what needs as many."""


def run_all(names, folder):
    return {name: run_twice(name, (ALONE | TOGETHER)[name], folder) for name in names}


@pytest.fixture(
    scope="module",
    params=[
        *NAMES.items(),
        pytest.param((4, ("tensor", "sequence")), marks=pytest.mark.long),
    ],
    ids=lambda given: f"{given[0]} ranks, {len(given[1])} programs",
)
def runs(request, tmp_path_factory):
    num_ranks, names = request.param
    folder = tmp_path_factory.mktemp(f"tensor{num_ranks}")
    results = run_ranks(run_all, num_ranks, names, str(folder), backend="cpu:gloo")
    return results, {name: load(folder / name) for name in names}


def calls_of(rank):
    return [event for event in rank.events if event.kind is Kind.COLLECTIVE]


def test_it_trains_the_same_bits(runs):
    results, _ = runs
    for one in results:
        for name, seen in one.items():
            assert (name, seen["equal"], seen["trouble"]) == (name, True, "")


def test_calls_are_those_that_the_witness_saw(runs):
    results, traces = runs
    for name, trace in traces.items():
        for rank in trace.ranks:
            traced = Counter(event.op.value for event in calls_of(rank) if event.op.value in OPS)
            assert traced == seen_by_witness(results[rank.rank][name]["counts"]), name


def test_theory_says_every_call_and_the_kernel_every_byte(runs):
    _, traces = runs
    for name, trace in traces.items():
        report = verify(trace)
        found = (report.holds, report.unexplained_trace, report.unexplained_wire)
        assert found == (True, 0, 0), f"{name}: {report.to_plain()}"


def test_every_call_has_a_purpose(runs):
    _, traces = runs
    for name, trace in traces.items():
        for rank in trace.ranks:
            nameless = [one for one in calls_of(rank) if one.purpose is Purpose.UNLABELLED]
            assert not nameless, name


def test_who_waits_for_activations_is_seen_to_wait(runs):
    """DTensor waits for a tensor, not for a work, in C++."""
    _, traces = runs
    for name, trace in traces.items():
        for rank in trace.ranks:
            waited = Counter(event.parent for event in rank.events if event.kind is Kind.WAIT)
            for event in calls_of(rank):
                if event.purpose is Purpose.ACTIVATIONS:
                    assert (event.end_ns is not None, waited[event.id]) == (True, 1), name


def test_activations_of_a_step(runs):
    _, traces = runs
    for name, trace in traces.items():
        for rank in trace.ranks:
            for iteration in range(programs.STEPS):
                elements = Counter()
                for event in calls_of(rank):
                    if event.iteration == iteration and event.purpose is Purpose.ACTIVATIONS:
                        elements[event.phase, event.op] += event.elements
                assert elements == ELEMENTS[name], name


READS = {"sequence": 3, "sequence, SGD": 1, "sequence, clipped": 3}
"""AdamW reads a gradient three times: for one average, and twice for its square."""


def test_who_reads_the_gradient_of_a_norm_completes_it(runs):
    """An optimizer as often as it reads it; clipping for its norm, then one sum of all norms."""
    _, traces = runs
    for name in set(READS) & set(traces):
        for rank in traces[name].ranks:
            updates = [event for event in calls_of(rank) if event.phase is Phase.UPDATE]
            found = Counter(event.purpose for event in updates)
            expected = Counter({Purpose.REDUCE_GRADIENTS: READS[name] * NUM_NORM_PARAMETERS})
            if "clipped" in name:
                expected[Purpose.GRADIENT_NORM] = NUM_NORM_PARAMETERS + 1
            assert found == {key: programs.STEPS * times for key, times in expected.items()}, name
            row = [one for one in rank.strategies if one.system == "tensor parallel"][-1]
            assert len(row.options["partial_gradients"]) == NUM_NORM_PARAMETERS


def test_parameters_are_handed_out_before_the_first_step(runs):
    _, traces = runs
    for name, trace in traces.items():
        for rank in trace.ranks:
            handed = [one for one in calls_of(rank) if one.op is Op.SCATTER]
            assert handed, name
            for event in handed:
                assert event.purpose is Purpose.BROADCAST_STATE
                assert event.iteration == -1


def test_what_is_divided_is_said_whole(runs):
    _, traces = runs
    trace = traces["tensor"]
    whole = [programs.BATCH, programs.SEQUENCE, programs.HIDDEN]
    wide = [*whole[:2], 4 * programs.HIDDEN]
    for rank in trace.ranks:
        row = next(one for one in rank.strategies if one.system == "tensor parallel")
        assert row.ranks == tuple(range(len(trace.ranks)))
        said = {
            bundle.name: (
                bundle.options["style"],
                bundle.options["input_shape"],
                bundle.options["output_shape"],
                bundle.parameters[0].shape,
            )
            for bundle in row.bundles
        }
        square = (programs.HIDDEN, programs.HIDDEN)
        assert said["blocks.0.attention.q"] == ("column", whole, whole, square)
        assert said["blocks.1.mlp.up"][:3] == ("column", whole, wide)
        assert said["blocks.1.mlp.down"] == ("row", wide, whole, (programs.HIDDEN, wide[2]))


def test_each_system_works_within_its_own_groups(runs):
    """On a mesh of two by two, rows divide layers, and columns divide or repeat the rest."""
    _, traces = runs
    of_parameters = (Purpose.REDUCE_GRADIENTS, Purpose.GATHER_PARAMETERS)
    for name, trace in traces.items():
        for rank in trace.ranks:
            everyone, number = set(range(len(trace.ranks))), rank.rank
            row = {number // 2 * 2, number // 2 * 2 + 1} if name in TOGETHER else everyone
            column = {number % 2, number % 2 + 2} if name in TOGETHER else everyone
            for event in calls_of(rank):
                if event.purpose is Purpose.ACTIVATIONS:
                    assert set(rank.groups[event.group].ranks) == row
                elif event.purpose in of_parameters:
                    assert set(rank.groups[event.group].ranks) == column


def test_a_rank_keeps_its_part_of_what_is_divided(runs):
    """Beside the law all that is whole: norms, and the gradient of a divided embedding."""
    _, traces = runs
    for name in set(traces) - set(TOGETHER):
        report = verify_memory(traces[name])
        assert (report.holds, report.unexplained_bytes) == (True, 0), (name, report.headline)
        assert {cause.cause for cause in report.causes} == {"replicated parameters"}
        assert report.law == ("8Ψ/N" if "SGD" in name else "16Ψ/N")


ROLES = (Role.PARAMETERS, Role.GRADIENTS, Role.GATHERED, *OPTIMIZER_STATES)


def test_each_frame_is_legal_and_holds_what_the_memory_ledger_has(runs):
    """Columns and rows of matrices, alone, beside copies of them, and divided again."""
    _, traces = runs
    for trace in traces.values():
        for iteration in range(programs.STEPS):
            subject = Subject(trace, iteration)
            frames = subject.frames()
            assert frames is not None, subject.notes
            assert frames.broken is None
            check_bytes(subject, frames, ROLES)
