"""Memory-centric tiling: a large linear layer as several small ones that compute in turn.

A layer is the largest object that stage 3 must have whole: gathered for computation, and as a
gradient. With tiles, only the computing tile and the prefetched ones need to be present.
Source: Rajbhandari et al., "ZeRO-Infinity" (arXiv 2104.07857), section 5.1.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeGuard

import torch
from torch import Tensor, nn

from zerosim.base.errors import ConfigError

SMALLEST_ELEMENTS = 2**17
"""A layer with fewer weights is not tiled: those of gpt-tiny's MLP are, its head is not."""


class TiledLinear(nn.Module):
    """A linear layer split along its outputs.

    Output j is the same sum of products as in the original layer; the matrix multiplication may add
    them in a different order. With unit roundoff u (2**-24 in fp32) and k inputs, an output differs
    by at most 2(k + 1)u / (1 - (k + 1)u) times the sum of |w||x| + |b| (Higham 2002, "Accuracy and
    Stability of Numerical Algorithms", section 3.1).

    Attributes:
        in_features, out_features: those of the original layer.
        tiles: linear layers, whose outputs are concatenated.
    """

    def __init__(self, linear: nn.Linear, tiles: int) -> None:
        """Copy the weights of `linear`, which is no longer needed afterwards.

        Args:
            tiles: at most the number of outputs; their sizes differ by at most one.
        """
        super().__init__()
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        weights = linear.weight.tensor_split(tiles)
        biases = [None] * tiles if linear.bias is None else linear.bias.tensor_split(tiles)
        self.tiles = nn.ModuleList(map(_tile, weights, biases))

    def forward(self, x: Tensor) -> Tensor:
        """Transform x [..., k] to [..., n], one tile at a time."""
        return torch.cat([tile(x) for tile in self.tiles], dim=-1)


def tile_linears(
    model: nn.Module, tiles: int, smallest_elements: int = SMALLEST_ELEMENTS
) -> tuple[str, ...]:
    """Tile the large linear layers of a model, in place. Hooks of those layers are lost.

    Layers with a weight shared by another module (tied weights) are left whole, and so are
    subclasses of nn.Linear, whose parents may use the weight without calling them.

    Args:
        tiles: number of tiles; 1 changes nothing.
        smallest_elements: a layer is tiled if its weight has at least this many elements.

    Returns:
        The names of the tiled layers. `tiled_units` then gives an engine's units.

    Raises:
        ConfigError: a layer has fewer outputs than `tiles`, or there is no layer to tile.
    """
    if tiles == 1:
        return ()
    uses = Counter(
        id(own) for module in model.modules() for own in module.parameters(recurse=False)
    )
    cut: dict[nn.Module, TiledLinear] = {}
    names = []
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if not name or not _is_large(module, smallest_elements) or uses[id(module.weight)] > 1:
            continue
        if module not in cut:
            _require_outputs(name, module, tiles)
            cut[module] = TiledLinear(module, tiles)
            names.append(name)
        model.set_submodule(name, cut[module])
    if not names:
        raise ConfigError(
            f"tiles is {tiles}, but no linear layer of {type(model).__name__} has "
            f"{smallest_elements:,} weights or more: leave tiles at 1"
        )
    return tuple(names)


def tiled_units(model: nn.Module, blocks: Iterable[str]) -> tuple[str, ...]:
    """The modules of a tiled model that should be units: `EngineConfig.units`.

    A block without tiles stays one unit. One with tiles is split: each tile is a unit, and so is
    each maximal module without tiles. The block's own direct parameters belong to the
    root.

    Args:
        blocks: names of modules that communicate together in the untiled model, found before
            tiling: with tiles inside, a block may look like a mere container of blocks.
    """
    modules = dict(model.named_modules())
    return tuple(name for block in blocks for name in _without_tiles(block, modules[block]))


def _without_tiles(name: str, module: nn.Module) -> Iterator[str]:
    if not any(isinstance(inner, TiledLinear) for inner in module.modules()):
        if any(True for _ in module.parameters()):
            yield name
        return
    children = module.tiles if isinstance(module, TiledLinear) else module
    prefix = f"{name}.tiles" if isinstance(module, TiledLinear) else name
    for child_name, child in children.named_children():
        yield from _without_tiles(f"{prefix}.{child_name}", child)


def _tile(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """A separate layer with these rows of a weight."""
    tile = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    tile.weight = _copy(weight)
    if bias is not None:
        tile.bias = _copy(bias)
    return tile


def _copy(values: Tensor) -> nn.Parameter:
    return nn.Parameter(values.detach().clone(), requires_grad=values.requires_grad)


def _is_large(module: nn.Module, smallest_elements: int) -> TypeGuard[nn.Linear]:
    return type(module) is nn.Linear and module.weight.numel() >= smallest_elements


def _require_outputs(name: str, linear: nn.Linear, tiles: int) -> None:
    if linear.out_features < tiles:
        raise ConfigError(
            f"tiles is {tiles}: expected at most {linear.out_features}, the outputs of {name}"
        )
