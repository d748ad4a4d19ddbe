"""The time of a collective of NCCL: its own tuning model, with its own tables, and an overhead.

NCCL chooses the algorithm and the protocol with the least time in this model, which therefore gives
the choice and, roughly, its time. Measured calls take somewhat longer. Source: NVIDIA/nccl
@5067397c, src/graph/tuning.cc; the constants are in nccl.toml. Not modelled: CollNet (SHARP), PAT,
NVLS over several nodes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from zerosim.base.tiers import Link
from zerosim.predict.placement.machine import Machine
from zerosim.schema.events import Op

_LL, _LL128, _SIMPLE = range(3)
_PROTOCOLS = (_LL, _LL128, _SIMPLE)
_PLATEAU = 1.4
"""A ring over several nodes takes longer to start, once messages are split."""


@dataclass(frozen=True, slots=True)
class RanksOnNodes:
    """The placement of a group's ranks on nodes.

    Attributes:
        num_ranks: n.
        num_nodes: number of their nodes; each has n / num_nodes of the ranks.
    """

    num_ranks: int
    num_nodes: int


@dataclass(frozen=True, slots=True)
class AlgorithmChoice:
    """One algorithm with one protocol, and its time in µs."""

    algorithm: str
    protocol: int
    time_us: float


def nccl_time(
    machine: Machine, op: Op, layout: RanksOnNodes, payload_bytes: int
) -> AlgorithmChoice:
    """NCCL's choice, and its time.

    Args:
        op: all-reduce, all-gather, reduce-scatter, broadcast or reduce.
        payload_bytes: bytes of the whole buffer.
    """
    chosen = min(choices(machine, op, layout, payload_bytes), key=lambda one: one.time_us)
    return replace(chosen, time_us=chosen.time_us + _tables()["call"]["overhead_us"])


@cache
def _tables() -> dict[str, Any]:
    text = files("zerosim.predict.placement").joinpath("nccl.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def choices(
    machine: Machine, op: Op, layout: RanksOnNodes, payload_bytes: int
) -> Iterator[AlgorithmChoice]:
    """All of NCCL's options, with the model's expectation of each.

    Args:
        op, payload_bytes: as for `nccl_time`.
    """
    model = _Model(machine, op, layout)
    for protocol in _PROTOCOLS:
        if protocol == _LL128 and layout.num_nodes > 1:
            continue  # NCCL seldom allows it between nodes, because the path is too long
        ring = model.ring(protocol, payload_bytes)
        yield AlgorithmChoice("ring", protocol, ring)
        if op is Op.ALL_REDUCE:
            yield AlgorithmChoice("tree", protocol, model.tree(protocol, payload_bytes))
    nvls = model.nvls(payload_bytes)
    if nvls is not None:
        yield AlgorithmChoice("nvls", _SIMPLE, nvls)


class _Model:
    """The formulas of one collective; bandwidths in GB/s, latencies in µs."""

    def __init__(self, machine: Machine, op: Op, layout: RanksOnNodes) -> None:
        self.machine, self.op, self.layout = machine, op, layout
        self.tables = _tables()
        self.own = self.tables[machine.generation]
        self.scale = min(layout.num_nodes, 3) - 1
        passes = 2 if op is Op.ALL_REDUCE else 1
        whole = op in (Op.BROADCAST, Op.REDUCE)
        self.steps = layout.num_ranks if whole else passes * (layout.num_ranks - 1)
        self.between_nodes = 0 if layout.num_nodes == 1 else passes * (layout.num_nodes - 1)
        self.bus = machine.nccl_bytes_per_second / 1e9
        if layout.num_nodes > 1:
            per_node = layout.num_ranks / layout.num_nodes
            network = machine.link(Link.NETWORK).bytes_per_second / 1e9
            self.bus = min(self.bus, per_node * network)

    def _per_channel(self, name: str) -> float:
        channels: float = self.machine.nccl_channels
        limit: float = self.own[name][self.scale]
        return channels * limit

    def _hop(self, algorithm: str, protocol: int) -> float:
        """A hop within a node; over several nodes the host adds its overhead."""
        hop: float = self.tables["hop_us"]["node"][algorithm][protocol]
        if self.layout.num_nodes == 1:
            return hop
        of_host: float = self.tables["hop_us"]["network"]["overhead"][protocol]
        return max(hop, of_host)

    def ring(self, protocol: int, payload_bytes: int) -> float:
        bus = {
            _LL: min(self.own["ll_max"][self.scale], 0.5 * self.bus),
            _LL128: min(0.92 * self.bus, self._per_channel("ring_ll128_channel")),
            _SIMPLE: self.bus,
        }[protocol]
        inside = (self.steps - self.between_nodes) * self._hop("ring", protocol)
        between = self.between_nodes * self.tables["hop_us"]["network"]["ring"][protocol]
        latency = self.tables["base_us"]["ring"][protocol] + inside + between
        num_ranks = self.layout.num_ranks
        is_cut = payload_bytes / (self.machine.nccl_channels * num_ranks) >= 64
        is_long = protocol == _SIMPLE and self.op is Op.ALL_REDUCE and self.layout.num_nodes > 1
        if is_long and is_cut:
            latency *= _PLATEAU
        return float(latency + payload_bytes / (1000 * bus * num_ranks / self.steps))

    def tree(self, protocol: int, payload_bytes: int) -> float:
        layout = self.layout
        bus = min(0.92 * self.bus, self._per_channel("tree_channel"))
        if protocol == _LL:
            bus = min(self.bus / 3.8, self.own["ll_max"][self.scale])
        elif protocol == _LL128:
            part = 7 / 9 if layout.num_nodes == 1 else 120 / 128
            bus = min(self.bus * part, self._per_channel("tree_ll128_channel"))
        corrections = self.tables["tree_correction"][("ll", "ll128", "simple")[protocol]]
        power = max((payload_bytes >> 6).bit_length() - 1, 0)
        if power < len(corrections):
            bus *= corrections[power]
        inside = (layout.num_ranks / layout.num_nodes - 1) * self._hop("tree", protocol)
        levels = layout.num_nodes.bit_length() - 1
        between = levels * self.tables["hop_us"]["network"]["tree"][protocol]
        latency = self.tables["base_us"]["tree"][protocol] + 2 * (inside + between)
        return float(latency + payload_bytes / (1000 * bus / 2))

    def nvls(self, payload_bytes: int) -> float | None:
        """Reduction in the switch; None if not available."""
        efficiency = self.own["nvls_efficiency"]
        num_ranks, channels = self.layout.num_ranks, self.machine.nccl_channels
        gathers = self.op in (Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER)
        observed = self.machine.nvls_bytes_per_second
        if (
            not efficiency
            or observed is None
            or self.layout.num_nodes > 1
            or num_ranks < 2
            or not gathers
        ):
            return None
        bus = self.bus * efficiency * (channels - 1) / channels
        bus *= 2 if self.op is Op.ALL_REDUCE else (num_ranks - 1) / num_ranks
        # the model ranks choices, and here it expects more than was ever measured
        bus = min(bus, observed / 1e9)
        latency = self.tables["hop_us"]["node"]["nvls"]
        return float(latency + payload_bytes / (1000 * bus * num_ranks / self.steps))
