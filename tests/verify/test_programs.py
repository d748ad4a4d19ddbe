"""Programs that zerosim's engine did not run: the verdict names the law, and what is planted."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest

from tests.cli.command import command
from tests.theory.programs import (
    ddp,
    deepspeed,
    fsdp,
    layer,
    module,
    parameter,
    pipeline,
    tensor_parallel,
    zero,
)
from tests.verify.program_traces import SOURCE, Program, own_call
from zerosim.record import load
from zerosim.schema.events import Algorithm, Op, Phase, Purpose
from zerosim.schema.strategies import HAND_WRITTEN, Bundle, Strategy
from zerosim.theory import framing
from zerosim.verify import Report, verify
from zerosim.view.reading import Comparison

W, B = parameter("w", 12, 10), parameter("b", 8)
DDP = ddp(2, W, B)
FSDP2 = fsdp(2, module("root", B), module("a", W))


def report_of(program: Program, folder) -> Report:
    """Verify; the command line agrees."""
    report = verify(program.write(folder))
    assert report.systems
    answer = command("verify", folder)
    assert answer.code == (1 if report.holds is False else 0), answer
    assert " ".join(report.headline.split()) in " ".join(answer.out.split())
    assert json.loads(command("verify", folder, "--json").out)["headline"] == report.headline
    ledgers = report.law_bytes + sum((cause.bytes for cause in report.causes), Fraction(0))
    assert ledgers == report.total("kernel", 0), "the causes lead from the law to the wire"
    return report


def failed(report: Report) -> dict[str, str]:
    """The claims that are false, with what they say."""
    return {one.id: one.measured for one in report.verdicts if one.holds is False}


@pytest.mark.parametrize(
    ("strategies", "headline"),
    [
        ((DDP,), "DDP sends 2Ψ(N-1)/N a step, as the law of data parallel says."),
        (
            (DDP, zero(2, W, B)),
            (
                "DDP + ZeroRedundancyOptimizer sends 3Ψ(N-1)/N a step, not 2Ψ(N-1)/N: gradients "
                "are all-reduced, where a reduce-scatter would suffice, and the updated "
                "parameters are broadcast as well: + Ψ(N-1)/N."
            ),
        ),
        (
            (FSDP2,),
            (
                "FSDP2 sends 3.94Ψ(N-1)/N a step, not 3Ψ(N-1)/N: Gloo implements "
                "reduce-scatter as all-reduce: + Ψ(N-1)/N on the wire; root parameters kept after "
                "forward: - 0.06Ψ(N-1)/N."
            ),
        ),
    ],
    ids=["ddp", "zero", "fsdp2"],
)
def test_a_program_that_does_as_planned(tmp_path, strategies, headline):
    report = report_of(Program(*strategies), tmp_path)
    assert report.headline == headline
    assert report.holds
    assert failed(report) == {}
    assert report.unexplained_trace == report.unexplained_wire == 0
    assert report.sources == ()
    assert report.num_parameters == 128


def test_a_changed_law_flips_the_verdict(tmp_path):
    """The same calls under another plan: DDP in place of FSDP2."""
    program = Program(FSDP2)
    program.strategies = dict.fromkeys((0, 1), (DDP,))
    report = report_of(program, tmp_path)
    assert report.holds is False
    found = failed(report)
    assert found.keys() == {"law-0", "planned"}
    assert "planned but never made: 1 all-reduce of 512 B in backward" in found["law-0"]
    assert report.headline.startswith("DDP sends nothing a step instead of the planned 2Ψ(N-1)/N.")


def test_an_iteration_before_a_second_model_is_shown(tmp_path):
    """The claims are those of the last iteration, which has a law more."""
    second = replace(ddp(2, parameter("v", 6)), name="second", iteration=1)
    trace = Program(DDP, second).write(tmp_path)
    assert [len(verify(trace, iteration).systems) for iteration in (0, 1)] == [1, 2]
    claims = [one.id for one in verify(trace, 1).verdicts]
    assert [one.id for one in verify(trace, 0).verdicts] == claims
    assert {"law-0", "law-1"} <= set(claims)


@pytest.mark.parametrize("ranks", [(0,), (0, 1)], ids=["on one rank", "on both"])
def test_a_planned_call_that_is_missing(tmp_path, ranks):
    program = Program(FSDP2)
    program.drop(0, 2, ranks)
    found = failed(report_of(program, tmp_path))
    assert "rank 0, iteration 0: planned but never made" in found["planned"]
    assert ("matched" in found) == (len(ranks) == 1)
    shown = verify(load(tmp_path), 0)
    assert shown.unexplained_trace > 0


def test_a_call_too_many_of_a_planned_purpose_is_unexplained_and_named_by_its_line(tmp_path):
    program = Program(DDP)
    program.add(1, own_call(elements=7, purpose=Purpose.REDUCE_GRADIENTS))
    report = report_of(program, tmp_path)
    found = failed(report)
    assert found.keys() == {"planned"}
    assert "made but not planned: 1 all-reduce of 28 B" in found["planned"]
    assert found["planned"].partition(" (and ")[0].endswith(SOURCE)
    assert report.unexplained_trace == 28
    (source,) = report.sources
    assert (source.source, source.why, source.sent_bytes) == (SOURCE, "unexplained", 28)


def test_another_size_is_another_call(tmp_path):
    program = Program(DDP)
    program.change(1, 0, elements=129)
    found = failed(report_of(program, tmp_path))
    assert "planned but never made" in found["law-0"]
    assert "(and 3 more)" in found["planned"]  # each rank lacks one and has another


def test_the_phase_counts(tmp_path):
    program = Program(DDP)
    program.change(1, 0, phase=Phase.UPDATE)
    assert "planned" in failed(report_of(program, tmp_path))


def test_what_nobody_said_the_purpose_of_is_shown_by_its_line(tmp_path):
    program = Program(DDP)
    program.add(1, own_call(elements=128))
    report = report_of(program, tmp_path)
    assert report.holds
    assert failed(report) == {}
    verdict = next(one for one in report.verdicts if one.id == "attributed")
    assert verdict.holds is None
    assert verdict.measured == f"2 all-reduce at {SOURCE}, 1,024 B sent"
    cause = next(one for one in report.causes if one.cause == "not attributed")
    assert cause.bytes == 512
    assert SOURCE in cause.words
    assert SOURCE in command("verify", tmp_path).out


@pytest.mark.parametrize(
    ("purpose", "cause"),
    [
        (Purpose.GRADIENT_NORM, "gradient norm"),
        (Purpose.METADATA, "metadata"),
        (Purpose.AVERAGE_LOSS, "average loss"),
        (Purpose.SYNCHRONIZE, "synchronization"),
    ],
)
def test_what_no_law_speaks_of_has_a_name(tmp_path, purpose, cause):
    program = Program(DDP)
    op = Op.BARRIER if purpose is Purpose.SYNCHRONIZE else Op.ALL_REDUCE
    elements = 0 if op is Op.BARRIER else 3
    program.add(1, own_call(op, elements, purpose=purpose, phase=Phase.UPDATE))
    report = report_of(program, tmp_path)
    assert report.holds
    assert report.headline.endswith("as the law of data parallel says.")
    assert [one.why for one in report.sources] == [cause]


def test_an_evaluation_between_two_steps_is_no_part_of_either(tmp_path):
    program = Program(FSDP2)
    again = program.calls[1, 0][0][0]
    program.add(1, replace(again, phase=Phase.OUTSIDE))
    report = report_of(program, tmp_path)
    assert report.holds
    assert [one.why for one in report.sources] == ["outside of the step"]


def test_a_forward_that_is_computed_again_gathers_again(tmp_path):
    program = Program(FSDP2)
    gathers = [c for c, _ in program.calls[1, 0] if c.purpose is Purpose.GATHER_PARAMETERS]
    times = Counter(one.unit for one in gathers)
    root, divided = (next(c for c in gathers if times[c.unit] == count) for count in (1, 2))
    program.add(1, replace(divided, phase=Phase.BACKWARD))
    program.add(1, replace(root, phase=Phase.BACKWARD))
    report = report_of(program, tmp_path)
    assert report.holds
    # the root is kept after forward: recomputation would find it whole
    assert [one.why for one in report.sources] == ["recomputation", "asked for by the program"]


def test_what_a_hook_of_ddp_sends_is_named_and_not_planned(tmp_path):
    program = Program(ddp(2, W, B, comm_hook="powerSGD_hook"))
    program.add(1, own_call(elements=9, purpose=Purpose.REDUCE_GRADIENTS))
    report = report_of(program, tmp_path)
    assert report.holds
    assert "DDP's communication hook powerSGD_hook" in report.headline
    assert [one.why for one in report.sources] == ["communication hook"]


DEEPSPEED = deepspeed(
    2,
    3,
    Bundle(name="root", options={"persistent": []}),
    Bundle(name="a", parameters=(W,), options={"persistent": []}),
    Bundle(name="b", parameters=(B,), options={"persistent": []}),
)


@pytest.mark.parametrize("phase", [Phase.FORWARD, Phase.UPDATE, Phase.OUTSIDE])
def test_what_a_program_gathers_by_itself_has_its_name(tmp_path, phase):
    program = Program(DEEPSPEED)
    gather = Purpose.GATHER_PARAMETERS
    # as large as one that is planned, which it must not take the place of
    call = own_call(Op.ALL_GATHER, 120, purpose=gather, phase=phase, unit="GatheredParameters")
    program.add(1, call)
    report = report_of(program, tmp_path)
    assert report.holds
    assert failed(report) == {}
    assert [one.why for one in report.sources] == ["asked for by the program"]
    (cause,) = [one for one in report.causes if one.cause == "asked for by the program"]
    where = "outside the step" if phase is Phase.OUTSIDE else f"in {phase}"
    assert cause.words == (
        "whole parameters that the program requests (GatheredParameters): all-gather "
        f"{where}, 1 call"
    )


def test_an_option_without_a_plan_has_no_law_and_no_false_claim(tmp_path):
    program = Program(DEEPSPEED)
    quantized = replace(DEEPSPEED, options=DEEPSPEED.options | {"zero_quantized_weights": True})
    program.strategies = dict.fromkeys((0, 1), (quantized,))
    report = verify(program.write(tmp_path))
    assert command("verify", tmp_path).code == 0
    assert report.headline == (
        "DeepSpeed of 'model' quantizes gathered parameters (qwZ): there is no plan for "
        "zero_quantized_weights, so its traffic is shown without a check."
    )
    assert report.systems == ()
    assert failed(report) == {}
    planned = next(one for one in report.verdicts if one.id == "planned")
    assert planned.holds is None
    assert {one.why for one in report.sources} == {"no plan"}
    assert report.unexplained_trace == 0


def test_a_wire_that_sends_more_than_the_trace_says(tmp_path):
    program = Program(DDP)
    program.extra_wire_bytes = 1
    report = report_of(program, tmp_path / "little")
    assert report.unexplained_wire == 1
    assert report.holds  # below 0.2 %
    program.extra_wire_bytes = 20
    report = report_of(program, tmp_path / "much")
    assert failed(report).keys() == {"wire-is-trace"}
    assert "80 B unexplained of" in failed(report)["wire-is-trace"]


def test_a_call_that_is_made_while_the_counters_are_read(tmp_path):
    program = Program(DDP)
    program.is_early = True
    report = report_of(program, tmp_path / "early")
    assert report.holds
    assert report.unexplained_wire == 0
    cost = program.calls[1, 0][0][0].cost(0, Algorithm.GLOO)
    under_way = -cost.sent_bytes - framing("gloo", cost).sent_bytes
    assert report.wires[0].under_way == under_way  # of the iteration that is shown, the last
    program.extra_wire_bytes = 20
    assert failed(report_of(program, tmp_path / "more")).keys() == {"wire-is-trace"}


def test_two_strategies_have_a_law_each(tmp_path):
    other = replace(fsdp(2, module("a", parameter("w2", 4, 4))), name="second model")
    report = report_of(Program(DDP, other), tmp_path)
    assert report.holds
    assert [law.system for law in report.systems] == ["DDP", "FSDP2"]
    assert [law.law_bytes for law in report.systems] == [512, 3 * 32]
    assert report.headline.startswith(
        "DDP sends 2Ψ(N-1)/N a step, as the law of data parallel says. FSDP2"
    )
    assert {row.system for row in report.rows} == {"DDP", "FSDP2"}
    assert report.num_parameters == 0  # of two models there is no one Psi


def test_a_hand_written_program_is_likened_and_not_proved(tmp_path):
    own = Strategy(
        system=HAND_WRITTEN,
        name="model",
        ranks=(0, 1),
        bundles=(Bundle(name="model", parameters=(W, B)),),
    )
    program = Program(own)
    for iteration in range(2):
        for elements in (120, 8):
            program.add(iteration, own_call(elements=elements, purpose=Purpose.REDUCE_GRADIENTS))
    report = report_of(program, tmp_path)
    assert report.headline == (
        "This program sends 2Ψ(N-1)/N a step, like data parallel (2Ψ(N-1)/N)."
    )
    law = next(one for one in report.verdicts if one.id == "law-0")
    assert law.holds is None
    assert "no plan" in law.measured


def test_options_that_cannot_be_read_are_a_note_and_prove_nothing(tmp_path):
    program = Program(DDP)
    program.strategies = {rank: (ddp(2, W, B, buckets="many"),) for rank in (0, 1)}
    report = verify(program.write(tmp_path))
    assert report.holds is False
    assert "option 'buckets' of 'model' is 'many'" in report.notes[0]
    assert command("verify", tmp_path).code == 1


def test_received_bytes_have_their_own_table(tmp_path):
    Program(FSDP2).write(tmp_path)
    out = command("verify", tmp_path, "--received").out
    assert "bytes received by each rank" in out


def test_two_micro_steps_of_a_hand_written_program(tmp_path):
    own = Strategy(
        system=HAND_WRITTEN,
        name="model",
        ranks=(0, 1),
        bundles=(Bundle(name="model", parameters=(W, B)),),
    )
    program = Program(own)
    for micro_step in range(2):
        call = own_call(elements=128, purpose=Purpose.REDUCE_GRADIENTS)
        program.add(1, call, micro_step=micro_step)
    report = report_of(program, tmp_path)
    assert "4Ψ(N-1)/N a step, like data parallel, in each of 2 micro-steps" in report.headline
    program.add(1, own_call(elements=500, purpose=Purpose.REDUCE_GRADIENTS))
    report = report_of(program, tmp_path / "more")
    assert "which matches no known law; the closest is" in report.headline


def test_a_program_that_says_nothing_is_likened_by_its_memory(tmp_path):
    program = Program()
    program.parameter_bytes = 512
    for iteration in range(2):
        program.add(iteration, own_call(elements=128))
    report = report_of(program, tmp_path)
    assert report.headline == (
        "This program sends 2Ψ(N-1)/N a step, like data parallel (2Ψ(N-1)/N)."
    )
    assert report.num_parameters == 0


def test_a_pipelines_ranks_differ_and_its_bubble_is_shown_with_both_denominators(tmp_path):
    program = Program(by_rank=pipeline([0, 1], 4, (16, 8)))
    # of 100 ns each rank computes 40 and 30
    program.computations = [(0, 1000, 1040), (1, 1050, 1080), (1, 1060, 1070), (0, 1099, 1100)]
    report = report_of(program, tmp_path)
    assert (
        report.headline
        == "pipeline parallel sends 4b·s·h a step, as the law of pipeline parallel says."
    )
    assert report.holds
    bubble = next(one for one in report.verdicts if one.id == "bubble")
    assert bubble.holds is None
    assert bubble.formula == "(p-1)/m = 1/4 = 25.0 % of the ideal time, 20.0 % of the total"
    assert "does not compute for 64.5 % of iteration 1," in bubble.measured
    sends = next(row for row in report.rows if row.op is Op.SEND and row.phase is Phase.FORWARD)
    assert [cell.trace for cell in sends.sent] == [4 * 512, 0]


def test_a_pipeline_without_computations_says_so(tmp_path):
    report = report_of(Program(by_rank=pipeline([0, 1], 4, (16, 8))), tmp_path)
    bubble = next(one for one in report.verdicts if one.id == "bubble")
    assert bubble.measured == "computations were not recorded"


def test_a_message_to_the_wrong_stage_is_found(tmp_path):
    program = Program(by_rank=pipeline([0, 1], 2, (16, 8)))
    program.drop(1, 0, ranks=(0,))
    found = failed(report_of(program, tmp_path))
    assert "planned but never made: 1 send of 512 B in forward" in found["planned"]
    assert "matched" in found


def test_tensor_parallel_and_its_separate_inputs(tmp_path):
    report = report_of(Program(tensor_parallel(2, *layer((2, 4, 8), (2, 4, 32)))), tmp_path)
    assert report.headline == (
        "tensor parallel sends 6b·s·h 2(N-1)/N a step, not 4b·s·h 2(N-1)/N: the gradient of "
        "the input of q, k, v is all-reduced separately: + 2b·s·h 2(N-1)/N."
    )
    assert report.holds


def test_buckets_are_cut_as_the_system_likes_if_their_sum_is_planned(tmp_path):
    group = Bundle(name="group 0", parameters=(W, B), options={"padded_elements": 128})
    program = Program(deepspeed(2, 2, group))
    program.change(1, 0, elements=100)
    program.add(1, replace(program.calls[1, 0][0][0], elements=28))
    report = report_of(program, tmp_path / "cut")
    assert report.holds
    assert "(use_multi_rank_bucket_allreduce): + Ψ(N-1)/N" in report.headline
    reduced = next(row for row in report.rows if row.phase is Phase.BACKWARD)
    assert reduced.num_calls == 2
    program.add(1, replace(program.calls[1, 0][0][0], elements=1))
    found = failed(report_of(program, tmp_path / "more"))
    assert "planned but never made: 1 all-reduce of 512 B" in found["planned"]


def test_programs_are_compared_by_their_laws(tmp_path):
    first, second = Program(FSDP2).write(tmp_path / "a"), Program(DDP).write(tmp_path / "b")
    sides = Comparison([first, second]).sides
    assert [side.traffic_law for side in sides] == ["3Ψ(N-1)/N", "2Ψ(N-1)/N"]
    assert [side.num_parameters for side in sides] == [128, 128]
    assert sides[1].total_bytes == 512
    assert sides[1].wire_bytes == verify(second).total("kernel", 0)
    answer = command("compare", tmp_path / "a", tmp_path / "b")
    assert answer.code == 0
    assert "Compared with a, b sends 0.681 times as much" in answer.out


def test_ranks_of_a_pipeline_whose_laws_differ(tmp_path):
    report = report_of(Program(by_rank=pipeline([0, 1, 1], 4, (16, 8))), tmp_path)
    assert report.headline.startswith("pipeline parallel sends 4b·s·h to 12b·s·h a step, ")
    assert report.systems[0].formulas == ("4b·s·h", "12b·s·h")


def test_a_backend_whose_algorithm_is_not_known_is_held_to_the_bound_of_a_ring(tmp_path):
    """Its framing is not known, and nothing is measured: the calls are still verified."""
    program = Program(FSDP2)
    program.backend = Algorithm.OTHER.value
    report = verify(program.write(tmp_path))
    assert report.headline == (
        "FSDP2 sends 2.94Ψ(N-1)/N a step, not 3Ψ(N-1)/N: root parameters kept after forward: "
        "- 0.06Ψ(N-1)/N."
    )
    assert report.holds
    assert report.unexplained_wire is None
    wire = next(one for one in report.verdicts if one.id == "wire-is-trace")
    assert wire.holds is None
    program.drop(1, 0)
    assert "planned" in failed(verify(program.write(tmp_path / "less")))


def test_ddp_in_a_pipeline_reduces_the_first_micro_batch_too(tmp_path):
    stages = pipeline([0, 1], 2, (16, 8))
    program = Program(by_rank={rank: (*mine, DDP) for rank, mine in stages.items()})
    reduce = next(c for c, _ in program.calls[0, 0] if c.op is Op.ALL_REDUCE)
    program.add(0, reduce)
    program.write(tmp_path)
    report = verify(load(tmp_path), 0)
    assert report.holds
    (source,) = report.sources
    assert source.why == "gradients reduced again"
    program.add(1, reduce)
    assert verify(program.write(tmp_path / "later")).holds is False
