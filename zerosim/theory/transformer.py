"""The units of a transformer, and how its layers are sharded among ranks.

A block's matrices may be sharded among T tensor-parallel ranks (the first of attention and of the
MLP by columns, the second by rows); activations between two blocks are then whole on each of them,
or with sequence parallelism sharded along the sequence. Token embedding and head are sharded by
vocabulary.

Sources: M. Shoeybi et al., "Megatron-LM" (arXiv 1909.08053), section 3; V. Korthikanti et al.
(arXiv 2205.05198), section 4.2.2. Module `operators` describes what each unit computes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from zerosim.base.config.blocks import BlockShape
from zerosim.base.config.shapes import Transformer
from zerosim.base.errors import ConfigError
from zerosim.theory.partition import UnitSize

ROOT, EMBEDDING, BLOCK, HEAD = "root", "embedding", "block", "head"
OTHER = "other block"
"""The kind with fewer layers, in a model with two kinds of blocks (with experts and without)."""
BLOCKS = (BLOCK, OTHER)


@dataclass(frozen=True, slots=True)
class LayerCut:
    """How the layers of a model are sharded among ranks.

    Attributes:
        tensor: T, ranks that compute each block together.
        sequence: whether activations between blocks are sharded along the sequence as well.
        ends: whether embedding and head are sharded as well; zerosim's own engine keeps them whole.
        context: c, ranks that share each sequence (context parallel); they are data parallel too.
        experts: EP, data-parallel ranks that share the experts.
    """

    tensor: int = 1
    sequence: bool = False
    ends: bool = True
    context: int = 1
    experts: int = 1

    @property
    def of_ends(self) -> int:
        """Number of parts into which embedding and head are sharded."""
        return self.tensor if self.ends else 1

    @property
    def between(self) -> int:
        """Number of parts of activations between blocks."""
        return self.tensor if self.sequence else 1


WHOLE = LayerCut()


@dataclass(frozen=True, slots=True)
class AlikeUnits:
    """A unit, or several equal ones.

    Attributes:
        name: `ROOT`, `EMBEDDING`, `BLOCK` or `HEAD`.
        elements: elements of one, on a rank.
        times: number of units.
        experts: elements of a rank's experts in one, if ranks share them.
    """

    name: str
    elements: int
    times: int = 1
    experts: int = 0


def require_cut(name: str, shape: Transformer, tensor: int) -> None:
    """Check that the ranks can compute a block together.

    Raises:
        ConfigError: the number of heads is not divisible by the number of ranks.
    """
    heads = shape.key_heads
    if tensor < 1 or heads % tensor:
        what = "heads" if heads == shape.heads else "heads of keys"
        raise ConfigError(
            f"tensor parallel is {tensor}: expected a divisor of {name}'s {heads} {what}"
        )


def pieces(shape: Transformer, cut: LayerCut = WHOLE) -> tuple[AlikeUnits, ...]:
    """The units of a model in forward order, as created by the engine.

    A tied token embedding belongs to the root, because it is needed while the whole model computes.
    """
    h, tokens, ends = shape.width, -(-shape.vocabulary // cut.of_ends), shape.ends
    table = tokens * h
    first = ends.positions + ends.first
    before = [AlikeUnits(ROOT, table), AlikeUnits(EMBEDDING, first)] if ends.tied else []
    before = before or [AlikeUnits(EMBEDDING, table + first)]
    last = AlikeUnits(HEAD, ends.last if ends.tied else table + ends.last)
    shares = cut.experts > 1
    blocks = (
        AlikeUnits(
            name,
            block.elements(cut.tensor, experts=not shares),
            block.layers,
            block.expert_elements(cut.tensor) // cut.experts if shares else 0,
        )
        for name, block in kinds_of(shape).items()
    )
    return tuple(one for one in (*before, *blocks, last) if one.elements)


@lru_cache(maxsize=256)
def kinds_of(shape: Transformer) -> dict[str, BlockShape]:
    """The kinds of blocks by name, in order."""
    named = dict(zip(BLOCKS, shape.blocks, strict=False))
    return dict(reversed(named.items()))


def units_of(shape: Transformer, cut: LayerCut = WHOLE) -> tuple[UnitSize, ...]:
    """Every unit of a model in forward order, by the engine's names."""
    return tuple(UnitSize(name, elements) for name, elements in _named(pieces(shape, cut)))


def _named(found: tuple[AlikeUnits, ...]) -> Iterator[tuple[str, int]]:
    number = 0
    for piece in found:
        for _ in range(piece.times):
            is_block = piece.name in BLOCKS
            yield f"blocks.{number}" if is_block else piece.name, piece.elements
            number += is_block
