"""The options of `zerosim run` for what lies beyond the three stages, in panels of their own.

Each has the name of the field of `EngineConfig` or `RunConfig` that it fills in.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from zerosim.cli.options import option_of, whole
from zerosim.config import EngineConfig, Offload, RunConfig
from zerosim.errors import ConfigError

_TIERS = "ZeRO-Offload and ZeRO-Infinity"
_NODES = "Nodes and ZeRO++"
_ACTIVATIONS = "Activations and ZeRO-R"
_PLACES = ", ".join(Offload)


def _choice(words: str, panel: str) -> Any:
    return typer.Option(help=words, rich_help_panel=panel)


def _switch(name: str, words: str, panel: str) -> Any:
    return typer.Option(name, help=words, rich_help_panel=panel)


OffloadOptimizer = Annotated[
    str, _choice(f"Stages 1 to 3: where optimizer states are kept: {_PLACES}.", _TIERS)
]
OffloadParam = Annotated[str, _choice(f"Stage 3: where parameters are kept: {_PLACES}.", _TIERS)]
NvmePath = Annotated[
    Path | None,
    typer.Option(help="Folder for what nvme keeps.", metavar="FOLDER", rich_help_panel=_TIERS),
]
DiskBuffers = Annotated[int, whole("Most buffers that wait for the disk.", _TIERS)]
DelayedUpdate = Annotated[
    bool,
    _switch("--delayed-update", "Update while the next iteration computes, one step late.", _TIERS),
]
OwnerBroadcast = Annotated[
    bool,
    _switch(
        "--owner-broadcast",
        "Keep each unit at one rank that broadcasts it, not a part at each.",
        _TIERS,
    ),
]
Resume = Annotated[
    bool, _switch("--resume", "Go on from the last good state in --nvme-path.", _TIERS)
]
Tiles = Annotated[int, whole("Cut large linear layers into so many.", _TIERS)]
DeviceBytes = Annotated[
    str | None,
    typer.Option(
        help="Limit of the device's memory: 48MB, 1GiB, 50000000.",
        metavar="BYTES",
        rich_help_panel=_TIERS,
    ),
]
QuantizeWeights = Annotated[
    bool, _switch("--quantize-weights", "Stage 3: gather int8 parameters (qwZ).", _NODES)
]
SecondaryPartition = Annotated[
    int, whole("Stage 3: ranks that keep all parameters among them (hpZ).", _NODES)
]
QuantizeGradients = Annotated[
    bool, _switch("--quantize-gradients", "Stage 3: reduce int4 gradients (qgZ).", _NODES)
]
QuantizationBlock = Annotated[int, whole("Elements that share a scale.", _NODES)]
RanksPerNode = Annotated[int, whole("Ranks of a node; by default as launched.", _NODES)]
CheckpointActivations = Annotated[
    bool,
    _switch(
        "--checkpoint-activations",
        "Keep inputs of blocks only; compute the rest again.",
        _ACTIVATIONS,
    ),
]
PartitionActivations = Annotated[
    bool,
    _switch(
        "--partition-activations",
        "Divide them among the tensor parallel ranks (P_a).",
        _ACTIVATIONS,
    ),
]
CpuCheckpointing = Annotated[
    bool, _switch("--cpu-checkpointing", "And keep them on the host (P_a+cpu).", _ACTIVATIONS)
]
TensorParallel = Annotated[int, whole("Ranks that compute each layer together.", _ACTIVATIONS)]
ConstantBuffers = Annotated[
    bool,
    _switch(
        "--constant-buffers", "Reduce through two buffers of --bucket-elements (C_B).", _ACTIVATIONS
    ),
]
ContiguousMemory = Annotated[
    bool,
    _switch(
        "--contiguous-memory",
        "Keep checkpoints and gradients in memory of their own (M_D).",
        _ACTIVATIONS,
    ),
]
Layers = Annotated[int | None, whole("Of a GPT, in place of its own.")]
Width = Annotated[int | None, whole("Of a GPT, in place of its own.")]

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def read_bytes(text: str, what: str) -> int:
    """Read a size: "48MB" is 48,000,000 and "1GiB" 1,073,741,824.

    Raises:
        ConfigError: it is none.
    """
    plain = text.strip().upper().removesuffix("B")
    digits = plain.rstrip("KMGI")
    suffix = plain[len(digits) :]
    factor = _UNITS.get(f"{suffix}B" if suffix else "")
    try:
        number = float(digits)
    except ValueError:
        number = 0.0
    if factor is None or not 0 < number < float("inf"):
        raise ConfigError(f"{what} is {text!r}: expected a size such as 48MB or 1GiB")
    return round(number * factor)


def engine_values(options: dict[str, Any]) -> dict[str, Any]:
    """What of a command's options the engine's configuration has."""
    found = _of_fields(EngineConfig, options)
    path = found.get("nvme_path")
    return found | {"nvme_path": "" if path is None else str(Path(path).absolute())}


def run_values(options: dict[str, Any]) -> dict[str, Any]:
    """What of a command's options a run's configuration has."""
    found = _of_fields(RunConfig, options)
    if isinstance(limit := found.get("device_bytes"), str):
        found["device_bytes"] = read_bytes(limit, option_of("device_bytes"))
    return found


def _of_fields(kind: type, options: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in options.items() if name in names}
