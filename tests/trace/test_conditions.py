"""Conditions are computed, never evaluated as code."""

from __future__ import annotations

import pytest
import torch

from zerosim.base.errors import ConfigError
from zerosim.schema.events import Kind, Phase
from zerosim.schema.memory import Role
from zerosim.schema.stands import Stand, read_stand
from zerosim.trace.conditions import Condition
from zerosim.trace.gate import Gate
from zerosim.trace.holdings import hold, release

STAND = Stand(
    kind=Kind.COMPUTE, iteration=3, micro_step=0, phase=Phase.BACKWARD, unit="a", payload_bytes=10
)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ('phase == "backward" and unit == "a"', True),
        ('phase in ("forward", "update")', False),
        ("iteration > 2 and not rank == 1", True),
        ("bytes >= 10 or hop == 0", True),
        ("hop > 0", False),  # it has none
        ('grad("nowhere").isnan().any()', False),
        ("(iteration + 1) * 2 == 8", True),
        ('"ack" in phase', True),
    ],
)
def test_what_holds(text, holds):
    assert Condition(text).holds(0, STAND) is holds


def test_tensors_are_those_that_the_rank_holds():
    gradient = torch.tensor([1.0, -3.0, float("nan")])
    hold(gradient, Role.GRADIENTS, "here")
    assert Condition('grad("here").isnan().any()').holds(0, STAND)
    assert Condition("nonfinite()").holds(0, STAND)
    assert Condition('grad("here").numel()').show(0, STAND) == "3"
    assert not Condition('grad("here").max() > 5').holds(0, STAND)
    with pytest.raises(ConfigError, match=r"cannot be evaluated: .*ambiguous"):
        Condition('grad("here") > 0').holds(0, STAND)
    release(gradient)
    del gradient
    assert Condition('grad("here").sum()').show(0, STAND) == "not there"


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "open('/etc/passwd')",
        "unit.__class__",
        "(lambda: 1)()",
        "[x for x in unit]",
        "grad('a').zero_()",
        "grad('a').data",
        "grad('a', b=1)",
        "grad",
        "unit if rank else 0",
        "2 ** 99999999",
        "f'{unit}'",
        "unit[0]",
        "iteration = 3",
        "(" * 300,
        "None",
        "x" * 501,
    ],
)
def test_what_is_refused(text):
    with pytest.raises(ConfigError):
        Condition(text)


def test_a_stand_travels_as_plain_values():
    assert read_stand(STAND.to_plain()) == STAND


class Keeper:
    """Lets everything through and remembers it."""

    def __init__(self):
        self.met = []

    def arrives(self, thread, stand):
        self.met.append((stand.unit, stand.hop, stand.place))


def test_a_gate_counts_what_it_meets_and_asks_nobody_when_it_is_open():
    gate, keeper = Gate(), Keeper()
    ring = Stand(kind=Kind.COLLECTIVE, iteration=3, micro_step=0, phase=Phase.BACKWARD, unit="r")
    gate.stop(STAND)
    assert not gate.is_closed
    gate.close(keeper)
    assert gate.is_closed
    assert not gate.has_met(STAND)
    gate.stop(STAND)
    gate.stop(STAND)
    assert gate.has_met(STAND)
    gate.stop(ring)
    for hop in (0, 1, 1, 2):  # chunks of a hop are one
        gate.stop_before_hop(hop, 0, 0)
    gate.open()
    gate.stop(STAND)
    gate.close(keeper)
    gate.stop_before_hop(3, 0, 0)  # of a collective that began before
    assert keeper.met == [("a", None, 0), ("a", None, 1), ("r", None, 0), ("r", 1, 0), ("r", 2, 0)]
