"""What PyTorch's data parallelism really sends: untouched programs, traced on 2 and 4 ranks."""

import os
from collections import Counter, defaultdict

import pytest

from tests.frameworks import programs
from tests.frameworks.witness import NO_WITNESS, seen_by_witness
from tests.ranks import run_ranks
from zerosim.events import Kind, Op, Phase, Purpose
from zerosim.record import load
from zerosim.verify import verify

pytestmark = pytest.mark.ranks

BLOCK, ROOT = 148, 57
PSI = 2 * BLOCK + ROOT
BLOCK_SHAPES = ((6,), (6,), (10, 6), (10,), (6, 10), (6,))
ROOT_SHAPES = ((6, 5), (6,), (3, 6), (3,))
NUM_PARAMETERS = 2 * len(BLOCK_SHAPES) + len(ROOT_SHAPES)

VARIANTS = {
    "ddp, frozen",
    "ddp, own hook",
    "ddp, buffers, no_sync",
    "fsdp2, no root",
    "fsdp2, reentrant",
    "fsdp2, not the last backward",
    "fsdp1, flat",
    "fsdp1, shards gradients, no_sync",
    "hand-written, asynchronous",
    "language model, checkpoints",
}
"""They show again what others show, and are left out where time is short."""
NAMES = {
    num_ranks: [
        name
        for name in programs.programs(num_ranks)
        if not any(part in name for part in NO_WITNESS)
        and not (name in VARIANTS and os.environ.get("CI"))
    ]
    for num_ranks in (2, 4)
}


def padded(shapes, num_ranks):
    """FSDP2 divides the rows of each parameter."""
    total = 0
    for rows, *others in shapes:
        count = -(-rows // num_ranks) * num_ranks
        for size in others:
            count *= size
        total += count
    return total


def flat(shapes, num_ranks, aligned_to=1):
    """FSDP1 lays parameters one behind the other, each aligned, and pads the whole."""
    total = 0
    for shape in shapes:
        total += -total % aligned_to
        count = 1
        for size in shape:
            count *= size
        total += count
    return total + -total % num_ranks


GATHER = {
    phase: (phase, Purpose.GATHER_PARAMETERS, Op.ALL_GATHER)
    for phase in (Phase.FORWARD, Phase.BACKWARD)
}
SCATTER = (Phase.BACKWARD, Purpose.REDUCE_GRADIENTS, Op.REDUCE_SCATTER)
REDUCE = (Phase.BACKWARD, Purpose.REDUCE_GRADIENTS, Op.ALL_REDUCE)
NORM = {(Phase.UPDATE, Purpose.GRADIENT_NORM, Op.ALL_REDUCE): (1, NUM_PARAMETERS)}
LOSS = {(Phase.BACKWARD, Purpose.AVERAGE_LOSS, Op.ALL_REDUCE): (1, 1)}


def sharded(block, root, *, kept=("root",), micro_steps=1):
    """A block or root gathered in forward, in backward unless it is kept, and reduced."""
    again = (0 if "blocks" in kept else 2, 0 if "root" in kept else 1)
    calls = {
        GATHER[Phase.FORWARD]: (3 * micro_steps, micro_steps * (2 * block + root)),
        SCATTER: (3 * micro_steps, micro_steps * (2 * block + root)),
    }
    if any(again):
        size = again[0] * block + again[1] * root
        calls[GATHER[Phase.BACKWARD]] = (micro_steps * sum(again), micro_steps * size)
    return calls


def expected(name, num_ranks):
    """Calls of an iteration and their elements, by phase, purpose and op."""
    block, root = padded(BLOCK_SHAPES, num_ranks), padded(ROOT_SHAPES, num_ranks)
    old_block, old_root = flat(BLOCK_SHAPES, num_ranks), flat(ROOT_SHAPES, num_ranks)
    fsdp2 = sharded(block, root)
    both = sharded(block, root, micro_steps=2)
    last = {**both, SCATTER: fsdp2[SCATTER]}
    old = sharded(old_block, old_root)
    aligned = sharded(flat(BLOCK_SHAPES, num_ranks, 4), flat(ROOT_SHAPES, num_ranks, 4))
    aligned_16 = sharded(flat(BLOCK_SHAPES, num_ranks, 8), flat(ROOT_SHAPES, num_ranks, 8))
    kept = sharded(old_block, old_root, kept=("root", "blocks"))
    update = (Phase.UPDATE, Purpose.GATHER_PARAMETERS, Op.BROADCAST)
    by_hand = {REDUCE: (NUM_PARAMETERS, PSI), **LOSS}
    return {
        "ddp": {REDUCE: (1, PSI)},
        "ddp, buffers, unused": {
            REDUCE: (1, 111),
            (Phase.BACKWARD, Purpose.METADATA, Op.ALL_REDUCE): (1, 8),
            (Phase.FORWARD, Purpose.BROADCAST_BUFFERS, Op.BROADCAST): (2, 6 + 6 + 1),
        },
        "ddp, frozen": {REDUCE: (1, PSI - 36)},
        "ddp, no_sync": {REDUCE: (1, PSI)},
        "ddp, accumulates": {REDUCE: (2, 2 * PSI)},
        "ddp, fp16 hook": {REDUCE: (1, PSI)},
        "ddp, own hook": {REDUCE: (1, PSI)},
        "ddp, watched": {REDUCE: (1, PSI)},
        "ddp, built-in hook": {REDUCE: (1, PSI)},
        # the evaluation broadcasts the buffers, and the forward after it does not
        "ddp, buffers, evaluates": {
            REDUCE: (1, 111),
            (Phase.BACKWARD, Purpose.METADATA, Op.ALL_REDUCE): (1, 8),
        },
        "ddp, half the ranks": {REDUCE: (1, PSI)},
        "ddp, compile": {REDUCE: (1, PSI)},
        "zero redundancy": {REDUCE: (1, PSI), update: (NUM_PARAMETERS, PSI)},
        "zero redundancy, views": {REDUCE: (1, PSI), update: (num_ranks, PSI)},
        "fsdp2": fsdp2 | NORM,
        "fsdp2, compile": fsdp2 | NORM,
        "fsdp2, bf16": fsdp2 | NORM,
        "fsdp2, keeps after forward": sharded(block, root, kept=("root", "blocks")) | NORM,
        "fsdp2, root divided again": sharded(block, root, kept=()) | NORM,
        "fsdp2, no root": {
            GATHER[Phase.FORWARD]: (2, 2 * block),
            SCATTER: (2, 2 * block),
        },
        # the stem is gathered with the root, and has no gradient to reduce
        "fsdp2, frozen": {**fsdp2, SCATTER: (3, 2 * block + root - 36)} | NORM_OF_TRAINED,
        "fsdp2, checkpoints": fsdp2 | NORM,
        "fsdp2, reentrant": fsdp2 | NORM,
        "fsdp2, accumulates": both,
        "fsdp2, reduces last": last,
        # whole from the first backward to the second forward, which divides all but the root
        "fsdp2, keeps after backward": {**fsdp2, GATHER[Phase.BACKWARD]: (4, 4 * block)},
        "fsdp2, not the last backward": both,
        # who says how parameters are divided after forward says it of the root too
        "fsdp2, divided among two": sharded(block, root, kept=()) | NORM,
        "fsdp1": aligned | {(Phase.UPDATE, Purpose.GRADIENT_NORM, Op.ALL_REDUCE): (1, 1)},
        "fsdp1, flat": old,
        "fsdp1, bf16": aligned_16,
        "fsdp1, shards gradients": kept,
        "fsdp1, no shard": {REDUCE: (3, PSI)},
        "fsdp1, no_sync": {
            **sharded(old_block, old_root, micro_steps=2),
            SCATTER: old[SCATTER],
        },
        "fsdp1, shards gradients, no_sync": kept,
        # the root is whole since the evaluation
        "evaluates, fsdp2": {**fsdp2, GATHER[Phase.FORWARD]: (2, 2 * block)},
        "evaluates, fsdp1": {**old, GATHER[Phase.FORWARD]: (2, 2 * old_block)},
        "hand-written": by_hand,
        "hand-written, coalesced": {REDUCE: (1, PSI), **LOSS},
        "hand-written, flattened": {
            (Phase.BACKWARD, Purpose.UNLABELLED, Op.ALL_REDUCE): (1, PSI),
            **LOSS,
        },
        "hand-written, asynchronous": by_hand,
        "hand-written, overlaps": by_hand,
        "hand-written, half the ranks": by_hand,
        "hand-written, flat ZeRO": {
            SCATTER: (1, PSI + PSI % num_ranks),
            (Phase.OUTSIDE, Purpose.GATHER_PARAMETERS, Op.ALL_GATHER): (1, PSI + PSI % num_ranks),
        },
    }.get(name)


NORM_OF_TRAINED = {(Phase.UPDATE, Purpose.GRADIENT_NORM, Op.ALL_REDUCE): (1, NUM_PARAMETERS - 2)}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Folder and results by number of ranks; each number is started once, when first asked for."""
    found = {}

    def run(num_ranks):
        if num_ranks not in found:
            folder = tmp_path_factory.mktemp(f"programs-{num_ranks}")
            found[num_ranks] = (
                folder,
                run_ranks(programs.run_all, num_ranks, str(folder), NAMES[num_ranks]),
            )
        return found[num_ranks]

    return run


CASES = [(num_ranks, name) for num_ranks, names in NAMES.items() for name in names]
each_program = pytest.mark.parametrize(("num_ranks", "name"), CASES)


def collectives(rank):
    return [event for event in rank.events if event.kind is Kind.COLLECTIVE]


@each_program
def test_weights_are_bit_equal_with_and_without_tracing(ran, num_ranks, name):
    for results in ran(num_ranks)[1]:
        assert results[name]["equal"]
        assert results[name]["trouble"] == ""


@each_program
def test_counts_are_those_of_comm_debug_mode(ran, num_ranks, name):
    folder, results = ran(num_ranks)
    for rank, seen in zip(load(folder / name, strict=True).ranks, results, strict=True):
        counts = Counter(call.op.value for call in collectives(rank) if call.op is not Op.BARRIER)
        assert counts == seen_by_witness(seen[name]["counts"])


@pytest.mark.parametrize(
    ("num_ranks", "name"), [case for case in CASES if expected(case[1], case[0]) is not None]
)
def test_payloads_are_the_closed_form_and_purposes_are_known(ran, num_ranks, name):
    for rank in load(ran(num_ranks)[0] / name).ranks:
        for iteration in range(1, programs.STEPS):
            assert summed(rank, iteration, name) == expected(name, num_ranks)


def summed(rank, iteration, name):
    """As `expected`; DDP makes its buckets anew in the second forward."""
    found = defaultdict(lambda: (0, 0))
    for call in collectives(rank):
        if call.op is Op.BARRIER:
            continue
        is_rebuilding = call.purpose is Purpose.METADATA and call.phase is Phase.FORWARD
        is_end = call.phase is Phase.OUTSIDE and "flat ZeRO" not in name
        if call.iteration == iteration and not is_rebuilding and not is_end:
            count, elements = found[call.phase, call.purpose, call.op]
            found[call.phase, call.purpose, call.op] = count + 1, elements + call.elements
    return dict(found)


@each_program
def test_verify_explains_every_byte(ran, num_ranks, name):
    report = verify(load(ran(num_ranks)[0] / name))
    assert report.holds, [verdict for verdict in report.verdicts if verdict.holds is False]
    assert [verdict for verdict in report.verdicts if verdict.holds]
    num_steps = programs.STEPS * (2 if "adversaries" in name else 1)
    assert report.iterations == tuple(range(num_steps))


@each_program
def test_computations_are_in_their_phases(ran, num_ranks, name):
    for rank in load(ran(num_ranks)[0] / name).ranks:
        spans = [event for event in rank.events if event.kind is Kind.COMPUTE]
        units = {span.unit for span in spans}
        blocks = {unit for unit in units if unit.startswith(("blocks.", "transformer.h."))}
        assert len(blocks) == (0 if "buffers" in name else 2)
        for unit in blocks:
            phases = Counter(span.phase for span in spans if span.unit == unit)
            times = programs.STEPS * forwards_a_step(name)
            assert phases[Phase.FORWARD] == times
            assert phases[Phase.BACKWARD] == times
        assert all(span.error == "" for span in spans)


def forwards_a_step(name):
    """Of its blocks; of two adversaries the one that learns in both of its iterations."""
    twice = ("no_sync", "accumulates", "reduces last", "after backward", "not the last", "advers")
    return 2 if any(part in name for part in twice) else 1


def test_tensors_are_named(ran):
    folder, _ = ran(2)
    rank = load(folder / "language model, fsdp2").ranks[0]
    gathers = [call for call in collectives(rank) if call.purpose is Purpose.GATHER_PARAMETERS]
    assert {call.unit for call in gathers} == {"root", "transformer.h.0", "transformer.h.1"}
    for call in gathers:
        assert call.tensors
        prefix = "" if call.unit == "root" else call.unit
        assert all(tensor.startswith(prefix) for tensor in call.tensors)
    assert "transformer.wte.weight" in {name for call in gathers for name in call.tensors}
    by_hand = load(folder / "hand-written, overlaps").ranks[0]
    reduced = [call for call in collectives(by_hand) if call.purpose is Purpose.REDUCE_GRADIENTS]
    assert reduced[0].tensors == ("head.bias",)
    assert all(len(call.tensors) == 1 for call in reduced)


def test_a_copy_of_gradients_is_shown_by_its_line(ran):
    rank = load(ran(2)[0] / "hand-written, flattened").ranks[0]
    unknown = [
        call
        for call in collectives(rank)
        if call.purpose is Purpose.UNLABELLED and call.phase is Phase.BACKWARD
    ]
    assert len(unknown) == programs.STEPS
    assert {call.tensors for call in unknown} == {()}
    assert all(call.source.endswith("in flattened") for call in unknown)


def test_half_precision_is_in_the_dtypes(ran):
    folder, _ = ran(2)
    dtypes = {
        name: {
            call.op: call.dtype
            for call in collectives(load(folder / name).ranks[0])
            if call.iteration == 1 and call.phase is Phase.BACKWARD
        }
        for name in ("ddp, fp16 hook", "fsdp2, bf16", "fsdp1, bf16")
    }
    mixed = {Op.ALL_GATHER: "bfloat16", Op.REDUCE_SCATTER: "float32"}
    assert dtypes == {
        "ddp, fp16 hook": {Op.ALL_REDUCE: "float16"},
        "fsdp2, bf16": mixed,
        "fsdp1, bf16": mixed,
    }


@pytest.mark.slow
def test_compiled_programs_say_the_same(tmp_path):
    names = ["ddp, compile", "fsdp2, compile"]
    results = run_ranks(programs.run_all, 2, str(tmp_path), names, deadline_s=300)
    for rank, result in enumerate(results):
        for name in names:
            assert result[name]["equal"]
            assert result[name]["trouble"] == ""
            trace = load(tmp_path / name)
            assert summed(trace.ranks[rank], 1, name) == expected(name, 2)
            assert verify(trace).holds
