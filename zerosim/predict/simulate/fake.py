"""A faster version of PyTorch's fake tensors for many equal operators.

PyTorch caches an operator's results by the shapes of its tensors, with a key of every property that
a tensor can have. The tensors of a training run are plain: their key here has only the properties
that differ, and finds PyTorch's cache entry. Others take PyTorch's path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

_PLAIN = {
    *(int, float, bool, str, type(None), torch.Size),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
}


_STATE: Any = vars(fake_tensor)["_CacheKeyState"]


class Fake(FakeTensorMode):
    """PyTorch's mode, with a fast path for known operators."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._seen: dict[Any, tuple[Any, Any]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] = MappingProxyType({}),
    ) -> object:
        key = self._described(func, args, kwargs)
        if key is None:
            return self.dispatch(func, types, args, kwargs)
        known = self._seen.get(key)
        if known is not None:
            entry, theirs = known
            if not entry.is_output_tuple:
                return self._made(entry.output_infos[0], func, args)
            return self._output_from_cache_entry(_STATE(None), entry, theirs, func, args)
        output = self.dispatch(func, types, args, kwargs)
        self._remember(key, func, args, kwargs)
        return output

    def _made(self, info: Any, func: OpOverload, args: Sequence[object]) -> object:
        """The result of an operator: the tensor that it changed, a view, or a new tensor."""
        if info.inplace_idx is not None:
            return args[info.inplace_idx]
        made = info.metadata
        if made is None:
            return info.constant_value
        with torch._C._DisableTorchDispatch():
            empty = torch.empty_strided(
                made.shape,
                made.stride,
                dtype=made.dtype,
                device="meta",
                requires_grad=made.requires_grad,
            )
            if func.is_view:
                viewed = args[info.view_idx]
                assert isinstance(viewed, FakeTensor)
                storage = viewed.untyped_storage()
                empty.set_(storage, made.storage_offset, made.shape, made.stride)
        return FakeTensor(self, empty, made.device)

    def _remember(
        self, key: object, func: OpOverload, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> None:
        """PyTorch's cached result, if it has one."""
        theirs = self._cache_key(_STATE(None), func, args, kwargs)
        entry = FakeTensorMode.cache.get(theirs)
        if isinstance(entry, fake_tensor._DispatchCacheValidEntry):
            self._seen[key] = entry, theirs

    def _described(
        self, func: OpOverload, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> object:
        """The cache key of a call; None if it is not plain."""
        found: list[object] = [func, torch.is_inference_mode_enabled(), torch.get_default_dtype()]
        for value in (*args, *kwargs, *kwargs.values()):
            if not _describe(value, found, self):
                return None
        return tuple(found)


def _describe(value: object, found: list[object], mode: Fake) -> bool:
    """Add an argument to the key; returns whether it is plain."""
    kind = type(value)
    if kind is FakeTensor:
        assert isinstance(value, FakeTensor)
        if (
            value.fake_mode is not mode
            or value.constant is not None
            or value.layout is not torch.strided
            or value.dtype.is_complex
        ):
            return False
        found += (
            *(value.dtype, value.shape, value.stride(), value.storage_offset()),
            *(value.untyped_storage().nbytes(), value.requires_grad, value.fake_device),
        )
        return True
    if kind is list or kind is tuple:
        assert isinstance(value, list | tuple)
        found += (kind, len(value))
        return all(_describe(one, found, mode) for one in value)
    if kind in _PLAIN:
        found += (kind, value)
        return True
    return False
