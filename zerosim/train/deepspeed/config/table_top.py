"""The table of keys: everything but `zero_optimization`.

The names are those that DeepSpeed 0.19.8 reads.
"""

from __future__ import annotations

from zerosim.train.deepspeed.config.keys import Key, KeyKind, Treatment

_HONOURED, _IGNORED, _REFUSED = Treatment.HONOURED, Treatment.IGNORED, Treatment.REFUSED
_FLAG, _INTEGER, _NUMBER = KeyKind.FLAG, KeyKind.INTEGER, KeyKind.NUMBER
_TEXT, _SECTION, _ANY = KeyKind.TEXT, KeyKind.SECTION, KeyKind.ANY
_DTYPES = ("fp32", "fp16", "bf16", "float32", "float16", "bfloat16", "half", "float")
_REMOVED = "DeepSpeed itself removed it in 0.19; delete the key"

BATCH = (
    Key("train_batch_size", _INTEGER, _HONOURED,
        "Samples per optimizer step: micro-batch size x accumulation steps x ranks. Any two of the "
        "three batch keys determine the third; three that contradict each other are refused.",
        least=1),
    Key("train_micro_batch_size_per_gpu", _INTEGER, _HONOURED,
        "Samples in one forward of one rank.", least=1),
    Key("gradient_accumulation_steps", _INTEGER, _HONOURED,
        "Micro-steps per optimizer step. zerosim divides the gradient by this number in fp32 at "
        "the update, and DeepSpeed divides each loss; the results are equal up to rounding.",
        least=1),
    Key("managed_gradient_accumulation", _FLAG, _REFUSED,
        "zerosim counts the micro-steps itself", default=True, harmless=(True, None)),
    Key("dataloader_drop_last", _FLAG, _HONOURED,
        "Drop the last batch if it is incomplete, in the dataloader created from training_data.",
        default=False),
)  # fmt: skip

TRAINING = (
    Key("gradient_clipping", _NUMBER, _HONOURED,
        "Maximum global norm of the gradient; 0 disables clipping. The default is 1.0, as in "
        "DeepSpeed. DeepSpeed adds 1e-6 to the norm before it divides; zerosim does not.",
        default=1.0, least=0),
    Key("prescale_gradients", _FLAG, _REFUSED,
        "zerosim sums the gradients first and then divides the sum", default=False),
    Key("gradient_predivide_factor", _NUMBER, _REFUSED,
        "zerosim sums the gradients first and then divides the sum",
        default=1.0, harmless=(1, None)),
    Key("gradient_allreduce_op", _TEXT, _REFUSED,
        "zerosim averages gradients", default="mean", harmless=("mean", None)),
    Key("communication_data_type", _TEXT, _HONOURED,
        "Must be the compute dtype, because zerosim sends gradients in it. Any other dtype is "
        "refused.",
        choices=_DTYPES),
    Key("seq_parallel_communication_data_type", _TEXT, _IGNORED,
        "zerosim does not support DeepSpeed's sequence parallelism.", default="fp32"),
    Key("data_types", _SECTION, _HONOURED, "See its keys."),
    Key("data_types.grad_accum_dtype", _TEXT, _HONOURED,
        "Must be the compute dtype, because zerosim accumulates gradients in it. Any other dtype "
        "is refused.",
        choices=_DTYPES),
    Key("data_types.param_dtype", _TEXT, _HONOURED,
        "Must be the compute dtype, as in DeepSpeed.", choices=_DTYPES),
    Key("data_types.buffer_dtype", _TEXT, _HONOURED,
        "Must be the compute dtype, because zerosim casts floating point buffers to it. Any other "
        "dtype is refused. Without this key, DeepSpeed does not cast buffers.", choices=_DTYPES),
    Key("data_types.keep_in_fp32_modules", _ANY, _IGNORED,
        "zerosim casts all floating point buffers to the compute dtype.", default="auto",
        auto=True),
    Key("optimizer", _SECTION, _HONOURED, "See its keys."),
    Key("optimizer.type", _TEXT, _HONOURED,
        "Adam or AdamW, in upper or lower case. Any other optimizer is refused."),
    Key("optimizer.legacy_fusion", _FLAG, _IGNORED, "zerosim has no older fusion to select.",
        default=False),
    Key("optimizer.params", _SECTION, _HONOURED, "See its keys."),
    Key("optimizer.params.lr", _NUMBER, _HONOURED, "Learning rate.", default=1e-3, least=0),
    Key("optimizer.params.betas", _ANY, _HONOURED, "Two numbers, 0 or more and below 1.",
        default=(0.9, 0.999)),
    Key("optimizer.params.eps", _NUMBER, _HONOURED, "Added to the square root of the variance.",
        default=1e-8, least=0),
    Key("optimizer.params.weight_decay", _NUMBER, _HONOURED,
        "Weight decay of AdamW or Adam; see adam_w_mode. The default is 0, or 0.01 with torch_adam "
        "and AdamW, as in DeepSpeed.", default=0.0, least=0),
    Key("optimizer.params.adam_w_mode", _FLAG, _HONOURED,
        "Decoupled weight decay. As in DeepSpeed, true also turns type Adam into AdamW. Type AdamW "
        "is AdamW with either value.", default=True),
    Key("optimizer.params.torch_adam", _FLAG, _HONOURED,
        "zerosim uses PyTorch's fused kernel in either case. This key only determines the default "
        "of weight_decay.", default=False),
    Key("optimizer.params.bias_correction", _FLAG, _REFUSED,
        "PyTorch's Adam always corrects the bias", default=True, harmless=(True, None)),
    Key("optimizer.params.amsgrad", _FLAG, _REFUSED,
        "zerosim does not store the maximum of the variance",
        default=False),
    Key("optimizer.params.maximize", _FLAG, _REFUSED, "zerosim only minimizes", default=False),
    Key("optimizer.params.max_grad_norm", _NUMBER, _REFUSED,
        "DeepSpeed does not support it, either; set gradient_clipping at the top level instead",
        harmless=(None,)),
    Key("optimizer.params.set_grad_none", _FLAG, _IGNORED,
        "Gradients are in flat buffers of the engine.", default=True),
    Key("optimizer.params.fp32_optimizer_states", _FLAG, _IGNORED,
        "Optimizer states are fp32. false is refused only if they are offloaded, because DeepSpeed "
        "reads the key only then.", default=True),
    Key("optimizer.params.foreach", _FLAG, _IGNORED, "zerosim uses PyTorch's fused kernel."),
    Key("optimizer.params.fused", _FLAG, _IGNORED, "zerosim uses PyTorch's fused kernel."),
    Key("optimizer.params.capturable", _FLAG, _IGNORED, "zerosim uses PyTorch's fused kernel."),
    Key("scheduler", _SECTION, _HONOURED, "See its keys."),
    Key("scheduler.type", _TEXT, _HONOURED,
        "WarmupLR, WarmupDecayLR, WarmupCosineLR or LRRangeTest, with DeepSpeed's formulas. Any "
        "other scheduler is refused."),
    Key("scheduler.params", _SECTION, _HONOURED,
        "The parameters of that scheduler, with DeepSpeed's defaults. Each has one value for all "
        "parameter groups, not a list."),
    Key("zero_allow_untested_optimizer", _FLAG, _IGNORED,
        "zerosim has only Adam and AdamW.", default=False),
    Key("zero_force_ds_cpu_optimizer", _FLAG, _IGNORED,
        "zerosim uses PyTorch's fused kernel on the host, too.", default=True),
)  # fmt: skip

PRECISION = (
    Key("fp16", _SECTION, _HONOURED, "See its keys."),
    Key("fp16.enabled", _FLAG, _HONOURED, "Compute in fp16, with an fp32 master copy.",
        default=False),
    Key("fp16.loss_scale", _NUMBER, _HONOURED,
        "0 means a dynamic scale; any other number is a constant scale. In both cases, a step that "
        "overflows is skipped.", default=0, least=0, auto=True),
    Key("fp16.initial_scale_power", _INTEGER, _HONOURED,
        "The dynamic scale starts at 2 to this power.", default=16, least=0, most=1000,
        auto=True),
    Key("fp16.loss_scale_window", _INTEGER, _HONOURED,
        "Number of steps without overflow after which the scale doubles. At the start and after an "
        "overflow, DeepSpeed counts one step more.", default=1000, least=1, auto=True),
    Key("fp16.hysteresis", _INTEGER, _HONOURED,
        "Number of overflows after which the scale is halved. It is 1 in stage 0, as in DeepSpeed.",
        default=2, least=1,
        auto=True),
    Key("fp16.consecutive_hysteresis", _FLAG, _HONOURED,
        "A step without overflow restores the full hysteresis.", default=False, auto=True),
    Key("fp16.min_loss_scale", _INTEGER, _HONOURED,
        "The scale is not halved below this value. If a step overflows at this value, zerosim "
        "skips it; DeepSpeed ends the run.", default=1, least=1, auto=True),
    Key("fp16.auto_cast", _FLAG, _IGNORED,
        "zerosim always casts floating point inputs to the compute dtype.", default=False,
        auto=True),
    Key("fp16.fp16_master_weights_and_grads", _FLAG, _REFUSED, "zerosim's master copy is fp32",
        default=False),
    Key("bf16", _SECTION, _HONOURED,
        "See its keys. DeepSpeed's older name bfloat16 is also accepted."),
    Key("bf16.enabled", _FLAG, _HONOURED, "Compute in bf16, with an fp32 master copy.",
        default=False),
    Key("bf16.check_grad_overflow", _FLAG, _IGNORED,
        "zerosim checks for overflow only in fp16, because bf16 has the range of fp32. In bf16, "
        "zerosim applies a gradient that is not finite; DeepSpeed skips the step.", default=True,
        auto=True),
    Key("bf16.immediate_grad_update", _FLAG, _IGNORED, "It only determines when a copy is made.",
        default=False, auto=True),
    Key("bf16.bf16_master_weights_and_grads", _FLAG, _REFUSED, "zerosim's master copy is fp32",
        default=False),
    Key("bf16.bf16_optimizer_states", _FLAG, _REFUSED, "zerosim's optimizer states are fp32",
        default=False),
    Key("torch_autocast", _SECTION, _REFUSED,
        "zerosim computes in one dtype; enable bf16 or fp16 instead", switch="enabled"),
    Key("amp", _SECTION, _REFUSED, f"{_REMOVED} and enable bf16 or fp16", switch="enabled"),
)  # fmt: skip

REPORTING = (
    Key("steps_per_print", _INTEGER, _IGNORED,
        "zerosim prints nothing by itself; read engine.global_steps and engine.get_lr() instead."),
    Key("wall_clock_breakdown", _FLAG, _IGNORED, "A trace contains the times of every phase.",
        default=False),
    Key("memory_breakdown", _FLAG, _IGNORED, "A trace contains the memory by role.", default=False),
    Key("dump_state", _FLAG, _IGNORED, "engine.config_report shows the treatment of each key.",
        default=False),
    Key("log_level", _ANY, _IGNORED, "zerosim's logger is called zerosim."),
    Key("comms_logger", _SECTION, _IGNORED, "A trace contains every collective."),
    Key("flops_profiler", _SECTION, _IGNORED, "zerosim does not count flops."),
    Key("tensorboard", _SECTION, _IGNORED,
        "zerosim does not write this log; a trace contains the metrics."),
    Key("wandb", _SECTION, _IGNORED,
        "zerosim does not write this log; a trace contains the metrics."),
    Key("csv_monitor", _SECTION, _IGNORED,
        "zerosim does not write this log; a trace contains the metrics."),
    Key("comet", _SECTION, _IGNORED,
        "zerosim does not write this log; a trace contains the metrics."),
    Key("timers", _SECTION, _IGNORED, "A trace contains the times of every phase."),
    Key("vocabulary_size", _INTEGER, _IGNORED, "DeepSpeed uses it only for a log message."),
    Key("disable_python_gc", _FLAG, _IGNORED,
        "zerosim does not change Python's garbage collection.",
        default=False),
)  # fmt: skip

OTHER = (
    Key("checkpoint", _SECTION, _IGNORED, "zerosim writes no checkpoints."),
    Key("datastates_ckpt", _SECTION, _IGNORED, "zerosim writes no checkpoints."),
    Key("aio", _SECTION, _IGNORED,
        "zerosim reads and writes whole files with its own threads."),
    Key("disable_allgather", _FLAG, _IGNORED, "zerosim always all-gathers.", default=False),
    Key("pipeline", _SECTION, _IGNORED,
        "It configures a PipelineModule, which zerosim does not have."),
    Key("use_data_before_expert_parallelism", _FLAG, _IGNORED, "zerosim has no experts.",
        default=False),
    Key("autotuning", _SECTION, _REFUSED, "zerosim has no autotuning", switch="enabled"),
    Key("compile", _SECTION, _REFUSED,
        "zerosim has no DeepCompile; pass torch.compile(model) instead",
        switch="deepcompile"),
    Key("data_efficiency", _SECTION, _REFUSED, "zerosim does not change the data",
        switch="enabled"),
    Key("hybrid_engine", _SECTION, _REFUSED, "zerosim only trains", switch="enabled"),
    Key("expert_parallel", _SECTION, _REFUSED, "zerosim has no experts", switch="enabled"),
    Key("tensor_parallel", _SECTION, _REFUSED, "zerosim's engine shards model states, not layers",
        switch="autotp_size", harmless=(0, 1, None)),
    Key("sequence_parallel_size", _INTEGER, _REFUSED, "zerosim's engine does not divide sequences",
        harmless=(1, None)),
    Key("data_parallel_size", _INTEGER, _IGNORED, "All ranks are data parallel."),
    Key("weight_quantization", _SECTION, _REFUSED, "zerosim does not quantize stored weights",
        harmless=({}, None)),
    *(Key(name, _ANY, _REFUSED, _REMOVED, harmless=()) for name in (
        "nebula", "compression_training", "quantize_training", "sparse_gradients", "eigenvalue",
        "sparse_attention", "elasticity", "graph_harvesting", "curriculum_learning",
        "progressive_layer_drop")),
)  # fmt: skip

TOP = (*BATCH, *TRAINING, *PRECISION, *REPORTING, *OTHER)
