"""The names of tensors and units, and the code that requested a collective."""

import functools

import pytest
import torch
from torch import nn

from zerosim.schema.events import Phase, Purpose
from zerosim.trace.autolabel.names import Names
from zerosim.trace.autolabel.rules import Rule, RuleTable, code_of
from zerosim.trace.autolabel.units import Units, clean, unwrapped


@pytest.fixture
def net():
    return nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))


@pytest.fixture
def names(net):
    found = Names()
    for name, parameter in net.named_parameters():
        found.add(parameter, name)
    return found


def test_parameters_are_known_by_what_they_share_bytes_with(net, names):
    weight = net[0].weight
    assert names.of(weight) == "0.weight"
    assert names.of(weight.data) == ""
    for tensor in (weight, weight.data, weight.detach().view(-1)[2:], weight.t()):
        assert names.of_parameters([tensor]) == ("0.weight",)
    assert names.of_parameters([weight.clone()]) == ()
    assert names.of_parameters([weight, net[1].bias]) == ("0.weight", "1.bias")


def test_of_several_in_one_storage_those_that_are_meant():
    flat = torch.zeros(10)
    parts = [nn.Parameter(part) for part in flat.split([4, 6])]
    names = Names()
    for number, part in enumerate(parts):
        names.add(part, str(number))
    assert names.of_parameters([flat]) == ("0", "1")
    assert names.of_parameters([flat[:4]]) == ("0",)
    assert names.of_parameters([flat[4:5]]) == ("1",)
    assert names.of_parameters([flat[3:5]]) == ("0", "1")


def test_gradients_are_known_while_they_are_what_they_were(net, names):
    assert names.of_gradients([torch.ones(2)]) == ()
    names.backward_begins([])
    net(torch.ones(1, 2)).sum().backward()
    old = net[0].weight.grad
    assert names.of_gradients([old]) == ("0.weight",)
    assert names.of_gradients([net[1].bias.grad, old]) == ("1.bias", "0.weight")
    net[0].weight.grad = old.clone()
    assert names.of_gradients([old]) == ()
    assert names.of_gradients([net[0].weight.grad]) == ("0.weight",)
    assert names.of_parameters([old]) == ()


def test_gradients_are_found_as_they_come(net, names):
    seen = []
    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(
            lambda p: seen.append(names.of_gradients([p.grad]))
        )
    names.backward_begins([])
    net(torch.ones(1, 2)).sum().backward()
    assert sorted(seen) == [("0.bias",), ("0.weight",), ("1.bias",), ("1.weight",)]


def test_the_loss_is_known_and_its_copy_is_not(names):
    loss = torch.ones((), requires_grad=True)
    many = torch.ones(4, requires_grad=True)
    names.backward_begins([loss, many])
    assert names.is_loss([loss.detach()])
    assert not names.is_loss([loss.detach().clone()])
    assert not names.is_loss([many])
    del loss
    assert not names.is_loss([torch.zeros(())])


def test_nothing_is_kept_alive(net, names):
    weight = net[0].weight.detach().clone()
    gone = nn.Parameter(weight)
    names.add(gone, "gone")
    del gone
    assert names.of_parameters([weight]) == ()
    names.add(net[0].weight, "another name")
    assert names.of(net[0].weight) == "0.weight"


def test_tensors_without_a_storage_have_no_name(names):
    sparse = torch.eye(2).to_sparse()
    assert names.of_gradients([sparse]) == names.of_parameters([sparse]) == ()
    assert names.of_parameters([torch.ones(2, device="meta")]) == ()


# rules


HERE = "/tests/trace/test_autolabel_names.py"


def outer(rules):
    unit = "outer unit"
    assert unit
    return inner(rules)


def inner(rules):
    unit = ""
    assert unit == ""
    return rules.find()


def unit_of(frame):
    return frame.f_locals["unit"]


def test_the_innermost_known_function_decides():
    gather, reduce = Purpose.GATHER_PARAMETERS, Purpose.REDUCE_GRADIENTS
    both = RuleTable([Rule(HERE, "outer", gather), Rule(HERE, "inner", reduce, phase=Phase.UPDATE)])
    found = outer(both)
    assert (found.purpose, found.unit, found.phase) == (reduce, "", Phase.UPDATE)
    weak = RuleTable([Rule(HERE, "outer", gather), Rule(HERE, "inner", reduce, is_weak=True)])
    assert outer(weak).purpose is gather
    assert inner(weak).purpose is reduce
    assert both.find() is None
    assert RuleTable([Rule("/elsewhere.py", "inner", gather)]).find() is None
    assert outer(RuleTable([Rule(HERE, "", gather)])).purpose is gather


def test_who_does_not_know_its_unit_asks_who_called_it():
    gather, reduce = Purpose.GATHER_PARAMETERS, Purpose.REDUCE_GRADIENTS
    same = RuleTable([Rule(HERE, "outer", gather, unit_of), Rule(HERE, "inner", gather, unit_of)])
    assert outer(same).unit == "outer unit"
    other = RuleTable([Rule(HERE, "outer", reduce, unit_of), Rule(HERE, "inner", gather, unit_of)])
    assert (outer(other).purpose, outer(other).unit) == (gather, "")


def test_a_function_of_the_programs_own():
    class Callable:
        def __call__(self, rules):
            return rules.find()

    rule = Rule("", "", Purpose.REDUCE_GRADIENTS)
    for function in (lambda rules: rules.find(), Callable(), functools.partial(Callable())):
        rules = RuleTable([])
        assert function(rules) is None
        rules.know(code_of(function), rule)
        assert function(rules).purpose is Purpose.REDUCE_GRADIENTS
    assert code_of(len) is None


# units


def test_units_of_a_second_model_have_its_name_before_theirs():
    units = Units()
    first, second = nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 2))
    assert units.meet(first)
    assert not units.meet(first)
    assert units.meet(second)
    assert units.meet(nn.Sequential(first, nn.ReLU()))
    assert [units.label(one) for one in (first, second, first[0], second[0])] == [
        "",
        "Sequential 2",
        "",
        "Sequential 2",
    ]
    assert units.names.of(first[0].weight) == "0.weight"
    assert units.names.of(second[0].weight) == "Sequential 2: 0.weight"


def test_wrappers_have_no_part_in_names(net):
    compiled = torch.compile(net, backend="eager")
    assert unwrapped(compiled) is net
    assert clean("_orig_mod.module.0._checkpoint_wrapped_module.weight") == "0.weight"
    assert clean("module") == ""
