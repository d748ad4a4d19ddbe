"""Where a program is, however it is written: marks in it say what is found there."""

import warnings

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

import zerosim
from zerosim.record import load
from zerosim.schema.events import Kind, Phase
from zerosim.trace import labels
from zerosim.trace.autolabel import modules

OUT, F, B, U = Phase.OUTSIDE, Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE


def mark(number):
    """A collective that is told from others by its size."""
    dist.all_reduce(torch.zeros(number))


class Marked(nn.Module):
    """Leaves a mark in its forward, and one in its backward."""

    def __init__(self, forward=1, backward=2):
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.forward_mark, self.backward_mark = forward, backward

    def forward(self, x):
        y = self.inner(x)
        mark(self.forward_mark)
        if y.requires_grad:
            y.register_hook(lambda _: mark(self.backward_mark))
        return y


class MarkedSGD(torch.optim.SGD):
    """Leaves a mark in its step."""

    def step(self, closure=None):
        loss = super().step(closure)
        mark(3)
        return loss


@pytest.fixture
def places(tmp_path, alone):
    """Runs a program; returns its marks, each with iteration, micro-step and phase."""

    def run(program):
        with zerosim.trace(tmp_path / "t", memory=False, wire=False) as recorder:
            labeler = recorder.calls.labeler
            program()
        assert labeler.trouble + labeler._phases.trouble == ""
        (rank,) = load(tmp_path / "t", strict=True).ranks
        calls = [event for event in rank.events if event.kind is Kind.COLLECTIVE]
        run.computed = [event for event in rank.events if event.kind is Kind.COMPUTE]
        return [(c.elements, c.iteration, c.micro_step, c.phase) for c in calls]

    return run


X = torch.ones(2, 3)


def step(optimizer, mark):
    """An engine's, which goes on after its optimizer."""
    optimizer.step()
    mark(4)


step.__code__ = step.__code__.replace(co_filename="/packages/deepspeed/runtime/engine.py")


def test_what_follows_an_engines_step_is_outside_of_it(places):
    def program():
        net = Marked()
        optimizer = MarkedSGD(net.parameters(), lr=0.1)
        for _ in range(2):
            nn.MSELoss()(net(X), X).backward()
            step(optimizer, mark)
            mark(5)
            with torch.no_grad():
                net(X)
            mark(6)

    assert places(program) == [
        (size, iteration, 0, phase)
        for iteration in range(2)
        for size, phase in [(1, F), (2, B), (3, U), (4, U), (5, OUT), (1, OUT), (6, OUT)]
    ]


def test_a_plain_loop(places):
    def program():
        mark(9)
        net, loss = Marked(), nn.MSELoss()
        optimizer = MarkedSGD(net.parameters(), lr=0.1)
        for _ in range(2):
            loss(net(X), X).backward()
            optimizer.step()
            mark(4)

    one = [(1, 0, 0, F), (2, 0, 0, B), (3, 0, 0, U), (4, 0, 0, OUT)]
    assert places(program) == [
        (9, -1, 0, OUT),
        *one,
        *((number, 1, 0, phase) for number, _, _, phase in one),
    ]
    assert {(c.unit, c.phase, c.error) for c in places.computed} == {
        ("inner", F, ""),
        ("inner", B, ""),
        ("optimizer", U, ""),
    }
    assert len(places.computed) == 6


def test_accumulation_and_a_metric_between(places):
    def program():
        net, metric = Marked(), nn.L1Loss()
        optimizer = MarkedSGD(net.parameters(), lr=0.1)
        for _ in range(2):
            for _ in range(2):
                y = net(X)
                y.sum().backward()
                metric(y.detach(), X)
            optimizer.step()

    found = places(program)
    assert found == [
        step
        for iteration in range(2)
        for step in (
            (1, iteration, 0, F),
            (2, iteration, 0, B),
            (1, iteration, 1, F),
            (2, iteration, 1, B),
            (3, iteration, 1, U),
        )
    ]


def test_two_forwards_before_one_backward_are_one_micro_step(places):
    def program():
        net = Marked()
        optimizer = MarkedSGD(net.parameters(), lr=0.1)
        (net(X) + net(2 * X)).sum().backward()
        optimizer.step()

    assert places(program) == [
        (1, 0, 0, F),
        (1, 0, 0, F),
        (2, 0, 0, B),
        (2, 0, 0, B),
        (3, 0, 0, U),
    ]


def test_an_adversarial_pair(places):
    def program():
        first, second = Marked(1, 2), Marked(5, 6)
        optimizers = [MarkedSGD(net.parameters(), lr=0.1) for net in (first, second)]
        for _ in range(2):
            second(first(X).detach()).sum().backward()
            optimizers[1].step()
            second(first(X)).sum().backward()
            optimizers[0].step()

    found = places(program)
    assert {iteration for _, iteration, _, _ in found} == {0, 1, 2, 3}
    assert {micro_step for _, _, micro_step, _ in found} == {0}
    for iteration in range(4):
        phases = [phase for _, number, _, phase in found if number == iteration]
        assert phases == sorted(phases, key=[F, B, U].index)
    assert {c.unit for c in places.computed} == {"inner", "Marked 2: inner", "optimizer"}


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_evaluation_is_outside(places, mode):
    def program():
        net = Marked()
        optimizer = MarkedSGD(net.parameters(), lr=0.1)
        with mode():
            net(X)
        net(X).sum().backward()
        with mode():
            net(X)
        mark(7)
        optimizer.step()
        with mode():
            net(X)

    assert places(program) == [
        (1, -1, 0, OUT),
        (1, 0, 0, F),
        (2, 0, 0, B),
        (1, 0, 0, OUT),
        (7, 0, 0, B),
        (3, 0, 0, U),
        (1, 0, 0, OUT),
    ]


def test_an_optimizer_that_computes_by_itself(places):
    def program():
        net = Marked()
        optimizer = torch.optim.LBFGS(net.parameters(), max_iter=2, max_eval=2)

        def closure():
            optimizer.zero_grad()
            loss = net(X).square().sum()
            loss.backward()
            mark(4)
            return loss

        for _ in range(2):
            optimizer.step(closure)

    found = places(program)
    assert [place for place in found if place[1] == 0] == [
        (1, 0, 0, F),
        (2, 0, 0, B),
        (4, 0, 0, U),
        (1, 0, 1, F),
        (2, 0, 1, B),
        (4, 0, 1, U),
    ]
    assert {iteration for _, iteration, _, _ in found} == {0, 1}


def test_an_optimizer_that_steps_within_backward(places):
    def program():
        net = Marked()
        optimizers = {p: MarkedSGD([p], lr=0.1) for p in net.parameters()}
        for parameter in net.parameters():
            parameter.register_post_accumulate_grad_hook(lambda p: optimizers[p].step())
        for _ in range(2):
            net(X).sum().backward()
            mark(4)

    one = [(1, F), (2, B), (3, B), (3, B), (4, OUT)]
    assert places(program) == [(k, step, 0, phase) for step in range(2) for k, phase in one]


def test_an_exception_in_forward_and_in_step(places):
    class Failing(Marked):
        fails = True

        def forward(self, x):
            if self.fails:
                raise ValueError("no")
            return super().forward(x)

    def program():
        net = Failing()
        optimizer = MarkedSGD(net.parameters(), lr=0.1)
        with pytest.raises(ValueError, match="no"):
            net(X)
        net.fails = False
        net(X).sum().backward()
        with pytest.raises(ValueError, match="closure"):
            optimizer.step(_raise)
        net(X).sum().backward()
        optimizer.step()
        net(X)

    assert [place[1:] for place in places(program)] == [
        (0, 0, F),
        (0, 0, B),
        (0, 1, F),
        (0, 1, B),
        (0, 1, U),
        (1, 0, F),
    ]


def _raise():
    raise ValueError("closure")


def test_a_scaler_that_skips_a_step_ends_the_iteration(places):
    def program():
        net = Marked()
        optimizer = MarkedSGD(net.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        for factor in (float("inf"), 1.0):
            scaler.scale(net(factor * X).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

    assert places(program) == [
        (1, 0, 0, F),
        (2, 0, 0, B),
        (1, 1, 0, F),
        (2, 1, 0, B),
        (3, 1, 0, U),
    ]


def test_a_gradient_within_a_forward_belongs_to_it(places):
    class Force(Marked):
        def forward(self, x):
            x = x.requires_grad_()
            energy = super().forward(x).square().sum()
            (force,) = torch.autograd.grad(energy, x, create_graph=True)
            mark(8)
            return force

    def program():
        net = Force()
        optimizer = MarkedSGD(net.parameters(), lr=0.1)
        net(X.clone()).sum().backward()
        optimizer.step()

    found = places(program)
    assert found[:3] == [(1, 0, 0, F), (2, 0, 0, F), (8, 0, 0, F)]
    assert found[-1] == (3, 0, 0, U)
    assert set(found[3:-1]) <= {(2, 0, 0, B)}


def test_a_penalty_on_gradients_is_no_micro_step(places):
    def program():
        net = Marked()
        optimizer = MarkedSGD(net.parameters(), lr=0.1)
        x = X.clone().requires_grad_()
        (slope,) = torch.autograd.grad(net(x).square().sum(), x, create_graph=True)
        (net(x).sum() + slope.square().sum()).backward()
        optimizer.step()

    found = places(program)
    assert {micro_step for _, _, micro_step, _ in found} == {0}
    assert [phase for _, _, _, phase in found[:3]] == [F, B, F]
    assert found[-1] == (3, 0, 0, U)


def test_functional_gradients(places):
    def program():
        net = nn.Linear(3, 3)
        parameters = {name: p.detach() for name, p in net.named_parameters()}

        def loss(values):
            return torch.func.functional_call(net, values, (X,)).sum()

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gradients = torch.func.grad(loss)(parameters)
        assert torch.equal(gradients["bias"], torch.full((3,), 2.0))
        mark(4)

    assert places(program) == [(4, 0, 0, B)]


@pytest.mark.parametrize("reentrant", [True, False])
def test_what_is_computed_again_belongs_to_backward(places, reentrant):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(Marked() for _ in range(2))

        def forward(self, x):
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=reentrant)
            return x

    def program():
        net = Net()
        optimizer = MarkedSGD(net.parameters(), lr=0.1)
        net(X.clone().requires_grad_()).sum().backward()
        optimizer.step()

    found = places(program)
    assert found[:2] == [(1, 0, 0, F)] * 2
    assert found[-1] == (3, 0, 0, U)
    assert {place[1:] for place in found[2:-1]} == {(0, 0, B)}
    # without reentrance the computation stops when all that was saved is there again
    assert [number for number, *_ in found].count(1) == (4 if reentrant else 2)
    spans = [(c.unit, c.phase) for c in places.computed]
    assert spans == [
        ("blocks.0", F),
        ("blocks.1", F),
        ("blocks.1", B),
        ("blocks.0", B),
        ("optimizer", U),
    ]


def test_the_outermost_may_be_checkpointed(places):
    def program():
        net = Marked()
        checkpoint(net, X.clone().requires_grad_(), use_reentrant=True).sum().backward()

    assert places(program)[0] == (1, 0, 0, F)


def test_a_trace_that_begins_in_the_middle(places):
    net = Marked()
    optimizer = MarkedSGD(net.parameters(), lr=0.1)
    y = net(X).sum()

    def program():
        y.backward()
        optimizer.step()
        net(X)

    assert places(program) == [(2, 0, 0, B), (3, 0, 0, U), (1, 1, 0, F)]


def test_the_next_trace_begins_anew(tmp_path, alone):
    net = Marked()
    optimizer = MarkedSGD(net.parameters(), lr=0.1)
    for name in ("a", "b"):
        with zerosim.trace(tmp_path / name, memory=False):
            mark(9)
            net(X).sum().backward()
            optimizer.step()
        (rank,) = load(tmp_path / name).ranks
        calls = [(e.elements, e.iteration) for e in rank.events if e.kind is Kind.COLLECTIVE]
        assert calls == [(9, -1), (1, 0), (2, 0), (3, 0)]


def test_nothing_is_left_behind(tmp_path):
    from torch.amp.grad_scaler import GradScaler

    before = nn.Module.__call__, torch.autograd._engine_run_backward, GradScaler.step
    with zerosim.trace(tmp_path / "t"):
        assert nn.Module.__call__ is not before[0]
        assert not torch.nn.modules.module._has_any_global_hook()
    after = nn.Module.__call__, torch.autograd._engine_run_backward, GradScaler.step
    assert after == before


def test_a_mistake_in_labelling_ends_the_labels_and_nothing_else(tmp_path, alone, capsys):
    net = Marked()
    with zerosim.trace(tmp_path / "t", memory=False) as recorder:
        net(X).sum().backward()
        labeler = recorder.calls.labeler
        labeler._units.begin = lambda _: 1 / 0
        labeler._rules.find = lambda: 1 / 0
        net(X).sum().backward()
        assert labeler.trouble == "ZeroDivisionError: division by zero"
    said = "zerosim: events from here on are not labelled (ZeroDivisionError: division by zero)\n"
    assert capsys.readouterr().err == said
    (rank,) = load(tmp_path / "t", strict=True).ranks
    assert len([event for event in rank.events if event.kind is Kind.COLLECTIVE]) == 4


def test_a_module_in_another_is_told_of_while_it_is_wanted():
    class Watcher:
        def __init__(self, wanted):
            self.wanted, self.told = wanted, []

        def module_begins(self, module):
            self.told.append(type(module).__name__)
            return type(module).__name__ in self.wanted

        def module_ends(self, module, output, error):
            self.told.append(f"/{type(module).__name__}")

    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    watcher, other = Watcher({"Linear"}), Watcher(set())
    modules.watch(watcher)
    modules.watch(other)
    try:
        net(X)
        first = ["Sequential", "Linear", "/Linear", "ReLU", "/ReLU", "/Sequential"]
        assert watcher.told == first
        net(X)
        assert watcher.told == [*first, *first[:3], "/Sequential"]
        assert other.told == [*first, "Sequential", "/Sequential"]
        modules.reconsider()
        net(X)
        assert watcher.told[-6:] == first
        net[1](X)
        assert watcher.told[-2:] == ["ReLU", "/ReLU"]
    finally:
        modules.unwatch(watcher)
        modules.unwatch(other)
    net(X)
    assert watcher.told[-2:] == ["ReLU", "/ReLU"]
    assert labels.attached() is None
