"""Constants of a machine, fitted to a recorded training, for plans that describe this program.

A named software's constants come from runs of others. A few recorded steps of your own program give
four quantities for a plan: how long its device computes, how long it neither computes nor waits for
another rank, and how fast its collectives are within a node and between nodes. Each becomes one
constant, fitted to that quantity alone; the prediction of the whole step tests them. A device that
mostly waits for the program shows how fast the program launches operators (`Machine.launch_ns`),
and not what the device could reach with more work.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import median
from typing import Any

from zerosim.analysis.graph import EventGraph, build_graph
from zerosim.analysis.graph.table import Ints
from zerosim.base.errors import ConfigError
from zerosim.base.tiers import Link
from zerosim.predict.placement.belief import believed, usual_software
from zerosim.predict.placement.machine import FITTED, Machine
from zerosim.predict.placement.modelled import layout_of
from zerosim.predict.placement.nccl import RanksOnNodes
from zerosim.predict.placement.seen import typical_iterations
from zerosim.predict.plan.prices import Prices, system_of
from zerosim.predict.plan.schedule import step_times
from zerosim.record import Trace, ranks_per_node
from zerosim.schema.events import Event, Kind, Op, Phase
from zerosim.theory.layout import LAST, Layout, native
from zerosim.theory.saved import Recompute

_PASSES = (Phase.FORWARD, Phase.BACKWARD)
_LAUNCH_NS = 1e12
"""The launch time of a machine on which launches take all of the time: it counts operators."""
_FASTEST = 1e3
"""The factor of a link's speed beyond which only its latency is left."""
_HALVINGS = 40
_FAR = 2
"""No software on record takes this many times as long as another."""
_LONGEST_LAUNCH_NS = 100_000
"""The longest launch of one operator of theory, which may be several of PyTorch's."""
_NO_COLLECTIVES = (Op.UNKNOWN, Op.SEND, Op.RECEIVE, Op.BARRIER)
_Call = tuple[Op, int, RanksOnNodes]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStep:
    """A typical optimizer step of a recorded run, in ns: medians over ranks and steps.

    Attributes:
        step_ns: time from the beginning of a step to that of the next.
        passes_ns, update_ns: the parts in which the device computes forward and backward, and the
            update.
        waiting_ns: the part in which it computes nothing, because it waits for bytes; waiting for a
            rank that has not arrived is idle time, caused by the other rank's program.
        calls: collectives of all such steps, each with its duration after all ranks had arrived.
    """

    step_ns: float
    passes_ns: float
    update_ns: float
    waiting_ns: float
    calls: tuple[tuple[_Call, int], ...]

    @property
    def idle_ns(self) -> float:
        """Time in which it neither computes nor waits for bytes: the program is too slow."""
        return max(0.0, self.step_ns - self.passes_ns - self.update_ns - self.waiting_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnConstants:
    """Constants of a program on a machine.

    Attributes:
        before: the machine, with the usual software's constants.
        machine: the machine with the fitted constants.
        fitted: their names and values, by table of a machine's file ("" for none), each with the
            data that it was fitted to.
    """

    before: Machine
    machine: Machine
    fitted: Mapping[str, Mapping[str, tuple[float, str]]]


def recorded_step(trace: Trace) -> RecordedStep:
    """A typical step according to a trace.

    Raises:
        ConfigError: the trace has no times of a computing device, or no whole step.
    """
    graph = build_graph(trace)
    chosen = typical_iterations(graph)
    busy: dict[tuple[int, int], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    calls = _Calls(ranks_per_node(trace))
    for rank in trace.ranks:
        for one in rank.events:
            if one.iteration not in chosen or one.start_ns is None or one.end_ns is None:
                continue
            place, took = (rank.header.rank, one.iteration), one.end_ns - one.start_ns
            if one.kind is Kind.COMPUTE:
                busy[place]["passes" if one.phase in _PASSES else one.phase] += took
            elif one.kind is Kind.WAIT:
                busy[place]["waits"] += took
            elif one.kind is Kind.COLLECTIVE and one.group and one.payload_bytes:
                calls.add(one, rank.groups[one.group].ranks, place, took)
    if not any(one["passes"] for one in busy.values()):
        raise ConfigError(
            f"{trace.manifest.program or trace.folder}: none of the complete steps has device "
            "times: profile a few steps with ProfilerActivity.CUDA, or record a run with zerosim "
            "trace"
        )
    steps = [ns for place in range(len(trace.ranks)) for ns in _steps(graph, place, chosen)]
    moved = calls.by_step()
    return RecordedStep(
        step_ns=median(steps),
        passes_ns=median(one["passes"] for one in busy.values()),
        update_ns=median(one[Phase.UPDATE] for one in busy.values()),
        waiting_ns=median(min(one["waits"], moved[place]) for place, one in busy.items()),
        calls=tuple(calls.times()),
    )


class _Calls:
    """Collectives, each with its duration on the rank that arrived last, which did not wait."""

    def __init__(self, size: int) -> None:
        """`size`: ranks of a node."""
        self._size = size
        self._calls: dict[object, _Call] = {}
        self._least: dict[object, int] = {}
        self._of_step: dict[tuple[int, int], list[object]] = defaultdict(list)

    def add(self, one: Event, ranks: tuple[int, ...], place: tuple[int, int], took: int) -> None:
        """Add a rank's part of a collective, in one step of the rank."""
        if len(ranks) < 2 or one.op in _NO_COLLECTIVES or one.op is None or took <= 0:
            return
        apart = place if one.sequence is None else None
        key = (ranks, one.sequence, apart, one.iteration, one.id if apart else None)
        self._calls[key] = (one.op, one.payload_bytes, layout_of(ranks, self._size))
        self._least[key] = min(took, self._least.get(key, took))
        self._of_step[place].append(key)

    def times(self) -> Iterator[tuple[_Call, int]]:
        """All collectives, each with its duration."""
        for key, call in self._calls.items():
            yield call, self._least[key]

    def by_step(self) -> Mapping[tuple[int, int], float]:
        """The total duration of a rank's collectives in each step."""
        found: dict[tuple[int, int], float] = defaultdict(float)
        for place, keys in self._of_step.items():
            found[place] = sum(self._least[key] for key in keys)
        return found


def _steps(graph: EventGraph, rank: int, chosen: Ints) -> Iterator[int]:
    """The duration of each of these iterations on a rank, until the next begins or it ends."""
    own = graph.place == rank
    begins = {
        int(one): int(graph.start[own & (graph.iteration == one)].min())
        for one in {*chosen.tolist(), *(chosen + 1).tolist()}
        if (own & (graph.iteration == one)).any()
    }
    for one in chosen.tolist():
        if one in begins:
            over = int(graph.end[own & (graph.iteration == one)].max())
            yield begins.get(one + 1, over) - begins[one]


def recorded_layout(trace: Trace, undivided: Layout) -> Layout:
    """The layout of a recorded run, from the ranks, nodes and micro-steps in its trace.

    Args:
        undivided: everything else, as a layout of one data-parallel rank.

    Raises:
        ConfigError: its ranks do not match this layout.
    """
    ranks, tensor = trace.manifest.num_ranks, undivided.cut.tensor
    if ranks % tensor:
        raise ConfigError(f"tensor-parallel is {tensor}: expected a divisor of the {ranks} ranks")
    config, keeping = undivided.config, undivided.keeping
    if config.checkpoint_activations:
        keeping = replace(keeping, recompute=Recompute.FULL)
    again = keeping.recompute is Recompute.FULL
    steps = 1 + max(max(rank.events.column("micro_step"), default=0) for rank in trace.ranks)
    return replace(
        undivided,
        config=native(replace(config, accumulate=steps, checkpoint_activations=again)),
        data=ranks // tensor,
        ranks_per_node=ranks_per_node(trace),
        keeping=keeping,
    )


def own_constants(machine: Machine, runs: Sequence[tuple[RecordedStep, Layout]]) -> OwnConstants:
    """The constants for plans that describe a program.

    Args:
        machine: the machine that its ranks run on.
        runs: runs of the program, each with its layout.
    """
    software = usual_software(machine, system_of(runs[0][1]))
    before = machine if software is None else believed(machine, software)
    found: dict[str, dict[str, tuple[float, str]]] = {"": {}}
    now = before
    for link in (Link.NODE, Link.NETWORK):
        times = _times_of_link(before, link, [call for step, _ in runs for call in step.calls])
        if times is not None:
            now = _with_link(now, link, times)
            found[_TABLES[link]] = {
                name: (value, f"{times:.3g} times {machine.name}'s, by the times of collectives")
                for name, value in _of_link(now, link)
            }
    launch_ns = _launching(now, runs)
    if launch_ns is None:
        found[""] |= _own(now, runs)
    else:
        found[""]["launch_ns"] = (launch_ns, "the device mostly waits for the program")
    own: dict[str, Any] = {name: value for name, (value, _) in found[""].items()}
    return OwnConstants(before=before, machine=replace(now, **own), fitted=found)


def _launching(machine: Machine, runs: Sequence[tuple[RecordedStep, Layout]]) -> float | None:
    """The program's time per operator if the device mostly waits for the program, ns; else None.

    It is idle for longer than it computes; or what it computes takes over twice as long as the
    machine's constants say, and as short a time for each operator as launching it may.
    """
    counting = replace(machine, launch_ns=_LAUNCH_NS)
    operators = sum(sum(_computing(counting, layout)) for _, layout in runs) / _LAUNCH_NS
    took = sum(step.step_ns - step.waiting_ns for step, _ in runs)
    idle = sum(step.idle_ns for step, _ in runs)
    predicted = sum(sum(_computing(machine, layout)) for _, layout in runs)
    is_small = took - idle > _FAR * predicted and took < _LONGEST_LAUNCH_NS * operators
    return took / operators if 2 * idle > took or is_small else None


def _own(
    machine: Machine, runs: Sequence[tuple[RecordedStep, Layout]]
) -> Iterator[tuple[str, tuple[float, str]]]:
    """The device's efficiency relative to the machine's constants, and the idle time."""
    predicted = sum(_computing(machine, layout)[0] for _, layout in runs)
    times = predicted / sum(step.passes_ns for step, _ in runs)
    why = f"forward and backward take {1 / times:.3g} times what they did before"
    memory = machine.achieved if machine.memory_achieved is None else machine.memory_achieved
    yield "achieved", (times * machine.achieved, why)
    yield "memory_achieved", (times * memory, why)
    if machine.launch_ns:
        yield "launch_ns", (machine.launch_ns / times, why)
    rest = [
        step.idle_ns + step.update_ns - _computing(machine, layout)[1] / times
        for step, layout in runs
    ]
    why = "the device is idle and waits for no rank, or updates for longer"
    yield "step_ns", (max(0.0, median(rest)), why)


def _computing(machine: Machine, layout: Layout) -> tuple[float, float]:
    """Forward and backward of a step, and its update, ns."""
    prices = Prices(machine)
    times = {one.name: one.times for one in layout.pieces(LAST)}
    units = [(one, times.get(one.name, 1)) for one in prices.units(layout, LAST)]
    passes = sum(count * (one.forward + one.backward) for one, count in units)
    update = sum(count * one.moved.update for one, count in units)
    return layout.micro_batches * (passes + prices.loss(layout)), update


def predicted_ns(machine: Machine, layout: Layout) -> float:
    """The duration of a step as predicted by a plan."""
    return sum(step_times(Prices(machine), layout).values())


# ------------------------------------------------------------------- links

_TABLES = {Link.NODE: "node", Link.NETWORK: "network"}


def _with_link(machine: Machine, link: Link, times: float) -> Machine:
    """A machine with one link faster by a factor."""
    links = dict(machine.links)
    if link in links:
        speed = links[link]
        links[link] = replace(speed, bytes_per_second=times * speed.bytes_per_second)
    if link is Link.NETWORK:
        return replace(machine, links=links)
    in_switch, own = machine.nvls_bytes_per_second, machine.native
    return replace(
        machine,
        links=links,
        nccl_bytes_per_second=times * machine.nccl_bytes_per_second,
        nvls_bytes_per_second=None if in_switch is None else times * in_switch,
        native=own and replace(own, bytes_per_second=times * own.bytes_per_second),
    )


def _of_link(machine: Machine, link: Link) -> Iterator[tuple[str, float]]:
    """The constants of a link, by their names in a machine's file."""
    yield "bytes_per_second", machine.link(link).bytes_per_second
    if link is Link.NODE:
        if machine.nccl_bytes_per_second:
            yield "nccl_bytes_per_second", machine.nccl_bytes_per_second
        if machine.nvls_bytes_per_second is not None:
            yield "nccl_nvls_bytes_per_second", machine.nvls_bytes_per_second


def _times_of_link(
    machine: Machine, link: Link, calls: Sequence[tuple[_Call, int]]
) -> float | None:
    """The speed of a link at which its collectives take as long in total as recorded.

    None if there are none, or if they are so small that most of their time is latency.
    """
    own = [
        (call, time)
        for call, time in calls
        if link is (Link.NODE if call[2].num_nodes == 1 else Link.NETWORK)
    ]
    if not own or link not in machine.links:
        return None
    taken = sum(time for _, time in own)

    def asked(times: float) -> float:
        prices = Prices(_with_link(machine, link, times))
        return sum(prices.collective(*call).ns for call, _ in own)

    low, high = 1 / _FASTEST, _FASTEST
    if not asked(low) > taken > 2 * asked(high):
        return None
    for _ in range(_HALVINGS):
        middle = sqrt(low * high)
        low, high = (middle, high) if asked(middle) > taken else (low, middle)
    return sqrt(low * high)


# ------------------------------------------------------------------- its file


def write_own(found: OwnConstants, base: str, title: str, source: str) -> str:
    """The file of a machine: its base machine, and the fitted constants.

    Args:
        base: the name of that machine.
        source: the command of the fit.
    """
    lines = [f"title = {json.dumps(title)}", f"accelerator = {json.dumps(base)}"]
    if found.before.software:
        lines.append(f"software = {json.dumps(found.before.software)}")
    for table, constants in found.fitted.items():
        lines += ["", f"[{table}]"] if table else []
        for name, (value, why) in constants.items():
            given = {"value": float(f"{value:.4g}"), "source": f"{FITTED} {source}: {why}"}
            said = ", ".join(f"{key} = {json.dumps(one)}" for key, one in given.items())
            lines.append(f"{name} = {{ {said} }}")
    return "\n".join(lines) + "\n"
