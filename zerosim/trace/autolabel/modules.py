"""Observes the computing module: every call of an `nn.Module` in eager code.

`nn.Module.__call__` is replaced while there are watchers. PyTorch's global hooks would do, but a
compiler sees them: it compiles them into its graphs, guards them, warns about them, and recompiles
when they change. It does not see this wrapper; in a compiled graph there are no module calls, and
none are observed.

A nested module that no watcher observes any more costs well under a microsecond.
"""

from __future__ import annotations

import sys
import threading
import weakref
from typing import Any, ClassVar, Protocol

import torch
from torch import nn

from zerosim.trace.eager import transparent, uncompiled

_COMPILER_MODULES = ("torch._dynamo.utils", "torch._dynamo.variables.nn_module")
_COMPILER_NAME = "unpatched_nn_module_call"
"""The name under which the compiler finds the original `__call__`."""


class ModuleWatcher(Protocol):
    """Receives module calls."""

    def module_begins(self, module: nn.Module) -> bool | None:
        """A module is called; returns whether to report further nested calls of it."""
        ...

    def module_ends(self, module: nn.Module, output: Any, error: BaseException | None) -> None:
        """The call returned `output`, or raised `error`."""
        ...


class _Watching:
    original: Any = nn.Module.__call__
    watchers: tuple[ModuleWatcher, ...] = ()
    wanting: ClassVar[dict[weakref.ref[nn.Module], tuple[ModuleWatcher, ...]]] = {}
    """For modules called within others, the watchers that want further calls."""


class _Depth(threading.local):
    depth = 0
    given: tuple[Any, ...] = ()


_thread = _Depth()


def watch(watcher: ModuleWatcher) -> None:
    """Report all calls to `watcher` from now on, in order of registration."""
    if not _Watching.watchers and nn.Module.__call__ is not _call:
        _Watching.original = nn.Module.__call__
        _replace(_Watching.original, _call)
    _Watching.watchers = (*_Watching.watchers, watcher)
    reconsider()


def is_inside() -> bool:
    """Whether another module computes on this thread."""
    return _thread.depth > 0


def given() -> list[torch.Tensor]:
    """The input tensors of the outermost module, which is about to compute."""
    return [one for one in _thread.given if isinstance(one, torch.Tensor)]


def reconsider() -> None:
    """Forget which modules were not wanted."""
    _Watching.wanting.clear()


def unwatch(watcher: ModuleWatcher) -> None:
    """Stop reporting to a watcher; no effect if it is not registered."""
    _Watching.watchers = tuple(one for one in _Watching.watchers if one is not watcher)
    reconsider()
    # a later replacement wraps this one, which then passes everything on
    if not _Watching.watchers and nn.Module.__call__ is _call:
        _replace(_call, _Watching.original)


@transparent
def _call(self: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
    watchers = _Watching.watchers
    if not watchers or torch.compiler.is_compiling():
        return _Watching.original(self, *args, **kwargs)
    if _thread.depth:
        watchers = _Watching.wanting.get(weakref.ref(self), watchers)
        if not watchers:
            return _Watching.original(self, *args, **kwargs)
    else:
        _thread.given = args
    _say_begins(watchers, self)
    _thread.given = ()
    try:
        output = _Watching.original(self, *args, **kwargs)
    except BaseException as error:
        _say_ends(watchers, self, None, error)
        raise
    _say_ends(watchers, self, output, None)
    return output


@uncompiled
def _say_begins(watchers: tuple[ModuleWatcher, ...], module: nn.Module) -> None:
    wanting = tuple([one for one in watchers if one.module_begins(module)])
    if _thread.depth and wanting != watchers:
        _Watching.wanting[weakref.ref(module)] = wanting
    _thread.depth += 1


@uncompiled
def _say_ends(
    watchers: tuple[ModuleWatcher, ...], module: nn.Module, output: Any, error: BaseException | None
) -> None:
    _thread.depth -= 1
    for one in watchers:
        one.module_ends(module, output, error)


def _replace(old: Any, new: Any) -> None:
    nn.Module.__call__ = new  # type: ignore[method-assign]
    for name in _COMPILER_MODULES:
        module = sys.modules.get(name)
        if getattr(module, _COMPILER_NAME, None) is old:
            setattr(module, _COMPILER_NAME, new)
