"""What is alive is known from what changed: what was said, what is gone, what was resized."""

import pytest
import torch

from zerosim.base.tiers import Tier
from zerosim.schema.memory import Role
from zerosim.trace import alive
from zerosim.trace.alive import AliveStorages
from zerosim.trace.holdings import HeldStorages

KB = 1000


def floats(num_bytes):
    return torch.zeros(num_bytes // 4)


@pytest.fixture(params=["told", "asked"])
def held(request, monkeypatch):
    assert alive._TELLS, "this PyTorch tells when a storage ends"
    monkeypatch.setattr(alive, "_TELLS", request.param == "told")
    return HeldStorages()


@pytest.fixture
def listen(held):
    """Makes what counts, which hears no more when the test is over."""
    made = []

    def make():
        made.append(AliveStorages(held))
        return made[-1]

    yield make
    for one in made:
        one.close()


def bytes_of(storages, *, wholly=False):
    storages.bring_up_to_date(wholly=wholly)
    return {place: size for place, size in storages.state.items() if size}


def test_what_was_said_before_and_after_is_counted_until_it_is_gone(held, listen):
    first, second = floats(4 * KB), floats(2 * KB)
    held.hold(first, Role.PARAMETERS, "a")
    storages = listen()
    held.hold(second, Role.GRADIENTS, "a")
    parameters = (Role.PARAMETERS, "a", Tier.DEVICE)
    gradients = (Role.GRADIENTS, "a", Tier.DEVICE)
    assert bytes_of(storages) == {parameters: 4 * KB, gradients: 2 * KB}
    storages.changed.clear()
    view = second[:10]
    del second
    assert bytes_of(storages) == {parameters: 4 * KB, gradients: 2 * KB}
    assert not storages.changed
    del view
    assert bytes_of(storages) == {parameters: 4 * KB}
    assert storages.changed == {gradients}
    assert len(list(held)) == 1


def test_the_last_word_on_a_storage_moves_its_bytes(held, listen):
    storages, tensor = listen(), floats(4 * KB)
    held.hold(tensor, Role.BUFFERS, "")
    bytes_of(storages)
    held.hold(tensor, Role.GRADIENTS, "a")
    assert bytes_of(storages) == {(Role.GRADIENTS, "a", Tier.DEVICE): 4 * KB}
    del tensor
    assert bytes_of(storages) == {}


@pytest.mark.parametrize("role", [Role.GATHERED, Role.BUFFERS])
def test_what_frameworks_resize_is_asked_each_time(held, listen, role):
    storages, tensor = listen(), floats(4 * KB)
    held.hold(tensor, role, "a")
    bytes_of(storages)
    tensor.untyped_storage().resize_(8 * KB)
    assert bytes_of(storages) == {(role, "a", Tier.DEVICE): 8 * KB}
    tensor.untyped_storage().resize_(0)
    assert bytes_of(storages) == {}


def test_all_else_is_asked_at_phase_borders(held, listen):
    storages, tensor = listen(), floats(4 * KB)
    held.hold(tensor, Role.PARAMETERS, "a")
    bytes_of(storages)
    tensor.untyped_storage().resize_(8 * KB)
    assert bytes_of(storages, wholly=True) == {(Role.PARAMETERS, "a", Tier.DEVICE): 8 * KB}


def test_files_count_as_they_are_said(held, listen):
    storages = listen()
    held.hold_file("x", Role.MOMENTUM, "a", 3)
    held.hold_file("y", Role.MOMENTUM, "a", 4)
    assert bytes_of(storages) == {(Role.MOMENTUM, "a", Tier.DISK): 7}
    held.hold_file("x", Role.MOMENTUM, "a", 0)
    assert bytes_of(storages) == {(Role.MOMENTUM, "a", Tier.DISK): 4}


def test_what_is_said_after_it_was_closed_is_not_kept(held, listen):
    storages, tensor = listen(), floats(KB)
    storages.close()
    held.hold(tensor, Role.PARAMETERS, "a")
    assert bytes_of(storages) == {}


def test_a_storage_tells_of_its_size_only_while_a_trace_listens(listen):
    original = torch.UntypedStorage.resize_
    first, second = listen(), listen()
    assert torch.UntypedStorage.resize_ is not original
    first.close()
    assert torch.UntypedStorage.resize_ is not original
    second.close()
    assert torch.UntypedStorage.resize_ is original


def test_what_a_collective_was_given_may_have_been_resized_for_it(held, listen):
    storages, tensor = listen(), floats(4 * KB)
    held.hold(tensor, Role.BUFFERS, "")
    bytes_of(storages)
    tensor.resize_(2 * KB)  # not through its storage, so no watcher is informed
    storages.may_grow(held.get(tensor.untyped_storage()))
    assert bytes_of(storages) == {(Role.BUFFERS, "", Tier.DEVICE): 8 * KB}
    storages.close()
