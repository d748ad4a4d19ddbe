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
_REMOVED = "DeepSpeed itself removed it in 0.19: take it out"


def _whole(name: str, treatment: Treatment, sentence: str, default: int) -> Key:
    path = f"{SECTION}.{name}"
    return Key(path, _INTEGER, treatment, sentence, default=default, least=0, auto=True)


def _flag(name: str, treatment: Treatment, sentence: str, *, default: bool) -> Key:
    return Key(f"{SECTION}.{name}", _FLAG, treatment, sentence, default=default, auto=True)


ZERO = (
    Key(SECTION, _SECTION, _HONOURED,
        "See its keys. true for the whole section is stage 1, as in DeepSpeed."),
    Key(f"{SECTION}.stage", _INTEGER, _HONOURED,
        "0 data parallel; 1, 2, 3 divide optimizer states, gradients, parameters.",
        default=0, least=0, most=3),
    Key(f"{SECTION}.reduce_bucket_size", _INTEGER, _HONOURED,
        "Most elements reduced at once, padding included. zerosim also keeps to it in stage 0, "
        "where DeepSpeed always takes 500 million.", default=500_000_000, least=1, auto=True),
    Key(f"{SECTION}.overlap_comm", _FLAG, _HONOURED,
        "Communicate while computing. Left out it is true in stage 3 and false below, as in "
        "DeepSpeed.", auto=True),
    _whole("stage3_prefetch_bucket_size", _HONOURED,
        "zerosim gathers whole units ahead: as many as always fit into so many elements, so 0 is "
        "none. DeepSpeed gathers parameter by parameter.", 50_000_000),
    _flag("reduce_scatter", _IGNORED,
        "zerosim always reduce-scatters in stages 1 to 3: the sums are the same.", default=True),
    _flag("use_multi_rank_bucket_allreduce", _IGNORED,
        "zerosim reduce-scatters a bucket. DeepSpeed all-reduces it while this is true, its "
        "default: + Psi in stages 1 and 2.", default=True),
    _flag("allgather_partitions", _IGNORED,
        "zerosim always all-gathers, never broadcasts in turn.", default=True),
    _whole("allgather_bucket_size", _IGNORED, "zerosim gathers one unit at a time.", 500_000_000),
    _flag("contiguous_gradients", _IGNORED,
        "zerosim's gradients always lie in one vector a unit.", default=True),
    _flag("round_robin_gradients", _IGNORED,
        "Each rank offloads the row of gradients that is its own.", default=False),
    _flag("parameter_alignment", _IGNORED, "A unit is padded once, at its end.", default=False),
    _whole("sub_group_size", _IGNORED, "zerosim updates one unit after another.", 1_000_000_000),
    _whole("stage3_param_persistence_threshold", _IGNORED,
        "zerosim divides every parameter, however small: it keeps less and gathers more.",
        100_000),
    _whole("stage3_model_persistence_threshold", _IGNORED,
        "zerosim divides every parameter, however small.", 2**63 - 1),
    _whole("stage3_max_live_parameters", _IGNORED,
        "zerosim frees a unit as soon as it has computed, and gathers it again for backward: 3 Psi "
        "a step. DeepSpeed keeps as much as this allows, and gathers less.", 1_000_000_000),
    _whole("stage3_max_reuse_distance", _IGNORED,
        "zerosim frees a unit as soon as it has computed.", 1_000_000_000),
    _whole("stage3_module_granularity_threshold", _IGNORED,
        "zerosim's units are blocks of the model.", 0),
    _flag("stage3_use_all_reduce_for_fetch_params", _IGNORED, "zerosim all-gathers.",
        default=False),
    _flag("stage3_allgather_sequential", _IGNORED, "zerosim gathers one unit at a time.",
        default=False),
    Key(f"{SECTION}.leaf_module", _ANY, _IGNORED, "zerosim's units are blocks of the model."),
    _flag("ignore_unused_parameters", _IGNORED,
        "A parameter that got no gradient got zeros.", default=True),
    _flag("compute_grad_norm", _IGNORED,
        "zerosim computes the norm where it clips, and nowhere else.", default=True),
    _flag("memory_efficient_linear", _IGNORED, "zerosim leaves the model's layers as they are.",
        default=True),
    _flag("override_module_apply", _IGNORED, "zerosim leaves the model's methods as they are.",
        default=True),
    _flag("log_trace_cache_warnings", _IGNORED, "There is no such cache.", default=False),
    _flag("enable_sanity_checks", _IGNORED, "zerosim's checks are always on.", default=False),
    _flag("load_from_fp32_weights", _IGNORED, _CHECKPOINTS, default=True),
    _flag("elastic_checkpoint", _IGNORED, _CHECKPOINTS, default=False),
    _flag("pipeline_loading_checkpoint", _IGNORED, _CHECKPOINTS, default=False),
    _flag("stage3_gather_16bit_weights_on_model_save", _IGNORED,
        "engine.full_parameters() has all weights on every rank.", default=False),
    _flag("stage3_gather_fp16_weights_on_model_save", _IGNORED,
        "engine.full_parameters() has all weights on every rank.", default=False),
    _flag("save_muon_momentum_buffer_in_memory", _IGNORED, "There is no Muon.", default=False),
    Key(f"{SECTION}.legacy_stage1", _FLAG, _REFUSED, "DeepSpeed itself has it no more",
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
