"""The keys of a configuration: it records which keys were read and reports the others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from zerosim.base.errors import ConfigError

_MOST = 1 << 31
"""Upper bound for every size in a configuration."""


class GivenConfig:
    """The keys of a configuration; every key that is looked up is marked as read."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._values, self.where = values, where
        self._read: set[str] = set()
        self._left: list[str] = []

    def text(self, name: str, default: str | None = None) -> str:
        """The value of a key that is a word."""
        return str(self._found(name, default))

    def size(self, *names: str, default: int | None = None) -> int:
        """The value of the first of these keys that is present: an integer of at least 1."""
        self._read.update(names)
        name = next((one for one in names if self._values.get(one) is not None), names[0])
        found = self._found(name, default)
        if isinstance(found, bool) or not isinstance(found, int) or not 1 <= found < _MOST:
            raise ConfigError(f"{self.where}: {name} is {found!r}: expected a whole number above 0")
        return found

    def count(self, name: str, default: int = 0) -> int:
        """An integer of at least 0."""
        found = self._found(name, default)
        if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < _MOST:
            raise ConfigError(f"{self.where}: {name} is {found!r}: expected a whole number")
        return found

    def optional(self, name: str) -> int | None:
        """A size; None if the key is absent."""
        self._read.add(name)
        return None if self._values.get(name) is None else self.size(name)

    def flag(self, name: str, *, default: bool) -> bool:
        """A flag: true or false."""
        found = self._found(name, default)
        if not isinstance(found, bool):
            raise ConfigError(f"{self.where}: {name} is {found!r}: expected true or false")
        return found

    def must(self, name: str, *, value: bool) -> None:
        """Check that a flag, if present, has the value that this implementation assumes."""
        if self.flag(name, default=value) is not value:
            found, wanted = json.dumps(not value), json.dumps(value)
            raise ConfigError(f"{self.where}: {name} is {found}: expected {wanted}")

    def many(self, name: str) -> list[Any]:
        """A list; empty if the key is absent."""
        found = self._found(name, [])
        return found if isinstance(found, list) else []

    def _found(self, name: str, default: Any) -> Any:
        self._read.add(name)
        found = self._values.get(name)
        found = default if found is None else found
        if found is None:
            raise ConfigError(f"{self.where}: {name} is missing")
        return found

    def leave_out(self, words: str) -> None:
        """Record a setting of a key that was read, which is not counted here."""
        self._left.append(words)

    def essential(self) -> dict[str, Any]:
        """The keys that were read, and the meaningful keys that were not."""
        return {
            name: value
            for name, value in self._values.items()
            if value is not None and (name in self._read or not _is_idle(name))
        }

    def unread(self, known: set[str] | frozenset[str] = frozenset()) -> Iterator[str]:
        """What was left out, and keys that were not read and have a meaningful value."""
        yield from self._left
        for name, value in self._values.items():
            is_said = name in self._read or name in known or _is_usual(name, value)
            if is_said or value is None or _is_idle(name):
                continue
            words = json.dumps(value)
            yield f"{name} = {words if len(words) <= _SHOWN else words[:_SHOWN] + '...'}"


def _is_idle(name: str) -> bool:
    """Whether a key affects neither parameters nor time, whatever its value."""
    is_idle = name in _CHANGES_NOTHING or name.startswith(("_", "attn_config"))
    return is_idle or name.endswith(_ENDS_NOTHING)


def _is_usual(name: str, value: Any) -> bool:
    """Whether a list of layers has the default value for each layer."""
    return name == "layer_types" and value == ["full_attention"] * len(value or ())


_SHOWN = 40
_ENDS_NOTHING = ("_token_id", "_token", "dropout", "_drop", "_pdrop", "_prob", "_dtype", "_index")
_CHANGES_NOTHING = frozenset(
    {
        "activation_function",
        "apply_residual_connection_post_layernorm",
        "architectures",
        "attention_dropout",
        "attention_softmax_in_fp32",
        "attn_logit_softcapping",
        "attn_pdrop",
        "auto_map",
        "aux_loss_alpha",
        "bias_dropout_fusion",
        "bos_token_id",
        "cache_implementation",
        "classifier_dropout",
        "decoder_start_token_id",
        "dtype",
        "embd_pdrop",
        "embedding_dropout",
        "eos_token_id",
        "ep_size",
        "final_logit_softcapping",
        "gradient_checkpointing",
        "hidden_act",
        "hidden_activation",
        "hidden_dropout",
        "hidden_dropout_prob",
        "initial_context_length",
        "input_jitter_noise",
        "id2label",
        "initializer_factor",
        "initializer_range",
        "label2id",
        "layer_norm_eps",
        "layer_norm_epsilon",
        "masked_softmax_fusion",
        "max_window_layers",
        "mlp_dropout",
        "model_max_length",
        "model_type",
        "n_group",
        "n_inner_scale",
        "name_or_path",
        "norm_topk_prob",
        "offset_alibi",
        "original_max_position_embeddings",
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "pad_token_id",
        "partial_rotary_factor",
        "pretraining_max_length",
        "pretraining_tp",
        "problem_type",
        "query_pre_attn_scalar",
        "reorder_and_upcast_attn",
        "resid_pdrop",
        "return_dict",
        "rms_norm_eps",
        "rope_interleave",
        "rope_local_base_freq",
        "rope_parameters",
        "rope_scaling",
        "rope_theta",
        "rotary_emb_base",
        "rotary_pct",
        "routed_scaling_factor",
        "router_aux_loss_coef",
        "router_jitter_noise",
        "scale_attn_by_inverse_layer_idx",
        "scale_attn_weights",
        "scoring_func",
        "seq_aux",
        "seq_length",
        "position_embedding_type",
        "skip_bias_add",
        "skip_bias_add_qkv",
        "sliding_window_size",
        "slow_but_exact",
        "summary_activation",
        "swiglu_limit",
        "summary_first_dropout",
        "summary_proj_to_labels",
        "summary_type",
        "summary_use_proj",
        "task_specific_params",
        "tokenizer_class",
        "topk_group",
        "topk_method",
        "torch_dtype",
        "transformers_version",
        "unk_token_id",
        "use_cache",
        "use_mrope",
        "use_sliding_window",
        "emb_pdrop",
        "resid_prob_dropout",
        "logit_scale",
        "verbose",
        "init_device",
        "learned_pos_emb",
        "layer_norm_type",
        "norm_type",
        "use_bfloat16",
        "activation_dropout",
        "layerdrop",
        "init_std",
        "_remove_final_layer_norm",
        "embedding_multiplier",
        "attention_multiplier",
        "residual_multiplier",
        "logits_scaling",
        "norm_epsilon",
        "residual_dropout",
        "layer_norm_elementwise_affine",
        "prefix",
    }
)
"""Keys for initialization, generation and outputs: they affect neither parameters nor time."""
