"""The table of keys: `zero_optimization`.

The names are those that DeepSpeed 0.19.8 reads.
"""

from __future__ import annotations

from zerosim.train.deepspeed.config.keys import Key, KeyKind, Treatment

SECTION = "zero_optimization"

_HONOURED, _IGNORED, _REFUSED = Treatment.HONOURED, Treatment.IGNORED, Treatment.REFUSED
_FLAG, _INTEGER, _SECTION, _ANY = (
    KeyKind.FLAG,
    KeyKind.INTEGER,
    KeyKind.SECTION,
    KeyKind.ANY,
)
_CHECKPOINTS = "zerosim writes no checkpoints."
_REMOVED = "DeepSpeed itself removed it in 0.19; delete the key"


def _whole(name: str, treatment: Treatment, sentence: str, default: int) -> Key:
    path = f"{SECTION}.{name}"
    return Key(path, _INTEGER, treatment, sentence, default=default, least=0, auto=True)


def _flag(name: str, treatment: Treatment, sentence: str, *, default: bool) -> Key:
    return Key(f"{SECTION}.{name}", _FLAG, treatment, sentence, default=default, auto=True)


ZERO = (
    Key(SECTION, _SECTION, _HONOURED,
        "See its keys. true instead of a section means stage 1, as in DeepSpeed."),
    Key(f"{SECTION}.stage", _INTEGER, _HONOURED,
        "Stage 0 is data parallelism. Stage 1 shards the optimizer states, stage 2 also the "
        "gradients, and stage 3 also the parameters.",
        default=0, least=0, most=3),
    Key(f"{SECTION}.reduce_bucket_size", _INTEGER, _HONOURED,
        "Maximum number of elements per reduction, including padding. zerosim also applies it in "
        "stage 0, where DeepSpeed always uses 500 million.",
        default=500_000_000, least=1, auto=True),
    Key(f"{SECTION}.overlap_comm", _FLAG, _HONOURED,
        "Overlap communication with computation. The default is true in stage 3 and false in the "
        "other stages, as in DeepSpeed.", auto=True),
    _whole("stage3_prefetch_bucket_size", _HONOURED,
        "zerosim prefetches whole units, as many as always fit into this number of elements; with "
        "0, it prefetches none. DeepSpeed prefetches single parameters.", 50_000_000),
    _flag("reduce_scatter", _IGNORED,
        "zerosim always reduce-scatters in stages 1 to 3. The sums are the same.", default=True),
    _flag("use_multi_rank_bucket_allreduce", _IGNORED,
        "zerosim reduce-scatters each bucket. With true, the default, DeepSpeed all-reduces it, "
        "which adds Psi in stages 1 and 2.", default=True),
    _flag("allgather_partitions", _IGNORED,
        "zerosim always all-gathers; its ranks never broadcast in turn.", default=True),
    _whole("allgather_bucket_size", _IGNORED, "zerosim gathers one unit at a time.", 500_000_000),
    _flag("contiguous_gradients", _IGNORED,
        "In zerosim, the gradients of a unit are always one vector.", default=True),
    _flag("round_robin_gradients", _IGNORED,
        "Each rank offloads its own shard of the gradients.", default=False),
    _flag("parameter_alignment", _IGNORED, "zerosim pads each unit once, at its end.",
        default=False),
    _whole("sub_group_size", _IGNORED, "zerosim updates one unit at a time.", 1_000_000_000),
    _whole("stage3_param_persistence_threshold", _IGNORED,
        "zerosim shards every parameter, however small. It therefore keeps less and gathers more.",
        100_000),
    _whole("stage3_model_persistence_threshold", _IGNORED,
        "zerosim shards every parameter, however small.", 2**63 - 1),
    _whole("stage3_max_live_parameters", _IGNORED,
        "zerosim frees each unit right after its computation and gathers it again for backward, "
        "which makes 3 Psi per step. DeepSpeed keeps as many parameters as this value allows, and "
        "gathers less.", 1_000_000_000),
    _whole("stage3_max_reuse_distance", _IGNORED,
        "zerosim frees each unit right after its computation.", 1_000_000_000),
    _whole("stage3_module_granularity_threshold", _IGNORED,
        "zerosim's units are blocks of the model.", 0),
    _flag("stage3_use_all_reduce_for_fetch_params", _IGNORED, "zerosim always all-gathers.",
        default=False),
    _flag("stage3_allgather_sequential", _IGNORED, "zerosim gathers one unit at a time.",
        default=False),
    Key(f"{SECTION}.leaf_module", _ANY, _IGNORED, "zerosim's units are blocks of the model."),
    _flag("ignore_unused_parameters", _IGNORED,
        "If a parameter gets no gradient, zerosim uses zeros.", default=True),
    _flag("compute_grad_norm", _IGNORED,
        "zerosim computes the norm only for clipping.", default=True),
    _flag("memory_efficient_linear", _IGNORED, "zerosim does not change the model's layers.",
        default=True),
    _flag("override_module_apply", _IGNORED, "zerosim does not change the model's methods.",
        default=True),
    _flag("log_trace_cache_warnings", _IGNORED, "zerosim has no such cache.", default=False),
    _flag("enable_sanity_checks", _IGNORED, "zerosim's checks are always on.", default=False),
    _flag("load_from_fp32_weights", _IGNORED, _CHECKPOINTS, default=True),
    _flag("elastic_checkpoint", _IGNORED, _CHECKPOINTS, default=False),
    _flag("pipeline_loading_checkpoint", _IGNORED, _CHECKPOINTS, default=False),
    _flag("stage3_gather_16bit_weights_on_model_save", _IGNORED,
        "engine.full_parameters() returns all weights on every rank.", default=False),
    _flag("stage3_gather_fp16_weights_on_model_save", _IGNORED,
        "engine.full_parameters() returns all weights on every rank.", default=False),
    _flag("save_muon_momentum_buffer_in_memory", _IGNORED, "zerosim has no Muon optimizer.",
        default=False),
    Key(f"{SECTION}.legacy_stage1", _FLAG, _REFUSED, "DeepSpeed itself no longer supports it",
        default=False),
    *(Key(f"{SECTION}.{name}", _ANY, _REFUSED, _REMOVED, harmless=()) for name in (
        "mics_shard_size", "mics_hierarchical_params_gather", "zeropp_loco_param")),
)  # fmt: skip

ALIASES = {
    f"{SECTION}.{name.removeprefix('stage3_')}": f"{SECTION}.{name}"
    for name in (
        "stage3_prefetch_bucket_size",
        "stage3_param_persistence_threshold",
        "stage3_model_persistence_threshold",
        "stage3_max_live_parameters",
        "stage3_max_reuse_distance",
        "stage3_gather_16bit_weights_on_model_save",
        "stage3_module_granularity_threshold",
        "stage3_use_all_reduce_for_fetch_params",
        "stage3_allgather_sequential",
    )
}
"""DeepSpeed also accepts these names without "stage3_"."""
