"""The memory of a unit: one flat vector for its parameters, one for its gradients.

Both are matrices of N rows. The stages decide which rows a rank keeps; the operations of a unit are
here.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from enum import StrEnum

import torch

from zerosim.schema.events import Purpose
from zerosim.schema.manifest import Segment
from zerosim.schema.memory import Role
from zerosim.trace import labels
from zerosim.trace.holdings import hold, key_of, release
from zerosim.train.device import resized
from zerosim.train.engine.contiguous import Arena
from zerosim.train.engine.local import local_gradient, local_part, set_local_part
from zerosim.train.engine.units import ParameterSlot, Unit


class UnitState(StrEnum):
    """The state of a unit's parameters in stage 3."""

    SHARDED = "sharded"
    """Only this rank's shard exists; the flat vector has no memory."""
    GATHERING = "gathering"
    """The flat vector has memory, and the shards of other ranks are being gathered."""
    UNSHARDED = "unsharded"
    """All parameters are present and ready for computation."""


class FlatUnit:
    """A unit and its memory, once allocated.

    Attributes:
        unit: its parameters and their positions.
        flat: all parameters, shape (N * columns,), in the compute dtype.
        rows: the same, shape (N, columns).
        state: see `UnitState`; always UNSHARDED if parameters are not partitioned.
        gradient: all gradients, shape (N, columns); None if there are none.
        arena: the arena for gradients; None for ordinary allocations.
    """

    def __init__(
        self, unit: Unit, num_ranks: int, rank: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        """Describe the unit; `materialize` allocates it."""
        self.unit = unit
        self.rank = rank
        self.num_ranks = num_ranks
        self.flat = torch.empty(0, dtype=dtype, device=device)
        self.rows = self.flat.view(num_ranks, 0)
        self.state = UnitState.UNSHARDED
        self.gradient: torch.Tensor | None = None
        self.arena: Arena | None = None
        self._written: set[str] = set()
        self._accumulated: set[str] = set()
        self._nothing = torch.empty(0, dtype=dtype, device=device)

    def materialize(self) -> None:
        """Move the parameters into one flat vector; they become views of it."""
        self.flat = self._nothing.new_zeros(self.num_ranks * self.unit.columns)
        self.rows = self.flat.view(self.num_ranks, self.unit.columns)
        with torch.no_grad():
            for slot in self.unit.slots:
                slot.parameter.grad = None
                self.view(slot).copy_(local_part(slot.parameter))
        self._show_parameters()
        hold(self.flat, Role.PARAMETERS, self.name)

    @property
    def name(self) -> str:
        """The unit's name."""
        return self.unit.name

    @property
    def all_columns(self) -> Segment:
        """All columns of the unit."""
        return Segment(unit=self.name, start=0, stop=self.unit.columns)

    def labelled(self, purpose: Purpose) -> AbstractContextManager[None]:
        """Label communication and copies within the context with this unit and this purpose."""
        return labels.scope(unit=self.name, purpose=purpose, tensors=(self.name,))

    # parameters

    def allocate_parameters(self) -> None:
        """Allocate the flat vector again; its contents are undefined."""
        assert self.state is UnitState.SHARDED, f"{self.name} is {self.state}"
        self.flat.untyped_storage().resize_(self.flat.numel() * self.flat.element_size())
        resized(self.flat)
        self.state = UnitState.GATHERING

    def show_parameters(self) -> None:
        """All shards have arrived, so the parameters can be used."""
        assert self.state is UnitState.GATHERING, f"{self.name} is {self.state}"
        self._show_parameters()
        self.state = UnitState.UNSHARDED

    def free_parameters(self) -> None:
        """Free the flat vector. Views that autograd saved keep pointing at its empty storage.

        These views become valid again when the same storage is filled before backward needs it.
        """
        assert self.state is UnitState.UNSHARDED, f"{self.name} is {self.state}"
        for slot in self.unit.slots:
            set_local_part(slot.parameter, self._nothing)
        self.flat.untyped_storage().resize_(0)
        resized(self.flat)
        self.state = UnitState.SHARDED

    def holds(self, tensor: torch.Tensor) -> bool:
        """True if the tensor's values lie in the flat vector."""
        tensor = local_part(tensor)
        if tensor.layout is not torch.strided or tensor.numel() == 0:
            return False
        return key_of(tensor.untyped_storage()) == key_of(self.flat.untyped_storage())

    def _show_parameters(self) -> None:
        for slot in self.unit.slots:
            set_local_part(slot.parameter, self.view(slot))

    def view(self, slot: ParameterSlot) -> torch.Tensor:
        """One parameter, as a view of the flat vector."""
        # one operator instead of a slice and a view: this is called very often
        return self.flat.as_strided(slot.shape, _strides(slot.shape), slot.offset)

    # gradients

    def collect_gradient(self, index: int) -> bool:
        """Move the gradient that autograd left at parameter `index` into the flat vector.

        Returns:
            True if this was the last parameter of the unit in this backward pass.
        """
        slot = self.unit.slots[index]
        gradient = local_gradient(slot.parameter)
        assert gradient is not None, f"{slot.name} has no gradient"
        slot.parameter.grad = None
        matrix = self._gradient_matrix()
        place = matrix.view(-1)[slot.offset : slot.offset + slot.elements]
        if slot.name in self._accumulated:
            place.add_(gradient.reshape(-1))
        else:
            place.copy_(gradient.reshape(-1))
            self._accumulated.add(slot.name)
        self._written.add(slot.name)
        return len(self._written) == len(self.unit.slots)

    def complete_gradient(self) -> torch.Tensor:
        """The flat gradient, zero where this pass produced none; ends the pass.

        Returns:
            The matrix of shape (N, columns), also kept in `gradient`.
        """
        matrix = self._gradient_matrix()
        for slot in self.unit.slots:
            if slot.name not in self._accumulated:
                matrix.view(-1)[slot.offset : slot.offset + slot.elements].zero_()
                self._accumulated.add(slot.name)
        self._written.clear()
        return matrix

    def new_gradient(self, *shape: int) -> torch.Tensor:
        """Memory for gradients of this unit, not initialized."""
        if self.arena is None:
            gradient = self._nothing.new_empty(shape)
        else:
            gradient = self.arena.take(shape, self._nothing.dtype)
        hold(gradient, Role.GRADIENTS, self.name)
        return gradient

    @property
    def row_bytes(self) -> int:
        """Size of one row in the compute dtype."""
        return self.unit.columns * self._nothing.element_size()

    def start_over(self) -> None:
        """Let the next gradient replace this one in the same memory."""
        self._accumulated.clear()

    def free_gradient(self) -> None:
        """Free the complete gradient."""
        self.gradient = None
        self.start_over()

    def release(self) -> None:
        """Remove the labels of live tensors, because the engine is closed."""
        for tensor in (self.flat, self.gradient):
            if tensor is not None:
                release(tensor)

    def _gradient_matrix(self) -> torch.Tensor:
        if self.gradient is None:
            self.gradient = self.new_gradient(self.num_ranks, self.unit.columns)
            self.gradient.view(-1)[self.unit.elements :].zero_()
        return self.gradient


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a contiguous tensor."""
    found, step = [], 1
    for size in reversed(shape):
        found.append(step)
        step *= size
    return tuple(reversed(found))
