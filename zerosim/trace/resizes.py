"""Resized storages: PyTorch's Python code resizes a storage by a method of the storage itself.

FSDP frees and refills gathered parameters in this way (`free_storage`, `alloc_storage`), and so
does zerosim's engine. No operator is called, so `torch.UntypedStorage.resize_` is replaced while
there is a listener.
"""

from __future__ import annotations

from typing import Any

import torch

from zerosim.trace.eager import uncompiled


class _Listening:
    original: Any = None
    journals: tuple[set[int], ...] = ()


def listen() -> set[int]:
    """A set that receives the key of every storage resized from now on."""
    journal: set[int] = set()
    if not _Listening.journals:
        _Listening.original = torch.UntypedStorage.resize_
        torch.UntypedStorage.resize_ = _resize  # type: ignore[method-assign,assignment]
    _Listening.journals = (*_Listening.journals, journal)
    return journal


def stop_listening(journal: set[int]) -> None:
    """Stop adding to a set; no effect if nothing adds to it."""
    _Listening.journals = tuple(one for one in _Listening.journals if one is not journal)
    # a later replacement wraps ours, which then passes everything on
    if not _Listening.journals and torch.UntypedStorage.resize_ is _resize:
        torch.UntypedStorage.resize_ = _Listening.original  # type: ignore[method-assign]


@uncompiled
def _resize(self: torch.UntypedStorage, size: int) -> Any:
    result = _Listening.original(self, size)
    for journal in _Listening.journals:
        journal.add(self._cdata)
    return result
