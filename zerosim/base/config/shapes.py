"""The sizes of the built-in transformers, which say how much they compute, keep and send.

GPT-2 and GPT-3: Radford et al. 2019, Brown et al. 2020 (arXiv 2005.14165, table 2.1). zero-7.5b,
-128b and -1t have as many parameters as the rows of the ZeRO paper's table 1 (arXiv 1910.02054),
which does not give their shapes: these are of Narayanan et al. 2021 (arXiv 2104.04473, table 1),
of width 8192 as in the ZeRO paper's appendix, and again of Narayanan et al. Llama 3: Grattafiori
et al. 2024 (arXiv 2407.21783, table 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from zerosim.base.config.choices import ModelName
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
        context: longest sequence that can be read, s.
        tied: the head's matrix is the token embedding.
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
        h, tokens = self.width, self.vocabulary
        ends = (2 * tokens + self.context) * h + 2 * h - (tokens * h if self.tied else 0)
        return self.layers * (12 * h * h + 13 * h) + ends


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
    """

    layers: int
    width: int
    heads: int
    key_heads: int = 8
    hidden: int
    context: int = 8192
    vocabulary: int = 128_256
    theta: float = 500_000.0

    @property
    def num_parameters(self) -> int:
        """L(2h^2 + 2h^2 k/heads + 3hf + 2h) + 2Vh + h."""
        h, keys = self.width, self.width // self.heads * self.key_heads
        block = 2 * h * h + 2 * h * keys + 3 * h * self.hidden + 2 * h
        return self.layers * block + 2 * self.vocabulary * h + h


Transformer = GPTConfig | LlamaConfig
"""Of a model that is made of blocks which are all alike."""

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
    """The shape of a built-in transformer.

    Raises:
        ConfigError: there is none of this name, or the model is no transformer.
    """
    known = {model.value: shape for model, shape in SHAPES.items()}
    if name not in known:
        raise ConfigError(f"unknown model {name!r}: expected one of {', '.join(known)}")
    return known[name]
