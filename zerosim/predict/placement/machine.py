"""A machine: constants of computing and data movement on its ranks, each with its source.

Each machine has a file in `machines/`: an accelerator, or a system of nodes that names one. A
constant is `{ value = ..., source = "..." }`; `zerosim calibrate` writes files of the same form.
"""

from __future__ import annotations

import tomllib
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import exp, log
from pathlib import Path
from typing import Any

from zerosim.base.errors import ConfigError
from zerosim.base.tiers import Link

_TABLES = {
    Link.NODE: "node",
    Link.NETWORK: "network",
    Link.BUS: "bus",
    Link.STORAGE: "storage",
}
_OF_TABLES = {"compute", "memory", "native", "ask", *_TABLES.values()}

FITTED = "fitted by"
"""Prefix of the source of a constant that was fitted to a run."""


@dataclass(frozen=True, slots=True)
class Fraction:
    """The fraction of a peak that is reached, by size.

    Attributes:
        points: sizes with their fractions; between two points the fraction grows with the logarithm
            of the size.
    """

    points: tuple[tuple[float, float], ...]

    def at(self, size: float) -> float:
        """The fraction at one size."""
        above = bisect_right(self.points, (size, float("inf")))
        if above in (0, len(self.points)):
            return self.points[min(above, len(self.points) - 1)][1]
        (low, before), (high, after) = self.points[above - 1], self.points[above]
        if low <= 0:
            return before + (after - before) * size / high
        share = log(size / low) / log(high / low)
        return exp(log(before) + share * log(after / before))


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpeed:
    """A link from the point of view of one rank.

    Attributes:
        bytes_per_second: bandwidth in one direction.
        latency_ns: latency of a message or a copy.
    """

    bytes_per_second: float
    latency_ns: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The hardware of ranks.

    Attributes:
        title: its description, in a line.
        ranks_per_node: None for an accelerator outside of a system: all ranks are in one node.
        flops_per_second: the peak of 16-bit matrix multiplications, without sparsity.
        flops_fraction: the fraction of this peak that is reached, by an operator's FLOPs.
        memory_bytes: memory of a rank's device; None if unknown.
        memory_bytes_per_second: bandwidth of that memory; memory_fraction: by an operator's bytes.
        links: by link; unknown ones are missing.
        generation: selects NCCL's tables; "" if there are none.
        nccl_channels, nccl_bytes_per_second: channels and bandwidth of NCCL's rings within a node.
        nvls_bytes_per_second: bandwidth of in-switch reduction; None if not supported.
        native: a step of a backend's collective other than NCCL; None if equal to a message.
        achieved: the fraction of this that software reaches: a computation takes 1 / achieved times
            as long as its operators.
        memory_achieved: the same for operators limited by memory; None if equal.
        launch_ns: launch overhead of an operator: a device with less work waits.
        hidden_forward, hidden_backward: the fraction of tensor-parallel sums that overlaps with
            matrix products; hidden_messages: the same for messages between pipeline stages;
            hidden_share: the same for gathers of updated parameters, which overlap with the next
                forward.
        gather_bytes, reduce_bytes: device memory traffic per gathered, or reduced, parameter
            besides the collective: copies, and the collective's own reads and writes.
        sum_bytes: the same per element that tensor-parallel ranks sum or gather.
        context_heads: 1 if ranks that share a sequence exchange keys and values once for each head
            of the queries; 0 if once for each head of keys and values.
        context_ring_bytes: bytes of an element of their gradients, if these go around a ring; 0 if
            they are reduced and scattered.
        step_ns: the program's own time in each optimizer step.
        host_update_ns: time of Adam on the host, per parameter of a node; 0: as on the device.
        float8_times: speedup of 8-bit matrix products; 1 if there is none.
        operator_ns: overhead of each operator of a computation.
        cores: number of ranks per node that compute or send at full speed; None if all do.
        flops_per_second_fp32: the peak for 32-bit elements; None if equal to 16 bits.
        program_ns: the program's own time before each event.
        ask: time of the request of a collective or copy, by bytes; None: zero.
        handover_ns: until another thread starts a request.
        wake_ns: until a waiting thread continues.
        post_ns: until a ring's thread has posted its next message.
        accelerator: for a system, the name of its accelerator.
        software: the software of its constants, a file in `software/`; "": no software losses.
        fitted: number of these constants that `zerosim calibrate` fitted to runs.
    """

    name: str
    title: str
    ranks_per_node: int | None
    flops_per_second: float
    flops_fraction: Fraction
    memory_bytes: float | None
    memory_bytes_per_second: float
    memory_fraction: Fraction
    links: Mapping[Link, LinkSpeed]
    generation: str = ""
    nccl_channels: int = 0
    nccl_bytes_per_second: float = 0.0
    nvls_bytes_per_second: float | None = None
    native: LinkSpeed | None = None
    achieved: float = 1.0
    memory_achieved: float | None = None
    launch_ns: float = 0.0
    hidden_forward: float = 0.0
    hidden_backward: float = 0.0
    hidden_messages: float = 0.0
    hidden_share: float = 0.0
    gather_bytes: float = 0.0
    reduce_bytes: float = 0.0
    sum_bytes: float = 0.0
    context_heads: float = 0.0
    context_ring_bytes: float = 0.0
    step_ns: float = 0.0
    host_update_ns: float = 0.0
    float8_times: float = 1.0
    operator_ns: float = 0.0
    cores: float | None = None
    flops_per_second_fp32: float | None = None
    program_ns: float = 0.0
    ask: LinkSpeed | None = None
    handover_ns: float = 0.0
    wake_ns: float = 0.0
    post_ns: float = 0.0
    accelerator: str = ""
    software: str = ""
    fitted: int = 0

    def link(self, link: Link) -> LinkSpeed:
        """The speed of a link.

        Raises:
            ConfigError: the machine does not have it.
        """
        if link not in self.links:
            also = "; dgx-h100 and the like do" if link is Link.NETWORK else ""
            raise ConfigError(
                f"machine {self.name!r} has no bandwidth for bytes {_WAYS[link]}{also}: choose "
                "another, or write a file with that constant"
            )
        return self.links[link]


_WAYS = {
    Link.NODE: "within a node",
    Link.NETWORK: "between nodes",
    Link.BUS: "between device and host",
    Link.STORAGE: "to and from a disk",
}


def known_machines() -> tuple[str, ...]:
    """Names of all machines that come with zerosim."""
    names = (one.name for one in files("zerosim.predict.placement").joinpath("machines").iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


def load_machine(name: str) -> Machine:
    """A machine by name, or from a file.

    Args:
        name: one of `known_machines`, or the path of a file that ends in .toml.

    Raises:
        ConfigError: there is none, or its file is not valid.
    """
    if name.endswith(".toml"):
        path = Path(name)
        try:
            return _read(path.stem, path.read_text(encoding="utf-8"), name)
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"{name}: cannot be read: {reason}") from None
    if name not in known_machines():
        raise ConfigError(
            f"there is no machine {name!r}: expected one of {', '.join(known_machines())}, or a "
            "file that zerosim calibrate wrote (.toml)"
        )
    return _shipped(name)


@cache
def _shipped(name: str) -> Machine:
    file = files("zerosim.predict.placement").joinpath("machines", f"{name}.toml")
    return _read(name, file.read_text(encoding="utf-8"), f"{name}.toml")


def _read(name: str, text: str, where: str) -> Machine:
    try:
        values = tomllib.loads(text)
        accelerator = values.get("accelerator")
        base = {} if accelerator is None else _values(str(accelerator))
        software = values.get("software")
        if software is not None:
            base = _over(base, _file("software", str(software)))
        return _machine(name, _over(base, values))
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ConfigError(
            f"{where}: {reason}: expected a machine as zerosim calibrate writes it"
        ) from None


def _values(name: str) -> dict[str, Any]:
    values = _file("machines", name)
    below = values.pop("accelerator", None)
    return values if below is None else _over(_values(str(below)), values)


def _file(folder: str, name: str) -> dict[str, Any]:
    file = files("zerosim.predict.placement").joinpath(folder, f"{name}.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def _over(base: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """The constants of a file override those of its base, one by one."""
    found = dict(base)
    for name, value in values.items():
        below = found.get(name)
        is_table = name in _OF_TABLES and isinstance(below, dict) and isinstance(value, dict)
        found[name] = {**below, **value} if is_table and below is not None else value
    return found


def _machine(name: str, values: dict[str, Any]) -> Machine:
    compute, memory, node = (_table(values, one) for one in ("compute", "memory", "node"))
    return Machine(
        name=name,
        title=str(values.get("title", name)),
        ranks_per_node=int(_constant(values, "ranks_per_node"))
        if "ranks_per_node" in values
        else None,
        flops_per_second=float(_constant(compute, "flops_per_second")),
        flops_fraction=_fraction(compute),
        memory_bytes=float(_constant(memory, "bytes")) if "bytes" in memory else None,
        memory_bytes_per_second=float(_constant(memory, "bytes_per_second")),
        memory_fraction=_fraction(memory),
        links={link: _speed(values[table]) for link, table in _TABLES.items() if table in values},
        generation=str(values.get("generation", "")),
        nccl_channels=int(_constant(node, "nccl_channels", 0)),
        nccl_bytes_per_second=float(_constant(node, "nccl_bytes_per_second", 0)),
        nvls_bytes_per_second=_optional(node, "nccl_nvls_bytes_per_second"),
        native=_speed(values["native"]) if "native" in values else None,
        achieved=float(_constant(values, "achieved", 1)),
        memory_achieved=_optional(values, "memory_achieved"),
        launch_ns=float(_constant(values, "launch_ns", 0)),
        hidden_forward=float(_constant(values, "hidden_forward", 0)),
        hidden_backward=float(_constant(values, "hidden_backward", 0)),
        hidden_messages=float(_constant(values, "hidden_messages", 0)),
        gather_bytes=float(_constant(values, "gather_bytes", 0)),
        reduce_bytes=float(_constant(values, "reduce_bytes", 0)),
        hidden_share=float(_constant(values, "hidden_share", 0)),
        sum_bytes=float(_constant(values, "sum_bytes", 0)),
        context_heads=float(_constant(values, "context_heads", 0)),
        context_ring_bytes=float(_constant(values, "context_ring_bytes", 0)),
        host_update_ns=float(_constant(values, "host_update_ns", 0)),
        step_ns=float(_constant(values, "step_ns", 0)),
        float8_times=float(_constant(compute, "float8_times", 1)),
        operator_ns=float(_constant(values, "operator_ns", 0)),
        cores=_optional(values, "cores"),
        flops_per_second_fp32=_optional(compute, "flops_per_second_fp32"),
        program_ns=float(_constant(values, "program_ns", 0)),
        ask=_speed(values["ask"]) if "ask" in values else None,
        handover_ns=float(_constant(values, "handover_ns", 0)),
        wake_ns=float(_constant(values, "wake_ns", 0)),
        post_ns=float(_constant(values, "post_ns", 0)),
        accelerator=str(values.get("accelerator", "")),
        software=str(values.get("software", "")),
        fitted=_fitted(values),
    )


def _fitted(values: Mapping[str, Any]) -> int:
    """Constants with a fit as source."""
    tables = [one for one in values.values() if isinstance(one, dict)]
    own = sum(str(one.get("source", "")).startswith(FITTED) for one in tables)
    return own + sum(_fitted(one) for one in tables)


def _table(values: dict[str, Any], name: str) -> dict[str, Any]:
    found = values[name]
    if not isinstance(found, dict):
        raise TypeError(f"{name} is {found!r}: expected a table of constants")
    return found


def _constant(table: Mapping[str, Any], name: str, default: Any = None) -> Any:
    """The value of a constant, which must have a source."""
    if name not in table and default is not None:
        return default
    found = table[name]
    if not isinstance(found, dict) or "value" not in found or not found.get("source"):
        raise ValueError(f"{name} is {found!r}: expected a value and its source")
    return found["value"]


def _optional(table: Mapping[str, Any], name: str) -> float | None:
    return float(_constant(table, name)) if name in table else None


def _speed(table: dict[str, Any]) -> LinkSpeed:
    return LinkSpeed(
        bytes_per_second=float(_constant(table, "bytes_per_second")),
        latency_ns=float(_constant(table, "latency_ns", 0)),
    )


def _fraction(table: dict[str, Any]) -> Fraction:
    points = _constant(table, "fraction")
    return Fraction(tuple((float(size), float(part)) for size, part in points))
