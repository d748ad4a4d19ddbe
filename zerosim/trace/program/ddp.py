"""What `DistributedDataParallel` says of itself.

Its reducer is C++ and calls from within autograd, so no Python function of it is on the stack: an
all-reduce of its group that autograd asks for is a bucket's. Which parameters are in which bucket
the reducer tells by handing out buckets of zeros; it is asked before a forward, when that memory
is free, and again once after it has made its buckets anew. Imports torch and zerosim's L0.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Hashable, Iterator
from typing import Any

from torch import nn

from zerosim.events import Op, Purpose
from zerosim.strategies import Bundle, Strategy, System
from zerosim.trace.dispatch import Call
from zerosim.trace.program.rules import Rule, in_autograd
from zerosim.trace.program.system import dtype_name, named_parameters, parameters_of, ranks_of
from zerosim.trace.program.units import unwrapped

_FILE = "/nn/parallel/distributed.py"
_CLASS = "DistributedDataParallel"
_MODULE = "torch.nn.parallel.distributed"


class DataParallel:
    """Every `DistributedDataParallel` that computes. Implements `system.Observed`."""

    rules = (
        Rule(_FILE, f"{_CLASS}._sync_buffers", Purpose.BROADCAST_BUFFERS),
        Rule(_FILE, f"{_CLASS}._sync_module_buffers", Purpose.BROADCAST_BUFFERS),
        # buckets are made anew in the second forward, and all ranks agree on them
        Rule(_FILE, f"{_CLASS}._pre_forward", Purpose.METADATA, is_weak=True),
        Rule("/ddp_comm_hooks/", "", Purpose.REDUCE_GRADIENTS),
    )

    def __init__(self) -> None:
        self._buckets: dict[Any, list[list[str]]] = {}
        self._next_bucket = 0

    def meet(self, thing: Any) -> None:
        """Find it in a model."""
        kind = getattr(sys.modules.get(_MODULE), _CLASS, None)
        if kind is not None and isinstance(thing, nn.Module):
            for module in thing.modules():
                if isinstance(module, kind):
                    self._buckets[module] = _buckets_of(module)

    def settings(self) -> Hashable:
        """Whether it reduces, and its buckets."""
        return tuple(
            (module.require_backward_grad_sync, str(buckets))
            for module, buckets in self._buckets.items()
        )

    def describe(self) -> Iterator[Strategy]:
        """Each as it is now."""
        for module, buckets in self._buckets.items():
            parameters = parameters_of(module.module.named_parameters())
            sizes = {one.name: one.elements for one in parameters}
            buffers: Counter[str] = Counter()
            if module.will_sync_module_buffers():
                for buffer in module.modules_buffers:
                    buffers[dtype_name(buffer.dtype)] += buffer.numel()
            yield Strategy(
                system=System.DDP,
                name=type(unwrapped(module)).__name__,
                ranks=ranks_of(module.process_group),
                bundles=(Bundle(name="model", parameters=parameters),),
                options={
                    "buckets": [sum(sizes[name] for name in bucket) for bucket in buckets],
                    "bucket_parameters": buckets,
                    "reduces": module.require_backward_grad_sync,
                    "buffer_elements": dict(buffers),
                    "comm_hook": _comm_hook(module),
                },
            )

    def buckets_changed(self) -> None:
        """The buckets were made anew: ask for them again."""
        for module in self._buckets:
            self._buckets[module] = _buckets_of(module)

    def backward_begins(self) -> None:
        """Buckets are counted from the first again."""
        self._next_bucket = 0

    def bucket(self, call: Call) -> tuple[str, tuple[str, ...]] | None:
        """Which bucket a call reduces, and its parameters; None if it is no bucket's."""
        if call.op is not Op.ALL_REDUCE or not self._buckets or not in_autograd():
            return None
        for module, buckets in self._buckets.items():
            if module.process_group is call.group or _same_group(module, call):
                number, self._next_bucket = self._next_bucket, self._next_bucket + 1
                names = tuple(buckets[number]) if number < len(buckets) else ()
                return f"bucket {number}", names
        return None


def _same_group(module: Any, call: Call) -> bool:
    name: str = module.process_group.group_name
    return name == call.group.group_name


def _buckets_of(module: Any) -> list[list[str]]:
    names = named_parameters(module.module)
    buckets = module.reducer._get_zeros_like_grad_buckets()
    return [[names[id(parameter)] for parameter in bucket.parameters()] for bucket in buckets]


def _comm_hook(module: Any) -> str:
    hooks = getattr(module, "_comm_hooks", [])
    return getattr(hooks[-1][0], "__qualname__", "unknown") if hooks else ""
