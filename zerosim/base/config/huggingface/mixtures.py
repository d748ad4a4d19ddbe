"""Families whose blocks have experts (mixture of experts)."""

from __future__ import annotations

from dataclasses import replace

from zerosim.base.config.blocks import Architecture, Ends, Experts, Matrix, MatrixCut
from zerosim.base.config.huggingface.given import GivenConfig
from zerosim.base.config.huggingface.parts import (
    AttentionShape,
    block_of,
    grouped,
    latent,
    layers_of,
    mlp_of,
    model_of,
    windows_if_used,
    windows_of,
)


def _experts(width: int, inner: int, count: int, active: int, *, bias: bool = False) -> Experts:
    matrices = mlp_of(width, inner, gated=True, bias=bias)
    return Experts(count=count, active=active, matrices=matrices, inner=inner)


def _mixtral(given: GivenConfig) -> Architecture:
    """Mixtral; GraniteMoE has the same structure."""
    bias = given.flag("attention_bias", default=False)
    return _experts_alone(given, grouped(given, bias=bias))


def _experts_alone(
    given: GivenConfig,
    attention: AttentionShape,
    *,
    bias: bool = False,
    layer_norm: bool = False,
    of_head: int = 0,
) -> Architecture:
    """Every block has experts, and no other MLP.

    Args:
        bias: of experts and router.
        of_head: elements of the head's bias.
    """
    h, inner = given.size("hidden_size"), given.size("intermediate_size")
    count = given.size("num_local_experts", "num_experts", default=8)
    active = given.size("num_experts_per_tok", "experts_per_token", default=2)
    block = block_of(
        given,
        attention,
        (Matrix(h, count, MatrixCut.WHOLE, has_bias=bias),),
        0,
        layers=layers_of(given),
        layer_norm=layer_norm,
        experts=_experts(h, inner, count, active, bias=bias),
        windows=windows_of(given),
    )
    tied = given.flag("tie_word_embeddings", default=False)
    last = h * (2 if layer_norm else 1) + of_head
    return model_of(given, attention, (block,), Ends(tied=tied, last=last))


def _phimoe(given: GivenConfig) -> Architecture:
    attention = grouped(given, bias=given.flag("attention_bias", default=False))
    has_bias = given.flag("lm_head_bias", default=False)
    of_head = given.size("vocab_size") if has_bias else 0
    return _experts_alone(given, attention, layer_norm=True, of_head=of_head)


def _olmoe(given: GivenConfig) -> Architecture:
    """All queries and all keys have a norm, as in OLMo 2."""
    found = grouped(given, bias=given.flag("attention_bias", default=False))
    return _experts_alone(given, replace(found, norm_elements=found.queries + found.keys))


def _gpt_oss(given: GivenConfig) -> Architecture:
    """Each head has a sink: a score without a token."""
    found = grouped(given, bias=given.flag("attention_bias", default=True))
    return _experts_alone(given, replace(found, norm_elements=found.heads), bias=True)


def _qwen2_moe(given: GivenConfig) -> Architecture:
    attention = grouped(given, bias=given.flag("qkv_bias", default=True), output_bias=False)
    return _qwen_moe(given, attention, given.size("shared_expert_intermediate_size"))


def _qwen3_moe(given: GivenConfig) -> Architecture:
    bias = given.flag("attention_bias", default=False)
    return _qwen_moe(given, grouped(given, bias=bias, head_norms=True), 0)


def _qwen_moe(given: GivenConfig, attention: AttentionShape, shared: int) -> Architecture:
    """Every `decoder_sparse_step`-th layer has experts, those of `mlp_only_layers` none."""
    h, dense = given.size("hidden_size"), given.size("intermediate_size")
    count = given.size("num_experts", "num_local_experts")
    active, inner = given.size("num_experts_per_tok"), given.size("moe_intermediate_size")
    router: tuple[Matrix, ...] = (Matrix(h, count, MatrixCut.WHOLE),)
    if shared:
        router = (*router, *mlp_of(h, shared, gated=True), Matrix(h, 1, MatrixCut.WHOLE))
    windows_if_used(given)  # marks the keys as read: published models attend to all tokens
    layers, step = layers_of(given), given.size("decoder_sparse_step", default=1)
    without = set(given.many("mlp_only_layers"))
    sparse = [
        number for number in range(layers) if number not in without and (number + 1) % step == 0
    ]
    return _of_two_kinds(
        given, attention, router, shared, _experts(h, inner, count, active), dense, len(sparse)
    )


def _of_two_kinds(  # noqa: PLR0917 - the parts of the two kinds
    given: GivenConfig,
    attention: AttentionShape,
    beside: tuple[Matrix, ...],
    shared: int,
    experts: Experts,
    dense: int,
    sparse: int,
) -> Architecture:
    """Some layers with experts, the others with an MLP."""
    h, layers = given.size("hidden_size"), layers_of(given)
    kinds = []
    if sparse:
        kinds.append(block_of(given, attention, beside, shared, layers=sparse, experts=experts))
    if layers - sparse:
        mlp = mlp_of(h, dense, gated=True)
        kinds.append(block_of(given, attention, mlp, dense, layers=layers - sparse))
    kinds.sort(key=lambda one: -one.layers)
    tied = given.flag("tie_word_embeddings", default=False)
    return model_of(given, attention, tuple(kinds), Ends(tied=tied, last=h))


def _deepseek(given: GivenConfig) -> Architecture:
    """Shared and routed experts behind latent attention (DeepSeek-V2 and V3)."""
    h, attention = given.size("hidden_size"), latent(given)
    count, active = given.size("n_routed_experts"), given.size("num_experts_per_tok")
    inner, layers = given.size("moe_intermediate_size"), layers_of(given)
    shared = given.count("n_shared_experts") * inner
    given.size("moe_layer_freq", default=1)
    beside: tuple[Matrix, ...] = (Matrix(h, count, MatrixCut.WHOLE),)
    if shared:
        beside = (*beside, *mlp_of(h, shared, gated=True))
    first = min(layers, given.count("first_k_dense_replace"))
    return _of_two_kinds(
        given,
        attention,
        beside,
        shared,
        _experts(h, inner, count, active),
        given.size("intermediate_size"),
        layers - first,
    )


FAMILIES = {
    "mixtral": _mixtral,
    "gpt_oss": _gpt_oss,
    "granitemoe": _mixtral,
    "olmoe": _olmoe,
    "phimoe": _phimoe,
    "qwen2_moe": _qwen2_moe,
    "qwen3_moe": _qwen3_moe,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
}
"""Families by `model_type`."""
