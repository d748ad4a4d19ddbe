"""The state of `DistributedDataParallel`.

Its reducer is C++ and calls from within autograd, so none of its functions is on the Python stack:
an all-reduce of its group that autograd calls belongs to a bucket, if the next bucket has this
size. The parameters of each bucket are found with buckets of zeros, which the reducer provides: it
is queried before a forward, when that memory is free, and again after it has rebuilt its buckets.
Forward decides whether gradients are reduced, so `no_sync()` is read there.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import torch
from torch import nn
from torch._C._distributed_c10d import GradBucket

from zerosim.schema.events import Op, Purpose
from zerosim.schema.memory import Role
from zerosim.schema.strategies import Bundle, Strategy
from zerosim.systems.ddp import NAME
from zerosim.trace.autolabel.observer import (
    GivenGradients,
    Observer,
    Reduction,
    Written,
    dtype_name,
    named_parameters,
    options_of,
    parameters_of,
    ranks_in_use,
    ranks_of,
    written,
)
from zerosim.trace.autolabel.optimizers import Optimizers
from zerosim.trace.autolabel.rules import Rule, code_of
from zerosim.trace.autolabel.units import Units, clean, qualified, unique, unwrapped
from zerosim.trace.looking import Content
from zerosim.trace.operators import OperatorCall
from zerosim.trace.threads import is_computing

_FILE = "/nn/parallel/distributed.py"
_CLASS = "DistributedDataParallel"
_MODULE = "torch.nn.parallel.distributed"


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket, whose elements one call reduces.

    Attributes:
        parameters: names, as the module has them.
    """

    parameters: tuple[str, ...]
    elements: int
    dtype: str


@dataclass(slots=True)
class _Now:
    """The activity of a module so far in a micro-step."""

    reduces: bool = False
    num_syncs: int = 0
    without_gradient: tuple[str, ...] = ()


@dataclass(slots=True)
class _KnownModule:
    """The known state of one module.

    Attributes:
        group: the name of its process group.
        buckets: None if currently unknown.
        version: number of queries of the buckets.
        is_prepared: its last forward prepared a reduction, which no backward has done yet.
        reduces: whether gradients are reduced in the last settled micro-step.
        num_syncs: number of that micro-step's forwards that began with a broadcast of the buffers.
        without_gradient: names of the parameters without a gradient in its backward, for which the
            reducer waited.
        now: the same fields for the current micro-step.
        before: address and version of each parameter's gradient at the start of backward.
        waited_for: the reducer's parameters with their names, fixed at its construction.
        next_bucket: the bucket that is reduced next in this backward.
        roots: the outermost modules that it is in, or is.
        named: all parameters, with their names.
        given: which of them have no gradient.
        hooked: buffers of the buckets that a hook in Python was given.
    """

    name: str
    label: str
    group: str
    buckets: list[Bucket] | None
    waited_for: list[tuple[str, weakref.ref[torch.Tensor]]]
    named: list[tuple[str, weakref.ref[torch.Tensor]]]
    given: GivenGradients = field(default_factory=GivenGradients)
    hooked: dict[int, weakref.ref[torch.Tensor]] = field(default_factory=dict)
    version: int = 0
    is_prepared: bool = False
    reduces: bool = True
    num_syncs: int = 0
    without_gradient: tuple[str, ...] = ()
    now: _Now = field(default_factory=_Now)
    before: dict[str, Written] = field(default_factory=dict)
    is_settled: bool = False
    next_bucket: int = 0
    roots: weakref.WeakSet[nn.Module] = field(default_factory=weakref.WeakSet)


class ReplicatedModules(Observer):
    """Every `DistributedDataParallel` that computes."""

    def __init__(self, units: Units) -> None:
        self._units = units
        self._taken: dict[str, int] = {}
        self._known: weakref.WeakKeyDictionary[Any, _KnownModule] = weakref.WeakKeyDictionary()
        self._hook = Rule("/ddp_comm_hooks/", "", Purpose.REDUCE_GRADIENTS, self._of_hook)
        self.rules = (
            Rule(_FILE, f"{_CLASS}._sync_buffers", Purpose.BROADCAST_BUFFERS),
            Rule(_FILE, f"{_CLASS}._sync_module_buffers", Purpose.BROADCAST_BUFFERS),
            # buckets are rebuilt in the second forward, and all ranks agree on them
            Rule(_FILE, f"{_CLASS}._pre_forward", Purpose.METADATA, is_weak=True),
            # a message from ranks without data to those with data
            Rule("/torch/distributed/algorithms/join.py", "", Purpose.METADATA, is_weak=True),
            Rule(_FILE, f"{_CLASS}._check_global_requires_backward_grad_sync", Purpose.METADATA),
            Rule(_FILE, f"{_CLASS}._match_all_reduce_for_bwd_pass", Purpose.REDUCE_GRADIENTS),
            Rule(_FILE, f"{_CLASS}._find_common_rank", Purpose.METADATA),
            Rule(_FILE, f"{_CLASS}._sync_final_model", Purpose.BROADCAST_PARAMETERS),
            self._hook,
        )

    def meet(self, thing: Any) -> None:
        """Find the wrapper in a model."""
        kind = getattr(sys.modules.get(_MODULE), _CLASS, None)
        if kind is None or not isinstance(thing, nn.Module):
            return
        for path, module in thing.named_modules():
            if isinstance(module, kind):
                if module not in self._known:
                    name = unique(self._taken, clean(path) or type(unwrapped(module)).__name__)
                    label = self._units.label(module)
                    self._known[module] = _KnownModule(
                        *(name, label, module.process_group.group_name),
                        *(_buckets_of(module), _reduced(module), _named(module)),
                    )
                self._known[module].roots.add(thing)

    def settings(self) -> Hashable:
        """Record whether it reduces, and its buckets."""
        return tuple(
            (
                known.reduces,
                known.num_syncs,
                known.without_gradient,
                known.version,
                known.given.version,
                self._units.passes(module),
            )
            for module, known in self._known.items()
        )

    def describe(self) -> Iterator[Strategy]:
        """The current strategy of each."""
        for module, known in list(self._known.items()):
            buffers: Counter[str] = Counter()
            if known.num_syncs:
                for buffer in module.modules_buffers:
                    buffers[dtype_name(buffer.dtype)] += buffer.numel()
            parameters = parameters_of(module.module.named_parameters())
            buckets = known.buckets or []
            passes = self._units.passes(module)
            yield Strategy(
                system=NAME,
                name=known.name,
                ranks=ranks_in_use(ranks_of(module.process_group), passes),
                bundles=(Bundle(name="model", parameters=parameters),),
                options={
                    "label": known.label,
                    **options_of(passes),
                    "buckets": [bucket.elements for bucket in buckets],
                    "bucket_dtypes": [bucket.dtype for bucket in buckets],
                    "bucket_parameters": [list(bucket.parameters) for bucket in buckets],
                    "reduces": known.reduces,
                    "without_gradient": list(known.without_gradient),
                    "ignored": sorted(map(clean, module.parameters_to_ignore)),
                    "buffer_elements": dict(buffers),
                    "buffer_syncs": known.num_syncs,
                    "finds_unused": bool(module.find_unused_parameters),
                    "comm_hook": _name_of_hook(module),
                    **known.given.options(),
                },
            )

    def kept(self, *, wholly: bool) -> Iterator[Content]:
        """Buckets that a hook reduces in its own tensors: they are not passed to a collective."""
        for known in list(self._known.values()) if wholly else ():
            for reference in known.hooked.values():
                if (buffer := reference()) is not None:
                    yield Content(Role.BUFFERS, "", buffer)

    def micro_step_begins(self) -> None:
        """Begin a micro-step: the activity of the previous one is complete."""
        for known in self._known.values():
            known.now = _Now()

    def forward_begins(self, root: nn.Module, *, is_first: bool) -> None:
        """A model computes with gradients."""
        for module, known in list(self._known.items()):
            if root in known.roots:
                known.is_prepared = bool(module.require_backward_grad_sync)
                # not after a forward that prepared no reduction: without gradients, in no_sync()
                known.now.num_syncs += bool(module.will_sync_module_buffers())
                if not known.is_settled:  # its first forward, while nothing else is known
                    known.reduces, known.num_syncs = known.is_prepared, known.now.num_syncs

    def backward_begins(self) -> None:
        """Buckets are counted from the first again."""
        for known in self._known.values():
            known.next_bucket = 0
            known.before = _gradients(known) if known.is_prepared else {}

    def backward_over(self, gone_back: Callable[[nn.Module], bool]) -> None:
        """A backward ended; it reduced the prepared buckets that it reached."""
        for module, known in list(self._known.items()):
            if gone_back(module):
                _see_gradients(known, self._units.optimizers)
            if known.is_prepared and gone_back(module):
                known.is_prepared, known.now.reduces = False, True
                known.now.without_gradient = _waited_for(module, known)

    def update_begins(self) -> None:
        """Record which gradients the program has left to the optimizer."""
        for known in self._known.values():
            _see_gradients(known, self._units.optimizers)

    def settle(self) -> None:
        """A backward or a micro-step ends."""
        for known in self._known.values():
            known.is_settled = True
            known.reduces, known.num_syncs = known.now.reduces, known.now.num_syncs
            known.without_gradient = known.now.without_gradient

    def agrees_anew(self) -> bool:
        """Buckets are rebuilt, so the known ones are no longer valid."""
        for known in self._known.values():
            known.buckets = None
        return bool(self._known)

    def look_anew(self) -> None:
        """Query the buckets again."""
        for module, known in list(self._known.items()):
            if known.buckets is None:
                known.buckets = _buckets_of(module)
                known.version += 1

    def hooks(self) -> Iterator[tuple[CodeType, Rule]]:
        """Functions of the program that reduce buckets."""
        for module in list(self._known):
            code = code_of(_hook_of(module))
            if code is not None:
                yield code, self._hook

    def reduction(self, call: OperatorCall) -> Reduction | None:
        """The bucket of a call; None if it does not come from a reducer."""
        if call.op is not Op.ALL_REDUCE or not self._known:
            return None
        group = call.group_name
        ours = [(module, known) for module, known in self._known.items() if known.group == group]
        for module, known in ours:
            if _is_map_of_used(module, call):
                return Reduction(Purpose.METADATA, known.label)
        for _, known in ours:
            if known.buckets is not None and known.next_bucket < len(known.buckets):
                bucket = known.buckets[known.next_bucket]
                if bucket.elements == call.elements:
                    return self._next(known, bucket)
        for _, known in ours:
            if known.buckets is None:
                return self._next(known, None)
        return None

    def _next(self, known: _KnownModule, bucket: Bucket | None) -> Reduction:
        unit = qualified(known.label, f"bucket {known.next_bucket}")
        known.next_bucket += 1
        names = () if bucket is None else bucket.parameters
        if known.label:
            names = tuple(qualified(known.label, name) for name in names)
        return Reduction(Purpose.REDUCE_GRADIENTS, unit, names)

    def _of_hook(self, frame: FrameType) -> str:
        """The bucket passed to a communication hook."""
        for value in frame.f_locals.values():
            if isinstance(value, GradBucket):
                known = self._known_of(value)
                if known is not None:
                    known.next_bucket = max(known.next_bucket, value.index() + 1)
                    known.hooked[value.index()] = weakref.ref(value.buffer())
                label = "" if known is None else known.label
                return qualified(label, f"bucket {value.index()}")
        return ""

    def _known_of(self, bucket: GradBucket) -> _KnownModule | None:
        if len(self._known) == 1:
            return next(iter(self._known.values()))
        if not is_computing():
            return None
        first = next(iter(bucket.parameters()), None)
        for module, known in list(self._known.items()):
            if any(one is first for one in module.parameters()):
                return known
        return None


def _is_map_of_used(module: Any, call: OperatorCall) -> bool:
    """With find_unused_parameters a flag for each parameter is reduced at the end.

    With static_graph this is done once, in the first iteration.
    """
    tensors = call.tensors
    return (
        len(tensors) == 1
        and tensors[0].dtype is torch.int32
        and (module.find_unused_parameters or module.static_graph)
        and tensors[0].numel() == sum(1 for p in module.module.parameters() if p.requires_grad)
    )


def _see_gradients(known: _KnownModule, optimizers: Optimizers) -> None:
    trained = [
        (name, one)
        for name, reference in known.named
        if (one := reference()) is not None and one.requires_grad
    ]
    known.given.see(
        ((name, one.grad) for name, one in trained),
        ((name, optimizers.states(one)) for name, one in trained),
        optimizers.counts(),
    )


def _named(module: Any) -> list[tuple[str, weakref.ref[torch.Tensor]]]:
    """All parameters with their names."""
    return [(clean(name), weakref.ref(one)) for name, one in module.module.named_parameters()]


def _reduced(module: Any) -> list[tuple[str, weakref.ref[torch.Tensor]]]:
    """All parameters except those that DDP ignores, with their names."""
    ignored = module.parameters_to_ignore
    named = module.module.named_parameters()
    return [(name, weakref.ref(one)) for name, one in named if name not in ignored]


def _gradients(known: _KnownModule) -> dict[str, Written]:
    """The gradients that the reducer waits for, as they are now."""
    return {
        name: written(one.grad)
        for name, reference in known.waited_for
        if (one := reference()) is not None and one.requires_grad
    }


def _waited_for(module: Any, known: _KnownModule) -> tuple[str, ...]:
    """The parameters without a gradient in a backward, though the reducer waited for it.

    Empty if all buckets were reduced, or if an optimizer consumes each gradient at once.
    """
    if known.buckets is None:
        is_done = bool(module.find_unused_parameters or module.static_graph)
    else:
        is_done = known.next_bucket >= len(known.buckets)
    now = {} if is_done else _gradients(known)
    found = [name for name, written in now.items() if known.before.get(name) == written]
    return () if len(found) == len(now) else tuple(map(clean, found))


def _buckets_of(module: Any) -> list[Bucket] | None:
    """The reducer's buckets; None if there is no memory to query them."""
    names = named_parameters(module.module)
    try:
        buckets = module.reducer._get_zeros_like_grad_buckets()
    except RuntimeError:
        return None
    return [
        Bucket(
            tuple(names.get(id(parameter), "") for parameter in bucket.parameters()),
            bucket.buffer().numel(),
            dtype_name(bucket.buffer().dtype),
        )
        for bucket in buckets
    ]


def _hook_of(module: Any) -> Any:
    hooks = getattr(module, "_comm_hooks", None)
    return hooks[-1][0] if hooks else None


def _name_of_hook(module: Any) -> str:
    """The function's name; for a hook in C++ "fp16_compress", and "" for one that changes
    nothing.
    """
    hook = _hook_of(module)
    if hook is not None:
        return str(getattr(hook, "__qualname__", type(hook).__name__))
    built_in = str(module._get_ddp_logging_data().get("comm_hook") or "")
    return "fp16_compress" if "FP16_COMPRESS" in built_in else ""


def observer(units: Units) -> Observer:
    """The observer of this system."""
    return ReplicatedModules(units)
