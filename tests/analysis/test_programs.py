"""Who holds what in programs that zerosim's engine did not run: cells, and bytes of the ledger."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.held import check_bytes
from zerosim.analysis.frames import (
    Band,
    Frames,
    NotShown,
    ShardState,
    cell_number,
    one_program,
    play,
    program_of,
)
from zerosim.record import load
from zerosim.schema.events import Kind, Phase, Purpose
from zerosim.schema.memory import OPTIMIZER_STATES, Role
from zerosim.schema.strategies import HAND_WRITTEN, Bundle, Parameter, Strategy
from zerosim.view.replay.subject import Subject

TRACES = Path(__file__).parents[2] / "lessons" / "traces"
NAMES = [
    "profiles/ddp",
    "profiles/ddp-zero",
    "profiles/fsdp2",
    "profiles/fsdp2-kept",
    "parallel/ddp",
    "parallel/gpipe",
    "parallel/1f1b",
    "parallel/tensor-parallel",
]
DEEPSPEED = ["deepspeed/deepspeed-1", "deepspeed/deepspeed-2"]
PARAMETERS, GRADIENTS, MOMENTUM = map(Band, (Role.PARAMETERS, Role.GRADIENTS, Role.MOMENTUM))


@cache
def played(name: str, iteration: int = 1) -> tuple[Subject, Frames]:
    subject = Subject(load(TRACES / name), iteration)
    frames = subject.frames()
    assert frames is not None
    return subject, frames


def row(name: str, step: int, rank: int, band: Band) -> str:
    """The cells of a rank's band as digits, unit by unit."""
    subject, frames = played(name)
    cells = frames.at(step)
    first = [cell_number(frames.layout, rank, band, unit, 0) for unit in subject.units.values()]
    shards = subject.num_shards
    return " ".join("".join(str(int(one)) for one in cells[at : at + shards]) for at in first)


def step_of(name: str, kind: Kind, phase: Phase, unit: str, purpose: Purpose | None = None) -> int:
    subject, _ = played(name)
    return next(
        number
        for number, step in enumerate(subject.steps.steps)
        if step.kind is kind
        and step.phase is phase
        and (unit == "" or (step.event is not None and step.event.unit == unit))
        and (purpose is None or (step.event is not None and step.event.purpose is purpose))
    )


@pytest.mark.parametrize("iteration", [0, 1])
@pytest.mark.parametrize("name", NAMES + DEEPSPEED)
def test_every_frame_is_legal_and_there(name, iteration):
    subject, frames = played(name, iteration)
    assert frames.broken is None
    assert len(frames.changes) == len(subject.steps.steps)
    assert any(frames.changes)


@pytest.mark.parametrize("iteration", [0, 1])
@pytest.mark.parametrize("name", NAMES + DEEPSPEED)
def test_bytes_of_roles_are_what_the_memory_ledger_has_at_each_border(name, iteration):
    check_bytes(*played(name, iteration), roles_told(name, iteration))


def roles_told(name: str, iteration: int) -> tuple[Role, ...]:
    """Those that the ledger tells apart, of DeepSpeed's states after the first update."""
    states = OPTIMIZER_STATES if iteration or name not in DEEPSPEED else ()
    if name in DEEPSPEED:
        return Role.PARAMETERS, Role.GATHERED, *states
    return Role.PARAMETERS, Role.GRADIENTS, Role.GATHERED, *states


def test_ddp_keeps_all_and_reduces_bucket_by_bucket():
    name, begin = "profiles/ddp", step_of("profiles/ddp", Kind.MARK, Phase.FORWARD, "")
    everything = "1111 1111 1111 1111 1111"
    assert {row(name, begin, rank, PARAMETERS) for rank in range(4)} == {everything}
    assert row(name, begin, 2, MOMENTUM) == everything
    bucket = step_of(name, Kind.COLLECTIVE, Phase.BACKWARD, "bucket 0")
    assert row(name, bucket, 2, GRADIENTS) == "0000 3333 3333 3333 3333"
    update = step_of(name, Kind.MARK, Phase.UPDATE, "")
    assert row(name, update, 2, GRADIENTS) == "6666 6666 6666 6666 6666"
    assert row(name, update + 2, 2, GRADIENTS) == "7777 7777 7777 7777 7777"
    assert row(name, update + 2, 2, PARAMETERS) == everything


def test_a_bucket_that_holds_a_part_of_a_unit_leaves_it_partial():
    bucket = step_of("parallel/ddp", Kind.COLLECTIVE, Phase.BACKWARD, "bucket 0")
    last = step_of("parallel/ddp", Kind.COLLECTIVE, Phase.BACKWARD, "bucket 1")
    assert row("parallel/ddp", bucket, 0, GRADIENTS) == "0000 0000 0000 0000 3333 3333"
    assert row("parallel/ddp", last - 1, 0, GRADIENTS).endswith("4444 4444 4444 6666")


def test_fsdp2_gathers_a_unit_for_its_computation_and_frees_it_after():
    name = "profiles/fsdp2"
    gather = step_of(name, Kind.COLLECTIVE, Phase.FORWARD, "hidden.1", Purpose.GATHER_PARAMETERS)
    assert row(name, gather, 1, PARAMETERS) == "2122 0100 3133 0100 2122"
    assert played(name)[0].steps.steps[gather + 1].kind is Kind.COMPUTE  # it began after that
    assert row(name, gather + 1, 1, PARAMETERS) == "2122 0100 2122 0100 2122"
    assert row(name, gather + 2, 1, PARAMETERS) == "2122 0100 0100 3133 2122"
    compute = step_of(name, Kind.COMPUTE, Phase.BACKWARD, "hidden.2")
    for rank, unit in enumerate(("1222", "2122", "2212", "2221")):
        assert row(name, compute, rank, PARAMETERS).split()[3] == unit
    reduce = step_of(name, Kind.COLLECTIVE, Phase.BACKWARD, "hidden.2", Purpose.REDUCE_GRADIENTS)
    assert row(name, reduce, 1, PARAMETERS).split()[3] == "0100"
    assert row(name, reduce, 1, GRADIENTS) == "0000 0000 0000 4344 4444"
    update = step_of(name, Kind.MARK, Phase.UPDATE, "")
    assert row(name, update, 1, PARAMETERS) == "0100 0100 0100 0100 0100"
    assert row(name, update, 1, GRADIENTS) == "0600 0600 0600 0600 0600"


def test_what_fsdp2_keeps_for_backward_stays():
    backward = step_of("profiles/fsdp2-kept", Kind.MARK, Phase.BACKWARD, "")
    assert row("profiles/fsdp2-kept", backward, 3, PARAMETERS) == "2221 2221 2221 2221 2221"


def test_owners_of_parameters_have_their_states_and_send_them_on():
    name = "profiles/ddp-zero"
    assert [*played(name)[0].units][:3] == ["embedding", "hidden.0.0.weight", "hidden.0.0.bias"]
    begin = step_of(name, Kind.MARK, Phase.FORWARD, "")
    assert row(name, begin, 0, MOMENTUM) == "1111 1111 0000 0000 0000 0000 0000 0000 0000"
    assert row(name, begin, 1, MOMENTUM) == "0000 0000 1111 1111 0000 0000 0000 0000 1111"
    sent = step_of(name, Kind.COLLECTIVE, Phase.UPDATE, "")
    assert row(name, sent, 0, PARAMETERS).split()[:4] == ["1111", "1111", "7777", "7777"]
    assert row(name, sent, 1, PARAMETERS).split()[:4] == ["7777", "3333", "1111", "1111"]
    assert "7" not in row(name, len(played(name)[0].steps.steps) - 1, 1, PARAMETERS)


def test_deepspeed_cuts_units_where_the_parts_of_two_ranks_meet():
    name = "deepspeed/deepspeed-2"
    units = {unit.name: unit.elements for unit in played(name)[0].unit_layouts}
    assert units["hidden.0 (rank 0)"] + units["hidden.0 (rank 1)"] == 256 * 256 + 256
    assert units["embedding"] + units["hidden.0 (rank 0)"] == 271_360 // 4
    reduced = step_of(name, Kind.MARK, Phase.UPDATE, "")
    others = " 0000 0000 0000 0000 0000"
    assert row(name, reduced - 1, 1, GRADIENTS) == " ".join(["3333"] * 8)
    assert row(name, reduced, 1, GRADIENTS) == "0000 0000 6666 6666 0000 0000 0000 0000"
    assert row(name, reduced, 0, MOMENTUM) == "1111 1111 0000" + others
    gather = step_of(name, Kind.COLLECTIVE, Phase.UPDATE, "group 0")
    assert row(name, gather, 1, PARAMETERS) == "3333 3333 1111 1111 3333 3333 3333 3333"


def test_persistent_parameters_of_deepspeeds_stage_3_stay_whole():
    trace = load(TRACES / "deepspeed" / "deepspeed-3")
    subject = Subject(trace, 1)
    assert subject.frames() is None
    assert subject.notes[-1] == (
        "the trace does not say that DeepSpeed's stage 3 partitions parameters across all ranks"
    )
    ranks = [
        replace(
            rank,
            strategies=tuple(
                replace(one, options=one.options | {"partition_count": 4})
                for one in rank.strategies
            ),
        )
        for rank in trace.ranks
    ]
    subject = Subject(replace(trace, ranks=tuple(ranks)), 1)
    frames = subject.frames()
    assert frames is not None
    assert frames.broken is None
    first = cell_number(frames.layout, 1, GRADIENTS, 0, 0)
    update = next(n for n, step in enumerate(subject.steps.steps) if step.phase is Phase.UPDATE)
    assert [int(one) for one in frames.at(update)[first : first + 4]] == [0, 6, 0, 0]
    assert ShardState.STALE not in frames.at(len(subject.steps.steps) - 1)


@pytest.mark.parametrize(
    ("name", "event", "units"),
    [
        ("profiles/fsdp2", "root", (0, 4)), ("profiles/fsdp2", "hidden.1", (2,)),
        ("profiles/ddp", "bucket 0", (4, 3, 2, 1)), ("profiles/ddp", "optimizer", (0, 1, 2, 3, 4)),
        ("deepspeed/deepspeed-1", "hidden.0", (1, 2)), ("profiles/ddp", "nothing", ()),
    ],
)  # fmt: skip
def test_which_units_an_event_is_about(name, event, units):
    assert played(name)[0].about(event) == units


# -------------------------------------------------------------------------- against the laws


def without(name: str, wanted: Kind, unit: str, purpose: Purpose | None = None) -> Frames:
    """The frames of an iteration, one step of which did not happen."""
    subject, frames = played(name)
    every = subject.steps.steps
    left = [
        number
        for number, step in enumerate(every)
        if step.event is None
        or (step.kind, step.event.unit, step.event.purpose) != (wanted, unit, purpose)
    ]
    assert len(left) < len(every)
    untils = [bisect_right(left, every[number].until) - 1 for number in left]
    steps = [replace(every[at], until=until) for at, until in zip(left, untils, strict=True)]
    return play(frames.layout, subject.buckets, steps)


def test_a_unit_that_was_not_gathered_ends_the_replay():
    broken = without(
        "profiles/fsdp2", Kind.COLLECTIVE, "hidden.1", Purpose.GATHER_PARAMETERS
    ).broken
    assert broken is not None
    assert broken.reason == "rank 0 computes with shard 1 of hidden.1, which it does not hold"


def test_a_bucket_that_was_not_reduced_ends_the_replay():
    broken = without("profiles/ddp", Kind.COLLECTIVE, "bucket 1", Purpose.REDUCE_GRADIENTS).broken
    assert broken is not None
    assert broken.reason == (
        "rank 0 applies shard 0 of embedding as reduced, but the gradient of rank 1 is not in it"
    )


def test_a_gradient_that_is_not_computed_yet_is_not_reduced():
    name = "profiles/ddp"
    subject, frames = played(name)
    steps = list(subject.steps.steps)
    compute = step_of(name, Kind.COMPUTE, Phase.BACKWARD, "hidden.1")
    steps.insert(compute, steps.pop(step_of(name, Kind.COLLECTIVE, Phase.BACKWARD, "bucket 0")))
    steps = [replace(step, until=number) for number, step in enumerate(steps)]
    broken = play(frames.layout, subject.buckets, steps).broken
    assert broken is not None
    assert broken.step == compute
    assert "the gradient of shard 0 of hidden.1, which it does not hold" in broken.reason


# ------------------------------------------------------------------------------- cut by hand


def parameter(name: str, *shape: int, **fields) -> Parameter:
    return Parameter(name=name, shape=shape, **fields)


def ddp(*parameters: Parameter, **options) -> Strategy:
    names = [one.name for one in parameters]
    return Strategy(
        system="DDP", name="model", ranks=(0, 1),
        bundles=(Bundle(name="model", parameters=parameters),),
        options={"buckets": [1], "bucket_parameters": [names]} | options,
    )  # fmt: skip


def fsdp2(**options) -> Strategy:
    plain = {"shard_ranks": [0, 1], "shard_dims": [0], "reshards_after_backward": True}
    bundle = Bundle(name="root", parameters=(parameter("a.w", 3, 2),), options=plain | options)
    return Strategy(system="FSDP2", name="model", ranks=(0, 1), bundles=(bundle,))


def test_a_unit_is_what_is_computed_and_trained_together():
    held = ddp(
        parameter("a.w", 2, 2), parameter("a.inner.w", 3), parameter("scale", 1),
        parameter("a.inner.f", 4, trainable=False),
    )  # fmt: skip
    found = program_of({0: [held], 1: [held]}, 2, ["a.inner", "a"])
    assert [(one.name, one.elements, one.trainable) for one in found.units] == [
        ("a.inner", 3, True), ("a.inner.frozen", 4, False), ("a", 4, True), ("scale", 1, True),
    ]  # fmt: skip
    assert found.computed["a"] == ("a.inner", "a.inner.frozen", "a")
    assert found.computed["a.inner"] == ("a.inner", "a.inner.frozen")


def test_rows_that_do_not_go_round_are_padded():
    assert program_of({0: [fsdp2()], 1: [fsdp2()]}, 2, ["a"]).units[0].padded_elements == 8


def test_what_stays_until_the_last_micro_step_is_one_program():
    late, last = (
        program_of({rank: [fsdp2(reshards_after_backward=frees)] for rank in (0, 1)}, 2, ["a"])
        for frees in (False, True)
    )
    assert one_program([late, late, last]).division.frees_last == {"a"}
    assert one_program([last, last]).division.frees_last == frozenset()
    with pytest.raises(NotShown, match="a stays gathered after backward"):
        one_program([late, late])
    with pytest.raises(NotShown, match="change from one micro-step to the next"):
        one_program([late, last, last])


@pytest.mark.parametrize(
    ("strategy", "why"),
    [
        (ddp(parameter("w", 1), finds_unused=True), "the loss determines"),
        (ddp(parameter("w", 1), comm_hook="powerSGD_hook"), "hook powerSGD_hook"),
        (
            ddp(parameter("w", 1), parameter("v", 1, dtype="bfloat16")),
            "several dtypes: bfloat16",
        ),
        (fsdp2(shard_ranks=[0]), "all ranks partition the model the same way"),
        (fsdp2(starts_whole=True), "root stays gathered from one iteration to the next"),
        (replace(fsdp2(), ranks=(0,)), "all ranks partition the model the same way"),
        (replace(fsdp2(), system=HAND_WRITTEN), "not shown for hand-written"),
    ],
)
def test_what_is_not_known_says_why(strategy, why):
    with pytest.raises(NotShown, match=why):
        program_of({0: [strategy], 1: [strategy]}, 2, ["w"])
