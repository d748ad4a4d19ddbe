"""Facts of programs and pipelines: what the laws say by hand, and what the clocks allow."""

from __future__ import annotations

import pytest

from tests.lessons.committed import facts
from zerosim.base.errors import ConfigError
from zerosim.lessons.recordings import LessonRecordings, committed, is_profiled
from zerosim.schema.events import Algorithm, Kind, Op, Phase, Purpose
from zerosim.theory import cost
from zerosim.verify import Outcome

DATA_PARALLEL = {"ddp": 2, "ddp-zero": 3, "fsdp2": 3, "fsdp2-kept": 2}
PIPELINES = ("parallel/gpipe", "parallel/1f1b")


@pytest.mark.parametrize("name", DATA_PARALLEL)
def test_payloads_are_what_one_works_out_by_hand(name):
    run = f"profiles/{name}"
    root = facts().share_of(run, "root") if name == "fsdp2" else 0
    # the rest is what DDP tells the others of its buckets: a few bytes
    assert facts().asked(run) == pytest.approx(DATA_PARALLEL[name] - root, rel=1e-3)
    assert facts().in_model(facts().passed(run), run) == pytest.approx(facts().asked(run))
    ring = facts().on_ring(facts().asked(run), facts().num_ranks(run))
    assert facts().in_model(facts().ring(run), run) == pytest.approx(ring, rel=1e-3)


@pytest.mark.parametrize("name", DATA_PARALLEL)
def test_a_law_and_its_causes_are_what_the_first_rank_sends(name):
    run = f"profiles/{name}"
    causes = sum(size for _, size, _ in facts().why(run))
    added = facts().excess(run)  # by the backend's algorithm, on the wire
    found = facts()._report(run)
    beside = sum(
        row.sent[0].trace + row.sent[0].algorithm
        for row in found.rows
        if row.purpose is Purpose.METADATA
    )
    assert facts().law_sent(run) + causes == pytest.approx(facts().sent(run) + added - beside)
    assert found.total("kernel", 0) == facts().sent(run) + added + facts().framing(run)


def test_gloo_sends_a_reduce_scatter_twice_and_an_all_reduce_once():
    share = facts().on_ring(1, facts().num_ranks("profiles/ddp"))
    kept, data = "profiles/fsdp2-kept", "profiles/ddp"
    assert facts().in_model(facts().excess(kept), kept) == pytest.approx(share)
    assert facts().in_model(facts().excess(data), data) == pytest.approx(0, abs=1e-3)
    more = facts().counted(kept) - facts().counted(data)
    assert facts().in_model(more, kept) == pytest.approx(share, rel=0.02)  # frames apart


@pytest.mark.parametrize(
    "run",
    # on a card, ranks tell each other that they are there; a profile has no wire
    [run for run in committed() if is_profiled(run) and "-clock/" not in run],
)
def test_each_program_keeps_its_law_with_every_cause_named(run):
    assert facts()._report(run).outcome in (Outcome.AS_PREDICTED, Outcome.EXPLAINED)
    assert facts().unexplained(run) == 0


def test_all_runs_of_a_setting_have_one_model():
    for setting, names in {
        "parallel": ("ddp", "tensor-parallel", "gpipe", "1f1b"),
        "profiles": DATA_PARALLEL,
        "deepspeed": ("deepspeed-1", "deepspeed-3"),
    }.items():
        assert len({facts().model_psi(f"{setting}/{name}") for name in names}) == 1
    assert facts().model_psi("deepspeed/deepspeed-1") == facts().model_psi("profiles/ddp")


def test_tensor_parallel_sends_four_bsh_in_each_layer():
    run = "parallel/tensor-parallel"
    b, s, h = facts().shape(run, "blocks.0.mlp.0")
    config = facts()._run(run).trace.manifest.run
    assert b == config["batch"] * config["ranks"]
    blocks = facts().blocks(run)
    assert blocks == [f"blocks.{number}" for number in range(len(blocks))]
    for block in blocks:
        assert facts().called_bytes(run, "all-reduce", block) == 4 * b * s * h * 4
    assert facts().passed(run) == 2 * len(blocks) * 4 * b * s * h * 4
    assert facts().law_payloads(run) == facts().num_calls(run, "all-reduce") == 4 * len(blocks)
    assert [facts().cut(run, f"blocks.1.{each}") for each in ("mlp.0", "mlp.2")] == [
        "column",
        "row",
    ]


@pytest.mark.parametrize("run", PIPELINES)
def test_each_boundary_is_crossed_by_bsh_both_ways(run):
    b, s, h = facts().shape("parallel/tensor-parallel", "blocks.0.mlp.0")
    last = facts().num_ranks(run) - 1
    for rank in range(last):
        assert facts().sent_to(run, rank, rank + 1) == b * s * h * 4
        assert facts().sent_to(run, rank + 1, rank) == b * s * h * 4
    assert facts().last_stage(run) == str(last)
    assert facts().law_payloads(run) == facts().micro_batches(run)  # of the first rank


@pytest.mark.parametrize("run", PIPELINES)
def test_a_bubble_counted_in_slots_is_that_of_the_law(run):
    p, m = facts().num_ranks(run), facts().micro_batches(run)
    assert facts().idle_of_total(run) == pytest.approx((p - 1) / (m + p - 1))
    assert facts().bubble_of_total(run) == facts().idle_of_total(run)
    assert facts().bubble_of_ideal(run) == pytest.approx((p - 1) / m)
    assert facts().idle(run) == 2 * (p - 1)


def test_one_forward_one_backward_has_fewer_micro_batches_under_way():
    p, m = facts().num_ranks(PIPELINES[0]), facts().micro_batches(PIPELINES[0])
    assert [facts().under_way(PIPELINES[0], rank) for rank in range(p)] == [m] * p
    assert [facts().under_way(PIPELINES[1], rank) for rank in range(p)] == [
        min(m, p - rank) for rank in range(p)
    ]
    for rank in range(1, p):
        few, many = (facts().peak(run, rank, "activations") for run in reversed(PIPELINES))
        assert few <= many


@pytest.mark.parametrize("run", PIPELINES)
def test_slots_are_in_the_order_that_the_clocks_saw(run):
    """A stage begins with a micro-batch only after the stage before it did; backward likewise."""
    slots = facts().slots(run)
    begun = [
        _begun(LessonRecordings().run(run).trace.ranks[rank], facts(), run)
        for rank in range(len(slots))
    ]
    for rank, tasks in enumerate(slots):
        in_order = [task for _, task in sorted(tasks.items())]
        assert [begun[rank][task.label] for task in in_order] == sorted(begun[rank].values())
        for slot, task in tasks.items():
            other = rank - 1 if task.phase is Phase.FORWARD else rank + 1
            if 0 <= other < len(slots):
                before = next(at for at, each in slots[other].items() if each == task)
                assert before < slot
                assert begun[other][task.label] < begun[rank][task.label]


def _begun(rank, known, run):
    """When each task began, by the clock: the nth forward of a unit is the nth micro-batch's."""
    found, units, counts = {}, {}, {}
    for event in sorted(rank.events, key=lambda event: event.issue_ns):
        if event.kind is not Kind.COMPUTE or event.iteration != known._report(run).iteration:
            continue
        first = units.setdefault(event.phase, event.unit)
        if event.phase in (Phase.FORWARD, Phase.BACKWARD) and event.unit == first:
            counts[event.phase] = counts.get(event.phase, 0) + 1
            found[f"{event.phase.value[0].upper()}{counts[event.phase]}"] = event.issue_ns
    return found


def test_deepspeed_all_reduces_in_stage_1_and_keeps_small_parameters_in_stage_3():
    first, third = "deepspeed/deepspeed-1", "deepspeed/deepspeed-3"
    assert facts().num_calls(first, Op.REDUCE_SCATTER) == 0
    assert facts().asked(first) == pytest.approx(3, rel=1e-3)
    assert facts().asked(third) == pytest.approx(2, rel=1e-3)
    assert facts().persistent(third) == len(facts().elements(third))
    assert facts().num_calls(third, Op.ALL_GATHER, phase="update") == facts().persistent(third)
    assert sum(facts().elements(third)) == facts().model_psi(third)


@pytest.mark.parametrize(
    ("run", "early", "last"),
    [
        ("accumulate/stage-0", 0, 2),
        ("accumulate/stage-1", 0, 2),
        ("accumulate/stage-2", 1, 2),
        ("accumulate/stage-3", 3, 3),
        ("synced/stage-0", 2, 2),
        ("no-sync/stage-0", 0, 2),
    ],
)
def test_micro_steps_communicate_what_one_works_out_by_hand(run, early, last):
    found = [facts().payload_in(run, number) for number in range(facts().micro_steps(run))]
    assert found == pytest.approx([early, early, early, last], abs=1e-4)  # the loss, the buckets
    assert sum(found) == pytest.approx(facts().asked(run))


def test_what_gloo_sends_is_what_its_algorithms_say():
    run = "collectives/stage-0"
    assert facts().kernel_shares(run, "broadcast") == [3, 2, 1, 1, 0, 0, 0, 0]
    sends = [source for messages in facts().tree(8) for source, _ in messages]
    assert [sends.count(rank) for rank in range(8)] == facts().kernel_shares(run, "broadcast")
    assert sorted(target for one in facts().tree(6) for _, target in one) == [1, 2, 3, 4, 5]
    for op in (Op.BROADCAST, Op.SCATTER, Op.GATHER, Op.ALL_GATHER, Op.ALL_TO_ALL, Op.ALL_REDUCE):
        payload = facts().payload_bytes(run, op)
        for rank in range(facts().num_ranks(run)):
            by_theory = cost(Algorithm.GLOO, op, 8, rank, payload // 4, 4).sent_bytes / payload
            assert facts().kernel_share(run, op, rank) == pytest.approx(by_theory, abs=0.006)
            assert facts().kernel_bytes(run, op, rank) >= by_theory * payload
    with pytest.raises(ConfigError, match="measured alone"):
        facts().kernel_share("profiles/ddp", "all-reduce")


def test_a_tree_has_few_rounds_and_a_chain_few_bytes():
    assert [facts().rounds("tree", n) for n in (2, 8, 1000, 1024)] == [1, 3, 10, 10]
    assert facts().rounds("chain", 1024) == 1023
    at = facts().crossing_bytes(64, 10, 25)
    both = [facts().broadcast_us(each, 64, at, 10, 25) for each in ("tree", "chain")]
    assert both[0] == pytest.approx(both[1]) == 6 * 10 + 6 * at / 25e3
    for payload, faster in ((1 << 10, "tree"), (1 << 30, "ring")):
        times = {each: facts().nccl_us("dgx-a100", 8, payload, each) for each in ("tree", "ring")}
        assert min(times, key=times.get) == faster


def test_the_kernel_does_not_tell_a_programs_calls_apart():
    with pytest.raises(ConfigError, match="not measured call by call"):
        facts().wire("synced/stage-0")


def test_what_a_program_does_not_say_is_refused():
    with pytest.raises(ConfigError, match="says nothing of blocks"):
        facts().cut("profiles/ddp", "blocks.0")
    with pytest.raises(ConfigError, match="not the stages of a pipeline"):
        facts().slots("deepspeed/deepspeed-1")
