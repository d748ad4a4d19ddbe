"""Costs on a machine.

Computations by a roofline, operator by operator, with the efficiency at its size; native
collectives by NCCL's own model or by their algorithm's steps; messages and copies by bandwidth and
latency. On a machine with shared cores, these also process the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from zerosim.analysis.graph import NodeKind
from zerosim.analysis.graph.table import Ints
from zerosim.base.errors import ConfigError
from zerosim.base.tiers import Link, Tier, link_of_copy, link_of_message
from zerosim.predict.placement.collective_steps import hierarchical, steps
from zerosim.predict.placement.costs import Tasks
from zerosim.predict.placement.fitting import Floats
from zerosim.predict.placement.machine import Machine
from zerosim.predict.placement.nccl import RanksOnNodes, nccl_time
from zerosim.predict.placement.network import Network
from zerosim.predict.placement.owncode import OwnCode
from zerosim.predict.placement.sharing import Needs, Resource
from zerosim.record import Trace, ranks_per_node
from zerosim.schema.events import Algorithm, Op

_IN_LEVELS = (Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER)
_OF_NCCL = (*_IN_LEVELS, Op.BROADCAST, Op.REDUCE)


class Operation(Protocol):
    """The work of one operator of a computation, and its number of calls."""

    @property
    def calls(self) -> int:
        """The number of calls."""
        ...

    @property
    def flops(self) -> int:
        """Floating point operations of one call; a multiplication and an addition are two."""
        ...

    @property
    def touched_bytes(self) -> int:
        """Bytes that one call reads and writes."""
        ...


Work = Callable[[Tasks], Sequence[Sequence[Operation]]]


def counted(tasks: Tasks) -> Sequence[Sequence[Operation]]:
    """The counts of a dry run for each of the computations."""
    return tasks.column("work")


def computes_wide(trace: Trace) -> bool:
    """Whether matrices have 32-bit elements: as configured, else as the parameters."""
    said = trace.manifest.config.get("dtype")
    if said is not None:
        return bool(said == "fp32")
    dtypes = {one for rank in trace.ranks[:1] for one in rank.events.column("dtype")}
    return "float32" in dtypes and not dtypes & {"bfloat16", "float16"}


def operation_ns(
    machine: Machine, flops: float, touched_bytes: float, *, is_wide: bool = False
) -> float:
    """One operator, ns: the maximum of computing and memory time (roofline)."""
    peak = machine.flops_per_second
    if is_wide and machine.flops_per_second_fp32 is not None:
        peak = machine.flops_per_second_fp32
    computing = flops / (peak * machine.flops_fraction.at(flops) * machine.achieved)
    speed = machine.memory_bytes_per_second * machine.memory_fraction.at(touched_bytes)
    reached = machine.achieved if machine.memory_achieved is None else machine.memory_achieved
    return max(computing, touched_bytes / (speed * reached)) * 1e9


def computation_ns(
    machine: Machine, operations: Iterable[Operation], *, is_wide: bool = False
) -> float:
    """The sum over the operators of a computation, which do not overlap, ns.

    A device that finishes an operator before the program has launched the next one waits: it cannot
    be faster than the launches (`Machine.launch_ns`).
    """
    alone, asked = 0.0, 0
    own = machine.operator_ns / machine.achieved
    for one in operations:
        # a dry run has no counts of 8-bit matrix products
        faster = machine.float8_times if getattr(one, "is_narrow", False) else 1.0
        flops = one.flops / faster
        took = operation_ns(machine, flops, one.touched_bytes, is_wide=is_wide)
        alone += one.calls * (took + own)
        asked += one.calls
    return max(alone, asked * machine.launch_ns)


def collective_ns(
    machine: Machine, op: Op, algorithm: Algorithm, payload_bytes: int, layout: RanksOnNodes
) -> float:
    """Collectives, ns: NCCL's by its model, level by level over nodes; others by their steps."""
    if layout.num_ranks < 2:
        return 0.0
    if machine.generation and op in _OF_NCCL:
        return nccl_time(machine, op, layout, payload_bytes).time_us * 1000
    within = machine.native or machine.link(Link.NODE)
    if layout.num_nodes == 1:
        found = steps(op, algorithm, layout.num_ranks)
        return found.time_ns(payload_bytes, within.latency_ns, within.bytes_per_second)
    across = machine.link(Link.NETWORK)
    per_node = layout.num_ranks // layout.num_nodes
    if op in _IN_LEVELS and per_node > 1:
        inner, outer = hierarchical(op, per_node, layout.num_nodes)
        time = inner.time_ns(payload_bytes, within.latency_ns, within.bytes_per_second)
        return time + outer.time_ns(payload_bytes, across.latency_ns, across.bytes_per_second)
    found = steps(op, algorithm, layout.num_ranks)
    return found.time_ns(payload_bytes, across.latency_ns, across.bytes_per_second)


def transfer_ns(machine: Machine, payload_bytes: int, link: Link) -> float:
    """A message or a copy over a link, ns."""
    speed = machine.link(link)
    return speed.latency_ns + payload_bytes / speed.bytes_per_second * 1e9


def ask_ns(machine: Machine, payload_bytes: Ints) -> Floats:
    """The program's time, in ns, to issue a collective or a copy of these sizes."""
    if machine.ask is None:
        return np.zeros(len(payload_bytes))
    times: Floats = machine.ask.latency_ns + payload_bytes / machine.ask.bytes_per_second * 1e9
    return times


class Modelled:
    """The costs of a machine."""

    def __init__(self, machine: Machine, work: Work = counted) -> None:
        """`work` has the work of computations: by default the counts of a dry run."""
        self._machine, self._work = machine, work

    def computations(self, tasks: Tasks) -> Ints:
        """The sum over its operators, which do not overlap, with the software's efficiency."""
        machine, is_wide = self._machine, computes_wide(tasks.graph.trace)

        def cost(operations: Iterable[Operation]) -> float:
            return computation_ns(machine, operations, is_wide=is_wide)

        return tasks.each(cost, [tuple(operations) for operations in self._work(tasks)])

    def collectives(self, tasks: Tasks) -> Ints:
        """NCCL's by its model, over nodes in levels, others by their steps."""
        size = ranks_per_node(tasks.graph.trace)
        layouts = [layout_of(ranks, size) for ranks in tasks.groups()]
        columns = (tasks.column(name) for name in ("op", "algorithm", "payload_bytes"))
        return tasks.each(partial(collective_ns, self._machine), *columns, layouts)

    def messages(self, tasks: Tasks) -> Ints:
        """Over the link between the two ranks."""
        size = ranks_per_node(tasks.graph.trace)
        links = [
            link_of_message(rank, peers[0] if peers else rank, size)
            for rank, peers in zip(tasks.rank.tolist(), tasks.column("peers"), strict=True)
        ]
        return tasks.each(partial(transfer_ns, self._machine), tasks.column("payload_bytes"), links)

    def copies(self, tasks: Tasks) -> Ints:
        """Over the link between the two tiers."""
        ways = zip(tasks.column("origin"), tasks.column("target"), strict=True)
        links = [link_of_copy(*_tiers(way)) for way in ways]
        return tasks.each(partial(transfer_ns, self._machine), tasks.column("payload_bytes"), links)

    def lags(self, network: Network) -> Ints:
        """The machine's constants for a program's own code and threads."""
        machine, own = self._machine, OwnCode.of(network)
        lags = np.zeros_like(network.lag)
        lags[own.between] = round(machine.program_ns * self._crowd(network))
        lags[own.taken_up] = round(machine.handover_ns)
        return lags

    def offsets(self, network: Network) -> Ints:
        """The machine's constants for requests, wake-ups and a ring's next message."""
        machine, own = self._machine, OwnCode.of(network)
        offsets = np.zeros_like(network.offset)
        taken = ask_ns(machine, own.asked_bytes) * self._crowd(network)
        offsets[own.asks] = np.rint(own.before(taken))
        offsets[own.onwards] = np.rint(own.spent(taken))
        offsets[own.posts] = round(machine.post_ns)
        offsets[own.wakes] = round(machine.wake_ns)
        return offsets

    def _crowd(self, network: Network) -> float:
        """Factor of own code's time: ranks take turns if there is no core for each.

        A woken thread runs at once: a scheduler prefers threads that have slept.
        """
        size = ranks_per_node(network.graph.trace)
        return max(1.0, size / (self._machine.cores or size))

    def needs(self, tasks: Tasks, /) -> list[Needs] | None:
        """Cores that ranks share, else the links of each rank."""
        size = ranks_per_node(tasks.graph.trace)
        if self._machine.cores is not None and tasks.kind is not NodeKind.COPY:
            nodes = (tasks.rank // size).tolist()
            goes_first = tasks.kind is not NodeKind.COMPUTE
            return [(Resource("cores", node, self._machine.cores, goes_first),) for node in nodes]
        if tasks.kind is NodeKind.CALL:
            return [
                () if len(ranks) < 2 else (Resource(_link_of(ranks, size), rank),)
                for rank, ranks in zip(tasks.rank.tolist(), tasks.groups(), strict=True)
            ]
        if tasks.kind is NodeKind.COPY:
            ways = zip(tasks.column("origin"), tasks.column("target"), strict=True)
            return [
                (Resource(link_of_copy(*_tiers(way)), rank),)
                for rank, way in zip(tasks.rank.tolist(), ways, strict=True)
            ]
        return None


def layout_of(ranks: tuple[int, ...], size: int) -> RanksOnNodes:
    """The placement of these ranks on nodes of `size` ranks."""
    return RanksOnNodes(len(ranks), len({rank // size for rank in ranks}) or 1)


def _link_of(ranks: tuple[int, ...], size: int) -> Link:
    return Link.NODE if layout_of(ranks, size).num_nodes == 1 else Link.NETWORK


def _tiers(way: tuple[Tier | None, Tier | None]) -> tuple[Tier, Tier]:
    origin, target = way
    if origin is None or target is None:
        raise ConfigError("the trace does not record the tiers of a copy")
    return origin, target
