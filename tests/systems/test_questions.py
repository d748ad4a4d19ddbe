"""What people asked about their programs, and what a specialist would have answered."""

import re
from functools import cache

import pytest

from tests.ranks import run_ranks
from tests.systems import programs_questions as programs
from zerosim.analysis.memory import timeline
from zerosim.record import load as read
from zerosim.schema.events import Op, Phase, Purpose
from zerosim.schema.memory import Moment, Role
from zerosim.theory import Cause
from zerosim.verify import Outcome, verify, verify_memory
from zerosim.verify.diagnosis import diagnose

pytestmark = pytest.mark.ranks

load = cache(read)
NAMES = {num_ranks: list(programs.programs(num_ranks)) for num_ranks in (2, 4)}
CASES = [(num_ranks, name) for num_ranks, names in NAMES.items() for name in names]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Traces by number of ranks and program."""
    folders = {}

    def run(num_ranks, name):
        if num_ranks not in folders:
            folder = tmp_path_factory.mktemp(f"questions-{num_ranks}")
            run_ranks(programs.run_all, num_ranks, str(folder), NAMES[num_ranks])
            folders[num_ranks] = folder
        return load(folders[num_ranks] / name)

    return run


@pytest.mark.parametrize(("num_ranks", "name"), CASES)
def test_no_byte_is_unexplained(ran, num_ranks, name):
    report = verify(ran(num_ranks, name))
    assert report.outcome is not Outcome.UNEXPLAINED, report.headline
    if report.systems:  # else nothing is predicted
        assert (report.unexplained_trace, report.unexplained_wire) == (0, 0)


def causes(report):
    return {one.cause for law in report.systems for one in law.causes if one.bytes}


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("ddp, one step unused", "layers.3.weight and layers.3.bias got"),
        ("ddp, unused later", "layers.2.weight and layers.2.bias got"),
    ],
)
def test_a_reduction_that_was_never_made_is_not_said_to_be_sent(ran, name, first):
    trace = ran(2, name)
    report = verify(trace)
    assert report.headline.startswith(f"DDP sends nothing a step, not 2Ψ(N-1)/N: {first} no grad")
    assert "bucket 0 was never full: no gradients were averaged" in report.headline
    assert report.outcome is Outcome.EXPLAINED
    found = diagnose(trace).headline
    assert f"ranks 0 and 1 did not reduce all gradients: {first} no gradient" in found
    assert "set find_unused_parameters=True" in found


def test_buckets_before_one_that_is_never_full_are_reduced(ran):
    report = verify(ran(2, "ddp, unused in a later bucket"))
    [law] = report.systems
    assert 0 < law.sent_bytes < law.law_bytes
    assert "bucket 2 was never full: only the buckets before it were reduced" in report.headline


def test_ddp_that_finds_unused_parameters_reduces_all(ran):
    trace = ran(2, "ddp, finds unused")
    assert verify(trace).headline.startswith("DDP sends 2Ψ(N-1)/N")
    assert "nothing is wrong" in diagnose(trace).headline


def test_what_ddp_is_told_to_ignore_is_no_matter_of_its_buckets(ran):
    report = verify(ran(2, "ddp, ignored"))
    told = "DDP is configured to ignore layers.1.weight and layers.1.bias (272 parameters)"
    assert report.headline.endswith(f"{told}: - 0.47Ψ(N-1)/N.")
    assert causes(report) == {Cause.NOT_REDUCED}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fsdp2, unused layer", "modules that forward does not call are neither gathered nor red"),
        ("fsdp2, unused in the root", "parameters that got no gradient are not reduced: - "),
        ("fsdp1, unused layer", "modules that forward does not call are neither gathered nor red"),
    ],
)
def test_what_forward_does_not_call_is_neither_gathered_nor_reduced(ran, name, words):
    report = verify(ran(2, name))
    assert words in report.headline
    assert Cause.UNUSED in causes(report)


def test_sums_that_are_all_reduced_over_the_replicas_in_the_last_micro_step(ran):
    report = verify(ran(4, "hybrid, all-reduced late"))
    assert report.headline.startswith("HSDP sends ")
    assert (
        "all-reduced over the replicas only where set_requires_all_reduce is on" in report.headline
    )
    assert Cause.NOT_REDUCED in causes(report)


@pytest.mark.parametrize(
    ("name", "law", "made"),
    [
        # a gather in each forward, in each return through one, and a reduction
        ("fsdp2, beside a reference", 5, "2 forwards and 1 backward through 2 of them"),
        ("fsdp2, three forwards", 7, "3 forwards and 1 backward through 3 of them"),
        # FSDP1 gathers once in backward, whatever comes back to it
        ("fsdp1, beside a reference", 4, "2 forwards and 1 backward"),
    ],
)
def test_each_model_has_its_line_and_only_a_recomputation_is_called_so(ran, name, law, made):
    report = verify(ran(2, name))
    trained, reference = report.systems
    assert (trained.payloads, reference.payloads) == (law, 1)
    assert f"of Layers ({made}) sends" in report.headline
    assert "of Layers 2 (1 forward without a backward) sends" in report.headline
    assert Cause.RECOMPUTATION not in causes(report)
    assert "backward recomputes" not in report.headline


NUM_PARAMETERS = 4 * (16 * 16 + 16) + 16 * 4 + 4


@pytest.mark.parametrize("name", ["fsdp2, accumulated", "fsdp1, accumulated"])
def test_gradients_that_a_system_keeps_between_micro_steps_have_a_role(ran, name):
    report = verify_memory(ran(2, name))
    size = f"4Ψ bytes of gradients that are not reduced yet ({4 * NUM_PARAMETERS:,} B)"
    told = f"when an update begins, as the law says, and between micro-steps {size}"
    assert told in report.headline


@pytest.mark.parametrize(
    ("name", "amount", "why"),
    [
        (
            "updated by hand",
            "1.50Ψ",
            "parameters are gathered with 2 B an element and kept with 4: - 0.50",
        ),
        (
            "updated by hand, reduced in bf16",
            "1.50Ψ",
            "gradients are reduced with 2 B an element, parameters gathered with 4: - 0.50Ψ(N-1)/N",
        ),
    ],
)
def test_an_update_by_hand_is_in_the_step_and_its_dtypes_are_causes(ran, name, amount, why):
    report = verify(ran(2, name))
    begin = f"This program sends {amount}(N-1)/N a step, like ZeRO-1 or ZeRO-2 (2Ψ(N-1)/N)"
    assert report.headline.startswith(begin)
    assert why in report.headline
    phases = {row.phase for row in report.rows if row.purpose is Purpose.UNLABELLED}
    assert phases == {Phase.BACKWARD, Phase.UPDATE}


def test_messages_between_steps_are_in_the_headline(ran):
    report = verify(ran(2, "messages between steps"))
    assert report.outcome is Outcome.EXPLAINED
    assert "not 2Ψ(N-1)/N: send without a recorded purpose, between two steps" in report.headline


@pytest.mark.parametrize(
    ("name", "who"),
    [
        ("messages to rank 0", "Rank 1 also sends 40,000 B (send without a recorded purpose"),
        (
            "messages at first",
            "In iteration 0 rank 1 also sends 40,000 B (send without a",
        ),
    ],
)
def test_messages_of_another_rank_or_iteration_are_in_the_headline(ran, name, who):
    report = verify(ran(2, name))
    assert report.headline.startswith(
        f"DDP sends 2Ψ(N-1)/N a step, as the law of data parallel says. {who}"
    )
    assert report.outcome is Outcome.EXPLAINED


@pytest.mark.parametrize("name", ["fsdp2, evaluates", "fsdp1, evaluates"])
def test_what_a_forward_without_gradients_sends_is_an_evaluations(ran, name):
    report = verify(ran(2, name))
    assert "Ψ(N-1)/N + Ψ(N-1)/N for evaluation a step, not 3Ψ(N-1)/N" in report.headline
    words = {one.cause: one.words for one in report.causes}
    gathered = "gather parameters, for a forward without gradients between two steps, 5 calls"
    assert words[Cause.EVALUATION] == gathered
    assert words[Cause.OUTSIDE] == "unlabelled, outside the step, 1 call"
    whys = {(one.purpose, one.why) for one in report.sources}
    assert (Purpose.GATHER_PARAMETERS, Cause.EVALUATION) in whys


def test_an_evaluation_that_sends_nothing_is_in_no_cause(ran):
    report = verify(ran(2, "ddp, evaluates"))
    assert report.headline == "DDP sends 2Ψ(N-1)/N a step, as the law of data parallel says."
    assert {one.cause for one in report.causes if one.bytes} & {Cause.EVALUATION} == set()


def test_who_has_no_more_data_keeps_up_with_the_others(ran):
    trace = ran(2, "ddp, joins")
    assert diagnose(trace).headline.startswith("nothing is wrong: ")
    assert verify(trace).headline == "DDP sends 2Ψ(N-1)/N a step, as the law of data parallel says."
    ends = [event for event in trace.ranks[0].events if event.iteration == programs.STEPS - 1]
    found = [(event.purpose, event.op) for event in ends if event.purpose is not None]
    # which rank trained last, and what it has: no initial state
    assert (Purpose.METADATA, Op.ALL_REDUCE) in found
    assert (Purpose.BROADCAST_PARAMETERS, Op.BROADCAST) in found
    assert Purpose.BROADCAST_STATE not in {purpose for purpose, _ in found}


def test_a_bucket_that_a_hook_compresses_is_a_buffer(ran):
    trace = ran(2, "ddp, compresses")
    assert verify_memory(trace).headline.endswith("as the law says.")
    line = timeline(trace.ranks[0])
    ends = [n for n, one in enumerate(line.samples) if one.phase is Phase.UPDATE]
    assert line.roles_at(ends[-1])[Role.BUFFERS] >= 4 * NUM_PARAMETERS


def test_an_optimizer_that_computes_within_its_step_updates_after_its_backwards(ran):
    report = verify_memory(ran(2, "ddp, searches"))
    assert "keeps 8Ψ bytes of model states on each rank, but: " in report.headline
    history = f"float32 [{NUM_PARAMETERS}]"  # directions and gradients of earlier steps
    assert history in report.headline


def test_an_average_of_the_weights_has_no_role(ran):
    report = verify_memory(ran(2, "ddp, averages"))
    assert f"float32 [{programs.WIDTH}, {programs.WIDTH}] {4 * 4 * programs.WIDTH**2:,} B" in (
        report.headline
    )


def test_a_number_of_no_stated_purpose_is_small_beside_the_model(ran):
    report = verify(ran(2, "ddp, norm by hand"))
    assert report.headline == "DDP sends 2Ψ(N-1)/N a step, as the law of data parallel says."
    assert report.outcome is Outcome.AS_PREDICTED
    [small] = [one for one in report.causes if one.cause == Cause.SMALL]
    assert "all-reduce without a recorded purpose" in small.words
    assert "programs_questions.py" in small.words


def test_gradients_that_are_used_at_once_are_not_there_when_the_update_begins(ran):
    report = verify_memory(ran(2, "fsdp2, updates in backward"))
    assert report.headline == (
        "This run of FSDP2 keeps 16Ψ/N bytes of model states on each rank, as the law says."
    )
    [unused] = [one for one in report.causes if one.cause == Cause.UNUSED]
    assert unused.bytes == -4 * NUM_PARAMETERS // 2
    assert unused.words.endswith(
        "backward computed none, or the program consumed the gradient at once"
    )


def test_gradients_that_a_program_moves_to_its_own_master_copy_have_no_role(ran):
    report = verify_memory(ran(2, "ddp, master by hand"))
    assert report.headline.startswith(
        "This run of data parallel (DDP) keeps 16Ψ bytes of model states on each rank, but: "
    )
    copies = 4 * 4 * programs.WIDTH**2
    assert f"float32 [{programs.WIDTH}, {programs.WIDTH}] {copies:,} B" in report.headline


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("fsdp2, checkpointed", "uint8 [5056] 20,224 B"),
        ("ddp, masked", "float32 [64, 64] 16,384 B"),
    ],
)
def test_what_a_program_keeps_beside_the_model_has_no_role(ran, name, kept):
    headline = verify_memory(ran(2, name)).headline
    assert "had no role on rank 0 when " in headline
    assert kept in headline


def test_what_a_hook_feeds_back_has_no_role(ran):
    headline = verify_memory(ran(2, "ddp, feeds back")).headline
    # another thread lets go of what it has just reduced: on a rank it may still be there
    found = re.search(r"had no role on rank [01] when .*: float32 \[(\d+)\] ([\d,]+) B", headline)
    assert found is not None, headline
    assert int(found[1]) == NUM_PARAMETERS
    assert int(found[2].replace(",", "")) in (4 * NUM_PARAMETERS, 8 * NUM_PARAMETERS)


def test_a_state_dict_that_is_gathered_between_steps_is_in_the_headline(ran):
    report = verify(ran(2, "fsdp2, saves"))
    assert "all-gather without a recorded purpose, between two steps" in report.headline


def test_quantized_values_are_no_metadata_and_scales_no_activations(ran):
    rank = ran(2, "quantized by hand").ranks[0]
    calls = [event for event in rank.events if event.op is Op.ALL_TO_ALL]
    assert calls
    assert {event.purpose for event in calls} == {Purpose.UNLABELLED}


def test_what_the_program_frees_after_forward_is_no_recomputation(ran):
    report = verify(ran(2, "fsdp2, freed by hand"))
    found = {one.cause for one in report.causes if one.bytes}
    assert {Cause.ASKED_FOR, Cause.KEPT_PARAMETERS} <= found
    assert Cause.RECOMPUTATION not in found
    assert "the program reshards the kept parameters after forward" in report.headline


def test_what_is_kept_after_backward_is_not_gathered_in_the_next_forward(ran):
    report = verify(ran(2, "fsdp2, kept after backward"))
    assert "parameters kept after backward" in report.headline
    assert "already whole when forward begins" in report.headline


@pytest.mark.parametrize(("name", "law"), [("ddp, hoards", "16Ψ"), ("fsdp2, hoards", "16Ψ/N")])
def test_what_a_program_hoards_has_no_role_and_is_in_the_headline(ran, name, law):
    report = verify_memory(ran(2, name))
    kept = f"float32 [64, {programs.CLASSES}] {4 * 64 * programs.CLASSES * programs.STEPS:,} B"
    assert f"keeps {law} bytes of model states on each rank, but: " in report.headline
    assert "as the law says" not in report.headline
    assert f"had no role on rank 0 when the update began in iteration 2: {kept}" in report.headline
    assert report.outcome is Outcome.EXPLAINED


@pytest.mark.parametrize("name", ["ddp, hoards", "fsdp2, hoards", "fsdp1, hoards"])
def test_weights_that_autograd_saves_are_no_activations(ran, name):
    line = timeline(ran(2, name).ranks[0])
    borders = [n for n, one in enumerate(line.samples) if one.moment is Moment.PHASE]
    begins = [n for n in borders if line.samples[n].phase is Phase.BACKWARD]
    inputs, outputs = 5 * 64 * programs.WIDTH, 64 * programs.CLASSES
    held = [line.roles_at(number)[Role.ACTIVATIONS] for number in begins]
    assert held == [4 * (inputs + outputs)] * programs.STEPS


LAYER = 4 * (programs.WIDTH + 1) * programs.WIDTH
HEAD = 4 * (programs.WIDTH + 1) * programs.CLASSES


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("fsdp2, hoards", HEAD + LAYER),  # the root is kept until backward is over
        ("fsdp1, hoards", 2 * LAYER),  # the next one is gathered ahead
    ],
)
def test_what_is_gathered_has_its_role_and_what_is_reduced_is_a_buffer(ran, name, most):
    line = timeline(ran(2, name).ranks[0])
    last = [n for n, one in enumerate(line.samples) if one.iteration == programs.STEPS - 1]
    in_backward = [n for n in last if line.samples[n].phase is Phase.BACKWARD]
    gathered = max(line.roles_at(number)[Role.GATHERED] for number in in_backward)
    assert gathered == most
    reduced = [
        line.roles_at(number)[Role.BUFFERS]
        for number in in_backward
        if (event := line.event_of(number)) is not None and event.op is Op.REDUCE_SCATTER
    ]
    assert min(reduced) >= HEAD + HEAD // 2  # what is given, and the part that comes of it


@pytest.mark.parametrize(
    ("name", "unused"),
    [
        ("ddp, finds unused", 1),
        ("ddp, unused later", 0),  # its gradient of the step before is there, all zeros
        ("fsdp2, unused layer", 1),
        ("fsdp1, unused layer", 1),
        ("fsdp2, unused in the root", 3),  # it never had a gradient, so nor has it states
    ],
)
def test_parameters_without_a_gradient_are_a_cause_of_what_a_rank_keeps(ran, name, unused):
    trace = ran(2, name)
    report = verify_memory(trace)
    law = "16Ψ" if name.startswith("ddp") else "16Ψ/N"
    assert f"keeps {law} bytes of model states on each rank, as the law says." in report.headline
    [size] = [one.bytes for one in report.causes if one.cause == Cause.UNUSED] or [0]
    assert size == -unused * LAYER // (1 if name.startswith("ddp") else 2)
    first = verify_memory(trace, iteration=0)
    assert first.outcome is Outcome.AS_PREDICTED
    assert not any(one.cause == "unexplained" for one in first.causes)


def test_where_all_has_a_role_the_headline_is_the_law(ran):
    report = verify_memory(ran(2, "ddp, finds unused"))
    assert report.headline.endswith("as the law says.")
