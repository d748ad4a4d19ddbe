"""What a stage promises not to hold, looked at while it trains."""

import pytest
import torch.distributed as dist

from tests.ranks import run_ranks
from tests.train.engine.samples import build, engine_config, inputs
from zerosim.train.engine import initialize
from zerosim.train.engine.flat import UnitState

pytestmark = pytest.mark.ranks

NUM_RANKS = 2
BLOCKS = ("blocks.0", "blocks.1", "blocks.2")


def _watch(stage, prefetch):
    """Which units are whole at every moment at which a module begins, ends, or gets a gradient."""
    engine = initialize(build("Stack", 0), engine_config(stage=stage, prefetch=prefetch))
    parameters, gradients, outside = [], [], []

    def look(*_):
        parameters.append({f.name for f in engine._units if f.flat.untyped_storage().nbytes()})
        gradients.append({f.name for f in engine._units if f.gradient is not None})

    for module in engine.model.modules():
        module.register_forward_pre_hook(look)
        module.register_forward_hook(look)
        module.register_full_backward_hook(look)
    for step in range(2):
        loss = engine(*inputs("Stack", dist.get_rank(), NUM_RANKS, step, 0))
        outside.append({f.name for f in engine._units if f.state is not UnitState.SHARDED})
        engine.backward(loss)
        outside.append({f.name for f in engine._units if f.state is not UnitState.SHARDED})
        outside.append({f.name for f in engine._units if f.gradient is not None})
        engine.step()
    engine.close()
    return parameters, gradients, outside


def _watch_all():
    return {(stage, ahead): _watch(stage, ahead) for stage in range(4) for ahead in (0, 1)}


@pytest.fixture(scope="module")
def watched():
    return run_ranks(_watch_all, NUM_RANKS)[1]


def test_stage_3_holds_the_units_that_compute_and_those_ahead(watched):
    for ahead in (0, 1):
        parameters, _, outside = watched[3, ahead]
        assert max(map(len, parameters)) == 1 + ahead
        assert outside == [set()] * 6


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_the_others_hold_all_parameters(watched, stage):
    assert watched[stage, 1][0] == [set(BLOCKS)] * len(watched[stage, 1][0])


@pytest.mark.parametrize("stage", [2, 3])
def test_stages_2_and_3_never_hold_a_whole_gradient(watched, stage):
    _, gradients, outside = watched[stage, 1]
    # one on its way while the next is computed
    assert max(map(len, gradients)) <= 2
    assert outside[2] == outside[5] == set()


@pytest.mark.parametrize("stage", [0, 1])
def test_stages_0_and_1_hold_all_gradients_until_the_update(watched, stage):
    assert watched[stage, 1][2][2] == set(BLOCKS)
