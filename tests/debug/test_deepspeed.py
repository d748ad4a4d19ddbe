"""DeepSpeed's ZeRO, held before every event of an iteration, ends with the same bits."""

from __future__ import annotations

import importlib.util

import pytest

from tests.debug import programs
from tests.debug.programs import held
from tests.debug.test_systems import walk_iteration
from tests.ranks import run_ranks
from zerosim.schema.events import Kind, Phase, Purpose

pytestmark = [
    pytest.mark.deepspeed,
    pytest.mark.ranks,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        importlib.util.find_spec("deepspeed") is None,
        reason="DeepSpeed is not installed: make deepspeed",
    ),
]

GATHER, REDUCE = Purpose.GATHER_PARAMETERS, Purpose.REDUCE_GRADIENTS
STAGES = {
    "stage 1": {(Phase.BACKWARD, REDUCE), (Phase.UPDATE, GATHER)},
    "stage 2": {(Phase.BACKWARD, REDUCE), (Phase.UPDATE, GATHER)},
    "stage 3, keeps nothing": {
        (Phase.FORWARD, GATHER),
        (Phase.BACKWARD, GATHER),
        (Phase.BACKWARD, REDUCE),
    },
}


@pytest.mark.parametrize("case", STAGES)
def test_stepped_through_an_iteration_deepspeed_ends_with_the_same_bits(case, tmp_path):
    free = run_ranks(programs.deepspeed, 2, str(tmp_path / "free"), case, deadline_s=300)
    with held(programs.deepspeed, 2, str(tmp_path / "held"), case) as run:
        passed = walk_iteration(run.controller)
        run.controller.detach()
        assert run.end() == free
    called = {(one.phase, one.purpose) for _, one in passed if one.kind is Kind.COLLECTIVE}
    assert STAGES[case] <= called
    computed = {one.phase for _, one in passed if one.kind is Kind.COMPUTE}
    assert computed == {Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE}
