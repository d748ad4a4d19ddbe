"""What is seen of DeepSpeed without it: its modules, and which forwards backward computes again."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from zerosim.systems.deepspeed.observed_engine import own_parameters
from zerosim.systems.deepspeed.observed_order import Recomputes


class Net(nn.Module):
    """Two layers that are checkpointed together, and a head with the first one's weight."""

    def __init__(self, *, reentrant=True):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        self.head = nn.Linear(3, 3)
        self.head.weight = self.block[0].weight
        self.reentrant = reentrant

    def forward(self, x):
        return self.head(checkpoint(self.block, x, use_reentrant=self.reentrant))


def bundles(model):
    """The modules of stage 3, without an engine."""
    found = own_parameters(SimpleNamespace(module=model))
    return {one.name: ([p.name for p in one.parameters], one.options) for one in found}


def test_a_tied_weight_has_one_name():
    assert bundles(Net()) == {
        "block.0": (["block.0.weight", "block.0.bias"], {"persistent": []}),
        "block.1": (["block.1.weight", "block.1.bias"], {"persistent": []}),
        "head": (["block.0.weight", "head.bias"], {"persistent": []}),
    }


def test_a_leaf_module_has_the_parameters_of_all_within_it():
    net = Net()
    net.block._z3_leaf = True
    net.block.scale = nn.Parameter(torch.ones(1))
    found = bundles(net)
    assert found.keys() == {"block", "head"}
    parts = [f"block.{layer}.{kind}" for layer in (0, 1) for kind in ("weight", "bias")]
    assert found["block"] == (
        ["block.scale", *parts],
        {"persistent": [], "direct": ["block.scale"]},
    )


def test_an_external_parameter_belongs_to_its_reader_as_well():
    net = Net()
    net.reader = nn.Linear(3, 3, bias=False)
    net.reader._external_params = {
        id(one): one for one in (net.block[1].bias, net.reader.weight, net.block[0].weight)
    }
    net.block[1].bias.is_external_param = True
    found = bundles(net)
    assert found["reader"] == (
        ["reader.weight", "block.1.bias", "block.0.weight"],
        {
            "persistent": [],
            "external": ["block.1.bias", "block.0.weight"],
            "returned": ["block.1.bias"],
        },
    )
    assert found["block.1"][1] == {"persistent": [], "returned": ["block.1.bias"]}
    # a module without parameters of its own that reads one
    net.reads = nn.Identity()
    net.reads._external_params = {0: net.head.bias}
    assert bundles(net)["reads"] == (["head.bias"], {"persistent": [], "external": ["head.bias"]})


@pytest.mark.parametrize(
    ("reentrant", "computed", "cut_short"),
    [
        (True, ["block", "block.0", "block.1"], []),
        # the last layer has all that backward asked for, so it and the block end early
        (False, ["block", "block.0", "block.1"], ["block.1", "block"]),
    ],
)
def test_forwards_that_backward_computes_again(reentrant, computed, cut_short):
    net, order, open_ = Net(reentrant=reentrant), [], []
    names = {module: name or "root" for name, module in net.named_modules()}
    for number, module in enumerate(names):
        module.ds_id = number
        module.register_forward_pre_hook(lambda module, _: order.append(module))
    seen = Recomputes(names, lambda: order, lambda: open_)
    seen.begin()
    try:
        loss = net(torch.ones(2, 3, requires_grad=True)).sum()
        open_.append(net)
        loss.backward()
    finally:
        seen.end()
    assert seen.trouble == ""
    assert [names[order[one.place]] for one in seen.found] == computed
    assert {one.within for one in seen.found} == {("root",)}
    assert [names[order[place]] for place in seen.cut_short] == cut_short
