"""Which forwards DeepSpeed's stage 3 computes again in backward, while it records its order.

It records forwards and backwards of modules alike. Which entries of backward are forwards is seen
in the calls of modules: each call makes the next entry. One that ends early, as the recomputation
of `checkpoint(use_reentrant=False)` does, raises and never lets its parameters go.
Imports torch, and autolabel.modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from zerosim.trace.autolabel import modules
from zerosim.trace.autolabel.fail_safe import fail_safe


@dataclass(frozen=True, slots=True)
class Recomputed:
    """A forward that is computed again in backward.

    Attributes:
        place: of its entry in the order of modules.
        within: modules whose backward was under way when it began.
    """

    place: int
    within: tuple[str, ...]


class Recomputes:
    """Watches one micro-step that records, from `begin` to `end`: a `modules.ModuleWatcher`.

    Attributes:
        found: in the order of their places.
        cut_short: places of those that ended early.
        trouble: why it looks no more; "" if it does.
    """

    def __init__(
        self,
        names: Mapping[nn.Module, str],
        order: Callable[[], Sequence[nn.Module]],
        going_back: Callable[[], Sequence[nn.Module]],
    ) -> None:
        """Look at nothing yet.

        Args:
            names: of the modules that DeepSpeed knows.
            order: what is recorded so far.
            going_back: modules whose backward is under way.
        """
        self.found: list[Recomputed] = []
        self.cut_short: list[int] = []
        self.trouble = ""
        self._names, self._order, self._going_back = names, order, going_back
        self._running: list[tuple[nn.Module, int]] = []

    def begin(self) -> None:
        """Begin to look."""
        modules.watch(self)

    def end(self) -> None:
        """Look no more."""
        modules.unwatch(self)

    @fail_safe
    def module_begins(self, module: nn.Module) -> bool:
        """A module is called; its entry is about to be recorded."""
        # within a leaf module DeepSpeed looks at no module
        is_recorded = module in self._names and "ds_id" in vars(module)
        if is_recorded and torch._C._current_graph_task_id() != -1:
            place = len(self._order())
            within = tuple(self._names.get(one, "") for one in self._going_back())
            self.found.append(Recomputed(place, within))
            self._running.append((module, place))
        return True

    @fail_safe
    def module_ends(self, module: nn.Module, output: Any, error: BaseException | None) -> None:
        """The call is over."""
        del output
        if self._running and self._running[-1][0] is module:
            _, place = self._running.pop()
            if error is not None:
                self.cut_short.append(place)
