"""A model from its Hugging Face `config.json`, with the exact number of parameters.

Sources: the modeling files of huggingface/transformers, which define the names of the keys. A test
compares the counts with the models that this code builds on the meta device. Each key of a
configuration is read, or is known to affect neither parameters nor computation, or is listed in
`left_out`: no key is ignored silently.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from zerosim.base.config.blocks import Architecture
from zerosim.base.config.choices import ModelName
from zerosim.base.config.huggingface import dense, mixtures
from zerosim.base.config.huggingface.given import GivenConfig
from zerosim.base.errors import ConfigError

FAMILIES: Mapping[str, Callable[[GivenConfig], Architecture]] = {
    **dense.FAMILIES,
    **mixtures.FAMILIES,
}
"""Families by `model_type`."""
FILE = "config.json"
_WRAPPED = {"gemma3": "gemma3_text", "mistral3": "mistral"}
"""Multimodal families; the text model has a configuration of its own."""
_LARGEST_BYTES = 1 << 20


def is_path(name: str) -> bool:
    """Whether a model's name is a path; names of built-in models take precedence."""
    is_like_one = name.endswith(".json") or "/" in name or (bool(name) and Path(name).is_dir())
    return is_like_one and name not in tuple(ModelName)


def read_architecture(name: str) -> Architecture:
    """The model described by a `config.json`, or by the folder that has one.

    Raises:
        ConfigError: the file cannot be read, or its family is not in `FAMILIES`.
    """
    path = Path(name)
    path = path / FILE if path.is_dir() else path
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise ConfigError(f"{path}: expected a configuration of at most 1 MiB")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ConfigError(
            f"{path}: cannot be read: {reason}; expected a Hugging Face config.json, or its folder"
        ) from None
    return architecture(values_of(text, str(path)), str(path))


def values_of(text: str, where: str = FILE) -> Any:
    """The values of a configuration, as in JSON.

    Raises:
        ConfigError: it is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{where}: cannot be read: it is not JSON ({error}); expected a Hugging Face "
            "config.json, or its folder"
        ) from None


def essential(values: Any, where: str = FILE) -> dict[str, Any]:
    """The keys of a configuration that change the model, or that are not counted here.

    A configuration without the keys that do not affect the model.

    Raises:
        ConfigError: as `architecture`.
    """
    architecture(values, where)
    family = values["model_type"]
    if family in _WRAPPED and isinstance(values.get("text_config"), dict):
        return {name: value for name, value in values.items() if value is not None}
    given = GivenConfig(values, where)
    FAMILIES[family](given)
    return {"model_type": family, **given.essential()}


def architecture(values: Any, where: str = FILE) -> Architecture:
    """The model that a configuration describes.

    Args:
        values: the parsed JSON.
        where: the file, for messages.

    Raises:
        ConfigError: the family is unknown, or a size is missing or invalid.
    """
    if not isinstance(values, dict):
        raise ConfigError(f"{where}: expected a JSON object, as in a Hugging Face config.json")
    given = GivenConfig(values, where)
    family = given.text("model_type")
    if family in _WRAPPED and isinstance(values.get("text_config"), dict):
        inner = architecture({"model_type": _WRAPPED[family], **values["text_config"]}, where)
        beside = {**values, "text_config": None}
        left = GivenConfig(beside, where).unread({"model_type", "text_config"})
        return replace(inner, left_out=(*inner.left_out, *left))
    if family not in FAMILIES:
        raise ConfigError(
            f"{where}: model_type is {family!r}: expected one of {', '.join(FAMILIES)}"
        )
    found = FAMILIES[family](given)
    _require_sound(found, given)
    return replace(found, left_out=tuple(given.unread()))


def _require_sound(found: Architecture, given: GivenConfig) -> None:
    if found.heads % found.key_heads:
        raise ConfigError(
            f"{given.where}: num_key_value_heads is {found.key_heads}: expected a divisor of the "
            f"{found.heads} heads"
        )
    for block in found.blocks:
        if block.experts and block.experts.active > block.experts.count:
            raise ConfigError(
                f"{given.where}: num_experts_per_tok is {block.experts.active}: expected at most "
                f"the {block.experts.count} experts"
            )
