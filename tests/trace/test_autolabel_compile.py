"""A compiler does not notice that a trace is recorded."""

import warnings

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

import zerosim
from zerosim.record import load
from zerosim.schema.events import Kind, Phase

# a compiler warns of many things, with a trace and without one
pytestmark = pytest.mark.filterwarnings("ignore")


class Net(nn.Module):
    """What a compiler may be kept from compiling in one piece."""

    def __init__(self, *, breaks):
        super().__init__()
        self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 3)
        self.breaks = breaks

    def forward(self, x):
        x = self.first(x)
        if self.breaks:
            torch._dynamo.graph_break()
        return self.last(x.tanh())


def train(called, parameters):
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    for step in range(2):
        called(torch.full((2, 3), step + 1.0)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.fixture
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("breaks", [False, True])
@pytest.mark.parametrize("way", ["torch.compile", "module.compile", "function"])
def test_nothing_is_compiled_again_or_otherwise(tmp_path, fresh, alone, breaks, way):
    seen, weights, warned = [], [], []
    for traced in (False, True, False):
        torch._dynamo.reset()
        counters.clear()
        torch.manual_seed(0)
        net = Net(breaks=breaks)
        options = {"backend": "aot_eager", "fullgraph": not breaks}
        called = net
        if way == "torch.compile":
            called = torch.compile(net, **options)
        elif way == "module.compile":
            net.compile(**options)
        else:
            called = torch.compile(lambda x, net=net: net(x), **options)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if traced:
                with zerosim.trace(tmp_path / "t") as recorder:
                    train(called, net.parameters())
                    assert recorder.calls.labeler.trouble == ""
            else:
                train(called, net.parameters())
        warned.append([str(warning.message) for warning in caught if "hook" in str(warning)])
        seen.append((dict(counters["stats"]), len(counters["graph_break"])))
        weights.append([value.clone() for value in net.state_dict().values()])
        # a trace that begins or ends later changes nothing either
        with zerosim.trace(tmp_path / f"later {len(seen)}"):
            train(called, net.parameters())
        train(called, net.parameters())
        assert (dict(counters["stats"]), len(counters["graph_break"])) == seen[-1]
    assert seen[0] == seen[1] == seen[2]
    assert warned == [[], [], []]
    for plain, other, again in zip(*weights, strict=True):
        assert torch.equal(plain, other)
        assert torch.equal(plain, again)


def test_phases_are_found_around_compiled_code(tmp_path, fresh, alone):
    net = nn.Sequential(nn.Linear(3, 3), Net(breaks=False))
    net[1] = torch.compile(net[1], backend="aot_eager", fullgraph=True)
    with zerosim.trace(tmp_path / "t"):
        train(net, net.parameters())
    (rank,) = load(tmp_path / "t").ranks
    spans = [event for event in rank.events if event.kind is Kind.COMPUTE]
    assert {(span.iteration, span.unit, span.phase) for span in spans} == {
        (iteration, unit, phase)
        for iteration in range(2)
        for unit, *phases in (
            ("0", Phase.FORWARD, Phase.BACKWARD),
            ("1", Phase.FORWARD, Phase.BACKWARD),
            ("optimizer", Phase.UPDATE),
        )
        for phase in phases
    }
