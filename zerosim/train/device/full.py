"""The one-line message of an out-of-memory error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from zerosim.base.errors import OutOfMemory
from zerosim.base.quantities import format_bytes
from zerosim.schema.memory import Role
from zerosim.trace import labels


def out_of_memory(
    what: str,
    num_bytes: int,
    *,
    limit_bytes: int,
    used_bytes: int,
    largest_free_bytes: int,
    by_role: Counter[Role],
) -> OutOfMemory:
    """The error for an allocation that does not fit.

    Args:
        what: the operator that allocates, or the storage to refill.
        num_bytes: size of the allocation.
        used_bytes: bytes in use, of `limit_bytes`.
        by_role: bytes in use, by role.
    """
    position, unit = labels.position(), labels.unit_at_work()
    where = f"in {position.phase} of iteration {position.iteration}"
    if position.iteration < 0:
        where = "during setup"
    whom = f" for {unit}" if unit else ""
    free_bytes = limit_bytes - used_bytes
    is_scattered = free_bytes >= num_bytes
    room = f"{format_bytes(free_bytes)} is free"
    if is_scattered:
        room += f" but in pieces of at most {format_bytes(largest_free_bytes)} (fragmentation)"
    else:
        room += f", the largest piece {format_bytes(largest_free_bytes)}"
    most = [f"{role} {format_bytes(size)}" for role, size in by_role.most_common(3) if size]
    return OutOfMemory(
        f"out of device memory: {what}{whom} requested {format_bytes(num_bytes)} {where}; "
        f"{format_bytes(used_bytes)} of {format_bytes(limit_bytes)} is in use "
        f"({', '.join(most) or 'nothing'}), {room}; try "
        f"{_advice(labels.description().config, is_scattered=is_scattered)}"
    )


def _advice(config: Mapping[str, object], *, is_scattered: bool) -> str:
    """Options of the engine that are not in use yet and save device memory."""
    stage = config.get("stage", 0)
    ways = []
    if is_scattered and not config.get("contiguous_memory"):
        ways.append("--contiguous-memory")
    if isinstance(stage, int) and stage < 3:
        ways.append(f"--stage {stage + 1}")
    if stage and config.get("offload_optimizer", "none") == "none":
        ways.append("--offload-optimizer cpu")
    if stage == 3 and config.get("offload_param", "none") == "none":
        ways.append("--offload-param cpu")
    if not config.get("checkpoint_activations"):
        ways.append("--checkpoint-activations")
    return ", ".join([*ways, "a smaller --batch"]) + " or a larger --device-bytes"
