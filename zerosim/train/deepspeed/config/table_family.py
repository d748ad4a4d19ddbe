"""The table of keys: offload, ZeRO++ and activation checkpoints.

The names and defaults are those that DeepSpeed 0.19.8 reads.
"""

from __future__ import annotations

from typing import Any

from zerosim.base.config import EngineConfig
from zerosim.train.deepspeed.config.keys import Key, KeyKind, Treatment

ZERO = "zero_optimization"
OPTIMIZER = f"{ZERO}.offload_optimizer"
PARAM = f"{ZERO}.offload_param"
CHECKPOINTS = "activation_checkpointing"
DEVICES = ("none", "cpu", "nvme")

_HONOURED, _IGNORED, _REFUSED = Treatment.HONOURED, Treatment.IGNORED, Treatment.REFUSED
_FLAG, _INTEGER, _NUMBER = KeyKind.FLAG, KeyKind.INTEGER, KeyKind.NUMBER
_TEXT, _SECTION, _ANY = KeyKind.TEXT, KeyKind.SECTION, KeyKind.ANY
_PINS = "zerosim pins the tensors that it copies if there is a GPU, and only then."
_BLOCK = EngineConfig().quantization_block
_DISK = "zerosim always reads ahead and writes in the background."


def _of(
    section: str, name: str, kind: KeyKind, treatment: Treatment, sentence: str, **more: Any
) -> Key:
    return Key(f"{section}.{name}", kind, treatment, sentence, auto=section != CHECKPOINTS, **more)


OFFLOAD = (
    Key(OPTIMIZER, _SECTION, _HONOURED, "See its keys."),
    _of(OPTIMIZER, "device", _TEXT, _HONOURED,
        "The place of the optimizer states and of the optimizer step in stages 1 to 3. With cpu, "
        "the states are in host memory. With nvme, they are on a disk, and the host fetches them "
        "for each step. In stages 1 and 2, DeepSpeed treats nvme as cpu.",
        default="none", choices=DEVICES),
    _of(OPTIMIZER, "nvme_path", _TEXT, _HONOURED,
        "A folder on the disk. It is required for nvme, and must be the same in offload_param."),
    _of(OPTIMIZER, "buffer_count", _INTEGER, _HONOURED,
        "With nvme, the maximum number of units whose states are in host memory at once; at least "
        "2. Each of DeepSpeed's buffers holds one kind of state, so Adam needs 4 of them.",
        default=4, least=0),
    _of(OPTIMIZER, "pin_memory", _FLAG, _IGNORED, _PINS, default=True),
    _of(OPTIMIZER, "pipeline_read", _FLAG, _IGNORED, _DISK, default=False),
    _of(OPTIMIZER, "pipeline_write", _FLAG, _IGNORED, _DISK, default=False),
    _of(OPTIMIZER, "fast_init", _FLAG, _IGNORED, "zerosim writes each file once at the start.",
        default=False),
    _of(OPTIMIZER, "ratio", _NUMBER, _IGNORED, "zerosim offloads all optimizer states.",
        default=1.0,
        least=0, most=1),
    _of(OPTIMIZER, "super_offload", _FLAG, _IGNORED,
        "zerosim waits for all gradients before it updates. The weights are the same.",
        default=False),
    _of(OPTIMIZER, "cpuadam_cores_perc", _NUMBER, _IGNORED,
        "PyTorch's threads compute Adam; set OMP_NUM_THREADS instead.",
        default=0.8, least=0, most=1),
    Key(PARAM, _SECTION, _HONOURED, "See its keys."),
    _of(PARAM, "device", _TEXT, _HONOURED,
        "The place of each rank's shard of the parameters in stage 3: cpu is host memory, nvme is "
        "a disk. Each unit is fetched before it is gathered.", default="none",
        choices=DEVICES),
    _of(PARAM, "nvme_path", _TEXT, _HONOURED,
        "A folder on the disk. It is required for nvme, and must be the same in "
        "offload_optimizer."),
    _of(PARAM, "buffer_count", _INTEGER, _HONOURED,
        "With nvme, the maximum number of units in host memory at once; at least 2. If both "
        "sections use nvme, the two counts are added: zerosim has one pool of buffers, and "
        "DeepSpeed has two.", default=5,
        least=0),
    _of(PARAM, "buffer_size", _INTEGER, _IGNORED,
        "zerosim makes its buffers as large as the units require.",
        default=100_000_000, least=0),
    _of(PARAM, "max_in_cpu", _INTEGER, _IGNORED,
        "With nvme, zerosim keeps no parameters in host memory. DeepSpeed keeps up to this number "
        "of elements there, and reads less.", default=1_000_000_000, least=0),
    _of(PARAM, "pin_memory", _FLAG, _IGNORED, _PINS, default=True),
    Key(f"{ZERO}.cpu_offload", _FLAG, _HONOURED,
        "Deprecated: true means offload_optimizer with device cpu. A file with both keys is "
        "refused, as in DeepSpeed.", auto=True),
    Key(f"{ZERO}.cpu_offload_param", _FLAG, _HONOURED,
        "Deprecated: true means offload_param with device cpu. A file with both keys is refused, "
        "as in DeepSpeed.", auto=True),
    Key(f"{ZERO}.cpu_offload_use_pin_memory", _FLAG, _IGNORED, _PINS, auto=True),
    Key(f"{ZERO}.zenflow", _ANY, _REFUSED,
        "zerosim applies all gradients of a step at once and delays none", harmless=(None,)),
)  # fmt: skip

PLUS_PLUS = (
    Key(f"{ZERO}.zero_hpz_partition_size", _INTEGER, _HONOURED,
        "In stage 3, each group of this many neighbouring ranks keeps all parameters from forward "
        "to backward. 0 and 1 disable this. A value above the number of ranks is reduced to it, as "
        "in DeepSpeed. The value must divide the number of ranks.", default=1, least=0, auto=True),
    Key(f"{ZERO}.zero_quantized_weights", _FLAG, _HONOURED,
        f"In stage 3, parameters are sent as int8, with one fp32 scale per {_BLOCK} elements. "
        "DeepSpeed's groups have about 8000 elements. DeepSpeed also quantizes the secondary "
        "copy; zerosim does not.", default=False, auto=True),
    Key(f"{ZERO}.zero_quantized_nontrainable_weights", _FLAG, _REFUSED,
        "zerosim quantizes messages, not stored parameters", default=False),
    Key(f"{ZERO}.zero_quantized_gradients", _FLAG, _HONOURED,
        "In stage 3, gradients are reduced as int4, with one all-to-all within nodes and one "
        "between them. A node of DeepSpeed has as many ranks as devices; zerosim's nodes are those "
        "of the launcher. DeepSpeed does not quantize vectors, such as biases; zerosim quantizes "
        "whole buckets.",
        default=False, auto=True),
)  # fmt: skip

ACTIVATIONS = (
    Key(CHECKPOINTS, _SECTION, _HONOURED,
        "See its keys. In DeepSpeed, they apply only to computations that a model runs through "
        "deepspeed.checkpointing, once it is configured with the file. zerosim's engine applies "
        "them to the model: it keeps the inputs of blocks and recomputes the rest. The model's own "
        "calls of torch.utils.checkpoint are not changed."),
    _of(CHECKPOINTS, "partition_activations", _FLAG, _HONOURED,
        "Keep only the inputs of blocks. Each input is divided among the ranks of a tensor "
        "parallel group, and gathered before it is needed.", default=False),
    _of(CHECKPOINTS, "cpu_checkpointing", _FLAG, _HONOURED,
        "Keep only the inputs of blocks, in host memory.", default=False),
    _of(CHECKPOINTS, "contiguous_memory_optimization", _FLAG, _HONOURED,
        "Keep only the inputs of blocks. The inputs and the gradients are in memory that is "
        "allocated once. DeepSpeed requires partition_activations and number_checkpoints with this "
        "key.",
        default=False),
    _of(CHECKPOINTS, "number_checkpoints", _INTEGER, _IGNORED, "zerosim counts the blocks itself.",
        least=1),
    _of(CHECKPOINTS, "synchronize_checkpoint_boundary", _FLAG, _IGNORED,
        "It only determines when the host waits for a GPU.", default=False),
    _of(CHECKPOINTS, "profile", _FLAG, _IGNORED, "A trace contains the times of every phase.",
        default=False),
)  # fmt: skip
