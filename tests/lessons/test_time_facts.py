"""Facts of time, of the ledgers and of loss scaling are what zerosim's own commands say."""

from __future__ import annotations

import pytest

import zerosim
from tests.lessons import committed
from tests.lessons.committed import said
from zerosim.lessons.recordings import COMMITTED

TIMED = ("overlap/stage-3", "serial/stage-3", "slow/stage-3")


@pytest.fixture(scope="module")
def facts():
    return committed.facts()


@pytest.mark.parametrize("run", TIMED)
def test_times_are_those_of_zerosim_graph(facts, run):
    graph = said("graph", run)
    path = graph["critical_path"]
    assert facts.took_ms(run) == path["duration_ns"] / 1e6
    for cause, ns in path["by_cause_ns"].items():
        assert facts.path_share(run, cause) == ns / path["duration_ns"]
    budgets = graph["budgets"]
    for name in ("wall", "compute", "exposed", "waiting", "other", "hidden"):
        fact = getattr(facts, f"{name}_ms")
        assert fact(run) == sum(each[f"{name}_ns"] for each in budgets) / 1e6
        for rank in range(facts.num_ranks(run)):
            own = [each for each in budgets if each["rank"] == rank]
            assert fact(run, rank) == sum(each[f"{name}_ns"] for each in own) / 1e6
            for each in own:
                assert fact(run, rank, each["phase"]) == each[f"{name}_ns"] / 1e6
    waited = {
        rank: sum(each["waited_ns"] for each in graph["waited"] if each["for_rank"] == rank)
        for rank in range(facts.num_ranks(run))
    }
    assert {rank: facts.waited_ms(run, rank) * 1e6 for rank in waited} == pytest.approx(waited)
    assert int(facts.straggler(run)) == max(waited, key=waited.get)


def test_the_slow_rank_is_waited_for_and_the_other_waits(facts):
    assert facts.straggler("slow/stage-3") == facts.path_rank("slow/stage-3") == "1"
    assert facts.waits_most("slow/stage-3") == "0"


def test_without_overlap_nothing_is_hidden(facts):
    assert facts.hidden_ms("serial/stage-3") == facts.overlap("serial/stage-3") == 0
    assert facts.overlap("overlap/stage-3") > 0
    longer = facts.stands_longer("overlap/stage-3", "serial/stage-3")
    assert longer == max(TIMED[:2], key=facts.exposed_ms)


@pytest.mark.parametrize("run", ["ring/stage-2", "native/stage-0", "native/stage-3"])
def test_ledgers_are_those_of_zerosim_verify(facts, run):
    report = said("verify", run)
    sent = [row["sent"][0] for row in report["rows"]]
    assert facts.theory(run) == sum(row["theory"] for row in sent)
    assert facts.excess(run) == sum(row["algorithm"] for row in sent)
    assert facts.framing(run) == sum(row["framing"] for row in sent)
    assert facts.wire(run) == facts.theory(run) + facts.excess(run) + facts.framing(run)
    assert facts.unexplained(run) == 0
    assert facts.keeps_law(run) is (report["outcome"] == "as predicted")
    causes = sum(size for _, size, _ in facts.causes(run))
    assert facts.law_sent(run) + causes == facts.wire(run)


def test_laws_in_psi_are_those_of_the_paper(facts):
    assert [facts.law_psi(stage) for stage in range(4)] == [2, 2, 2, 3]
    assert [facts.law_psi(stage, 4) for stage in range(4)] == [2, 2, 5, 12]
    assert facts.as_payload(facts.on_ring(3, 4), 4) == 3


def test_who_sees_what_a_collective_sends(facts):
    assert facts.witness("ring/stage-2", "reduce-scatter") == "trace"
    assert facts.witness("native/stage-2", "reduce-scatter") == "wire"
    assert facts.witness("ring/stage-2", "all-to-all") == "nobody"


def test_numbers_are_rounded_to_the_nearest_that_a_dtype_has(facts):
    assert facts.rounded(1.001, "bf16") == 1.0
    assert facts.rounded(1 + 2**-8, "bf16") == 1.0  # as near to one as to the next: the even one
    assert facts.rounded(1 + 3 * 2**-8, "bf16") == 1 + 2**-6
    assert facts.rounded(-1.005, "bf16") == -1 - 2**-7
    assert facts.rounded(1.001, "fp16") == 1 + 2**-10
    assert facts.rounded(1e-8, "fp16") == 0
    assert facts.rounded(1.5, "fp32") == 1.5


def test_numbers_are_rounded_as_torch_does(facts):
    torch = pytest.importorskip("torch")
    kinds = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
    generator = torch.Generator().manual_seed(0)
    for value in torch.randn(200, generator=generator).tolist():
        for dtype, kind in kinds.items():
            assert facts.rounded(value, dtype) == torch.tensor(value, dtype=kind).item()


def test_formats_hold_what_torch_says(facts):
    torch = pytest.importorskip("torch")
    kinds = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
    for dtype, kind in kinds.items():
        found = torch.finfo(kind)
        assert facts.spacing(dtype) == found.eps
        assert facts.largest(dtype) == found.max
        assert facts.smallest(dtype) == found.smallest_normal * found.eps


def test_a_weight_goes_on_only_with_a_master(facts):
    assert facts.updated(0.001, 1000, "bf16") == 1
    assert facts.updated(0.001, 1000, "fp32") == pytest.approx(2, rel=1e-4)
    assert [facts.updates_until_seen(0.001, each) for each in ("bf16", "fp16", "fp32")] == [4, 1, 1]


def test_what_is_gathered_ahead(facts):
    assert facts.units_at_once("overlap/stage-3") == 2  # one computes, one is on its way
    assert facts.units("overlap/stage-3")[0] == "embedding"
    assert facts.config("overlap/stage-3", "prefetch") == 1


def test_an_overflow_halves_the_scale_and_nobody_updates(facts):
    run = "fp16/stage-2"
    skipped = facts.skipped(run)
    assert skipped
    for iteration in facts.iterations(run):
        updating = facts.updating_ranks(run, iteration)
        assert updating == ([] if iteration in skipped else list(range(facts.num_ranks(run))))
        if iteration + 1 in facts.iterations(run):
            factor = 2 if iteration in skipped else 1
            assert facts.scale(run, iteration + 1) == facts.scale(run, iteration) / factor
    gathers = [facts.sent_in(run, one, "gather parameters") for one in facts.iterations(run)]
    assert [one for one, sent in enumerate(gathers) if not sent] == skipped
    whole = ["reduce gradients", "overflow flag", "compute", "gather parameters"]
    assert in_order(run, 0, whole) == whole
    assert in_order(run, skipped[0], whole) == whole[:2]


def in_order(run, iteration, wanted):
    """What rank 0 does of some things in an iteration, each where it does it first."""
    table = zerosim.load(COMMITTED / run).events(
        rank=0, iteration=iteration, phase=("backward", "update"), kind=("collective", "compute")
    )
    done = [
        "compute" if row["kind"] == "compute" and row["phase"] == "update" else row["purpose"]
        for row in table
    ]
    return [each for each in dict.fromkeys(done) if each in wanted]
