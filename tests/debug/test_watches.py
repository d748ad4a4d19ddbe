"""Ranks that run stop by themselves where what is watched happens."""

from __future__ import annotations

import pytest

from tests.debug import programs
from tests.debug.programs import held
from zerosim.debug import Why
from zerosim.schema.events import Kind, Phase

pytestmark = pytest.mark.ranks

FAULTS = ["flip-parameter,rank=1,iteration=1", "nan,rank=1,iteration=3"]
STATES_BYTES = 3_000
"""More than parameters and gradients (233 floats each), less than with the optimizer states."""


def test_each_watch_stops_running_ranks_where_it_should(tmp_path):
    arguments = (FAULTS, 2, 8.0)
    with held(programs.going_wrong, 2, str(tmp_path / "held"), *arguments) as run:
        controller = run.controller

        def run_to_next():
            outcome = controller.run()
            controller.breakpoints.clear()
            assert outcome.why is Why.BREAKPOINT, outcome
            return outcome.said, next((one.stand for one in controller.steps()), None)

        controller.add_breakpoint(f"memory() > {STATES_BYTES}")
        said, stand = run_to_next()
        assert f"breakpoint 1: memory() > {STATES_BYTES}" in said
        # Adam makes its states as it updates for the first time
        assert (stand.iteration, stand.phase) in ((0, Phase.OUTSIDE), (1, Phase.FORWARD))

        controller.watches_replicas = True
        said, stand = run_to_next()
        assert said.startswith("parameters of ")
        assert "differ from the other ranks'" in said
        # before a forward nothing of it is computed yet: what flipped in it is seen in the next
        assert (stand.kind, stand.phase, stand.iteration) == (Kind.MARK, Phase.FORWARD, 2)
        assert any(one.differ for one in controller.compare_replicas())
        controller.watches_replicas = False

        controller.longest_s = 4.0
        said, _ = run_to_next()
        assert "rank 1: all-reduce" in said
        assert said.endswith("takes longer than 4 s")
        assert controller.why_waiting(1).startswith("rank 1 waits for rank 0: all-reduce")
        controller.longest_s = None

        controller.add_breakpoint("nonfinite()")
        said, stand = run_to_next()
        assert "nonfinite()" in said
        # reduced, and not yet used
        assert stand.iteration == 3
        assert stand.phase in (Phase.BACKWARD, Phase.UPDATE)
        assert controller.run().why is Why.ENDED
        run.end()
