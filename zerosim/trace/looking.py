"""Inspects the tensors of a rank while its computing thread is paused: by role and unit.

Only tensors in `holdings` are known: an engine declares them, and for a program they are inferred.
Nothing here changes a value.
"""

from __future__ import annotations

import math
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from zerosim.base.errors import ConfigError
from zerosim.base.tiers import Tier
from zerosim.schema.memory import Role
from zerosim.trace import labels
from zerosim.trace.holdings import HeldStorage, holdings

FIRST_VALUES = 6
BINS = 16
MOST_VALUES = 2_000_000
"""Maximum number of elements listed individually."""
_PIECE = 1 << 20
"""Number of elements processed at once: an inspection allocates little."""


class Content(NamedTuple):
    """A tensor on this rank."""

    role: Role
    unit: str
    tensor: torch.Tensor


Held = list[torch.Tensor]


class _Program:
    """The source of the tensors of a program without labels."""

    contents: Callable[[], list[Content]] | None = None


def look_through(contents: Callable[[], list[Content]] | None) -> None:
    """Query this source as well; None for none."""
    _Program.contents = contents


def tensors(role: Role | None = None, unit: str | None = None) -> dict[tuple[Role, str], Held]:
    """The live tensors, by role and unit, in order of registration.

    Args:
        role, unit: only this one; None for all.
    """
    found: dict[tuple[Role, str], Held] = defaultdict(list)
    named = [] if _Program.contents is None else _Program.contents()
    for one in named:
        if role in (None, one.role) and unit in (None, one.unit) and one.tensor.numel():
            found[one.role, one.unit].append(one.tensor)
    known = {one.role for one in named}
    for held in holdings:
        wanted = role in (None, held.role) and unit in (None, held.unit)
        wanted &= held.role not in known and held.tier is not Tier.DISK
        if wanted and (tensor := _tensor(held)) is not None:
            found[held.role, held.unit].append(tensor)
    return dict(found)


def flat(role: Role, unit: str) -> torch.Tensor | None:
    """All elements of a unit in a role, concatenated; None if there are none."""
    pieces = [tensor.reshape(-1) for tensor in tensors(role, unit).get((role, unit), ())]
    if not pieces:
        return None
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces)


def values(role: Role, unit: str) -> bytes:
    """All elements of a unit in a role as float32, in memory order.

    For an engine's unit this is one vector, possibly with further tensors of the rank.

    Raises:
        ConfigError: there are no elements, or too many.
    """
    found = flat(role, unit)
    if found is not None and labels.is_described():
        found = max(tensors(role, unit)[role, unit], key=torch.Tensor.numel).reshape(-1)
    if found is None or found.numel() > MOST_VALUES:
        what = "nothing" if found is None else f"{found.numel():,} elements"
        raise ConfigError(
            f"{role} of {unit or 'the model'}: {what}: expected 1 to {MOST_VALUES:,} elements"
        )
    return found.detach().to("cpu", torch.float32, copy=True).contiguous().numpy().tobytes()


def held_bytes(role: Role | None = None) -> int:
    """The bytes of storages of a role, or of all known ones."""
    return sum(tensor.nbytes for group in tensors(role).values() for tensor in group)


def has_non_finite() -> bool:
    """Whether a parameter, a gradient or an optimizer state has an infinite or NaN element."""
    return any(
        not bool(torch.isfinite(tensor).all())
        for (role, _), group in tensors().items()
        for tensor in group
        if tensor.is_floating_point() and role in _JUDGED
    )


_JUDGED = (Role.PARAMETERS, Role.GRADIENTS, Role.MASTER, Role.MOMENTUM, Role.VARIANCE)


def describe(role: Role | None = None, unit: str | None = None) -> list[dict[str, Any]]:
    """One row per role and unit: size, shape, and statistics of the elements."""
    found = tensors(role, unit)
    with torch.no_grad():
        return [_row(one, name, group) for (one, name), group in sorted(found.items())]


def _row(role: Role, unit: str, group: Held) -> dict[str, Any]:
    numbers = _Numbers()
    for tensor in group:
        numbers.take(tensor)
    return {
        "role": role.value,
        "unit": unit,
        "dtype": str(group[0].dtype).removeprefix("torch."),
        "shapes": [list(tensor.shape) for tensor in group],
        "elements": sum(tensor.numel() for tensor in group),
        "bytes": sum(tensor.nbytes for tensor in group),
        **numbers.to_plain(),
        "histogram": _histogram(group, numbers),
        "first": [_plain(one) for one in group[0].reshape(-1)[:FIRST_VALUES].tolist()],
    }


class _Numbers:
    """Sums over tensors, piece by piece; non-finite elements are only counted."""

    def __init__(self) -> None:
        self.squares = 0.0
        self.least, self.greatest = math.inf, -math.inf
        self.non_finite = 0
        self.checksum = 0

    def take(self, tensor: torch.Tensor) -> None:
        for piece in tensor.reshape(-1).split(_PIECE):
            # of a copy: a program cannot resize a tensor that NumPy has accessed
            content = piece.detach().to("cpu", copy=True).contiguous()
            self.checksum = zlib.crc32(content.view(torch.uint8).numpy().tobytes(), self.checksum)
            finite = content.double()
            is_finite = torch.isfinite(finite)
            self.non_finite += finite.numel() - int(is_finite.sum())
            finite = finite[is_finite]
            if finite.numel():
                self.squares += float(finite.square().sum())
                self.least = min(self.least, float(finite.min()))
                self.greatest = max(self.greatest, float(finite.max()))

    def to_plain(self) -> dict[str, Any]:
        is_empty = self.least > self.greatest
        return {
            "norm": math.sqrt(self.squares),
            "min": None if is_empty else self.least,
            "max": None if is_empty else self.greatest,
            "non_finite": self.non_finite,
            "checksum": f"{self.checksum:08x}",
        }


def _histogram(values: list[torch.Tensor], numbers: _Numbers) -> list[int]:
    """A histogram: counts in equal steps from minimum to maximum."""
    found = torch.zeros(BINS, dtype=torch.long)
    if numbers.least < numbers.greatest:
        for tensor in values:
            for piece in tensor.reshape(-1).split(_PIECE):
                part = piece.detach().to("cpu").float()
                part = part[torch.isfinite(part)]
                found += torch.histc(part, BINS, numbers.least, numbers.greatest).long()
    return [int(one) for one in found]


def _plain(value: float) -> float | str:
    """JSON has no non-finite numbers."""
    return value if math.isfinite(value) else str(value)


def _tensor(held: HeldStorage) -> torch.Tensor | None:
    """A registered tensor, if it is alive and has memory."""
    storage = torch.UntypedStorage._new_with_weak_ptr(held.key)
    if storage is None or not storage.nbytes():
        return None
    elements = storage.nbytes() // held.dtype.itemsize
    shape = held.shape if math.prod(held.shape) == elements else (elements,)
    return torch.empty(0, dtype=held.dtype, device=storage.device).set_(
        storage, 0, shape, tuple(_strides(shape))
    )


def _strides(shape: tuple[int, ...]) -> Iterator[int]:
    for place in range(len(shape)):
        yield math.prod(shape[place + 1 :])
