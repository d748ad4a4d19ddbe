"""What an engine says when it is used in a way that cannot work: one line, and no crash."""

import gc

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.train.engine.samples import FrozenBlock, NoBlocks, Stack, freeze
from zerosim import trace
from zerosim.base.config import EngineConfig
from zerosim.base.errors import ConfigError
from zerosim.record import load
from zerosim.schema.events import Kind, Phase
from zerosim.trace import labels
from zerosim.trace.sink import Description, Position
from zerosim.train.engine import initialize


def engine_of(model, **changes):
    return initialize(model, EngineConfig(dtype="fp32", **changes))


def refusal(call):
    with pytest.raises(ConfigError) as caught:
        call()
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


x = torch.ones(2, 6)


def test_calls_out_of_order():
    engine = engine_of(Stack())
    assert "call engine.backward(loss) first" in refusal(engine.step)
    assert "call engine(batch) first" in refusal(lambda: engine.backward(torch.ones(())))
    loss = engine(x)
    assert "call engine.backward(loss) first" in refusal(engine.step)
    engine.backward(loss)
    assert "call engine.step() first" in refusal(lambda: engine(x))
    assert "call engine(batch) first" in refusal(lambda: engine.backward(loss))
    engine.step()
    engine.backward(engine(x))


@pytest.mark.parametrize("end", ["closed", "gone"])
def test_what_trains_after_an_engine_is_labelled_as_if_there_had_been_none(tmp_path, end):
    engine = engine_of(Stack())
    engine.backward(engine(x))
    engine.step()
    if end == "closed":
        engine.close()
    else:
        del engine
        gc.collect()
    plain = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6))
    with trace(tmp_path):
        plain(x).sum().backward()
    events = load(tmp_path, strict=True).ranks[0].events
    computed = [event for event in events if event.kind is Kind.COMPUTE]
    assert [event.phase for event in computed] == [Phase.FORWARD] * 2 + [Phase.BACKWARD] * 2
    assert {event.iteration for event in computed} == {0}
    assert load(tmp_path).manifest.units == ()


@pytest.mark.parametrize("end", ["closed", "gone"])
def test_nothing_is_left_of_where_an_engine_was(end):
    """Neither what it was, nor the iteration, nor the unit whose computation failed."""
    nowhere = (Description(), Position(), "")
    engine = engine_of(Stack())
    engine.backward(engine(x))
    engine.step()
    with pytest.raises(RuntimeError):
        engine(torch.ones(2, 5))
    assert labels.unit_at_work() == ""
    if end == "closed":
        engine.close()
    else:
        del engine
        gc.collect()
    assert (labels.description(), labels.position(), labels.unit_at_work()) == nowhere


def test_a_model_with_nothing_to_train():
    assert "no trainable parameter" in refusal(lambda: engine_of(nn.Identity()))
    frozen = NoBlocks()
    freeze(frozen)
    assert "no trainable parameter" in refusal(lambda: engine_of(frozen))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"stage": 4}, "stage is 4: expected 0, 1, 2 or 3"),
        ({"dtype": "fp8"}, "unknown dtype 'fp8': expected one of fp32, bf16, fp16"),
        ({"collectives": "mpi"}, "unknown collectives 'mpi': expected one of ring, native"),
        ({"accumulate": 0}, "accumulate is 0"),
        ({"bucket_elements": 0}, "bucket-elements is 0"),
        ({"prefetch": -1}, "prefetch is -1"),
        ({"clip": 0.0}, "clip is 0.0"),
        ({"clip": float("nan")}, "clip is nan"),
        ({"chunk_bytes": 0}, "chunk bytes is 0"),
        ({"learning_rate": -1.0}, "learning rate is -1.0"),
        ({"initial_loss_scale": 0.0}, "initial loss scale is 0.0"),
        ({"loss_scale_interval": 0}, "loss scale interval is 0"),
        ({"accumulate": 1.5}, "accumulate is 1.5: expected a whole number"),
        ({"stage": "2"}, "stage is '2': expected a whole number"),
        ({"units": "blocks.*"}, "units is 'blocks.*': expected a tuple of patterns"),
        ({"beta2": 1.0}, "beta2 is 1.0"),
        ({"weight_decay": -0.1}, "weight decay is -0.1"),
    ],
)
def test_configurations_that_do_not_exist(values, words):
    assert words in refusal(lambda: EngineConfig(**values))


def test_an_unknown_key():
    assert "unknown key 'stages'" in refusal(lambda: EngineConfig.from_plain({"stages": 1}))


def test_a_configuration_comes_back_from_its_plain_values():
    config = EngineConfig(stage=2, clip=1.5, units=("blocks.*",), dtype="fp16")
    assert EngineConfig.from_plain(config.to_plain()) == config


class Leaks(nn.Module):
    """Uses a block's weight outside of the block."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6)

    def forward(self, x):
        return F.linear(self.second(self.first(x)), self.first.weight).mean()


def test_a_weight_used_outside_of_its_unit_is_an_error_with_advice_in_stage_3():
    engine = engine_of(Leaks(), stage=3)
    with pytest.raises(RuntimeError) as caught:
        engine(x)
    assert any("units=(...)" in note for note in caught.value.__notes__)
    engine_of(Leaks(), stage=2)(x)


def test_a_loss_of_plain_autograd_is_refused_by_its_name():
    engine = engine_of(FrozenBlock(), stage=1)
    loss = engine(x)
    assert "call engine.backward(loss) instead of loss.backward()" in refusal(loss.backward)
