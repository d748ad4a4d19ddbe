"""The choice of a model: a built-in one by name, or a Hugging Face configuration by path.

A plan takes any of `huggingface.FAMILIES`. A training run, real or dry, needs code: a GPT or a
Llama of this package. A configuration is trained as one of these if both have the same structure,
matrix by matrix and norm by norm (`trained_shape`). Otherwise it is refused with the differences,
even if it is similar.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from zerosim.base.config.blocks import Architecture
from zerosim.base.config.choices import ModelName, choice
from zerosim.base.config.huggingface import FILE, is_path, read_architecture
from zerosim.base.config.shapes import (
    SHAPES,
    GPTConfig,
    LlamaConfig,
    Transformer,
    parameters_of,
)
from zerosim.base.errors import ConfigError
from zerosim.base.quantities import format_exact

OR_A_FILE = "or a Hugging Face config.json"
_MOST_TRAINED = 10**8
"""Maximum number of parameters to train; larger models are for dry runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Overrides of a model's sizes; None keeps those of its name."""

    layers: int | None = None
    width: int | None = None
    heads: int | None = None
    context_length: int | None = None
    vocabulary: int | None = None

    @property
    def is_usual(self) -> bool:
        """True if nothing is overridden."""
        return self == Shape()


_USUAL = Shape()


class ModelFile(str):
    """The path of a Hugging Face `config.json`, or of its folder, which is read on demand."""

    __slots__ = ()

    @property
    def is_large(self) -> bool:
        """True if no single machine trains it: it is for dry runs."""
        return parameters_of(read_architecture(self)) > _MOST_TRAINED


def model_named(name: str) -> ModelName | ModelFile:
    """The model with a given name or path.

    Raises:
        ConfigError: there is no model of this name; a file is not read here.
    """
    if is_path(name):
        return ModelFile(name)
    try:
        return choice(ModelName, name, "model")
    except ConfigError as error:
        raise ConfigError(f"{error}, {OR_A_FILE}") from None


def called(model: ModelName | ModelFile) -> str:
    """A short word for a model that can be part of a folder's name."""
    if isinstance(model, ModelName):
        return model.value
    path = Path(model).absolute()
    return path.parent.name if path.name == FILE else path.stem


def trained_model(name: ModelName | ModelFile, shape: Shape = _USUAL) -> GPTConfig | LlamaConfig:
    """The trainable model of a name, with the sizes that `shape` overrides.

    Raises:
        ConfigError: it is not a transformer, its configuration cannot be read or trained here,
            or it does not support an override.
    """
    if isinstance(name, ModelFile):
        return sized(trained_shape(read_architecture(name), name, shape.context_length), shape)
    found = SHAPES.get(name)
    if not isinstance(found, GPTConfig | LlamaConfig):
        raise ConfigError(
            "layers, width, heads, context-length and vocabulary are for a GPT: "
            "expected a model such as gpt-tiny"
        )
    return sized(found, shape)


def sized(found: GPTConfig | LlamaConfig, shape: Shape) -> GPTConfig | LlamaConfig:
    """A model with other sizes.

    Raises:
        ConfigError: heads do not divide the width, or a Llama's width or heads are overridden,
            with which its MLP and its keys would have to change as well.
    """
    given = {key: value for key, value in asdict(shape).items() if value is not None}
    given["context"] = given.pop("context_length", found.context)
    if isinstance(found, LlamaConfig):
        for name in ("width", "heads"):
            if name in given:
                raise ConfigError(
                    f"{name} is {given[name]} for a Llama: expected none, as its configuration "
                    "fixes it; try --layers"
                )
        return replace(found, **given)
    config = replace(found, **given)
    if config.width % config.heads:
        raise ConfigError(
            f"width is {config.width}: expected a multiple of the {config.heads} heads"
        )
    return config


def trained_shape(
    shape: Transformer, where: str, context: int | None = None
) -> GPTConfig | LlamaConfig:
    """The model of this package that has the structure of a configuration.

    Args:
        where: the configuration, for messages.
        context: tokens of a sequence, if they differ from the model's own: an attention window
            of at least this length has no effect.

    Raises:
        ConfigError: there is none; the message names the differences.
    """
    if not isinstance(shape, Architecture):
        return shape
    found = _closest(shape)
    beside = list(_beside(shape, found, context or shape.context)) or list(_sizes(shape, found))
    if not beside and replace(shape.blocks[0], windows=()) != replace(found.blocks[0], windows=()):
        beside = ["other layers in a block"]
    if beside:
        raise ConfigError(
            f"{where}: {shape.family} with {', '.join(beside)} is for zerosim plan and zerosim "
            "table alone: expected a GPT-2 or a model of Llama's structure (also "
            "Mistral, Qwen2 and Qwen3), which zerosim can train and simulate"
        )
    return found


def taken_words(name: ModelFile, shape: Shape = _USUAL) -> str:
    """In one line, the parts of a configuration that are trained, and those that are not.

    Raises:
        ConfigError: as `trained_model`.
    """
    found, left = trained_model(name, shape), read_architecture(name).left_out
    design = "a GPT-2 (LayerNorm, learned positions, GELU)"
    if isinstance(found, LlamaConfig):
        design = "a Llama (RMSNorm, rotary positions, SwiGLU)"
    return (
        f"{name} is built as {design}: {found.layers} layers, width "
        f"{format_exact(found.width)}, {found.heads} heads, {found.key_heads} of keys, vocabulary "
        f"{format_exact(found.vocabulary)}, {format_exact(found.num_parameters)} parameters, "
        f"sequences of {format_exact(found.context)} tokens"
        + (f"; ignored: {', '.join(left)}" if left else "")
    )


def _closest(shape: Architecture) -> GPTConfig | LlamaConfig:
    block = shape.blocks[0]
    sizes = {
        "layers": shape.layers,
        "width": shape.width,
        "heads": shape.heads,
        "context": shape.context,
        "vocabulary": shape.vocabulary,
    }
    tied = shape.ends.tied
    if block.has_fused_norms:
        return GPTConfig(**sizes, tied=tied)
    size = block.queries // shape.heads
    return LlamaConfig(
        **sizes,
        tied=tied,
        key_heads=shape.key_heads,
        hidden=block.inner,
        head_size=None if size * shape.heads == shape.width else size,
        has_bias=block.matrices[0].has_bias,
        has_head_norms=block.norm_elements == 2 * shape.width + 2 * size,
    )


def _beside(shape: Architecture, found: GPTConfig | LlamaConfig, context: int) -> Iterator[str]:
    """Parts that a configuration has and the closest model here lacks, or vice versa."""
    block = shape.blocks[0]
    if len(shape.blocks) > 1:
        yield f"{len(shape.blocks)} kinds of blocks"
    for window, layers in block.windows:
        if window < context and layers:
            yield f"attention windows of {format_exact(window)} tokens"
    experts = next((one.experts for one in shape.blocks if one.experts), None)
    if experts:
        yield f"{experts.count} experts"
    if block.latent:
        yield "latent attention"
    if block.norms != found.blocks[0].norms:
        yield "one norm in a block" if block.norms == 1 else f"{block.norms} norms in a block"
    yield from _of_another_design(shape, found)


def _of_another_design(shape: Architecture, found: GPTConfig | LlamaConfig) -> Iterator[str]:
    """Positions and gates that models here do not combine with these norms."""
    block = shape.blocks[0]
    if isinstance(found, GPTConfig):
        if block.has_rotary:
            yield "rotary positions beside LayerNorm"
        elif not shape.ends.positions:
            yield "no table of positions"
        if block.is_gated:
            yield "a gate beside LayerNorm"
    elif not block.is_gated:
        yield "no gate beside RMSNorm"
    elif found.size % 2:
        yield f"heads of {found.size} elements"


def _sizes(shape: Architecture, found: GPTConfig | LlamaConfig) -> Iterator[str]:
    """Differences in the sizes of equal parts."""
    theirs, ours = shape.blocks[0], found.blocks[0]
    biases = [sum(one.has_bias * one.count for one in each.matrices) for each in (theirs, ours)]
    if biases[0] != biases[1]:
        yield f"biases of {biases[0]} matrices in a block, not of {biases[1]}"
    if theirs.inner != ours.inner:
        yield f"an MLP of width {format_exact(theirs.inner)}"
    if theirs.norm_elements != ours.norm_elements:
        yield f"{format_exact(theirs.norm_elements)} elements in a block's norms"
    if shape.ends != found.ends:
        yield "other norms or positions before and after the blocks"
