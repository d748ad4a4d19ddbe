"""The name of a run: its system, and its difference from the runs beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zerosim.base.config import STAGE_NAMES, EngineConfig, Offload
from zerosim.base.language import enumerated, term
from zerosim.view.replay.moments import Document
from zerosim.view.replay.step_sentences import counted, texts


def system_of(config: EngineConfig) -> str:
    """The stage, and a run's additions: "ZeRO-2 + Offload", "ZeRO-3 + qwZ, hpZ"."""
    optimizer, parameters = config.offload_optimizer, config.offload_param
    is_infinity = parameters is not Offload.NONE or optimizer is Offload.NVME
    said = texts()["system"]
    keeps = "P_a+cpu" if config.partition_activations else said["checkpoints"]
    named = (
        ("Infinity", is_infinity),
        ("Offload", optimizer is Offload.CPU and not is_infinity),
        (said["delayed"], config.delayed_update),
        (said["owners"], config.has_owners),
        ("qwZ", config.quantize_weights),
        ("hpZ", config.has_secondary),
        ("qgZ", config.quantize_gradients),
        (keeps, config.cpu_checkpointing),
        ("P_a", config.partition_activations and not config.cpu_checkpointing),
        ("C_B", config.constant_buffers),
        ("M_D", config.contiguous_memory),
    )
    added = enumerated(name for name, is_on in named if is_on)
    stage = term(STAGE_NAMES[config.stage])
    return f"{stage} + {added}" if added else stage


def titles_of(documents: Sequence[Document]) -> list[str]:
    """The name of each run: its stage, its differences from the others, and whether it ended
    early.
    """
    parts: list[Callable[[Document], str]] = [
        lambda one: _capital(one["run"]["stage_name"]),
        lambda one: one["run"]["algorithm"],
        lambda one: _count(one["run"]["num_ranks"], "ranks"),
        lambda one: one["run"]["dtype"],
        lambda one: _count(one["run"]["accumulate"], "micro_steps"),
        lambda one: one["name"],
    ]
    titles = [parts[0](one) for one in documents]
    for part in parts[1:]:
        said = [part(one) for one in documents]
        is_name = part is parts[-1]
        if (is_name and len({*titles}) < len(titles)) or (not is_name and len({*said}) > 1):
            titles = [" · ".join(filter(None, pair)) for pair in zip(titles, said, strict=True)]
    return [
        (title or one["name"]) + ("" if one["run"]["complete"] else texts()["system"]["incomplete"])
        for title, one in zip(titles, documents, strict=True)
    ]


def name_backend(name: str) -> str:
    """The name of PyTorch's backend at the start of a sentence: Gloo, NCCL."""
    return name.upper() if name == "nccl" else _capital(name)


def _capital(name: str) -> str:
    return f"{name[:1].upper()}{name[1:]}"


def _count(number: int, what: str) -> str:
    return counted("system", what, number)
