"""What PyTorch's data parallelism really sends: untouched programs, traced on 2 and 4 ranks."""

from collections import Counter, defaultdict
from dataclasses import replace
from functools import cache

import pytest

from tests.ranks import run_ranks
from tests.systems import programs
from tests.systems.models import WIDTH
from tests.systems.witness import NO_WITNESS, seen_by_witness
from zerosim.analysis.graph import build_graph, check_graph
from zerosim.record import load as read
from zerosim.schema.events import Kind, Op, Phase, Purpose
from zerosim.verify import Outcome, verify, verify_memory
from zerosim.view.replay.subject import Subject

pytestmark = pytest.mark.ranks

load = cache(read)
"""Several tests look at each trace."""
BLOCK, ROOT = 148, 57
PSI = 2 * BLOCK + ROOT
BLOCK_SHAPES = ((6,), (6,), (10, 6), (10,), (6, 10), (6,))
ROOT_SHAPES = ((6, 5), (6,), (3, 6), (3,))
NUM_PARAMETERS = 2 * len(BLOCK_SHAPES) + len(ROOT_SHAPES)

NAMES = {
    num_ranks: [
        name
        for name in programs.programs(num_ranks)
        if not any(part in name for part in NO_WITNESS)
    ]
    for num_ranks in (2, 4)
}
COMPILED = {2: ["ddp, compile", "fsdp2, compile"], 4: []}


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
        # which parameters are used is agreed on in the first iteration alone
        "ddp, buffers, static graph": {
            REDUCE: (1, 111),
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
        # `reshard_after_forward` as a number also applies to the root
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
            (Phase.UPDATE, Purpose.GATHER_PARAMETERS, Op.ALL_GATHER): (1, PSI + PSI % num_ranks),
        },
        # what its step has written on one rank goes to the others: still its update
        "hand-written, owners": {REDUCE: (NUM_PARAMETERS, PSI), update: (NUM_PARAMETERS, PSI)},
        # without an update an iteration is none the less one
        "skips, ddp": {REDUCE: (1, PSI)},
        "skips, fsdp2": fsdp2,
        # what is gathered before forward is called belongs to it
        "unshards, fsdp2": fsdp2,
        "with gradients, ddp": {REDUCE: (1, PSI)},
    }.get(name)


NORM_OF_TRAINED = {(Phase.UPDATE, Purpose.GRADIENT_NORM, Op.ALL_REDUCE): (1, NUM_PARAMETERS - 2)}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Folder and results by number of ranks and program; each start is made when first asked for.

    One start has all of `make test`, and another what runs later.
    """
    found = {}

    def run(num_ranks, name=""):
        is_later = is_late(num_ranks, name)
        if (num_ranks, is_later) not in found:
            folder = tmp_path_factory.mktemp(f"programs-{num_ranks}")
            names = [one for one in NAMES[num_ranks] if is_late(num_ranks, one) is is_later]
            # as PyTorch's examples have it, which name no backend
            named = {2: None, 4: "gloo"}[num_ranks]
            what = programs.run_all if is_later else programs.run_told_and
            names += [] if is_later else COMPILED[num_ranks]
            results = run_ranks(what, num_ranks, str(folder), names, backend=named)
            found[num_ranks, is_later] = folder, results
        return found[num_ranks, is_later]

    return run


def is_late(num_ranks, name):
    return name in programs.LATER[num_ranks]


def marked(cases):
    return [pytest.param(*case, marks=[pytest.mark.long] * is_late(*case)) for case in cases]


CASES = [(num_ranks, name) for num_ranks, names in NAMES.items() for name in names]
each_program = pytest.mark.parametrize(("num_ranks", "name"), marked(CASES))


def collectives(rank):
    return [event for event in rank.events if event.kind is Kind.COLLECTIVE]


@each_program
def test_weights_are_bit_equal_with_and_without_tracing(ran, num_ranks, name):
    for results in ran(num_ranks, name)[1]:
        assert results[name]["equal"]
        assert results[name]["trouble"] == ""


@each_program
def test_counts_are_those_of_comm_debug_mode(ran, num_ranks, name):
    folder, results = ran(num_ranks, name)
    for rank, seen in zip(load(folder / name, strict=True).ranks, results, strict=True):
        counts = Counter(call.op.value for call in collectives(rank) if call.op is not Op.BARRIER)
        assert counts == seen_by_witness(seen[name]["counts"])


@pytest.mark.parametrize(
    ("num_ranks", "name"),
    marked(case for case in CASES if expected(case[1], case[0]) is not None),
)
def test_payloads_are_the_closed_form_and_purposes_are_known(ran, num_ranks, name):
    for rank in load(ran(num_ranks, name)[0] / name).ranks:
        for iteration in range(1, programs.STEPS):
            assert summed(rank, iteration) == expected(name, num_ranks)


def summed(rank, iteration):
    """As `expected`; DDP makes its buckets anew in the second forward."""
    found = defaultdict(lambda: (0, 0))
    for call in collectives(rank):
        if call.op is Op.BARRIER:
            continue
        is_rebuilding = call.purpose is Purpose.METADATA and call.phase is Phase.FORWARD
        is_end = call.phase is Phase.OUTSIDE
        if call.iteration == iteration and not is_rebuilding and not is_end:
            count, elements = found[call.phase, call.purpose, call.op]
            found[call.phase, call.purpose, call.op] = count + 1, elements + call.elements
    return dict(found)


LAWS = {
    "ddp": "16Ψ",
    "ddp, accumulates": "16Ψ",
    "ddp, fp16 hook": "16Ψ",
    "ddp, frozen": "16Ψ",
    "ddp, buffers, unused": "16Ψ",
    "ddp, half the ranks": "16Ψ",
    "experts": "16Ψ",
    "zero redundancy": "8Ψ + 8Ψ/N",
    "zero redundancy, views": "8Ψ + 8Ψ/N",
    "fsdp2": "16Ψ/N",
    "fsdp2, bf16": "16Ψ/N",
    "fsdp2, frozen": "16Ψ/N",
    "fsdp2, no root": "16Ψ/N",
    "fsdp2, accumulates": "16Ψ/N",
    "fsdp2, keeps after backward": "16Ψ/N",
    "fsdp2, divided among two": "16Ψ/N",
    "hsdp": "16Ψ/N",
    "unshards, fsdp2": "8Ψ/N",
    "skips, fsdp2": "8Ψ/N",
    "language model, ddp": "16Ψ",
    "language model, fsdp2": "16Ψ/N",
    "fsdp1": "12Ψ/N",
    "fsdp1, flat": "12Ψ/N",
    "fsdp1, bf16": "12Ψ/N",
    "fsdp1, hybrid": "12Ψ/N",
    "fsdp1, no shard": "12Ψ",
    "evaluates, fsdp1": "8Ψ/N",
}
"""Of fp32 parameters, with AdamW, with momentum, or with neither."""


@pytest.mark.parametrize(("num_ranks", "name"), marked(case for case in CASES if case[1] in LAWS))
def test_model_states_are_the_law_of_the_system_to_the_byte(ran, num_ranks, name):
    """Computed from what each system says of itself, and held against the storages.

    The process has run the programs before it as well, some of which leave their models behind.
    """
    report = verify_memory(load(ran(num_ranks, name)[0] / name))
    assert (report.law, report.unexplained_bytes) == (LAWS[name], 0)
    assert report.verdicts[0].holds, report.verdicts[0].measured
    found = {cause.cause for cause in report.causes}
    assert ("unused parameters" in found) == ("unused" in name)
    assert found - {"unused parameters"} <= {
        "padding", "frozen parameters", "unequal parts of ranks", "replicated parameters",
    }  # fmt: skip
    beside = [note for note in report.notes if "calls but does not contain" in note]
    assert len(beside) == (num_ranks if name == "experts" else 0)


SHOWN = ("ddp", "fsdp1", "fsdp2", "hsdp", "fsdp1, hybrid", "ddp, half the ranks")


@each_program
def test_every_frame_of_a_replay_is_legal(ran, num_ranks, name):
    """Where it is not known what ranks hold, a note says why."""
    trace = read(ran(num_ranks, name)[0] / name)
    for iteration in range(programs.STEPS):
        subject = Subject(trace, iteration)
        frames = subject.frames()
        if frames is None:
            assert subject.notes
            assert name not in SHOWN
        else:
            assert frames.broken is None


def test_model_states_that_differ_are_a_claim_that_fails(ran):
    """As it would be if what was frozen had been trained."""
    trace = load(ran(2)[0] / "ddp, frozen")
    ranks = tuple(
        replace(rank, strategies=tuple(trained(one) for one in rank.strategies))
        for rank in trace.ranks
    )
    report = verify_memory(replace(trace, ranks=ranks))
    assert (report.holds, report.unexplained_bytes) == (False, 144)
    assert "does not keep 16Ψ bytes of model states on each rank: rank 0 keeps" in report.headline


def trained(strategy):
    bundles = tuple(
        replace(bundle, parameters=tuple(replace(p, trainable=True) for p in bundle.parameters))
        for bundle in strategy.bundles
    )
    return replace(strategy, bundles=bundles)


def test_frozen_layers_are_gathered_as_fsdp2_does_it(ran):
    """One ahead of each backward, so also the last of those that have none; no other."""
    trace = load(ran(2)[0] / "frozen below, fsdp2")
    report = verify(trace)
    assert (report.unexplained_trace, report.unexplained_wire) == (0, 0)
    # nothing is left over for a guess at what it was
    assert not any("backward recomputes" in cause.words for cause in report.causes)
    for rank in trace.ranks:
        gathered = {
            call.unit
            for call in collectives(rank)
            if call.iteration == 1
            and call.phase is Phase.BACKWARD
            and call.purpose is Purpose.GATHER_PARAMETERS
        }
        assert gathered == {"blocks.1", "blocks.2", "blocks.3"}


@each_program
def test_verify_explains_every_byte(ran, num_ranks, name):
    report = verify(load(ran(num_ranks, name)[0] / name))
    assert report.outcome is not Outcome.UNEXPLAINED, report.verdicts
    assert [verdict for verdict in report.verdicts if verdict.holds]
    has_two_optimizers = "adversaries" in name or "judge" in name
    num_steps = programs.STEPS * (2 if has_two_optimizers else 1)
    assert report.iterations == tuple(range(num_steps))


TOLD = {
    "beside ddp": (Outcome.EXPLAINED, "DDP sends 50.08Ψ(N-1)/N a step, not 2Ψ(N-1)/N: all-reduce"),
    "frozen, ddp": (Outcome.EXPLAINED, "DDP sends 0.01Ψ(N-1)/N a step, not 2Ψ(N-1)/N: 65,536 froz"),
    "frozen, fsdp2": (
        Outcome.EXPLAINED,
        "FSDP2 sends 2.01Ψ(N-1)/N + 0.01Ψ(N-1)/N for padding a step, n",
    ),
    "shards by hand": (
        None,
        "This program sends 2Ψ(N-1)/N a step, like ZeRO-1 or ZeRO-2 (2Ψ(N-1)/N)",
    ),
    "shards flat by hand": (None, "This program sends 2Ψ(N-1)/N a step, like ZeRO-1 or ZeRO-2"),
    "messages by hand": (
        None,
        "No known law covers the traffic of this program: 512 B (send",
    ),
    "Muon, fsdp2": (Outcome.EXPLAINED, "FSDP2 sends 9.13Ψ(N-1)/N a step, not 3Ψ(N-1)/N: Gloo"),
    "replicated": (
        Outcome.AS_PREDICTED,
        "FSDP2's replicate sends 2Ψ(N-1)/N a step, as the law of data parallel says.",
    ),
    "local SGD": (
        Outcome.EXPLAINED,
        "DDP sends 2Ψ(N-1)/N a step, as much as data parallel, but in a different way: DDP's",
    ),
    "PowerSGD": (Outcome.EXPLAINED, "DDP sends 0.90Ψ(N-1)/N a step, not 2Ψ(N-1)/N: DDP's"),
    "joins": (
        Outcome.AS_PREDICTED,
        "DDP sends 2Ψ(N-1)/N + 0.01Ψ(N-1)/N for metadata a step, as the law of data parallel says",
    ),
    "messages late": (
        Outcome.EXPLAINED,
        "DDP sends 2.04Ψ(N-1)/N + 0.05Ψ(N-1)/N for metadata a step, not 2Ψ(N-1)/N: send",
    ),
    "divided by hand": (
        None,
        "This program sends 2Ψ(N-1)/N a step, like data parallel (2Ψ(N-1)/N) among ranks 0, 2.",
    ),
}
"""What a headline begins with: its number is what was sent, and its sign agrees with that."""


@pytest.mark.parametrize("name", TOLD)
def test_the_headline_says_what_was_sent_and_by_whose_law(ran, name):
    report = verify(load(ran(4 if name == "divided by hand" else 2)[0] / name))
    outcome, headline = TOLD[name]
    assert report.headline.startswith(headline)
    assert report.outcome is outcome
    assert (report.unexplained_trace, report.unexplained_wire) == (0, 0)
    purposes = {row.purpose for row in report.rows}
    attributed = next(one for one in report.verdicts if one.id == "attributed")
    assert (attributed.measured == "every call has one") == (Purpose.UNLABELLED not in purposes)
    beyond = [wire.algorithm for wire in report.wires]
    assert any(beyond) == ("shards" in name or "fsdp2" in name)


def test_what_an_optimizer_calls_beside_the_law_is_named(ran):
    """Muon gathers rows and sums products of matrices; local SGD averages all parameters."""
    folder, _ = ran(2)
    by_muon, by_local = verify(load(folder / "Muon, fsdp2")), verify(load(folder / "local SGD"))
    called = {(row.purpose, row.op) for row in by_muon.rows if row.phase is Phase.UPDATE}
    assert called == {
        (Purpose.COMPUTE_UPDATE, Op.ALL_GATHER), (Purpose.COMPUTE_UPDATE, Op.ALL_REDUCE),
    }  # fmt: skip
    assert "compute the update: all-gather, 15 calls" in by_muon.headline
    assert "average parameters: all-reduce, 1 call: + 2Ψ(N-1)/N" in by_local.headline
    trace = load(folder / "local SGD")
    assert summed(trace.ranks[0], 2) == {
        REDUCE: (1, PSI), (Phase.UPDATE, Purpose.AVERAGE_PARAMETERS, Op.ALL_REDUCE): (1, PSI),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["PowerSGD", "joins"])
def test_who_names_no_unit_crosses_nobodys_order(ran, name):
    """A hook's callbacks run in the thread that ends a call; a rank in `join` names no bucket."""
    checks = check_graph(build_graph(load(ran(2)[0] / name)))
    assert [check.title for check in checks if not check.holds] == []


def test_what_is_under_way_when_an_iteration_ends_is_counted_in_the_next(ran):
    report = verify(load(ran(2)[0] / "messages late"))
    [wire] = [verdict for verdict in report.verdicts if verdict.id == "wire-is-trace"]
    assert wire.measured.startswith("0 B unexplained"), wire.measured
    # payload and header of the message before
    assert [one.under_way for one in report.wires] == [7 * 4 + 48, 0]
    assert "under way" in {cause.cause for cause in report.causes}


def test_a_static_graphs_map_of_used_parameters_is_metadata(ran):
    trace = load(ran(2)[0] / "ddp, buffers, static graph")
    for rank in trace.ranks:
        maps = [call for call in collectives(rank) if call.dtype == "int32"]
        [call] = [call for call in maps if call.op is Op.ALL_REDUCE]
        assert (call.iteration, call.phase, call.elements) == (0, Phase.BACKWARD, 8)
        assert call.purpose is Purpose.METADATA


@each_program
def test_computations_are_in_their_phases(ran, num_ranks, name):
    for rank in load(ran(num_ranks, name)[0] / name).ranks:
        spans = [event for event in rank.events if event.kind is Kind.COMPUTE]
        units = {span.unit for span in spans}
        blocks = {unit for unit in units if unit.startswith(("blocks.", "transformer.h."))}
        assert len(blocks) == (0 if "buffers" in name or "apart" in name else 2)
        for unit in blocks:
            phases = Counter(span.phase for span in spans if span.unit == unit)
            times = programs.STEPS * forwards_a_step(name)
            again = programs.STEPS if "with gradients" in name else 0
            assert phases[Phase.FORWARD] == times + again
            assert phases[Phase.BACKWARD] == times
        assert all(span.error == "" for span in spans)


def forwards_a_step(name):
    """Of its blocks; of two adversaries the one that learns in both of its iterations."""
    twice = ("no_sync", "accumulates", "reduces last", "after backward", "not the last", "advers")
    return 2 if any(part in name for part in twice) else 1


def test_a_reduction_belongs_to_the_backward_that_makes_it(ran):
    """In the judge's iteration only the judge is gone back through, in the generator's both are."""
    folder, _ = ran(2)
    judge = 3 * 4 + 4 + 4 + 1
    for rank in load(folder / "generator and judge, ddp").ranks:
        for iteration in range(2, 2 * programs.STEPS):
            reduced = [
                call.elements
                for call in collectives(rank)
                if call.iteration == iteration and call.purpose is Purpose.REDUCE_GRADIENTS
            ]
            assert sorted(reduced) == ([judge, PSI] if iteration % 2 else [judge])


def test_an_iteration_without_an_update_is_said(ran):
    for name in ("skips, ddp", "skips, fsdp2"):
        notes = verify(load(ran(2)[0] / name)).notes
        assert notes == ("iteration 1 ends without an update: its gradients were discarded",)


def test_a_hybrid_mesh_spans_all_its_ranks(ran):
    for name in ("hsdp", "fsdp1, hybrid"):
        for rank in load(ran(4)[0] / name).ranks:
            assert {one.ranks for one in rank.strategies} == {(0, 1, 2, 3)}


def test_the_backend_is_who_carries_the_calls(ran):
    """PyTorch calls that of the two ranks "undefined"."""
    trace = load(ran(2)[0] / "fsdp2")
    assert trace.manifest.backend == "gloo"
    report = verify(trace)
    for name in ("undefined", "none", "cpu:gloo,cuda:nccl"):
        before = replace(trace, manifest=replace(trace.manifest, backend=name))
        assert verify(before) == report
    assert (report.backend, report.algorithm) == ("gloo", "gloo")


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_tokens_travel_to_experts_in_unequal_parts(ran, num_ranks):
    folder, _ = ran(num_ranks)
    trace = load(folder / "experts")
    for rank in trace.ranks:
        sent, received = programs.routes(rank.rank, num_ranks)
        calls = [c for c in collectives(rank) if c.op is Op.ALL_TO_ALL and c.iteration == 1]
        phases = [Phase.FORWARD] * 3 + [Phase.BACKWARD] * 2
        assert [call.phase for call in calls] == phases
        counts, *others = calls
        assert counts.purpose is Purpose.METADATA
        assert (counts.parts, counts.received_parts) == ((), ())
        assert {call.purpose for call in others} == {Purpose.ACTIVATIONS}
        there = tuple(tuple(WIDTH * rows for rows in way) for way in (sent, received))
        # every rank has an empty part, but for the first of two: all send to it, and it to both
        assert (0 in there[0] + there[1]) is ((num_ranks, rank.rank) != (2, 0))
        # to the expert and back, and both ways again for the gradients
        assert [(call.parts, call.received_parts) for call in others] == [there, there[::-1]] * 2
    report = verify(trace)
    assert report.unexplained_wire == 0
    named = {cause.cause: cause.bytes for cause in report.causes}
    assert named["activations"] == sum(
        row.sent[0].overhead for row in report.rows if row.purpose is Purpose.ACTIVATIONS
    )


def test_a_freed_model_is_in_force_no_longer_and_two_have_names(tmp_path):
    folder = tmp_path / "several"
    run_ranks(programs.several_trainings, 2, str(folder))
    trace = load(folder)
    together, after = verify(trace, 1), verify(trace, 3)
    assert after.holds, after.verdicts
    assert [law.name for law in together.systems] == ["encoder", "decoder"]
    assert together.headline.startswith("DDP of encoder sends ")
    assert "DDP of decoder sends " in together.headline
    assert [law.system for law in after.systems] == ["FSDP2"]
    assert after.headline.startswith("FSDP2 sends ")


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


def test_compiled_programs_say_the_same(ran):
    folder, results = ran(2)
    for rank, result in enumerate(results):
        for name in COMPILED[2]:
            assert result[name]["equal"]
            assert result[name]["trouble"] == ""
            trace = load(folder / name)
            assert summed(trace.ranks[rank], 1) == expected(name, 2)
            assert verify(trace).holds
