"""Activation checkpointing: a block keeps only its input, and backward recomputes the rest.

In forward, a block's operators save nothing: autograd gets placeholders instead of tensors. When
backward needs the first of them, the block is recomputed, and the tensors that its operators save
this time fill the placeholders. Gradients are therefore bitwise equal. A block recomputes its whole
forward, as in Megatron-LM, including its last sum over a tensor-parallel group (PyTorch's own
checkpointing stops as soon as it has what it needs).

`inputs` defines which part of an input is kept, and in which tier. A block is a child of a
container of the model (`is_block`); autograd's saved tensors of embedding and head are kept.

Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost" (arXiv 1604.06174), section 3.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from zerosim.base.errors import ConfigError
from zerosim.schema.memory import Role
from zerosim.trace import labels
from zerosim.train.collectives import InlineExecutor, RankGroup, in_background, make_collectives
from zerosim.train.engine.context import Context
from zerosim.train.engine.contiguous import Arena
from zerosim.train.engine.flat import FlatUnit
from zerosim.train.engine.inputs import InputKeeper, say_what_for
from zerosim.train.offload.copies import Copies

Forward = Callable[..., Any]


def is_block(unit: str) -> bool:
    """Whether a unit is a child of a container, by its name: "blocks.0", or "0"."""
    module = unit.removesuffix(".frozen")
    return "." in module or module.isdigit()


def make_checkpoints(context: Context, tensor: RankGroup) -> Checkpoints:
    """The configured checkpointing: of all blocks, or of none.

    Args:
        tensor: the ranks that compute each block together.
    """
    config = context.config
    device = context.units[0].flat.device
    group = tensor if config.partition_activations else RankGroup()
    collectives = make_collectives(config.collectives, group, context.executor, config.chunk_bytes)
    copies = None
    if config.cpu_checkpointing:
        name = "zerosim-checkpoints"
        copies = Copies(in_background(device, name) if config.overlap else InlineExecutor())
    blocks = [flat for flat in context.units if is_block(flat.name)]
    arena = Arena(device, Role.CHECKPOINTS) if config.contiguous_memory else None
    # in flight to the host, or back, while the next one is copied
    at_once = len(blocks) if copies is None else min(2, len(blocks))
    keeper = InputKeeper(device, collectives, copies, arena, at_once)
    return Checkpoints(context.units if config.checkpoint_activations else (), keeper)


class Checkpoints:
    """Runs the blocks of a model under checkpointing, from its creation to `close`."""

    def __init__(self, units: Sequence[FlatUnit], keeper: InputKeeper) -> None:
        """Replace the forward of each block."""
        self._keeper = keeper
        self._forwards: dict[nn.Module, Forward | None] = {}
        for flat in units:
            module = flat.unit.module
            if is_block(flat.name) and module not in self._forwards:
                self._forwards[module] = vars(module).get("forward")
                module.forward = self._checkpointed(module.forward, flat.name)

    def finish_forward(self) -> None:
        """The whole model has computed: wait until all inputs are stored."""
        self._keeper.settle()

    def close(self) -> None:
        """Restore the modules' forward."""
        for module, own in self._forwards.items():
            del module.forward
            if own is not None:
                module.forward = own
        self._forwards.clear()
        self._keeper.close()

    def _checkpointed(self, forward: Forward, unit: str) -> Forward:
        @functools.wraps(forward)
        def checkpointed(*args: Any, **kwargs: Any) -> Any:
            if not torch.is_grad_enabled():
                return forward(*args, **kwargs)
            return _BlockForward(forward, unit, self._keeper, args, kwargs).compute(args, kwargs)

        return checkpointed


class _Saved:
    """Autograd's placeholder for a tensor."""

    __slots__ = ("__weakref__",)


class _BlockForward:
    """One forward of a block. Autograd references it while it may need a tensor."""

    def __init__(
        self, forward: Forward, unit: str, keeper: InputKeeper, args: Any, kwargs: Any
    ) -> None:
        """Keep the arguments of the block."""
        self._forward = forward
        self._unit = unit
        leaves, self._form = tree_flatten((args, kwargs))
        self._inputs = [keeper.keep(unit, leaf) for leaf in leaves]
        self._places: list[weakref.ref[_Saved]] = []
        self._found: weakref.WeakKeyDictionary[_Saved, torch.Tensor] = weakref.WeakKeyDictionary()
        self._device = keeper.device
        self._casts = torch.is_autocast_enabled(self._device.type)
        self._cast_dtype = torch.get_autocast_dtype(self._device.type)
        self._random: list[torch.Tensor] | None = None

    def compute(self, args: Any, kwargs: Any) -> Any:
        """The block's forward; its operators save placeholders."""
        before = self._random_states()
        with torch.autograd.graph.saved_tensors_hooks(self._note, self._give):
            output = self._forward(*args, **kwargs)
        if not all(map(torch.equal, before, self._random_states())):
            self._random = before  # restore the random state, to draw the same numbers
        return output

    def _note(self, _: torch.Tensor) -> _Saved:
        place = _Saved()
        self._places.append(weakref.ref(place))
        return place

    def _give(self, place: _Saved) -> torch.Tensor:
        if place not in self._found:
            self._compute_again()
        return self._found[place]

    def _compute_again(self) -> None:
        leaves = [kept.restore() for kept in self._inputs]
        self._inputs.clear()
        number = 0

        def fill(tensor: torch.Tensor) -> None:
            nonlocal number
            place = self._places[number]() if number < len(self._places) else None
            number += 1
            if place is not None:
                self._found[place] = tensor.detach()
                say_what_for(tensor, Role.ACTIVATIONS, self._unit)

        args, kwargs = tree_unflatten(leaves, self._form)
        with (
            torch.enable_grad(),
            torch.autograd.graph.saved_tensors_hooks(fill, _refuse),
            torch.autocast(self._device.type, self._cast_dtype, self._casts),
            self._same_random_numbers(),
        ):
            self._forward(*args, **kwargs)
        if number != len(self._places):
            raise ConfigError(
                f"unit {self._unit} saved {len(self._places)} tensors for backward, and {number} "
                "when it was recomputed: with checkpoint_activations a block must do "
                "the same computation each time"
            )
        labels.recomputed()

    def _random_states(self) -> list[torch.Tensor]:
        states = [torch.get_rng_state()]
        if self._device.type == "cuda":
            states.append(torch.cuda.get_rng_state(self._device))
        return states

    @contextmanager
    def _same_random_numbers(self) -> Iterator[None]:
        if self._random is None:
            yield
            return
        of_gpu = [self._device] if self._device.type == "cuda" else []
        with torch.random.fork_rng(of_gpu):
            torch.set_rng_state(self._random[0])
            if of_gpu:
                torch.cuda.set_rng_state(self._random[1], self._device)
            yield


def _refuse(_: object) -> torch.Tensor:
    """A recomputed block has no backward of its own: only its tensors are needed."""
    raise AssertionError("backward through a recomputation")
