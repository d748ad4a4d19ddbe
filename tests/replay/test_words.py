"""Every step that there can be has a title, a description and a reason, with nothing left open."""

from __future__ import annotations

import re
from itertools import product

import pytest

from zerosim.analysis.frames import Message, Step
from zerosim.config import DType
from zerosim.events import Algorithm, Event, Kind, Op, Phase, Purpose
from zerosim.memory import Role
from zerosim.replay.words import Setting, describe, texts
from zerosim.theory import bytes_a_parameter
from zerosim.theory.placement import Optimizer
from zerosim.tiers import Tier

STAGES = (None, 0, 1, 2, 3)


def setting(stage, **changes) -> Setting:
    states = {one.role: one.bytes for one in bytes_a_parameter(DType.BF16, Optimizer.ADAM)}
    fields = {
        "stage": stage, "num_ranks": 4, "accumulate": 1, "iteration": 7, "backend": "gloo",
        "states": states,
    }  # fmt: skip
    return Setting(**fields | changes)


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
        yield step(Kind.MARK, phase, []), 0, None
        yield step(Kind.COMPUTE, phase, [event(Kind.COMPUTE, phase, unit="block")]), 0, None
        for op, purpose, algorithm in product(Op, (None, *Purpose), Algorithm):
            call = event(
                Kind.COLLECTIVE, phase, unit="block", op=op, purpose=purpose, algorithm=algorithm
            )
            yield step(Kind.COLLECTIVE, phase, [call]), 0, None
            waits = [event(Kind.WAIT, phase, rank, parent=1) for rank in (0, 2)]
            yield step(Kind.WAIT, phase, waits), 0, call
            for hop in range(6):
                yield step(Kind.TRANSFER, phase, [call], hop=hop), 6, None
    yield step(Kind.WAIT, Phase.UPDATE, [event(Kind.WAIT, Phase.UPDATE)]), 0, None
    yield from of_the_family()


def of_the_family():
    """What the later systems do and the stages do not."""
    yield from of_zero_plus_plus()
    gather = {"purpose": Purpose.GATHER_PARAMETERS, "unit": "block", "algorithm": Algorithm.RING}
    for op in (Op.SEND, Op.BROADCAST):
        call = event(Kind.COLLECTIVE, Phase.UPDATE, op=op, **gather)
        yield step(Kind.COLLECTIVE, Phase.UPDATE, [call]), 0, None
    for phase in Phase:
        yield step(Kind.MARK, phase, []), 0, None
        yield step(Kind.COMPUTE, phase, [event(Kind.COMPUTE, phase, unit="block")]), 0, None
        for purpose, (origin, target) in product(COPIED, WAYS):
            copies = [
                event(
                    Kind.COPY, phase, rank, unit="block", purpose=purpose, origin=origin,
                    target=target, dtype="bfloat16",
                )
                for rank in range(4)
            ]  # fmt: skip
            for some in (copies, copies[:1], copies[1:3]):
                yield step(Kind.COPY, phase, some), 0, None
            waits = [event(Kind.WAIT, phase, parent=1)]
            yield step(Kind.WAIT, phase, waits), 0, copies[0]


def of_zero_plus_plus():
    """Quantized gathers, gathers among neighbours, exchanges within and between nodes."""
    nodes, places = ((0, 1), (2, 3)), ((0, 2), (1, 3))
    gather = {"op": Op.ALL_GATHER, "purpose": Purpose.GATHER_PARAMETERS, "unit": "block"}
    ring = {"algorithm": Algorithm.RING, "dtype": "int8"}
    call = event(Kind.COLLECTIVE, Phase.FORWARD, **gather, **ring)
    yield step(Kind.TRANSFER, Phase.FORWARD, [call], hop=0), 3, None
    call = event(Kind.COLLECTIVE, Phase.BACKWARD, **gather, algorithm=Algorithm.RING)
    yield step(Kind.TRANSFER, Phase.BACKWARD, [call], hop=0, groups=nodes), 1, None
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
        yield one, 1, None


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
    {"states_tier": Tier.HOST},
    {"states_tier": Tier.HOST, "is_delayed": True},
    {"states_tier": Tier.DISK, "parameters_tier": Tier.DISK},
    {"parameters_tier": Tier.HOST, "owners": True},
    {"ranks_per_node": 2, "secondary": 2, "block": 256},
)


@pytest.mark.parametrize("stage", STAGES)
def test_every_step_is_told_in_whole_sentences(stage):
    count = 0
    for one, num_hops, awaited in every_step():
        words = describe(one, setting(stage), num_hops=num_hops, awaited=awaited)
        count += 1
        for text in (words.title, words.what, words.why):
            assert text
            assert not re.search(r"[{}]", text)
            assert "None" not in text
    assert count > 3000


def test_the_reason_depends_on_stage_phase_and_purpose():
    """What the paper says of each stage is said where it happens."""

    def why(stage, phase, purpose, op):
        call = event(
            Kind.COLLECTIVE, phase, unit="block", op=op, purpose=purpose, algorithm=Algorithm.RING
        )
        one = step(Kind.TRANSFER, phase, [call], hop=0)
        return describe(one, setting(stage), num_hops=3, awaited=None).why

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
    assert "freed as soon as its output is ready" in told[0]
    assert "3Ψ instead of 2Ψ" in told[1]
    assert "half of an all-reduce" in told[4]
    assert "2Ψ/N bytes are kept instead of 2Ψ" in told[5]


@pytest.mark.parametrize(
    ("op", "hop", "words"),
    [
        (Op.ALL_GATHER, 0, "hop 1 of 6: each rank sends its own part"),
        (Op.ALL_GATHER, 5, "hop 6 of 6: each rank passes on the part it received"),
        (Op.REDUCE_SCATTER, 0, "hop 1 of 6: each rank sends its gradient of one shard"),
        (Op.REDUCE_SCATTER, 3, "hop 4 of 6: each rank passes on the sum"),
        (Op.REDUCE_SCATTER, 5, "each rank has the finished sum of its own shard"),
        (Op.ALL_REDUCE, 0, "hop 1 of 6: each rank sends its gradient"),
        (Op.ALL_REDUCE, 2, "each shard's sum is finished on one rank"),
        (Op.ALL_REDUCE, 3, "hop 4 of 6: the finished sums go round"),
    ],
)
def test_a_hop_is_told_by_what_it_does(op, hop, words):
    call = event(
        Kind.COLLECTIVE, Phase.BACKWARD, unit="block", op=op, algorithm=Algorithm.RING,
        purpose=Purpose.REDUCE_GRADIENTS,
    )  # fmt: skip
    one = step(Kind.TRANSFER, Phase.BACKWARD, [call], hop=hop)
    assert words in describe(one, setting(0), num_hops=6, awaited=None).what


def test_a_wait_names_who_waits_for_what_and_how_long():
    awaited = event(
        Kind.COLLECTIVE, Phase.FORWARD, unit="block", op=Op.ALL_GATHER,
        purpose=Purpose.GATHER_PARAMETERS,
    )  # fmt: skip
    waits = [event(Kind.WAIT, Phase.FORWARD, rank, parent=1) for rank in (0, 1, 3)]
    words = describe(step(Kind.WAIT, Phase.FORWARD, waits), setting(3), num_hops=0, awaited=awaited)
    assert words.title == "Forward · wait: gather parameters of block"
    assert words.what == "ranks 0-1, 3 stand still, for up to 2.5 ms"
    alone = step(Kind.WAIT, Phase.FORWARD, waits[:1])
    told = describe(alone, setting(3), num_hops=0, awaited=awaited)
    assert told.what == "rank 0 stands still, for up to 2.5 ms"


def test_micro_steps_are_named_where_there_are_several():
    own = event(Kind.COMPUTE, Phase.FORWARD, unit="block", micro_step=1)
    one = step(Kind.COMPUTE, Phase.FORWARD, [own])
    told = describe(one, setting(2, accumulate=2), num_hops=0, awaited=None)
    assert told.what.endswith("on its own data, micro-step 1 of 2")


def test_the_optimizers_bytes_are_those_of_the_dtype():
    own = event(Kind.COMPUTE, Phase.UPDATE, unit="block")
    one = step(Kind.COMPUTE, Phase.UPDATE, [own])
    states = {each.role: each.bytes for each in bytes_a_parameter(DType.FP32, Optimizer.ADAM)}
    assert Role.MASTER not in states
    told = describe(one, setting(0, states=states), num_hops=0, awaited=None)
    assert "8 bytes a parameter each" in told.why


def test_no_text_is_without_a_use():
    """Every text of the file is found by some step."""
    seen = set()
    runs = [(setting(stage), every_step) for stage in STAGES]
    runs += [(setting(3, **system), of_the_family) for system in FAMILY]
    for of_run, every in runs:
        for one, num_hops, awaited in every():
            seen.add(describe(one, of_run, num_hops=num_hops, awaited=awaited).why)
    for path, text in _leaves(texts()["why"]):
        pattern = re.sub(r"\\\{\w+\\\}", r"[^ ]+( units)?", re.escape(text))
        assert any(re.fullmatch(pattern, told) for told in seen), path


def _leaves(node, path=()):
    if isinstance(node, str):
        yield path, node
    else:
        for name, inner in node.items():
            yield from _leaves(inner, (*path, name))
