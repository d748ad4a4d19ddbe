"""Parts shared by the families: kinds of attention, MLPs, blocks, windows."""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.base.config.blocks import Architecture, BlockShape, Ends, Experts, Matrix, MatrixCut
from zerosim.base.config.huggingface.given import GivenConfig
from zerosim.base.errors import ConfigError


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """The sizes of attention, for `BlockShape`."""

    matrices: tuple[Matrix, ...]
    heads: int
    key_heads: int
    queries: int
    keys: int
    values: int
    mixed: int
    norm_elements: int = 0
    latent: int = 0


def grouped(
    given: GivenConfig,
    *,
    bias: bool = False,
    output_bias: bool | None = None,
    key_heads: int | None = None,
    head_norms: bool = False,
) -> AttentionShape:
    """Grouped-query attention: keys and values have fewer heads than queries (J. Ainslie et al.,
    arXiv 2305.13245).
    """
    h, heads = given.size("hidden_size", "n_embd", "d_model"), heads_of(given)
    keyed = key_heads or given.size("num_key_value_heads", default=heads)
    size = given.optional("head_dim") or head_size(given, h, heads)
    queries, keys = heads * size, keyed * size
    out = bias if output_bias is None else output_bias
    matrices = (
        Matrix(h, queries, has_bias=bias),
        Matrix(h, keys, has_bias=bias, count=2),
        Matrix(queries, h, MatrixCut.ROWS, has_bias=out),
    )
    norms = 2 * size if head_norms else 0
    return AttentionShape(matrices, heads, keyed, queries, keys, keys, queries, norms)


def head_size(given: GivenConfig, width: int, heads: int) -> int:
    """Elements of a head, if the configuration does not give them."""
    if width % heads:
        raise ConfigError(
            f"{given.where}: hidden_size is {width}: expected a multiple of the {heads} heads, or "
            "head_dim"
        )
    return width // heads


def heads_of(given: GivenConfig) -> int:
    """The number of query heads."""
    return given.size("num_attention_heads", "n_head", "n_heads")


def latent(given: GivenConfig) -> AttentionShape:
    """Multi-head latent attention (DeepSeek-AI, arXiv 2405.04434, section 2.1)."""
    h, heads = given.size("hidden_size"), heads_of(given)
    given.optional("num_key_value_heads")
    given.optional("head_dim")
    rope, nope = given.size("qk_rope_head_dim"), given.size("qk_nope_head_dim")
    value, kept = given.size("v_head_dim"), given.size("kv_lora_rank")
    given.optional("qk_head_dim")
    queries, asked = heads * (nope + rope), given.optional("q_lora_rank")
    bias = given.flag("attention_bias", default=False)
    if asked is None:
        of_queries: tuple[Matrix, ...] = (Matrix(h, queries),)
    else:
        down = Matrix(h, asked, MatrixCut.WHOLE, has_bias=bias)
        of_queries = (down, Matrix(asked, queries))
    matrices = (
        *of_queries,
        Matrix(h, kept + rope, MatrixCut.WHOLE, has_bias=bias),
        Matrix(kept, heads * (nope + value)),
        Matrix(heads * value, h, MatrixCut.ROWS, has_bias=bias),
    )
    latent = 2 * (asked or 0) + 2 * kept + rope
    return AttentionShape(
        matrices=matrices,
        heads=heads,
        key_heads=heads,
        queries=queries,
        keys=queries,
        values=heads * value,
        mixed=heads * value,
        norm_elements=(asked or 0) + kept,
        latent=latent,
    )


def mlp_of(width: int, inner: int, *, gated: bool, bias: bool = False) -> tuple[Matrix, ...]:
    """An MLP, with a gate or without."""
    return (
        Matrix(width, inner, has_bias=bias, count=2 if gated else 1),
        Matrix(inner, width, MatrixCut.ROWS, has_bias=bias),
    )


def block_of(  # noqa: PLR0913 - a block has that many properties
    given: GivenConfig,
    attention: AttentionShape,
    mlp: tuple[Matrix, ...],
    inner: int,
    *,
    layers: int,
    norms: int = 2,
    between: int = 4,
    gated: bool = True,
    rotary: bool = True,
    layer_norm: bool = False,
    experts: Experts | None = None,
    windows: tuple[tuple[int, int], ...] = (),
) -> BlockShape:
    """A block; the defaults are those of Llama."""
    h = given.size("hidden_size", "n_embd", "d_model")
    return BlockShape(
        matrices=(*attention.matrices, *mlp),
        heads=attention.heads,
        norms=norms,
        norm_elements=norms * h * (2 if layer_norm else 1) + attention.norm_elements,
        between=between,
        queries=attention.queries,
        keys=attention.keys,
        values=attention.values,
        mixed=attention.mixed,
        latent=attention.latent,
        inner=inner,
        is_gated=gated,
        has_rotary=rotary,
        has_fused_norms=layer_norm,
        experts=experts,
        windows=windows,
        layers=layers,
    )


_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")


def model_of(
    given: GivenConfig, attention: AttentionShape, blocks: tuple[BlockShape, ...], ends: Ends
) -> Architecture:
    """A model of these blocks."""
    return Architecture(
        family=given.text("model_type"),
        width=given.size("hidden_size", "n_embd", "d_model"),
        heads=attention.heads,
        key_heads=attention.key_heads,
        context=given.size(*_CONTEXT, default=2048),
        vocabulary=given.size("vocab_size"),
        blocks=blocks,
        ends=ends,
    )


def layers_of(given: GivenConfig) -> int:
    """The number of layers."""
    return given.size("num_hidden_layers", "n_layer", "num_layers", "n_layers")


_KINDS_OF_ATTENTION = {"full_attention", "sliding_attention"}


def windows_of(given: GivenConfig, *, every: int | None = None) -> tuple[tuple[int, int], ...]:
    """Layers with sliding-window attention; one in `every` layers attends to all tokens.

    `layer_types` lists the kind of each layer.
    """
    window, layers = given.optional("sliding_window"), layers_of(given)
    kinds = given.many("layer_types")
    others = sorted({str(one) for one in kinds} - _KINDS_OF_ATTENTION)
    if others:
        given.leave_out(f"layer_types {', '.join(others)}")
    if window is None:
        return ()
    if kinds:
        sliding = sum(one == "sliding_attention" for one in kinds)
    else:
        sliding = layers if every is None else layers - layers // every
    return ((window, sliding),)


def windows_if_used(given: GivenConfig) -> tuple[tuple[int, int], ...]:
    """Qwen's configurations give a window and whether the layers above `max_window_layers` use it.

    The published models do not use it.
    """
    used = given.flag("use_sliding_window", default=False)
    full = given.count("max_window_layers", 0)
    found = windows_of(given)
    if not used or not found or given.many("layer_types"):
        return found if used else ()
    return ((found[0][0], max(0, found[0][1] - full)),)
