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
_PINS = "zerosim pins what it copies where there is a GPU, and only there."
_BLOCK = EngineConfig().quantization_block
_DISK = "zerosim always reads ahead and writes behind."


def _of(
    section: str, name: str, kind: KeyKind, treatment: Treatment, sentence: str, **more: Any
) -> Key:
    return Key(f"{section}.{name}", kind, treatment, sentence, auto=section != CHECKPOINTS, **more)


OFFLOAD = (
    Key(OPTIMIZER, _SECTION, _HONOURED, "See its keys."),
    _of(OPTIMIZER, "device", _TEXT, _HONOURED,
        "Where the optimizer's states are kept and its steps done, in stages 1 to 3: cpu for the "
        "host's memory, nvme for a disk, from where the host fetches them for a step. DeepSpeed "
        "takes nvme for cpu in stages 1 and 2.", default="none", choices=DEVICES),
    _of(OPTIMIZER, "nvme_path", _TEXT, _HONOURED,
        "A folder on the disk; needed for nvme, and the same for offload_param."),
    _of(OPTIMIZER, "buffer_count", _INTEGER, _HONOURED,
        "With nvme, most units whose states are in the host's memory at once, 2 or more. "
        "DeepSpeed's buffers hold one kind of state each, so that Adam needs 4 of them.",
        default=4, least=0),
    _of(OPTIMIZER, "pin_memory", _FLAG, _IGNORED, _PINS, default=True),
    _of(OPTIMIZER, "pipeline_read", _FLAG, _IGNORED, _DISK, default=False),
    _of(OPTIMIZER, "pipeline_write", _FLAG, _IGNORED, _DISK, default=False),
    _of(OPTIMIZER, "fast_init", _FLAG, _IGNORED, "zerosim writes each file once as it begins.",
        default=False),
    _of(OPTIMIZER, "ratio", _NUMBER, _IGNORED, "zerosim offloads all of the states.", default=1.0,
        least=0, most=1),
    _of(OPTIMIZER, "super_offload", _FLAG, _IGNORED,
        "zerosim waits for all gradients before it updates: the weights are the same.",
        default=False),
    _of(OPTIMIZER, "cpuadam_cores_perc", _NUMBER, _IGNORED,
        "PyTorch's threads compute Adam: set OMP_NUM_THREADS.", default=0.8, least=0, most=1),
    Key(PARAM, _SECTION, _HONOURED, "See its keys."),
    _of(PARAM, "device", _TEXT, _HONOURED,
        "Where a rank's own part of the parameters is kept, in stage 3: cpu for the host's memory, "
        "nvme for a disk. Each unit is fetched before it is gathered.", default="none",
        choices=DEVICES),
    _of(PARAM, "nvme_path", _TEXT, _HONOURED,
        "A folder on the disk; needed for nvme, and the same for offload_optimizer."),
    _of(PARAM, "buffer_count", _INTEGER, _HONOURED,
        "With nvme, most units in the host's memory at once, 2 or more. With both on nvme the two "
        "counts are added up: zerosim has one pool of buffers, DeepSpeed two.", default=5,
        least=0),
    _of(PARAM, "buffer_size", _INTEGER, _IGNORED, "zerosim's buffers are as large as a unit needs.",
        default=100_000_000, least=0),
    _of(PARAM, "max_in_cpu", _INTEGER, _IGNORED,
        "With nvme, zerosim keeps no parameter in the host's memory. DeepSpeed keeps so many "
        "elements there, and reads less.", default=1_000_000_000, least=0),
    _of(PARAM, "pin_memory", _FLAG, _IGNORED, _PINS, default=True),
    Key(f"{ZERO}.cpu_offload", _FLAG, _HONOURED,
        "Deprecated: true is offload_optimizer with device cpu, and both keys together are "
        "refused, as in DeepSpeed.", auto=True),
    Key(f"{ZERO}.cpu_offload_param", _FLAG, _HONOURED,
        "Deprecated: true is offload_param with device cpu; likewise.", auto=True),
    Key(f"{ZERO}.cpu_offload_use_pin_memory", _FLAG, _IGNORED, _PINS, auto=True),
    Key(f"{ZERO}.zenflow", _ANY, _REFUSED,
        "zerosim applies all gradients of a step at once, none later", harmless=(None,)),
)  # fmt: skip

PLUS_PLUS = (
    Key(f"{ZERO}.zero_hpz_partition_size", _INTEGER, _HONOURED,
        "Stage 3: so many neighbouring ranks keep all parameters among them from forward to "
        "backward; 0 and 1 for none, and never more than there are ranks, as in DeepSpeed. It "
        "must divide them.", default=1, least=0, auto=True),
    Key(f"{ZERO}.zero_quantized_weights", _FLAG, _HONOURED,
        f"Stage 3: parameters travel as int8, with an fp32 scale for {_BLOCK} elements. "
        "DeepSpeed's groups are of some 8000, and it quantizes the secondary copy too, which "
        "zerosim keeps as it is.", default=False, auto=True),
    Key(f"{ZERO}.zero_quantized_nontrainable_weights", _FLAG, _REFUSED,
        "zerosim quantizes messages, not stored parameters", default=False),
    Key(f"{ZERO}.zero_quantized_gradients", _FLAG, _HONOURED,
        "Stage 3: gradients are reduced as int4 by an all-to-all within and one between nodes. "
        "DeepSpeed's nodes have as many ranks as devices; zerosim's are those of the launcher. "
        "DeepSpeed leaves vectors, such as biases, as they are; zerosim quantizes whole buckets.",
        default=False, auto=True),
)  # fmt: skip

ACTIVATIONS = (
    Key(CHECKPOINTS, _SECTION, _HONOURED,
        "See its keys. In DeepSpeed they are for what a model computes through "
        "deepspeed.checkpointing, once that is configured with the file. zerosim's engine does it "
        "to the model: it keeps the inputs of blocks and recomputes the rest. The model's own "
        "calls of torch.utils.checkpoint stay as they are."),
    _of(CHECKPOINTS, "partition_activations", _FLAG, _HONOURED,
        "Keep only the inputs of blocks, each divided among the ranks of a tensor parallel group "
        "and gathered before it is needed.", default=False),
    _of(CHECKPOINTS, "cpu_checkpointing", _FLAG, _HONOURED,
        "Keep only the inputs of blocks, in the host's memory.", default=False),
    _of(CHECKPOINTS, "contiguous_memory_optimization", _FLAG, _HONOURED,
        "Keep only the inputs of blocks, and these and the gradients in memory that is allocated "
        "once. DeepSpeed wants partition_activations and number_checkpoints with it.",
        default=False),
    _of(CHECKPOINTS, "number_checkpoints", _INTEGER, _IGNORED, "zerosim counts the blocks itself.",
        least=1),
    _of(CHECKPOINTS, "synchronize_checkpoint_boundary", _FLAG, _IGNORED,
        "It decides when a GPU is waited for.", default=False),
    _of(CHECKPOINTS, "profile", _FLAG, _IGNORED, "A trace has the times of every phase.",
        default=False),
)  # fmt: skip
