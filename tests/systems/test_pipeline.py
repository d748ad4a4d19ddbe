"""Pipeline parallelism from `torch.distributed.pipelining`, untouched, on 2 and 4 ranks."""

from collections import Counter
from dataclasses import replace
from functools import cache, partial

import pytest
import torch.distributed as dist

from tests.held import check_bytes
from tests.ranks import run_ranks
from tests.systems import programs_parallel as programs
from tests.systems.messages import run_with_messages
from zerosim.analysis.frames import play
from zerosim.record import load as read
from zerosim.schema.events import Kind, Op, Phase, Purpose
from zerosim.schema.memory import OPTIMIZER_STATES, Role
from zerosim.verify import verify, verify_memory
from zerosim.view.replay.subject import Subject

pytestmark = pytest.mark.ranks

PROGRAMS = {
    "GPipe": programs.gpipe,
    "1F1B": programs.one_forward_one_backward,
    "Interleaved1F1B": programs.interleaved,
    "static shapes": partial(programs.one_forward_one_backward, static=True),
    "evaluated": partial(programs.gpipe, evaluates=True),
}
SHARDED = "stages divided by FSDP2"
STAGES_A_RANK = Counter({"Interleaved1F1B": 2})
BSH_BYTES = 4 * programs.BATCH * programs.SEQUENCE * programs.HIDDEN
CALLS = {Op.SEND: "isend", Op.RECEIVE: "irecv"}
load = cache(read)
"""Several tests look at each trace."""


NAMES = {2: tuple(PROGRAMS), 4: ("1F1B", "Interleaved1F1B", "evaluated")}
"""On four ranks, of which two stand in the middle, what could differ from two."""


def run_all(folder):
    names = NAMES[dist.get_world_size()]
    found = {name: run_with_messages(name, PROGRAMS[name], folder) for name in names}
    if dist.get_world_size() == 4:
        found[SHARDED] = run_with_messages(SHARDED, programs.pipeline_of_shards, folder)
    return found


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Results and folder by number of ranks; each number is started once, when first asked for."""
    found = {}

    def run_(num_ranks):
        if num_ranks not in found:
            folder = tmp_path_factory.mktemp(f"pipeline{num_ranks}")
            found[num_ranks] = run_ranks(run_all, num_ranks, str(folder)), folder
        return found[num_ranks]

    return run_


@pytest.fixture(scope="module", params=NAMES)
def traces(request, ran):
    _, folder = ran(request.param)
    return {name: load(folder / name) for name in NAMES[request.param]}


def test_stages_that_fsdp2_divides_are_gathered_whenever_they_were_freed(ran):
    """The forward that finds shapes gathers too: that is no evaluation, and set-up."""
    results, folder = ran(4)
    assert [(one[SHARDED]["equal"], one[SHARDED]["trouble"]) for one in results] == [(True, "")] * 4
    trace = load(folder / SHARDED)
    report = verify(trace)
    assert (report.holds, report.unexplained_trace, report.unexplained_wire) == (True, 0, 0)
    for rank in trace.ranks:
        gathers = Counter(
            (event.unit, event.phase)
            for event in calls_of(rank)
            if event.purpose is Purpose.GATHER_PARAMETERS and event.iteration > 0
        )
        # A block is freed after its forward, and after the step's last backward alone. So the
        # first stage, F F B F B F B B, gathers for its first two forwards and three backwards,
        # and the last, F B F B F B F B, for the first forward and each backward.
        is_last = rank.rank >= 2
        block = "0" if is_last else "1"
        assert gathers == {
            (block, Phase.FORWARD): 1 if is_last else 2,
            (block, Phase.BACKWARD): 4 if is_last else 3,
            ("root", Phase.FORWARD): 1,
        }


@pytest.fixture(
    params=[(num_ranks, name) for num_ranks, names in NAMES.items() for name in names],
    ids=lambda param: "-".join(map(str, param)),
)
def run(request, ran):
    """A program's name, what the witness saw on each rank, its trace."""
    num_ranks, name = request.param
    results, folder = ran(num_ranks)
    return name, [one[name] for one in results], load(folder / name)


def calls_of(rank):
    return [event for event in rank.events if event.kind is Kind.COLLECTIVE]


def in_steps(rank):
    return [event for event in calls_of(rank) if event.phase in (Phase.FORWARD, Phase.BACKWARD)]


def test_it_trains_the_same_bits(run):
    _, seen, _ = run
    assert [(one["equal"], one["trouble"]) for one in seen] == [(True, "")] * len(seen)


def test_messages_are_those_that_the_witness_saw(run):
    _, seen, trace = run
    for rank, witness in zip(trace.ranks, seen, strict=True):
        traced = Counter(
            (CALLS[event.op], event.peers[0], event.payload_bytes)
            for event in calls_of(rank)
            if event.op in CALLS
        )
        assert traced == witness["messages"]


def test_theory_says_every_call_and_the_kernel_every_byte(run):
    _, _, trace = run
    report = verify(trace)
    assert (report.holds, report.unexplained_trace, report.unexplained_wire) == (True, 0, 0)


def test_every_call_has_a_purpose_and_every_message_an_end(run):
    _, _, trace = run
    for rank in trace.ranks:
        calls = calls_of(rank)
        assert not [event for event in calls if event.purpose is Purpose.UNLABELLED]
        assert not [event for event in calls if event.op in CALLS and event.end_ns is None]
        assert not rank.unfinished


def test_bsh_for_each_micro_batch_and_boundary(run):
    """Each stage but the last sends its output on, each but the first a gradient back."""
    name, _, trace = run
    num_stages = len(trace.ranks) * (STAGES_A_RANK[name] or 1)
    for rank in trace.ranks:
        own = range(rank.rank, num_stages, len(trace.ranks))
        for iteration in range(programs.STEPS):
            sent = Counter()
            for event in in_steps(rank):
                if event.iteration == iteration and event.op is Op.SEND:
                    sent[event.purpose, event.phase] += event.payload_bytes
            num_next = sum(index + 1 < num_stages for index in own)
            num_before = sum(index > 0 for index in own)
            expected = {
                (Purpose.SEND_ACTIVATIONS, Phase.FORWARD): num_next,
                (Purpose.SEND_GRADIENTS, Phase.BACKWARD): num_before,
            }
            assert sent == {
                key: programs.NUM_MICROBATCHES * BSH_BYTES * number
                for key, number in expected.items()
                if number
            }


def test_a_message_says_its_stage_and_micro_batch(run):
    _, _, trace = run
    for rank in trace.ranks:
        strategy = next(one for one in rank.strategies if one.system == "pipeline parallel")
        own = {bundle.name for bundle in strategy.bundles}
        places = Counter(
            (event.iteration, event.unit, event.purpose, event.op, event.micro_step)
            for event in in_steps(rank)
        )
        assert {unit for _, unit, *_ in places} <= own
        # each once: no micro-batch twice, none left out
        assert set(places.values()) == {1}
        assert {place[-1] for place in places} == set(range(programs.NUM_MICROBATCHES))


def test_what_stages_agree_on_is_set_up(run):
    _, _, trace = run
    for rank in trace.ranks:
        setup = [event for event in calls_of(rank) if event.phase is Phase.SETUP]
        assert setup
        assert {event.purpose for event in setup} == {Purpose.METADATA}


def test_each_rank_says_its_stages(traces):
    for name, trace in traces.items():
        num_ranks = len(trace.ranks)
        num_stages = num_ranks * (STAGES_A_RANK[name] or 1)
        for rank in trace.ranks:
            [strategy] = [one for one in rank.strategies if one.system == "pipeline parallel"]
            assert (strategy.iteration, strategy.micro_step) == (0, 0)
            assert strategy.options["num_stages"] == num_stages
            assert strategy.num_parameters == sum(
                one.elements for bundle in strategy.bundles for one in bundle.parameters
            )
            assert strategy.options["ranks_by_stage"] == [
                index % num_ranks for index in range(num_stages)
            ]
            assert [bundle.options["index"] for bundle in strategy.bundles] == list(
                range(rank.rank, num_stages, num_ranks)
            )


def test_forward_and_backward_alternate(traces):
    """1F1B: from the first backward on, the first rank goes forward and back by turns."""
    trace = traces["1F1B"]
    first = [event for event in trace.ranks[0].events if event.kind is Kind.COMPUTE]
    seen = [
        (event.phase, event.micro_step)
        for event in first
        if event.iteration == 0 and event.phase in (Phase.FORWARD, Phase.BACKWARD)
    ]
    order = list(dict.fromkeys(seen))
    warm = len(trace.ranks)
    last = programs.NUM_MICROBATCHES
    steady = [(Phase.FORWARD, number) for number in range(warm)]
    for number in range(last - warm):
        steady += [(Phase.BACKWARD, number), (Phase.FORWARD, warm + number)]
    steady += [(Phase.BACKWARD, number) for number in range(last - warm, last)]
    assert order == steady


def test_an_evaluation_belongs_to_no_step(traces):
    for rank in traces["evaluated"].ranks:
        outside = [event for event in calls_of(rank) if event.phase is Phase.OUTSIDE]
        sent = [event for event in outside if event.op in CALLS]
        assert {event.purpose for event in sent} == {Purpose.SEND_ACTIVATIONS}
        assert len(sent) == programs.STEPS * programs.NUM_MICROBATCHES * (
            (rank.rank > 0) + (rank.rank < len(traces["evaluated"].ranks) - 1)
        )


@pytest.mark.parametrize("name", ["GPipe", "1F1B", "Interleaved1F1B"])
def test_a_rank_keeps_the_states_of_its_own_stages(ran, name):
    report = verify_memory(load(ran(2)[1] / name))
    assert (report.law, report.holds, report.unexplained_bytes) == ("16Ψ/N", True, 0)
    assert {cause.cause for cause in report.causes} == {"unequal parts of ranks"}


ROLES = (Role.PARAMETERS, Role.GRADIENTS, *OPTIMIZER_STATES)


def test_each_frame_is_legal_and_holds_what_the_memory_ledger_has(run):
    _, _, trace = run
    for iteration in range(programs.STEPS):
        subject = Subject(trace, iteration)
        frames = subject.frames()
        assert frames is not None, subject.notes
        assert frames.broken is None
        if iteration:  # what a rank sees first of its parameters may be their use
            check_bytes(subject, frames, ROLES)


def test_what_fsdp2_keeps_between_the_micro_batches_of_its_stage_is_shown(ran):
    """A stage is freed after its forward, and after the step's last backward alone."""
    trace = load(ran(4)[1] / SHARDED)
    for iteration in range(programs.STEPS):
        subject = Subject(trace, iteration)
        frames = subject.frames()
        assert frames is not None, subject.notes
        assert frames.broken is None
        assert subject.notes == []
        if iteration:
            check_bytes(subject, frames, (*ROLES, Role.GATHERED))
        # without it the forward after a backward would compute with what was given back
        division = replace(frames.layout.division, frees_last=frozenset())
        early = play(
            replace(frames.layout, division=division), subject.buckets, subject.steps.steps
        )
        assert early.broken is not None
        assert "computes with shard" in early.broken.reason
