"""Dense families: every block has one MLP."""

from __future__ import annotations

from dataclasses import replace

from zerosim.base.config.blocks import Architecture, Ends, Matrix, MatrixCut
from zerosim.base.config.huggingface.given import GivenConfig
from zerosim.base.config.huggingface.parts import (
    AttentionShape,
    block_of,
    grouped,
    head_size,
    heads_of,
    layers_of,
    mlp_of,
    model_of,
    windows_if_used,
    windows_of,
)
from zerosim.base.errors import ConfigError


def _llama(given: GivenConfig) -> Architecture:
    bias = given.flag("attention_bias", default=False)
    return _llama_like(
        given, grouped(given, bias=bias), mlp_bias=given.flag("mlp_bias", default=False)
    )


def _llama_like(
    given: GivenConfig,
    attention: AttentionShape,
    *,
    mlp_bias: bool = False,
    tied: bool = False,
    norms: int = 2,
    between: int = 4,
    windows: tuple[tuple[int, int], ...] = (),
) -> Architecture:
    """RMS norms, rotary positions, a gated MLP."""
    h, inner = given.size("hidden_size"), given.size("intermediate_size")
    mlp = mlp_of(h, inner, gated=True, bias=mlp_bias)
    block = block_of(
        given,
        attention,
        mlp,
        inner,
        layers=layers_of(given),
        norms=norms,
        between=between,
        windows=windows,
    )
    is_tied = given.flag("tie_word_embeddings", default=tied)
    return model_of(given, attention, (block,), Ends(tied=is_tied, last=h))


def _mistral(given: GivenConfig) -> Architecture:
    return _llama_like(given, grouped(given), windows=windows_of(given))


def _qwen2(given: GivenConfig) -> Architecture:
    attention = grouped(given, bias=True, output_bias=False)
    return _llama_like(given, attention, windows=windows_if_used(given))


def _qwen3(given: GivenConfig) -> Architecture:
    bias = given.flag("attention_bias", default=False)
    attention = grouped(given, bias=bias, head_norms=True)
    return _llama_like(given, attention, windows=windows_if_used(given))


def _gemma(given: GivenConfig) -> Architecture:
    bias = given.flag("attention_bias", default=False)
    return _llama_like(given, grouped(given, bias=bias), tied=True)


def _gemma2(given: GivenConfig) -> Architecture:
    bias = given.flag("attention_bias", default=False)
    attention = grouped(given, bias=bias)
    windows = windows_of(given, every=2)
    return _llama_like(given, attention, tied=True, norms=4, between=6, windows=windows)


def _gemma3(given: GivenConfig) -> Architecture:
    bias = given.flag("attention_bias", default=False)
    attention = grouped(given, bias=bias, head_norms=True)
    every = given.size("sliding_window_pattern", "_sliding_window_pattern", default=6)
    windows = windows_of(given, every=every)
    return _llama_like(given, attention, tied=True, norms=4, between=6, windows=windows)


def _phi3(given: GivenConfig) -> Architecture:
    return _llama_like(given, grouped(given), windows=windows_of(given))


def _phi(given: GivenConfig) -> Architecture:
    """AttentionShape and MLP read the same norm (Phi-1, Phi-2)."""
    h, inner = given.size("hidden_size"), given.size("intermediate_size")
    if given.flag("qk_layernorm", default=False):
        raise ConfigError(f"{given.where}: qk_layernorm is true: expected false")
    attention = grouped(given, bias=True)
    block = block_of(
        given,
        attention,
        mlp_of(h, inner, gated=False, bias=True),
        inner,
        layers=layers_of(given),
        norms=1,
        between=2,
        gated=False,
        layer_norm=True,
    )
    tied = given.flag("tie_word_embeddings", default=False)
    last = 2 * h + given.size("vocab_size")
    return model_of(given, attention, (block,), Ends(tied=tied, last=last))


def _gpt2(given: GivenConfig) -> Architecture:
    h, heads = given.size("n_embd", "hidden_size"), heads_of(given)
    inner = given.optional("n_inner") or 4 * h
    matrices = (
        Matrix(h, 3 * h, has_bias=True),
        Matrix(h, h, MatrixCut.ROWS, has_bias=True),
    )
    attention = AttentionShape(matrices, heads, heads, h, h, h, h)
    block = block_of(
        given,
        attention,
        mlp_of(h, inner, gated=False, bias=True),
        inner,
        layers=layers_of(given),
        gated=False,
        rotary=False,
        layer_norm=True,
    )
    given.optional("n_ctx")
    context = given.size("n_positions", "max_position_embeddings", default=1024)
    tied = given.flag("tie_word_embeddings", default=True)
    return model_of(given, attention, (block,), Ends(tied=tied, positions=context * h, last=2 * h))


def _fused(h: int, heads: int, keys: int, size: int, *, bias: bool) -> AttentionShape:
    """Queries, keys and values from one matrix."""
    queries, keyed = heads * size, keys * size
    matrices = (
        Matrix(h, queries + 2 * keyed, has_bias=bias),
        Matrix(queries, h, MatrixCut.ROWS, has_bias=bias),
    )
    return AttentionShape(matrices, heads, keys, queries, keyed, keyed, queries)


def _gpt_neox(given: GivenConfig) -> Architecture:
    h, heads, inner = given.size("hidden_size"), heads_of(given), given.size("intermediate_size")
    bias = given.flag("attention_bias", default=True)
    attention = _fused(h, heads, heads, head_size(given, h, heads), bias=bias)
    parallel = given.flag("use_parallel_residual", default=True)
    block = block_of(
        given,
        attention,
        mlp_of(h, inner, gated=False, bias=True),
        inner,
        layers=layers_of(given),
        between=3 if parallel else 4,
        gated=False,
        layer_norm=True,
    )
    tied = given.flag("tie_word_embeddings", default=False)
    return model_of(given, attention, (block,), Ends(tied=tied, last=2 * h))


def _bloom(given: GivenConfig) -> Architecture:
    h, heads = given.size("hidden_size", "n_embed"), heads_of(given)
    attention = _fused(h, heads, heads, head_size(given, h, heads), bias=True)
    block = block_of(
        given,
        attention,
        mlp_of(h, 4 * h, gated=False, bias=True),
        4 * h,
        layers=layers_of(given),
        gated=False,
        rotary=False,
        layer_norm=True,
    )
    tied = given.flag("tie_word_embeddings", default=True)
    return model_of(given, attention, (block,), Ends(tied=tied, first=2 * h, last=2 * h))


def _falcon(given: GivenConfig) -> Architecture:
    """Three designs under one name: 7B shares one head of keys, 40B several, RW has ALiBi."""
    h, heads = given.size("hidden_size"), heads_of(given)
    new = given.flag("new_decoder_architecture", default=False)
    shares = given.flag("multi_query", default=True)
    parallel = given.flag("parallel_attn", default=True)
    alibi, bias = given.flag("alibi", default=False), given.flag("bias", default=False)
    inner = given.optional("ffn_hidden_size") or 4 * h
    groups = given.size("num_kv_heads", "n_head_kv", default=heads)
    keys = groups if new else 1 if shares else heads
    of_norms = given.optional("num_ln_in_parallel_attn")
    norms = (of_norms or 2) if new else 1 if parallel else 2
    attention = _fused(h, heads, keys, head_size(given, h, heads), bias=bias)
    is_beside = parallel or new
    block = block_of(
        given,
        attention,
        mlp_of(h, inner, gated=False, bias=bias),
        inner,
        layers=layers_of(given),
        norms=norms,
        between=1 + norms if is_beside else 4,
        gated=False,
        rotary=not alibi,
        layer_norm=True,
    )
    tied = given.flag("tie_word_embeddings", default=True)
    return model_of(given, attention, (block,), Ends(tied=tied, last=2 * h))


def _mpt(given: GivenConfig) -> Architecture:
    """Neither biases nor a table of positions (ALiBi); its norms have weights alone."""
    h, heads = given.size("d_model"), given.size("n_heads")
    inner = given.size("expansion_ratio", default=4) * h
    bias = not given.flag("no_bias", default=True)
    if bias:
        raise ConfigError(f"{given.where}: no_bias is false: expected true")
    attention = _fused(h, heads, heads, head_size(given, h, heads), bias=False)
    block = replace(
        block_of(
            given,
            attention,
            mlp_of(h, inner, gated=False),
            inner,
            layers=layers_of(given),
            gated=False,
            rotary=False,
            layer_norm=True,
        ),
        norm_elements=2 * h,
    )
    tied = given.flag("tie_word_embeddings", default=True)
    return model_of(given, attention, (block,), Ends(tied=tied, last=h))


def _opt(given: GivenConfig) -> Architecture:
    h, inner = given.size("hidden_size"), given.size("ffn_dim")
    if given.size("word_embed_proj_dim", default=h) != h:
        raise ConfigError(f"{given.where}: word_embed_proj_dim: expected hidden_size")
    if not given.flag("do_layer_norm_before", default=True):
        raise ConfigError(f"{given.where}: do_layer_norm_before is false: expected true")
    bias = given.flag("enable_bias", default=True)
    attention = grouped(given, bias=bias)
    block = block_of(
        given,
        attention,
        mlp_of(h, inner, gated=False, bias=bias),
        inner,
        layers=layers_of(given),
        gated=False,
        rotary=False,
        layer_norm=True,
    )
    tied = given.flag("tie_word_embeddings", default=True)
    positions = (given.size("max_position_embeddings", default=2048) + 2) * h
    return model_of(given, attention, (block,), Ends(tied=tied, positions=positions, last=2 * h))


def _starcoder2(given: GivenConfig) -> Architecture:
    h, inner = given.size("hidden_size"), given.size("intermediate_size")
    bias = given.flag("use_bias", default=True)
    attention = grouped(given, bias=bias)
    block = block_of(
        given,
        attention,
        mlp_of(h, inner, gated=False, bias=bias),
        inner,
        layers=layers_of(given),
        gated=False,
        layer_norm=True,
        windows=windows_of(given),
    )
    tied = given.flag("tie_word_embeddings", default=True)
    return model_of(given, attention, (block,), Ends(tied=tied, last=2 * h))


def _olmo2(given: GivenConfig) -> Architecture:
    """Norms after attention and MLP, and of all queries and all keys together."""
    bias = given.flag("attention_bias", default=False)
    found = grouped(given, bias=bias)
    return _llama_like(given, replace(found, norm_elements=found.queries + found.keys))


FAMILIES = {
    "llama": _llama,
    "mistral": _mistral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "phi": _phi,
    "phi3": _phi3,
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "bloom": _bloom,
    "falcon": _falcon,
    "granite": _llama,
    "mpt": _mpt,
    "olmo2": _olmo2,
    "opt": _opt,
    "starcoder2": _starcoder2,
}
"""Families by `model_type`."""
