"""The sizes of the built-in transformers, which determine computation, memory and traffic.

GPT-2 and GPT-3: Radford et al. 2019, Brown et al. 2020 (arXiv 2005.14165, table 2.1). zero-7.5b,
-128b and -1t have as many parameters as the rows of the ZeRO paper's table 1 (arXiv 1910.02054),
which does not give their shapes: these are of Narayanan et al. 2021 (arXiv 2104.04473, table 1),
of width 8192 as in the ZeRO paper's appendix, and again of Narayanan et al. Llama 3: Grattafiori
et al. 2024 (arXiv 2407.21783, table 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from zerosim.base.config.blocks import (
    Architecture,
    BlockShape,
    Ends,
    Matrix,
    MatrixCut,
    count_parameters,
)
from zerosim.base.config.choices import ModelName
from zerosim.base.config.huggingface import is_path, read_architecture
from zerosim.base.errors import ConfigError

VOCABULARY = 256
"""A token is a byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GPTConfig:
    """The size of a GPT.

    Attributes:
        layers: number of blocks.
        width: size of a token's vector, h; the MLP inside a block is 4h wide.
        heads: number of attention heads; divides `width`.
        context: longest sequence, s.
        tied: whether the head's matrix is the token embedding.
        vocabulary: number of tokens, V; by default bytes.
    """

    layers: int
    width: int
    heads: int
    context: int
    tied: bool = False
    vocabulary: int = VOCABULARY

    @property
    def num_parameters(self) -> int:
        """L(12h^2 + 13h) + (2V + s)h + 2h; Vh fewer if tied."""
        return count_parameters(self.blocks, self.ends, self.vocabulary, self.width)

    @property
    def key_heads(self) -> int:
        """The number of key heads: each head has its own keys."""
        return self.heads

    @property
    def blocks(self) -> tuple[BlockShape, ...]:
        """All blocks have the same kind."""
        return _gpt_blocks(self)

    @property
    def ends(self) -> Ends:
        """A table of positions, and a norm before the head."""
        h = self.width
        return Ends(tied=self.tied, positions=self.context * h, last=2 * h)


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaConfig:
    """The size of a Llama.

    Attributes:
        layers: number of blocks, L.
        width: size of a token's vector, h.
        heads: number of attention heads, of h / heads elements each.
        key_heads: heads of keys and values, k; each serves heads / k of the queries.
        hidden: width of the MLP inside a block, f.
        context: longest sequence, s.
        vocabulary: number of tokens, V.
        theta: base of the rotary frequencies.
        head_size: elements of a head, if not h / heads.
        tied: whether the head's matrix is the token embedding.
        has_bias: whether queries, keys and values have biases (Qwen2).
        has_head_norms: whether each head's queries and keys are normed (Qwen3).
    """

    layers: int
    width: int
    heads: int
    key_heads: int = 8
    hidden: int
    context: int = 8192
    vocabulary: int = 128_256
    theta: float = 500_000.0
    head_size: int | None = None
    tied: bool = False
    has_bias: bool = False
    has_head_norms: bool = False

    @property
    def size(self) -> int:
        """Elements of a head."""
        return self.head_size or self.width // self.heads

    @property
    def num_parameters(self) -> int:
        """L(2h^2 + 2h^2 k/heads + 3hf + 2h) + 2Vh + h of a Llama 3."""
        return count_parameters(self.blocks, self.ends, self.vocabulary, self.width)

    @property
    def blocks(self) -> tuple[BlockShape, ...]:
        """All blocks have the same kind."""
        return _llama_blocks(self)

    @property
    def ends(self) -> Ends:
        """A norm before the head."""
        return Ends(tied=self.tied, last=self.width)


@lru_cache(maxsize=256)
def _gpt_blocks(shape: GPTConfig) -> tuple[BlockShape, ...]:
    h = shape.width
    matrices = (
        Matrix(h, 3 * h, has_bias=True),
        Matrix(h, h, MatrixCut.ROWS, has_bias=True),
        Matrix(h, 4 * h, has_bias=True),
        Matrix(4 * h, h, MatrixCut.ROWS, has_bias=True),
    )
    block = BlockShape(
        matrices=matrices,
        heads=shape.heads,
        norms=2,
        norm_elements=4 * h,
        queries=h,
        keys=h,
        values=h,
        mixed=h,
        inner=4 * h,
        is_gated=False,
        has_rotary=False,
        has_fused_norms=True,
        layers=shape.layers,
    )
    return (block,)


@lru_cache(maxsize=256)
def _llama_blocks(shape: LlamaConfig) -> tuple[BlockShape, ...]:
    h, f = shape.width, shape.hidden
    queries, keys = shape.size * shape.heads, shape.size * shape.key_heads
    matrices = (
        Matrix(h, queries, has_bias=shape.has_bias),
        Matrix(h, keys, has_bias=shape.has_bias, count=2),
        Matrix(queries, h, MatrixCut.ROWS),
        Matrix(h, f, count=2),
        Matrix(f, h, MatrixCut.ROWS),
    )
    block = BlockShape(
        matrices=matrices,
        heads=shape.heads,
        norms=2,
        norm_elements=2 * h + (2 * shape.size if shape.has_head_norms else 0),
        queries=queries,
        keys=keys,
        values=keys,
        mixed=queries,
        inner=f,
        is_gated=True,
        has_rotary=True,
        has_fused_norms=False,
        layers=shape.layers,
    )
    return (block,)


Transformer = GPTConfig | LlamaConfig | Architecture
"""The models that theory can read; each has `blocks`, `ends` and sizes."""

_LIKE_GPT_2: Any = {"vocabulary": 50_257, "tied": True}
SHAPES: dict[ModelName, Transformer] = {
    ModelName.GPT_TINY: GPTConfig(layers=4, width=256, heads=4, context=64),
    ModelName.GPT_SMALL: GPTConfig(layers=8, width=512, heads=8, context=128),
    ModelName.GPT_2: GPTConfig(layers=12, width=768, heads=12, context=1024, **_LIKE_GPT_2),
    ModelName.GPT_3: GPTConfig(layers=96, width=12288, heads=96, context=2048, **_LIKE_GPT_2),
    ModelName.ZERO_7_5B: GPTConfig(layers=36, width=4096, heads=32, context=1024, **_LIKE_GPT_2),
    ModelName.ZERO_128B: GPTConfig(layers=158, width=8192, heads=64, context=1024, **_LIKE_GPT_2),
    ModelName.ZERO_1T: GPTConfig(layers=128, width=25600, heads=160, context=1024, **_LIKE_GPT_2),
    ModelName.LLAMA_3_8B: LlamaConfig(layers=32, width=4096, heads=32, hidden=14336),
    ModelName.LLAMA_3_70B: LlamaConfig(layers=80, width=8192, heads=64, hidden=28672),
    ModelName.LLAMA_3_405B: LlamaConfig(layers=126, width=16384, heads=128, hidden=53248),
}


def shape_of(name: str) -> Transformer:
    """The shape of a built-in transformer, or of a Hugging Face configuration.

    Args:
        name: one of `SHAPES`, a `config.json`, or the folder that has one.

    Raises:
        ConfigError: there is no model of this name, it is not a transformer, or its
            configuration cannot be read.
    """
    return read_architecture(name) if is_path(name) else built_in(name)


def built_in(name: str) -> Transformer:
    """The shape of a built-in transformer; for names from untrusted sources: never reads a file.

    Raises:
        ConfigError: there is no model of this name.
    """
    known = {model.value: shape for model, shape in SHAPES.items()}
    if name not in known:
        raise ConfigError(
            f"unknown model {name!r}: expected one of {', '.join(known)}, or the path of a Hugging "
            "Face config.json"
        )
    return known[name]


def parameters_of(shape: Transformer, *, active: bool = False) -> int:
    """Number of parameters Psi; `active`: without the experts that a token does not use."""
    return count_parameters(shape.blocks, shape.ends, shape.vocabulary, shape.width, active=active)
