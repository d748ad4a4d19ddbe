"""Every step that there can be has a title, a description and a reason, with nothing left open."""

from __future__ import annotations

import re
from functools import cache
from itertools import product

import pytest

from zerosim.analysis.frames import Message, Step, Wait
from zerosim.base.config import DType, EngineConfig
from zerosim.base.tiers import Tier
from zerosim.schema.events import Algorithm, Event, Kind, Op, Phase, Purpose
from zerosim.schema.memory import Role
from zerosim.theory import bytes_a_parameter
from zerosim.view.replay.step_sentences import Setting, describe, describe_waits, find, texts

STAGES = (None, 0, 1, 2, 3)
OPTIONS = {option.name for option in EngineConfig.options()} - {"ranks_per_node"}
HOST = {"offload_optimizer": "cpu"}
OWNERS = {"offload_param": "cpu", "owner_broadcast": "parameters"}
OWNED = {"owner_broadcast": "states"}


def setting(stage, **changes) -> Setting:
    states = {one.role: one.bytes for one in bytes_a_parameter(EngineConfig())}
    fields = {"num_ranks": 4, "iteration": 7, "backend": "gloo", "states": states}
    fields["reached"] = "rank 0 has reached: Backward begins"
    options = {name: changes.pop(name) for name in OPTIONS if name in changes}
    config = None if stage is None else EngineConfig(stage=stage, nvme_path="disk", **options)
    return Setting(config=config, **fields | changes)


def event(kind, phase, rank=0, **fields) -> Event:
    plain = {"id": 1, "iteration": 7, "issue_ns": 0, "start_ns": 0, "end_ns": 2_500_000}
    return Event(rank=rank, kind=kind, phase=phase, **plain | fields)


def step(kind, phase, own, **fields) -> Step:
    events = {one.rank: one for one in own}
    return Step(
        kind=kind, phase=phase, micro_step=0, events=events, time_ns=0, start_ns=0, end_ns=9,
        **fields,
    )  # fmt: skip


def every_step():
    """Each kind, with each op, purpose, algorithm and hop, in each phase."""
    for phase in Phase:
        yield step(Kind.MARK, phase, []), 0
        yield step(Kind.MARK, phase, [], is_over=False), 0
        yield step(Kind.COMPUTE, phase, [event(Kind.COMPUTE, phase, unit="block")]), 0
        for op, purpose, algorithm in product(Op, (None, *Purpose), Algorithm):
            call = event(
                Kind.COLLECTIVE, phase, unit="block", op=op, purpose=purpose, algorithm=algorithm
            )
            yield step(Kind.COLLECTIVE, phase, [call]), 0
            for sources in (((0, 1),), ((0, 1), (1, 0))):  # who waits for whom
                unsent = [Message(one, other, None, 0, 0, 0) for one, other in sources]
                yield step(Kind.COLLECTIVE, phase, [call], messages=tuple(unsent)), 0
            for hop in (0, 2, 5):  # reduces, the last to do so, gathers
                yield step(Kind.TRANSFER, phase, [call], hop=hop), 6
    yield from of_the_family()


def of_the_family():
    """What the later systems do and the stages do not."""
    yield from of_zero_plus_plus()
    gather = {"purpose": Purpose.GATHER_PARAMETERS, "unit": "block", "algorithm": Algorithm.RING}
    for op in (Op.SEND, Op.BROADCAST):
        call = event(Kind.COLLECTIVE, Phase.UPDATE, op=op, **gather)
        yield step(Kind.COLLECTIVE, Phase.UPDATE, [call]), 0
    reduce = gather | {"purpose": Purpose.REDUCE_GRADIENTS, "op": Op.REDUCE}
    call = event(Kind.COLLECTIVE, Phase.BACKWARD, **reduce)
    yield step(Kind.TRANSFER, Phase.BACKWARD, [call], hop=2), 3
    for phase in Phase:
        yield step(Kind.MARK, phase, []), 0
        yield step(Kind.COMPUTE, phase, [event(Kind.COMPUTE, phase, unit="block")]), 0
        for purpose, (origin, target) in product(COPIED, WAYS):
            copies = [
                event(
                    Kind.COPY, phase, rank, unit="block", purpose=purpose, origin=origin,
                    target=target, dtype="bfloat16",
                )
                for rank in range(4)
            ]  # fmt: skip
            for some in (copies, copies[:1], copies[1:3]):
                yield step(Kind.COPY, phase, some), 0


def of_zero_plus_plus():
    """Quantized gathers, gathers among neighbours, exchanges within and between nodes."""
    nodes, places = ((0, 1), (2, 3)), ((0, 2), (1, 3))
    gather = {"op": Op.ALL_GATHER, "purpose": Purpose.GATHER_PARAMETERS, "unit": "block"}
    ring = {"algorithm": Algorithm.RING, "dtype": "int8"}
    call = event(Kind.COLLECTIVE, Phase.FORWARD, **gather, **ring)
    yield step(Kind.TRANSFER, Phase.FORWARD, [call], hop=0), 3
    call = event(Kind.COLLECTIVE, Phase.BACKWARD, **gather, algorithm=Algorithm.RING)
    yield step(Kind.TRANSFER, Phase.BACKWARD, [call], hop=0, groups=nodes), 1
    exchange = event(
        Kind.COLLECTIVE, Phase.BACKWARD, op=Op.ALL_TO_ALL, purpose=Purpose.REDUCE_GRADIENTS,
        unit="block", algorithm=Algorithm.PAIRWISE, dtype="int4",
    )  # fmt: skip
    for groups in (nodes, places, ()):
        pairs = groups or ((0, 1), (0, 2))
        messages = tuple(Message(a, b, None, 10, 0, 9) for a, b in pairs)
        one = step(
            Kind.TRANSFER, Phase.BACKWARD, [exchange], hop=0, groups=groups, messages=messages
        )
        yield one, 1


COPIED = (
    Purpose.OFFLOAD_GRADIENTS, Purpose.RETURN_PARAMETERS, Purpose.FETCH_PARAMETERS,
    Purpose.STORE_PARAMETERS, Purpose.FETCH_STATES, Purpose.STORE_STATES,
    Purpose.OFFLOAD_ACTIVATIONS, Purpose.FETCH_ACTIVATIONS,
)  # fmt: skip
WAYS = (
    (Tier.DEVICE, Tier.HOST), (Tier.HOST, Tier.DEVICE), (Tier.HOST, Tier.DISK),
    (Tier.DISK, Tier.HOST),
)  # fmt: skip
FAMILY = (
    {},
    {"is_skipped": True, "has_update": False},
    {**HOST, "delayed_update": True, "has_update": False},
    {"num_ranks": 1},
    {"accumulate": 2},
    HOST,
    {**HOST, "delayed_update": True},
    {"offload_optimizer": "nvme", "offload_param": "nvme"},
    OWNERS,
    OWNED,
    {"ranks_per_node": 2, "secondary_partition": 2},
)


@cache
def told(stage):
    """What is said of every step of a stage, each once."""
    of_run = setting(stage)
    return {describe(one, of_run, num_hops=num_hops) for one, num_hops in every_step()}


@pytest.mark.parametrize("stage", STAGES)
def test_every_step_is_told_in_whole_sentences(stage):
    for words in told(stage):
        for text in (words.title, words.what, words.why):
            assert text
            assert not re.search(r"[{}]", text)
            assert "None" not in text
    assert len(told(stage)) > 1500


def test_the_reason_depends_on_stage_phase_and_purpose():
    """What the paper says of each stage is said where it happens."""

    def why(stage, phase, purpose, op):
        call = event(
            Kind.COLLECTIVE, phase, unit="block", op=op, purpose=purpose, algorithm=Algorithm.RING
        )
        one = step(Kind.TRANSFER, phase, [call], hop=0)
        return describe(one, setting(stage), num_hops=3).why

    gather, reduce = Purpose.GATHER_PARAMETERS, Purpose.REDUCE_GRADIENTS
    told = [
        why(3, Phase.FORWARD, gather, Op.ALL_GATHER),
        why(3, Phase.BACKWARD, gather, Op.ALL_GATHER),
        why(1, Phase.UPDATE, gather, Op.ALL_GATHER),
        why(0, Phase.BACKWARD, reduce, Op.ALL_REDUCE),
        why(1, Phase.BACKWARD, reduce, Op.REDUCE_SCATTER),
        why(2, Phase.BACKWARD, reduce, Op.REDUCE_SCATTER),
        why(3, Phase.BACKWARD, reduce, Op.REDUCE_SCATTER),
    ]
    assert len(set(told)) == len(told)
    assert "freed as soon as the output is ready" in told[0]
    assert "3Ψ instead of 2Ψ" in told[1]
    assert "half of an all-reduce" in told[4]
    assert "2Ψ/N bytes are kept instead of 2Ψ" in told[5]
    assert ["Ψ is the number of parameters" in one for one in told] == ["Ψ" in one for one in told]


@pytest.mark.parametrize(
    ("op", "hop", "words"),
    [
        (Op.ALL_GATHER, 0, "hop 1 of 6: each rank sends its own part"),
        (Op.ALL_GATHER, 5, "hop 6 of 6: each rank forwards the part that it received"),
        (Op.REDUCE_SCATTER, 0, "hop 1 of 6: each rank sends one shard of its gradient"),
        (Op.REDUCE_SCATTER, 3, "hop 4 of 6: each rank forwards the partial sum"),
        (Op.REDUCE_SCATTER, 5, "each rank has the finished sum of its own shard"),
        (Op.ALL_REDUCE, 0, "hop 1 of 6: each rank sends one shard of its gradient"),
        (Op.ALL_REDUCE, 2, "each shard's sum is finished on one rank"),
        (Op.ALL_REDUCE, 3, "hop 4 of 6: the finished sums circulate"),
        (Op.REDUCE, 0, "a chain to the owner, hop 1 of 6: the rank after the owner"),
        (Op.REDUCE, 3, "hop 4 of 6: a rank forwards the partial sum"),
        (Op.REDUCE, 5, "the owner adds its own gradient"),
    ],
)
def test_a_hop_is_told_by_what_it_does(op, hop, words):
    call = event(
        Kind.COLLECTIVE, Phase.BACKWARD, unit="block", op=op, algorithm=Algorithm.RING,
        purpose=Purpose.REDUCE_GRADIENTS,
    )  # fmt: skip
    one = step(Kind.TRANSFER, Phase.BACKWARD, [call], hop=hop)
    assert words in describe(one, setting(0), num_hops=6).what


def test_waits_say_who_waits_how_long_and_for_what():
    def waits(ranks, ns, **call):
        awaited = event(Kind.COLLECTIVE, Phase.FORWARD, unit="block", **call)
        return [
            Wait(
                rank=rank, event=event(Kind.WAIT, Phase.FORWARD, rank), awaited=awaited, start_ns=5,
                end_ns=5 + length,
            )
            for rank, length in zip(ranks, ns, strict=True)
        ]  # fmt: skip

    gather = {"op": Op.ALL_GATHER, "purpose": Purpose.GATHER_PARAMETERS}
    assert describe_waits([]) == ""
    end = ". No computation overlaps this wait: it is exposed communication."
    assert describe_waits(waits((0, 1, 3), (2_500_000, 400_000, 900_000), **gather)) == (
        f"Meanwhile ranks 0-1, 3 wait 0.4 to 2.5 ms for the parameters of block{end}"
    )
    both = waits((2,), (5_200_000,), **gather) + waits((0,), (60_000,), op=Op.ALL_TO_ALL)
    assert describe_waits(both) == (
        "Meanwhile rank 2 waits 5.2 ms for the parameters of block; rank 0 waits 0.1 ms for the "
        f"all-to-all of block{end}"
    )
    for purpose in (None, *Purpose):
        told = describe_waits(waits((0,), (9_000_000,), op=Op.ALL_REDUCE, purpose=purpose))
        assert not re.search(r"[{}]|None", told)


@pytest.mark.parametrize(
    ("stage", "changes", "words"),
    [
        (0, {}, "Every rank has all the new parameters"),
        (2, {}, "Every rank has all the new parameters"),
        (3, {}, "the new values of its own shard, 1/4 of every unit"),
        (3, OWNERS, "on its owner rank"),
        (3, OWNED, "on its owner rank"),
        (2, {**HOST, "delayed_update": True}, "one step behind"),
        (2, {"is_skipped": True, "has_update": False}, "every parameter keeps its value"),
        (3, {"quantize_weights": True}, "the state that every rank holds now"),
        (None, {}, "the state that every rank holds now"),
    ],
)
def test_the_end_says_what_this_run_leaves_where(stage, changes, words):
    told = describe(step(Kind.MARK, Phase.OUTSIDE, []), setting(stage, **changes), num_hops=0)
    assert words in told.why


def test_gradients_that_are_only_added_up_are_not_said_to_be_reduced():
    begins = step(Kind.MARK, Phase.BACKWARD, [])
    told = {
        stage: describe(begins, setting(stage, accumulate=2), num_hops=0).why for stage in range(4)
    }
    assert "The reduction waits for the last micro-step" in told[0]
    assert told[0] == told[1]
    assert "can be reduced" in told[2]
    assert told[2] == told[3]


def test_micro_steps_are_named_where_there_are_several():
    own = event(Kind.COMPUTE, Phase.FORWARD, unit="block", micro_step=1)
    one = step(Kind.COMPUTE, Phase.FORWARD, [own])
    told = describe(one, setting(2, accumulate=2), num_hops=0)
    assert told.what.endswith("on its own data, micro-step 1 of 2")


def test_the_optimizers_bytes_are_those_of_the_dtype():
    own = event(Kind.COMPUTE, Phase.UPDATE, unit="block")
    one = step(Kind.COMPUTE, Phase.UPDATE, [own])
    states = {each.role: each.bytes for each in bytes_a_parameter(EngineConfig(dtype=DType.FP32))}
    assert Role.MASTER not in states
    told = describe(one, setting(0, states=states), num_hops=0)
    assert " 8 bytes a parameter" in told.why


def test_no_text_is_without_a_use():
    """Every text of the file is found by some step."""
    seen = {words.why for stage in STAGES for words in told(stage)}
    runs = [setting(3, **system) for system in FAMILY]
    runs.append(setting(0, accumulate=2))
    call = event(Kind.COLLECTIVE, Phase.FORWARD, unit="block", op=Op.ALL_GATHER)
    early = step(Kind.COLLECTIVE, Phase.FORWARD, [call])
    seen.add(describe(early, setting(3), num_hops=0, is_prefetch=True).why)
    for of_run in runs:
        for one, num_hops in of_the_family():
            seen.add(describe(one, of_run, num_hops=num_hops).why)
    for path, text in _leaves(texts()["why"]):
        pattern = re.sub(r"\\\{\w+\\\}", r"[^ ]+( units)?", re.escape(text))
        pattern += f"({re.escape(texts()['psi'])})?"
        assert path == ("other",) or any(re.fullmatch(pattern, told) for told in seen), path


def test_a_purpose_without_words_of_its_own_is_called_by_its_name():
    assert find("title", "tomorrow").format(phase="Update", purpose="tomorrow") == (
        "Update · tomorrow"
    )
    assert "{purpose}" in find("why", "tomorrow")
    assert find("waiting", "what", "tomorrow") == find("waiting", "what", "other")


def _leaves(node, path=()):
    if isinstance(node, str):
        yield path, node
    else:
        for name, inner in node.items():
            yield from _leaves(inner, (*path, name))
