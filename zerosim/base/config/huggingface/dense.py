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
    given.must("qk_layernorm", value=False)
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
    """Neither biases nor a position embedding (ALiBi); its norms have only weights."""
    h, heads = given.size("d_model"), given.size("n_heads")
    inner = given.size("expansion_ratio", default=4) * h
    given.must("no_bias", value=True)
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
    given.must("do_layer_norm_before", value=True)
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


def _smollm3(given: GivenConfig) -> Architecture:
    """Every few layers, one has no rotary positions."""
    every = given.size("no_rope_layer_interval", default=4)
    layers, listed = layers_of(given), given.many("no_rope_layers")
    without = sum(not one for one in listed) if listed else layers // every
    bias = given.flag("attention_bias", default=False)
    found = _llama_like(
        given,
        grouped(given, bias=bias),
        mlp_bias=given.flag("mlp_bias", default=False),
        tied=True,
        windows=windows_if_used(given),
    )
    return _without_rotary(found, min(layers, without))


def _without_rotary(found: Architecture, layers: int) -> Architecture:
    """A number of the layers has neither rotary positions nor windows."""
    (block,) = found.blocks
    kinds = [
        replace(block, layers=block.layers - layers),
        replace(block, layers=layers, has_rotary=False, windows=()),
    ]
    kinds.sort(key=lambda one: -one.layers)
    return replace(found, blocks=tuple(one for one in kinds if one.layers))


def _glm(given: GivenConfig) -> Architecture:
    return _llama_like(given, _biased_inputs(given))


def _glm4(given: GivenConfig) -> Architecture:
    return _llama_like(given, _biased_inputs(given), norms=4, between=6)


def _biased_inputs(given: GivenConfig) -> AttentionShape:
    """Queries, keys and values have biases, the output projection has none."""
    bias = given.flag("attention_bias", default=True)
    return grouped(given, bias=bias, output_bias=False)


def _cohere(given: GivenConfig) -> Architecture:
    """Attention and MLP read the same norm, which has only weights (Command-R)."""
    bias = given.flag("attention_bias", default=False)
    return _beside_each_other(
        given, grouped(given, bias=bias), has_qk_norm=given.flag("use_qk_norm", default=False)
    )


def _cohere2(given: GivenConfig) -> Architecture:
    """Command-R7B: every few layers, one attends to all tokens, without rotary positions."""
    for name in ("use_parallel_block", "use_gated_activation", "use_embedding_sharing"):
        given.must(name, value=True)
    given.must("use_parallel_embedding", value=False)
    given.text("order_of_interleaved_layers", "")
    names = ("sliding_window_pattern", "_sliding_window_pattern", "layer_switch")
    every, bias = given.size(*names, default=4), given.flag("attention_bias", default=False)
    windows = windows_of(given, every=every)
    found = _beside_each_other(given, grouped(given, bias=bias), windows=windows)
    sliding = sum(count for _, count in windows)
    return _without_rotary(found, found.layers - sliding) if windows else found


def _beside_each_other(
    given: GivenConfig,
    attention: AttentionShape,
    *,
    has_qk_norm: bool = False,
    windows: tuple[tuple[int, int], ...] = (),
) -> Architecture:
    h = given.size("hidden_size")
    of_heads = attention.queries + attention.keys if has_qk_norm else 0
    ends = Ends(tied=given.flag("tie_word_embeddings", default=True), last=h)
    return _layer_norms(given, attention, h + of_heads, ends, norms=1, between=2, windows=windows)


def _layer_norms(
    given: GivenConfig,
    attention: AttentionShape,
    elements: int,
    ends: Ends,
    *,
    norms: int = 2,
    between: int = 4,
    windows: tuple[tuple[int, int], ...] = (),
) -> Architecture:
    """A Llama with LayerNorm, with the given number of elements in the norms of a block."""
    inner = given.size("intermediate_size")
    block = block_of(
        given,
        attention,
        mlp_of(given.size("hidden_size"), inner, gated=True),
        inner,
        layers=layers_of(given),
        norms=norms,
        between=between,
        layer_norm=True,
        windows=windows,
    )
    return model_of(given, attention, (replace(block, norm_elements=elements),), ends)


def _olmo(given: GivenConfig) -> Architecture:
    """Its norms have no parameters."""
    bias = given.flag("attention_bias", default=False)
    ends = Ends(tied=given.flag("tie_word_embeddings", default=False), last=0)
    return _layer_norms(given, grouped(given, bias=bias), 0, ends)


def _stablelm(given: GivenConfig) -> Architecture:
    for name in ("qk_layernorm", "use_parallel_residual"):
        given.must(name, value=False)
    bias = given.flag("use_qkv_bias", default=False)
    attention = grouped(given, bias=bias, output_bias=False)
    last = 2 * given.size("hidden_size")  # its weights and biases
    ends = Ends(tied=given.flag("tie_word_embeddings", default=False), last=last)
    return _layer_norms(given, attention, 2 * last, ends)


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
    "glm": _glm,
    "glm4": _glm4,
    "granite": _llama,
    "cohere": _cohere,
    "cohere2": _cohere2,
    "mpt": _mpt,
    "olmo": _olmo,
    "olmo2": _olmo2,
    "opt": _opt,
    "smollm3": _smollm3,
    "stablelm": _stablelm,
    "starcoder2": _starcoder2,
}
"""Families by `model_type`."""
