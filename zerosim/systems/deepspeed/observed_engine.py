"""A DeepSpeed engine's parameters and switches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from zerosim.schema.memory import Role
from zerosim.schema.strategies import Bundle, Parameter
from zerosim.trace.autolabel.observer import dtype_name, ranks_of

_BUCKET = "contiguous gradients"
"""The unit of the buffers into which gradients are copied to be reduced."""


def parameter_groups(engine: Any) -> Iterator[Bundle]:
    """Stages 1 and 2: the parameter groups, each with its flat buffer."""
    names = {id(parameter): name for name, parameter in engine.module.named_parameters()}
    optimizer = engine.optimizer
    flats = getattr(optimizer, "bit16_groups_flat", None) or optimizer.bf16_groups_flat
    groups = getattr(optimizer, "bit16_groups", None) or optimizer.bf16_groups
    for number, (group, flat) in enumerate(zip(groups, flats, strict=True)):
        yield Bundle(
            name=f"group {number}",
            parameters=tuple(listed((names.get(id(one), ""), one) for one in group)),
            options={"padded_elements": flat.numel()},
        )


def own_gradients(optimizer: Any, *, wholly: bool) -> Iterator[tuple[Role, str, torch.Tensor]]:
    """The gradients that an optimizer keeps: its buckets and, if `wholly`, a rank's own part.

    Stages 1 and 2 allocate them in each backward; stage 3 keeps its buckets, and one flat buffer
    for all parts.
    """
    for bucket in (getattr(optimizer, "ipg_buckets", None) or {}).values():
        buffers = getattr(bucket, "buffer", None)
        for buffer in buffers if isinstance(buffers, list) else (buffers,):
            if buffer is not None:
                yield Role.BUFFERS, _BUCKET, buffer
    if not wholly:
        return
    for name in ("averaged_gradients", "all_grad_tensors"):
        for gradients in (getattr(optimizer, name, None) or {}).values():
            for one in gradients or ():
                if one is not None:
                    yield Role.GRADIENTS, "", one
    flat = getattr(optimizer, "grad_partitions_flat_buffer", None)
    if flat is not None:
        yield Role.GRADIENTS, "", flat


def whole_parameters(engine: Any) -> Iterator[torch.Tensor]:
    """Stage 3: the currently gathered parameters."""
    for parameter in engine.module.parameters():
        if getattr(getattr(parameter, "ds_status", None), "name", "") == "AVAILABLE":
            yield parameter


def own_parameters(engine: Any) -> Iterator[Bundle]:
    """Stage 3: the modules that have parameters of their own, and leaf modules with all of them."""
    names = names_of(engine)
    within_leaf: set[nn.Module] = set()
    for name, module in engine.module.named_modules():
        if module in within_leaf:
            continue
        is_leaf = bool(getattr(module, "_z3_leaf", False))
        direct = list(module.parameters(recurse=False))
        own = list(module.parameters()) if is_leaf else list(direct)
        external = [one for one in _external(module) if one in names and one not in set(own)]
        own += external
        if not own:
            continue
        # it gathers them in the order of its numbering
        own.sort(key=lambda one: getattr(one, "ds_id", 0))
        persistent = [names[one] for one in own if getattr(one, "ds_persist", False)]
        options: dict[str, object] = {"persistent": persistent}
        if external:
            options["external"] = [names[one] for one in external]
        if returned := [names[one] for one in own if getattr(one, "is_external_param", False)]:
            options["returned"] = returned
        if is_leaf:
            within_leaf |= set(module.modules())
            options["direct"] = [names[one] for one in direct]
        parameters = tuple(listed((names[one], one) for one in own))
        yield Bundle(name=name or "root", parameters=parameters, options=options)


def _external(module: nn.Module) -> list[torch.Tensor]:
    """External parameters of a module, as known to DeepSpeed so far."""
    return list(getattr(module, "_external_params", {}).values())


def external_reads(engine: Any) -> Iterator[tuple[str, str]]:
    """Each module, with each parameter that it reads and does not own."""
    for bundle in own_parameters(engine):
        for name in bundle.options.get("external", ()):  # type: ignore[attr-defined]
            yield bundle.name, name


def names_of(engine: Any) -> dict[torch.Tensor, str]:
    """The first name of each parameter: tied ones have several."""
    return {parameter: name for name, parameter in engine.module.named_parameters()}


def partitioned(engine: Any) -> Iterator[str]:
    """Persistent parameters that are not gathered: before the first update, or since a release."""
    for name, parameter in engine.module.named_parameters():
        status = getattr(getattr(parameter, "ds_status", None), "name", "")
        if getattr(parameter, "ds_persist", False) and status == "NOT_AVAILABLE":
            yield name


def secondary_ranks(engine: Any) -> list[int]:
    """The ranks of this one's secondary partition; none without hpZ."""
    first = next(engine.module.parameters(), None)
    group = getattr(first, "ds_zero_param_process_group", None)
    return [] if group is None else list(ranks_of(group))


def listed(named: Any) -> Iterator[Parameter]:
    """Parameters as a strategy lists them; divided ones with their whole shape."""
    for name, parameter in named:
        yield Parameter(
            name=name,
            shape=tuple(getattr(parameter, "ds_shape", parameter.shape)),
            dtype=dtype_name(parameter.dtype),
            trainable=parameter.requires_grad,
        )


def coordinator_of(engine: Any) -> Any:
    """The coordinator of stage 3's gathers; None in other stages."""
    offload = getattr(engine.optimizer, "parameter_offload", None)
    return None if offload is None else offload.get_param_coordinator()


def device_of(config: Any) -> str:
    """The target of an offload: "none", "cpu" or "nvme"."""
    return "none" if config is None else str(getattr(config.device, "value", config.device))


def reduces_norm(engine: Any, stage: int) -> bool:
    """Whether a step communicates the norm of the gradients."""
    if stage and not hasattr(engine.optimizer, "bf16_groups"):
        return bool(getattr(engine.optimizer, "compute_grad_norm", True))
    # in 16 bits every rank has all gradients, and computes the same norm by itself
    in_fp32 = engine.get_data_types()[0] is torch.float32
    return bool(in_fp32 and engine.gradient_clipping() > 0)


def reduces_overflow(engine: Any, stage: int) -> bool:
    """Whether a step communicates an overflow."""
    if stage in (1, 2):
        return bool(getattr(engine.optimizer, "check_grad_overflow", False))
    return bool(engine.fp16_enabled())
