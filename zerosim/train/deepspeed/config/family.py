"""Options of ZeRO-R, ZeRO-Offload, ZeRO-Infinity and ZeRO++ in a DeepSpeed configuration."""

from __future__ import annotations

from typing import Any

from zerosim.base.config import EngineConfig, Offload
from zerosim.base.config.engine import ACTIVATIONS, NODES
from zerosim.base.config.option import stage_words
from zerosim.base.errors import ConfigError
from zerosim.train.deepspeed.config.check import Given
from zerosim.train.deepspeed.config.keys import shown
from zerosim.train.deepspeed.config.table_family import OPTIMIZER, PARAM, ZERO

_HPZ = f"{ZERO}.zero_hpz_partition_size"
_FEWEST_BUFFERS = 2
"""Minimum number of buffers: one to compute with, one in flight."""
_STATES = "optimizer.params.fp32_optimizer_states"
_OLD = {OPTIMIZER: f"{ZERO}.cpu_offload", PARAM: f"{ZERO}.cpu_offload_param"}


def offload(given: Given) -> dict[str, Any]:
    """The placement of optimizer states and parameters, as arguments of `EngineConfig`.

    Raises:
        ConfigError: the stage has nothing to offload, a path is missing, or two keys disagree.
    """
    optimizer, param = _device(given, OPTIMIZER), _device(given, PARAM)
    for section, kind, least in ((OPTIMIZER, optimizer, 1), (PARAM, param, 3)):
        if kind is not Offload.NONE:
            path = f"{section}.device" if section in given else _OLD[section]
            _require_stage(given, path, least)
    if optimizer is not Offload.NONE and given[_STATES] is False:
        raise ConfigError(
            f"{_STATES} is false and the states are offloaded: refused: zerosim keeps them in fp32"
        )
    on_disk = [
        section
        for section, kind in ((OPTIMIZER, optimizer), (PARAM, param))
        if kind is Offload.NVME
    ]
    found: dict[str, Any] = {"offload_optimizer": optimizer, "offload_param": param}
    if on_disk:
        found["nvme_path"] = _path(given, on_disk)
        found["disk_buffers"] = sum(_buffers(given, section) for section in on_disk)
    return found


def same_options(given: Given, num_ranks: int) -> dict[str, Any]:
    """Options with the same meaning in DeepSpeed, as arguments of `EngineConfig`.

    Raises:
        ConfigError: an option does not fit the stage, or the secondary partition does not
            divide the number of ranks.
    """
    found: dict[str, Any] = {
        one.name: given[one.option.deepspeed]
        for one in EngineConfig.options()
        if one.option.deepspeed and one.option.panel in (NODES, ACTIVATIONS)
    }
    size = found["secondary_partition"] = min(given[_HPZ] or 1, num_ranks)
    if num_ranks % size:
        raise ConfigError(f"{_HPZ} is {size}: expected a divisor of the {num_ranks} ranks")
    for one in EngineConfig.options():
        if found.get(one.name, one.default) != one.default:
            _require_stage(given, one.option.deepspeed, one.option.least_stage)
    keeps = ("partition_activations", "cpu_checkpointing", "contiguous_memory")
    return found | {"checkpoint_activations": any(found[name] for name in keeps)}


def _device(given: Given, section: str) -> Offload:
    old = _OLD[section]
    if old in given and section in given:
        raise ConfigError(f"{old} and {section} are the same key: keep {section}")
    if given[old]:
        return Offload.CPU
    return Offload(given[f"{section}.device"])


def _require_stage(given: Given, path: str, least: int) -> None:
    stage = given[f"{ZERO}.stage"]
    if stage < least:
        raise ConfigError(
            f"{path} is {shown(given[path])} in stage {stage}: expected {stage_words(least)}; "
            f"change {ZERO}.stage, or delete the key"
        )


def _path(given: Given, sections: list[str]) -> str:
    paths = {section: given[f"{section}.nvme_path"] for section in sections}
    for section, path in paths.items():
        if not path:
            raise ConfigError(
                f"{section}.nvme_path is not given and its device is nvme: expected a folder"
            )
    if len(set(paths.values())) > 1:
        said = " and ".join(f"{section}.nvme_path {shown(path)}" for section, path in paths.items())
        raise ConfigError(
            f"{said} differ: zerosim keeps both in one folder; expected the same path in both"
        )
    return str(paths[sections[0]])


def _buffers(given: Given, section: str) -> int:
    count: int = given[f"{section}.buffer_count"]
    if count < _FEWEST_BUFFERS:
        raise ConfigError(
            f"{section}.buffer_count is {count}: expected {_FEWEST_BUFFERS} or more with nvme"
        )
    return count
