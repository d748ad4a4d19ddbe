"""What DeepSpeed's optimizers keep of gradients beside the parameters' own."""

from types import SimpleNamespace

import torch

from zerosim.schema.memory import Role
from zerosim.systems.deepspeed.observed_engine import own_gradients
from zerosim.trace.autolabel.discovery import Discovery
from zerosim.trace.holdings import HeldStorages
from zerosim.trace.looking import Content

NAME = "contiguous gradients"


def roles(optimizer, *, wholly=True):
    return [
        (role, unit, one.numel()) for role, unit, one in own_gradients(optimizer, wholly=wholly)
    ]


def test_stages_1_and_2_have_buckets_and_averaged_gradients():
    bucket = SimpleNamespace(buffer=[torch.zeros(8), torch.zeros(8)])
    averaged = {0: [torch.zeros(3), torch.zeros(2)], 1: None}
    optimizer = SimpleNamespace(ipg_buckets={torch.float32: bucket}, averaged_gradients=averaged)
    buckets = [(Role.BUFFERS, NAME, 8)] * 2
    assert roles(optimizer, wholly=False) == buckets
    assert roles(optimizer) == [*buckets, (Role.GRADIENTS, "", 3), (Role.GRADIENTS, "", 2)]


def test_stage_3_has_one_buffer_of_each():
    optimizer = SimpleNamespace(
        ipg_buckets={torch.float32: SimpleNamespace(buffer=torch.zeros(8))},
        grad_partitions_flat_buffer=torch.zeros(5),
    )
    assert roles(optimizer) == [(Role.BUFFERS, NAME, 8), (Role.GRADIENTS, "", 5)]


def test_other_optimizers_have_none():
    assert roles(SimpleNamespace()) == []


def test_a_bucket_with_a_name_stays_one_when_gradients_are_views_of_it():
    holdings = HeldStorages()
    bucket, buffer = torch.zeros(8), torch.zeros(4)
    holdings.hold(buffer, Role.BUFFERS, "", is_found=True)
    parameters = [torch.nn.Parameter(torch.zeros(4)) for _ in range(2)]

    def kept(*, wholly):
        yield Content(Role.BUFFERS, NAME, bucket)

    found = Discovery(holdings, lambda _: (), kept)
    for one in parameters:
        found._meet_parameter(one, Role.PARAMETERS)
    parameters[0].grad, parameters[1].grad = bucket[:4], buffer
    found.find_gradients(wholly=False)
    found.find_gradients(wholly=True)
    held = [holdings.get(one.untyped_storage()) for one in (bucket, buffer)]
    assert [(one.role, one.unit) for one in held] == [(Role.BUFFERS, NAME), (Role.GRADIENTS, "")]
