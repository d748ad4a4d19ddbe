"""Which storages were given another size: PyTorch's Python code asks that of the storage itself.

FSDP frees and fills what it gathers so (`free_storage`, `alloc_storage`), and our engine. It passes
no operator, so `torch.UntypedStorage.resize_` is replaced while anybody listens.
"""

from __future__ import annotations

from typing import Any

import torch

from zerosim.trace.eager import uncompiled


class _Listening:
    original: Any = None
    journals: tuple[set[int], ...] = ()


def listen() -> set[int]:
    """A set to which the key of each storage is added that is resized from now on."""
    journal: set[int] = set()
    if not _Listening.journals:
        _Listening.original = torch.UntypedStorage.resize_
        torch.UntypedStorage.resize_ = _resize  # type: ignore[method-assign,assignment]
    _Listening.journals = (*_Listening.journals, journal)
    return journal


def stop_listening(journal: set[int]) -> None:
    """Add no more to a set; nothing if nothing is added."""
    _Listening.journals = tuple(one for one in _Listening.journals if one is not journal)
    # whoever replaced it after us has ours within: it then passes everything on
    if not _Listening.journals and torch.UntypedStorage.resize_ is _resize:
        torch.UntypedStorage.resize_ = _Listening.original  # type: ignore[method-assign]


@uncompiled
def _resize(self: torch.UntypedStorage, size: int) -> Any:
    result = _Listening.original(self, size)
    for journal in _Listening.journals:
        journal.add(self._cdata)
    return result
