"""A whole iteration under each other system, event by event, and the same bits."""

from __future__ import annotations

import pytest

from tests.debug import programs
from tests.debug.programs import held
from tests.ranks import run_ranks
from zerosim.debug import Goal, Why
from zerosim.schema.events import Kind, Op, Phase, Purpose

pytestmark = pytest.mark.ranks

BACKWARD, UPDATE = Phase.BACKWARD, Phase.UPDATE
PIPELINE = {
    (Phase.FORWARD, Op.SEND, Purpose.SEND_ACTIVATIONS),
    (Phase.FORWARD, Op.RECEIVE, Purpose.SEND_ACTIVATIONS),
    (BACKWARD, Op.SEND, Purpose.SEND_GRADIENTS),
    (BACKWARD, Op.RECEIVE, Purpose.SEND_GRADIENTS),
}
SYSTEMS = {
    "1F1B": (2, "programs_parallel", "one_forward_one_backward", {}, PIPELINE),
    "GPipe": (2, "programs_parallel", "gpipe", {}, PIPELINE),
    "tensor parallel": (
        *(2, "programs_parallel", "tensor", {}),
        {
            (Phase.FORWARD, Op.ALL_REDUCE, Purpose.ACTIVATIONS),
            (BACKWARD, Op.ALL_REDUCE, Purpose.ACTIVATIONS),
        },
    ),
    "HSDP": (
        *(4, "programs", "fsdp2", {"shape": (2, 2)}),
        {
            (Phase.FORWARD, Op.ALL_GATHER, Purpose.GATHER_PARAMETERS),
            (BACKWARD, Op.REDUCE_SCATTER, Purpose.REDUCE_GRADIENTS),
            (BACKWARD, Op.ALL_REDUCE, Purpose.REDUCE_GRADIENTS),
        },
    ),
    "ZeroRedundancyOptimizer": (
        *(2, "programs", "zero_redundancy", {}),
        {
            (BACKWARD, Op.ALL_REDUCE, Purpose.REDUCE_GRADIENTS),
            (UPDATE, Op.BROADCAST, Purpose.GATHER_PARAMETERS),
        },
    ),
}


def walk_iteration(controller):
    """Step through iteration 1; by rank what it stood before, in the order of letting through."""
    controller.add_breakpoint(f"iteration == {ITERATION}")
    assert controller.run().why is Why.BREAKPOINT
    controller.breakpoints.clear()
    passed = []
    while any(one.stand.iteration <= ITERATION for one in controller.standing()):
        following = controller.steps()[0]
        if following.stand.iteration == ITERATION:
            passed += [(one.rank, one.stand) for one in following.standing]
        if controller.step(Goal.INTO).why is Why.ENDED:
            break
    return passed


ITERATION = 1


RARELY = ("GPipe", "tensor parallel", "ZeroRedundancyOptimizer")
"""1F1B has all that GPipe has, in a different order; calls of a whole group, as the other two make,
HSDP has as well, and `test_held` DDP."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=pytest.mark.long) if one in RARELY else one for one in SYSTEMS],
)
def test_stepped_through_an_iteration_it_ends_with_the_same_bits(name, tmp_path):
    num_ranks, *what, expected = SYSTEMS[name]
    free = run_ranks(programs.framework, num_ranks, str(tmp_path / "free"), *what)
    with held(programs.framework, num_ranks, str(tmp_path / "held"), *what) as run:
        passed = walk_iteration(run.controller)
        run.controller.detach()
        assert run.end() == free
    called = {(one.phase, one.op, one.purpose) for _, one in passed if one.kind is Kind.COLLECTIVE}
    assert expected <= called
    for rank in range(num_ranks):
        own = [one for which, one in passed if which == rank]
        marks = [one.phase for one in own if one.kind is Kind.MARK]
        assert marks[0] is Phase.FORWARD
        assert marks[-2:] == [UPDATE, Phase.OUTSIDE]
        computed = {one.phase for one in own if one.kind is Kind.COMPUTE}
        assert computed == {Phase.FORWARD, BACKWARD, UPDATE}
    if expected is PIPELINE:
        assert_nothing_is_used_before_it_was_sent(passed)


def assert_nothing_is_used_before_it_was_sent(passed):
    """At each stop: what a stage computes with has been sent by the other before."""
    for sender, receiver, phase in ((0, 1, Phase.FORWARD), (1, 0, BACKWARD)):
        sent = set()
        used = set()
        for rank, stand in passed:
            if rank == sender and stand.op is Op.SEND and stand.phase is phase:
                sent.add(stand.micro_step)
            if rank == receiver and stand.kind is Kind.COMPUTE and stand.phase is phase:
                used.add(stand.micro_step)
            assert used <= sent
        assert used == sent == {0, 1, 2, 3}
