"""FSDP2 with tensors without memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from zerosim.trace.holdings import is_same_memory


@contextmanager
def as_with_memory() -> Iterator[None]:
    """FSDP2 compares addresses to check whether a parameter was moved.

    Nothing is done if it was not moved.
    """
    from torch.distributed.fsdp._fully_shard._fsdp_param import FSDPParam

    reset: Any = FSDPParam.reset_sharded_param

    def reset_sharded_param(parameter: Any) -> None:
        known = parameter._module_info
        now = getattr(known.module, known.param_name)
        data = parameter._sharded_param_data
        if now is not parameter.sharded_param or not is_same_memory(data, now._local_tensor):
            reset(parameter)

    with mock.patch.object(FSDPParam, "reset_sharded_param", reset_sharded_param):
        yield
