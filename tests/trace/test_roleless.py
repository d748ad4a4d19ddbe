"""Live memory without a role."""

import gc
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from zerosim.schema.events import Phase
from zerosim.schema.memory import Role
from zerosim.trace import threads
from zerosim.trace.holdings import HeldStorages
from zerosim.trace.roleless import RolelessStorages
from zerosim.trace.sink import Position

BEGINS = Position(0, 0, Phase.UPDATE)


@pytest.fixture
def holdings():
    gc.collect()
    return HeldStorages()


def looked(found, position=BEGINS):
    assert found.look(position)
    return found.grown()


def test_tensors_are_counted_by_dtype_and_shape_as_long_as_they_are_alive(holdings):
    found = RolelessStorages(holdings, lambda _: None)
    one, other = torch.zeros(3, 7), torch.zeros(3, 7)
    view = one[0]
    number = torch.zeros((), dtype=torch.int64)
    assert looked(found) == {"float32 [3, 7]": 2 * 84, "int64 []": 8}
    del other, number
    assert found.grown() == {"float32 [3, 7]": -84, "int64 []": -8}
    del one
    assert found.grown() == {}  # a view keeps all of it
    del view
    assert found.grown() == {"float32 [3, 7]": -84}


def test_what_there_was_before_or_has_a_role_is_none_of_it(holdings):
    before = torch.zeros(11)
    found = RolelessStorages(holdings, lambda key: "unit" if key == saved._cdata else None)
    tensor, kept = torch.zeros(13), torch.zeros(17)
    saved = kept.untyped_storage()
    shard = torch.zeros(19)
    holdings.hold(shard, Role.PARAMETERS, "unit")
    assert looked(found) == {"float32 [13]": 52}
    holdings.hold(tensor, Role.GRADIENTS, "unit")  # said later
    assert found.grown() == {"float32 [13]": -52}
    del before


def test_it_is_looked_for_less_and_less_often(holdings):
    found = RolelessStorages(holdings, lambda _: None)
    taken = [number for number in range(-1, 40) if found.look(Position(number, 0, Phase.UPDATE))]
    assert taken == [0, 1, 2, 4, 8, 16, 32]
    assert not found.look(Position(1, 0, Phase.FORWARD))


def test_tensors_are_noticed_before_the_collector_makes_them_old(holdings):
    found = RolelessStorages(holdings, lambda _: None)
    one, other = torch.zeros(23), torch.zeros(29)
    gc.collect()
    del other
    young = torch.zeros(31)
    assert looked(found) == {"float32 [23]": 92, "float32 [31]": 124}
    found.close()
    del one, young
    assert found.grown() == {"float32 [23]": -92, "float32 [31]": -124}


def test_what_another_thread_collected_is_found_too(holdings):
    threads.began()
    found = RolelessStorages(holdings, lambda _: None)
    one = torch.zeros(37)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(gc.collect).result()
    assert looked(found) == {"float32 [37]": one.nbytes}
    found.close()


def test_a_tensor_from_before_that_was_given_other_memory_is_seen(holdings):
    before = torch.zeros(41)
    found = RolelessStorages(holdings, lambda _: None)
    before.data = torch.zeros(43)
    assert looked(found) == {"float32 [43]": 172}
    found.close()
