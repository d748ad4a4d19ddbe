"""The table of keys: everything but `zero_optimization`.

The names are those that DeepSpeed 0.19.8 reads.
"""

from __future__ import annotations

from zerosim.train.deepspeed.config.keys import Key, KeyKind, Treatment

_HONOURED, _IGNORED, _REFUSED = Treatment.HONOURED, Treatment.IGNORED, Treatment.REFUSED
_FLAG, _INTEGER, _NUMBER = KeyKind.FLAG, KeyKind.INTEGER, KeyKind.NUMBER
_TEXT, _SECTION, _ANY = KeyKind.TEXT, KeyKind.SECTION, KeyKind.ANY
_DTYPES = ("fp32", "fp16", "bf16", "float32", "float16", "bfloat16", "half", "float")
_REMOVED = "DeepSpeed itself removed it in 0.19: take it out"

BATCH = (
    Key("train_batch_size", _INTEGER, _HONOURED,
        "Samples of an optimizer step: micro-batch x accumulation x ranks. Two of the three say "
        "the third; three that disagree are refused.", least=1),
    Key("train_micro_batch_size_per_gpu", _INTEGER, _HONOURED,
        "Samples of one forward on one rank.", least=1),
    Key("gradient_accumulation_steps", _INTEGER, _HONOURED,
        "Micro-steps of an optimizer step. zerosim divides by it in fp32 at the update, DeepSpeed "
        "divides each loss: equal up to rounding.", least=1),
    Key("managed_gradient_accumulation", _FLAG, _REFUSED,
        "zerosim counts the micro-steps by itself", default=True, harmless=(True, None)),
    Key("dataloader_drop_last", _FLAG, _HONOURED,
        "Leave out a last batch that is not full, in the dataloader made of training_data.",
        default=False),
)  # fmt: skip

TRAINING = (
    Key("gradient_clipping", _NUMBER, _HONOURED,
        "Largest global norm of the gradient; 0 for no clipping. Left out it is 1.0, in DeepSpeed "
        "and so here. DeepSpeed adds 1e-6 to the norm before it divides; zerosim does not.",
        default=1.0, least=0),
    Key("prescale_gradients", _FLAG, _REFUSED,
        "zerosim adds up gradients first and divides the sum", default=False),
    Key("gradient_predivide_factor", _NUMBER, _REFUSED,
        "zerosim adds up gradients first and divides the sum", default=1.0, harmless=(1, None)),
    Key("gradient_allreduce_op", _TEXT, _REFUSED,
        "zerosim averages gradients", default="mean", harmless=("mean", None)),
    Key("communication_data_type", _TEXT, _HONOURED,
        "Must be the compute dtype, in which zerosim sends gradients; another one is refused.",
        choices=_DTYPES),
    Key("seq_parallel_communication_data_type", _TEXT, _IGNORED,
        "zerosim has no sequence parallelism of DeepSpeed's.", default="fp32"),
    Key("data_types", _SECTION, _HONOURED, "See its keys."),
    Key("data_types.grad_accum_dtype", _TEXT, _HONOURED,
        "Must be the compute dtype, in which zerosim adds up gradients; another one is refused.",
        choices=_DTYPES),
    Key("data_types.param_dtype", _TEXT, _HONOURED,
        "Must be the compute dtype, as in DeepSpeed.", choices=_DTYPES),
    Key("data_types.buffer_dtype", _TEXT, _HONOURED,
        "Must be the compute dtype, to which zerosim casts floating point buffers; another one is "
        "refused. DeepSpeed leaves buffers as they are where this is left out.", choices=_DTYPES),
    Key("data_types.keep_in_fp32_modules", _ANY, _IGNORED,
        "zerosim casts all floating point buffers to the compute dtype.", default="auto",
        auto=True),
    Key("optimizer", _SECTION, _HONOURED, "See its keys."),
    Key("optimizer.type", _TEXT, _HONOURED,
        "Adam or AdamW in any case; every other optimizer is refused by its name."),
    Key("optimizer.legacy_fusion", _FLAG, _IGNORED, "There is no old fusion to choose.",
        default=False),
    Key("optimizer.params", _SECTION, _HONOURED, "See its keys."),
    Key("optimizer.params.lr", _NUMBER, _HONOURED, "Learning rate.", default=1e-3, least=0),
    Key("optimizer.params.betas", _ANY, _HONOURED, "Two numbers, 0 or more and below 1.",
        default=(0.9, 0.999)),
    Key("optimizer.params.eps", _NUMBER, _HONOURED, "Added to the root of the variance.",
        default=1e-8, least=0),
    Key("optimizer.params.weight_decay", _NUMBER, _HONOURED,
        "Of AdamW or of Adam, see adam_w_mode. Left out it is 0, and with torch_adam and AdamW "
        "0.01, as in DeepSpeed.", default=0.0, least=0),
    Key("optimizer.params.adam_w_mode", _FLAG, _HONOURED,
        "Decoupled weight decay: true makes AdamW of type Adam too, as in DeepSpeed. Type AdamW is "
        "AdamW whatever this says.", default=True),
    Key("optimizer.params.torch_adam", _FLAG, _HONOURED,
        "zerosim's kernel is PyTorch's fused one in either case; decides the default of "
        "weight_decay.", default=False),
    Key("optimizer.params.bias_correction", _FLAG, _REFUSED,
        "PyTorch's Adam always corrects its bias", default=True, harmless=(True, None)),
    Key("optimizer.params.amsgrad", _FLAG, _REFUSED, "zerosim keeps no largest variance",
        default=False),
    Key("optimizer.params.maximize", _FLAG, _REFUSED, "zerosim minimizes", default=False),
    Key("optimizer.params.max_grad_norm", _NUMBER, _REFUSED,
        "as in DeepSpeed, give gradient_clipping at the top instead", harmless=(None,)),
    Key("optimizer.params.set_grad_none", _FLAG, _IGNORED,
        "Gradients live in flat buffers of the engine.", default=True),
    Key("optimizer.params.fp32_optimizer_states", _FLAG, _IGNORED,
        "Optimizer states are fp32; false is refused where they are offloaded, which is where "
        "DeepSpeed asks it.", default=True),
    Key("optimizer.params.foreach", _FLAG, _IGNORED, "The kernel is PyTorch's fused one."),
    Key("optimizer.params.fused", _FLAG, _IGNORED, "The kernel is PyTorch's fused one."),
    Key("optimizer.params.capturable", _FLAG, _IGNORED, "The kernel is PyTorch's fused one."),
    Key("scheduler", _SECTION, _HONOURED, "See its keys."),
    Key("scheduler.type", _TEXT, _HONOURED,
        "WarmupLR, WarmupDecayLR, WarmupCosineLR or LRRangeTest, with DeepSpeed's formulas; "
        "every other one is refused by its name."),
    Key("scheduler.params", _SECTION, _HONOURED,
        "The keys of that scheduler, each with DeepSpeed's default; one number for all parameter "
        "groups, not a list."),
    Key("zero_allow_untested_optimizer", _FLAG, _IGNORED,
        "Adam and AdamW are what there is.", default=False),
    Key("zero_force_ds_cpu_optimizer", _FLAG, _IGNORED,
        "On the host zerosim's kernel is PyTorch's fused one, too.", default=True),
)  # fmt: skip

PRECISION = (
    Key("fp16", _SECTION, _HONOURED, "See its keys."),
    Key("fp16.enabled", _FLAG, _HONOURED, "Compute in fp16, with an fp32 master copy.",
        default=False),
    Key("fp16.loss_scale", _NUMBER, _HONOURED,
        "0 for a dynamic scale; another number stays as it is, and a step that overflows is left "
        "out in either case.", default=0, least=0, auto=True),
    Key("fp16.initial_scale_power", _INTEGER, _HONOURED,
        "The dynamic scale begins with 2 to the power of it.", default=16, least=0, most=1000,
        auto=True),
    Key("fp16.loss_scale_window", _INTEGER, _HONOURED,
        "Steps without overflow until the scale doubles. DeepSpeed counts one more, at the start "
        "and after an overflow.", default=1000, least=1, auto=True),
    Key("fp16.hysteresis", _INTEGER, _HONOURED,
        "Overflows until the scale is halved; 1 in stage 0, as in DeepSpeed.", default=2, least=1,
        auto=True),
    Key("fp16.consecutive_hysteresis", _FLAG, _HONOURED,
        "A step without overflow fills the hysteresis up.", default=False, auto=True),
    Key("fp16.min_loss_scale", _INTEGER, _HONOURED,
        "The scale is not halved below it. An overflow there is one more step left out; DeepSpeed "
        "ends the run.", default=1, least=1, auto=True),
    Key("fp16.auto_cast", _FLAG, _IGNORED,
        "zerosim always casts floating point inputs to the compute dtype.", default=False,
        auto=True),
    Key("fp16.fp16_master_weights_and_grads", _FLAG, _REFUSED, "zerosim's master copy is fp32",
        default=False),
    Key("bf16", _SECTION, _HONOURED, "See its keys. DeepSpeed's older name bfloat16 is read too."),
    Key("bf16.enabled", _FLAG, _HONOURED, "Compute in bf16, with an fp32 master copy.",
        default=False),
    Key("bf16.check_grad_overflow", _FLAG, _IGNORED,
        "zerosim looks for overflow in fp16 only: in bf16, whose range is that of fp32, a gradient "
        "that is not finite is applied, where DeepSpeed leaves the step out.", default=True,
        auto=True),
    Key("bf16.immediate_grad_update", _FLAG, _IGNORED, "It decides when a copy is made.",
        default=False, auto=True),
    Key("bf16.bf16_master_weights_and_grads", _FLAG, _REFUSED, "zerosim's master copy is fp32",
        default=False),
    Key("bf16.bf16_optimizer_states", _FLAG, _REFUSED, "zerosim's optimizer states are fp32",
        default=False),
    Key("torch_autocast", _SECTION, _REFUSED,
        "zerosim computes in one dtype: enable bf16 or fp16 instead", switch="enabled"),
    Key("amp", _SECTION, _REFUSED, f"{_REMOVED}; enable bf16 or fp16", switch="enabled"),
)  # fmt: skip

REPORTING = (
    Key("steps_per_print", _INTEGER, _IGNORED,
        "zerosim prints nothing by itself: engine.global_steps and engine.get_lr() say it."),
    Key("wall_clock_breakdown", _FLAG, _IGNORED, "A trace has the times of every phase.",
        default=False),
    Key("memory_breakdown", _FLAG, _IGNORED, "A trace has the memory by role.", default=False),
    Key("dump_state", _FLAG, _IGNORED, "engine.config_report says what was made of the file.",
        default=False),
    Key("log_level", _ANY, _IGNORED, "zerosim logs under the name zerosim."),
    Key("comms_logger", _SECTION, _IGNORED, "A trace has every collective."),
    Key("flops_profiler", _SECTION, _IGNORED, "zerosim counts no flops."),
    Key("tensorboard", _SECTION, _IGNORED, "zerosim writes no such log; metrics are in a trace."),
    Key("wandb", _SECTION, _IGNORED, "zerosim writes no such log; metrics are in a trace."),
    Key("csv_monitor", _SECTION, _IGNORED, "zerosim writes no such log; metrics are in a trace."),
    Key("comet", _SECTION, _IGNORED, "zerosim writes no such log; metrics are in a trace."),
    Key("timers", _SECTION, _IGNORED, "A trace has the times of every phase."),
    Key("vocabulary_size", _INTEGER, _IGNORED, "DeepSpeed uses it for a remark only."),
    Key("disable_python_gc", _FLAG, _IGNORED, "Python collects as the program says.",
        default=False),
)  # fmt: skip

OTHER = (
    Key("checkpoint", _SECTION, _IGNORED, "zerosim writes no checkpoints."),
    Key("datastates_ckpt", _SECTION, _IGNORED, "zerosim writes no checkpoints."),
    Key("aio", _SECTION, _IGNORED,
        "zerosim reads and writes whole files, by threads of its own."),
    Key("disable_allgather", _FLAG, _IGNORED, "zerosim always all-gathers.", default=False),
    Key("pipeline", _SECTION, _IGNORED, "It is for a PipelineModule, which zerosim has not."),
    Key("use_data_before_expert_parallelism", _FLAG, _IGNORED, "There are no experts.",
        default=False),
    Key("autotuning", _SECTION, _REFUSED, "zerosim tunes nothing by itself", switch="enabled"),
    Key("compile", _SECTION, _REFUSED, "zerosim has no DeepCompile; give torch.compile(model)",
        switch="deepcompile"),
    Key("data_efficiency", _SECTION, _REFUSED, "zerosim leaves the data as they are",
        switch="enabled"),
    Key("hybrid_engine", _SECTION, _REFUSED, "zerosim trains only", switch="enabled"),
    Key("expert_parallel", _SECTION, _REFUSED, "zerosim has no experts", switch="enabled"),
    Key("tensor_parallel", _SECTION, _REFUSED, "zerosim's engine divides states, not layers",
        switch="autotp_size", harmless=(0, 1, None)),
    Key("sequence_parallel_size", _INTEGER, _REFUSED, "zerosim's engine divides no sequences",
        harmless=(1, None)),
    Key("data_parallel_size", _INTEGER, _IGNORED, "All ranks are data parallel."),
    Key("weight_quantization", _SECTION, _REFUSED, "zerosim quantizes no weights",
        harmless=({}, None)),
    *(Key(name, _ANY, _REFUSED, _REMOVED, harmless=()) for name in (
        "nebula", "compression_training", "quantize_training", "sparse_gradients", "eigenvalue",
        "sparse_attention", "elasticity", "graph_harvesting", "curriculum_learning",
        "progressive_layer_drop")),
)  # fmt: skip

TOP = (*BATCH, *TRAINING, *PRECISION, *REPORTING, *OTHER)
