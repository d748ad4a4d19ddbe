"""The cost of each unit of a layout on a machine: computing, communicating, copying, in ns.

The movements are those that theory plans for one optimizer step (`theory.zero`), for one unit of
each kind; their times come from the cost model that places simulated runs (`placement.modelled`). A
plan and a simulated run therefore differ only in how they combine these times.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from zerosim.base.tiers import Link
from zerosim.predict.placement.belief import Software, SoftwareSystem, believed, usual_software
from zerosim.predict.placement.machine import Machine
from zerosim.predict.placement.modelled import (
    collective_ns,
    computation_ns,
    layout_of,
    transfer_ns,
)
from zerosim.predict.placement.nccl import RanksOnNodes
from zerosim.predict.plan.sums import LinkTime, waited_for
from zerosim.schema.events import Algorithm, Op, Phase, Purpose
from zerosim.theory.layout import Layout
from zerosim.theory.movement import Movement
from zerosim.theory.operators import (
    Computing,
    Operator,
    again_by_operators,
    loss_operators,
    quantized_operators,
    update_operators,
)
from zerosim.theory.partition import shard_elements
from zerosim.theory.saved import Recompute
from zerosim.theory.transformer import BLOCKS
from zerosim.theory.workload import Workload
from zerosim.theory.zero import planned

_Why = tuple[str, Phase, Purpose]
"""A unit, and the phase and purpose of its movement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedPrices:
    """The movements for one unit, and its update, which are the same in each micro-batch.

    Attributes:
        bits: time to quantize or dequantize it.
        copied_forward, copied_backward: copies besides its gathers and its reduction.
        fetch: copies from the host or a disk, before each gather.
        gather_forward, gather_backward, reduce: collectives of all ranks that share the states;
            reduce is that of a whole bucket if buckets have their own size.
        offload: copies of reduced gradients to the host.
        update: computing, ns.
        returned: copies of updated parameters.
        share: the gather of updated parameters.
    """

    bits: float
    copied_forward: float
    copied_backward: float
    fetch: tuple[LinkTime, ...]
    gather_forward: LinkTime | None
    gather_backward: LinkTime | None
    reduce: tuple[LinkTime, ...]
    offload: tuple[LinkTime, ...]
    update: float
    states: tuple[LinkTime, ...]
    returned: tuple[LinkTime, ...]
    share: LinkTime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPrices:
    """The time of one unit in a micro-batch, and in the update.

    Attributes:
        elements: parameters on a rank.
        forward, backward: computing, ns.
        again: the part of backward that recomputes forward.
        sums_forward, sums_backward: communication of ranks that compute a block together, or that
            exchange keys or tokens of experts, during which nothing is computed.
    """

    name: str
    elements: int
    forward: float
    backward: float
    again: float
    sums_forward: tuple[LinkTime, ...]
    sums_backward: tuple[LinkTime, ...]
    moved: MovedPrices


class Prices:
    """The costs of a machine, each computed once.

    Attributes:
        moved: prices of units, by their states and sizes.
    """

    def __init__(self, machine: Machine, software: Software | None = None) -> None:
        """`machine`: the hardware of the ranks; `software`: adds its measured constants."""
        self.machine = machine if software is None else believed(machine, software)
        self.software = software
        self._collectives: dict[tuple[Op, int, RanksOnNodes], float] = {}
        self._computations: dict[tuple[Operator, ...], float] = {}
        self._of_computing: dict[tuple[object, str], tuple[float, float]] = {}
        self._on_nodes: dict[tuple[tuple[int, ...], int], RanksOnNodes] = {}
        self._units: dict[object, tuple[UnitPrices, ...]] = {}
        self._each: dict[object, UnitPrices] = {}
        self.moved: dict[object, MovedPrices] = {}
        self._numbers: dict[object, int] = {}
        self._made_again: dict[object, float] = {}
        self._planned: dict[Workload, dict[_Why, list[Movement]]] = {}
        self.algorithm = Algorithm.NCCL if machine.generation else Algorithm.GLOO

    def computing(self, operators: tuple[Operator, ...]) -> float:
        """The time of some operators that run one after another, ns."""
        found = self._computations.get(operators)
        if found is None:
            found = self._computations[operators] = computation_ns(self.machine, operators)
        return found

    def collective(self, op: Op, payload_bytes: int, where: RanksOnNodes) -> LinkTime:
        """The time of a collective of ranks with this placement on nodes."""
        asked = (op, payload_bytes, where)
        found = self._collectives.get(asked)
        if found is None:
            found = collective_ns(self.machine, op, self.algorithm, payload_bytes, where)
            self._collectives[asked] = found
        return LinkTime(found, Link.NODE if where.num_nodes == 1 else Link.NETWORK)

    def copy(self, payload_bytes: int, link: Link) -> LinkTime:
        """The time of a copy between tiers, or of a message."""
        return LinkTime(transfer_ns(self.machine, payload_bytes, link), link)

    def copied(self, touched_bytes: float) -> float:
        """The time of a copy within the device's memory, ns."""
        return self.computing((Operator(1, 0, int(touched_bytes)),)) if touched_bytes else 0.0

    def on_nodes(self, ranks: tuple[int, ...], size: int) -> RanksOnNodes:
        """The placement of ranks on nodes of `size`."""
        found = self._on_nodes.get((ranks, size))
        if found is None:
            found = self._on_nodes[ranks, size] = layout_of(ranks, size)
        return found

    def units(self, layout: Layout, place: str) -> tuple[UnitPrices, ...]:
        """The kinds of units of one stage of a layout's pipeline, in forward order."""
        workload = layout.workload(place)
        of_states = (
            workload.config,
            workload.num_ranks,
            workload.ranks_per_node,
            layout.cut,
            layout.config.bucket_elements,
            layout.data,
            layout.replicas,
            layout.ranks_per_node or layout.num_ranks,
        )
        number = self._numbers.setdefault(of_states, len(self._numbers))
        asked = (number, layout.computing, layout.recompute)
        found = self._units.get((asked, workload))
        if found is None:
            pricing, units = _Pricing(self, layout, place, number), []
            for one in workload.units:  # a block is the same on each stage
                unit = self._each.get((asked, one))
                if unit is None:
                    unit = self._each[asked, one] = pricing.unit(one.name, one.elements)
                units.append(unit)
            found = self._units[asked, workload] = tuple(units)
        return found

    def planned(self, workload: Workload) -> dict[_Why, list[Movement]]:
        """The movements of an optimizer step for each unit, which many layouts share."""
        found = self._planned.get(workload)
        if found is None:
            found = self._planned[workload] = {}
            for one in planned(workload):
                found.setdefault((one.unit, one.phase, one.purpose), []).append(one)
        return found

    def loss(self, layout: Layout) -> float:
        """The time of a micro-batch's loss, forward and backward, ns."""
        return self.computing(loss_operators(layout.computing))

    def half_again(self, computing: Computing, name: str) -> float:
        """The time to recompute a block if every second product is kept, ns."""
        found = self._made_again.get((computing, name))
        if found is None:
            found = self.computing(again_by_operators(computing, name))
            self._made_again[computing, name] = found
        return found

    def computed(self, layout: Layout, name: str) -> tuple[float, float]:
        """The time of one unit's forward and backward, ns."""
        computing = layout.computing
        found = self._of_computing.get((computing, name))
        if found is None:
            found = (
                self.computing(computing.forward(name)),
                self.computing(computing.backward(name)),
            )
            self._of_computing[computing, name] = found
        return found


class Beliefs:
    """The prices of one machine, with the measured efficiency of each named software.

    Attributes:
        bound: the prices of ideal software, or with the machine's own constants.
    """

    def __init__(self, machine: Machine, *, is_ideal: bool = False) -> None:
        """`is_ideal`: all layouts at the bound."""
        self.bound = Prices(machine)
        self._measured: dict[SoftwareSystem, Prices] = {}
        for system in () if is_ideal else SoftwareSystem:
            software = usual_software(machine, system)
            if software is not None:
                self._measured[system] = Prices(machine, software)

    def of(self, layout: Layout) -> Prices:
        """The prices of the software for this kind of layout."""
        return self._measured.get(system_of(layout), self.bound)


def system_of(layout: Layout) -> SoftwareSystem:
    """The kind of software that implements a layout."""
    divides = layout.pipeline > 1 or (layout.cut.tensor > 1 and layout.config.stage < 2)
    return SoftwareSystem.TENSOR if divides else SoftwareSystem.SHARDED


class _Pricing:
    """The prices of one layout."""

    def __init__(self, prices: Prices, layout: Layout, place: str, of_states: int) -> None:
        """`of_states`: a key that is equal for layouts with equal movements of states."""
        self._prices, self._layout, self._of_states = prices, layout, of_states
        self._place, self._size = place, layout.ranks_per_node or layout.num_ranks
        experts = layout.experts(place)
        self._of_experts = {} if experts is None else prices.planned(experts)
        self._experts = {one.name: one.elements for one in experts.units} if experts else {}

    @cached_property
    def _moves(self) -> dict[_Why, list[Movement]]:
        return self._prices.planned(self._layout.workload(self._place))

    def unit(self, name: str, elements: int) -> UnitPrices:
        """The prices of one unit."""
        layout, prices, config = self._layout, self._prices, self._layout.config
        moved = self._moved(name, elements)
        forward, backward = prices.computed(layout, name)
        again = self._again(name, forward)
        sums = waited_for(prices, layout, name, is_again=bool(again))
        hidden_forward, hidden_backward = (
            prices.machine.hidden_forward,
            prices.machine.hidden_backward,
        )
        bits = moved.bits
        return UnitPrices(
            name=name,
            elements=elements,
            forward=forward + moved.copied_forward + bits * config.quantize_weights,
            backward=backward
            + moved.copied_backward
            + again
            + bits * (config.quantize_weights and not config.has_secondary)
            + bits * config.quantize_gradients,
            again=again,
            sums_forward=tuple([one.forward.times(1 - hidden_forward) for one in sums]),
            # recomputed forward overlaps as forward does
            sums_backward=tuple(
                [
                    LinkTime(
                        one.again.ns * (1 - hidden_forward)
                        + one.backward.ns * (1 - hidden_backward),
                        one.backward.link,
                    )
                    for one in sums
                ]
            ),
            moved=moved,
        )

    def _moved(self, name: str, elements: int) -> MovedPrices:
        """The prices that do not depend on the micro-batch and its recomputation; cached."""
        of = (self._of_states, name, elements)
        found = self._prices.moved.get(of)
        if found is None:
            found = self._prices.moved[of] = self._priced_moves(name, elements)
        return found

    def _priced_moves(self, name: str, elements: int) -> MovedPrices:
        layout, prices, config = self._layout, self._prices, self._layout.config
        machine, size = prices.machine, config.dtype.element_bytes
        gather_forward = self._one(name, Phase.FORWARD, Purpose.GATHER_PARAMETERS)
        gather_backward = self._one(name, Phase.BACKWARD, Purpose.GATHER_PARAMETERS)
        reduced = self._reduced(name, elements)
        share = self._one(name, Phase.UPDATE, Purpose.GATHER_PARAMETERS)
        # gathered and reduced data is also copied within the device
        whole = elements + self._experts.get(name, 0)
        backward = self._copied(whole * machine.gather_bytes * (gather_backward is not None))
        if config.stage > 1 and reduced:
            backward += self._copied(whole * machine.reduce_bytes)
        return MovedPrices(
            bits=prices.computing(quantized_operators(elements)) if config.quantizes else 0.0,
            copied_forward=self._copied(
                whole * machine.gather_bytes * (gather_forward is not None)
            ),
            copied_backward=backward,
            fetch=self._all(name, Phase.FORWARD, Purpose.FETCH_PARAMETERS),
            gather_forward=gather_forward,
            gather_backward=gather_backward,
            reduce=reduced,
            offload=self._all(name, Phase.BACKWARD, Purpose.OFFLOAD_GRADIENTS),
            update=self._updated(elements, layout.shards, size)
            + self._updated(self._experts.get(name, 0), layout.data // layout.cut.experts, size),
            states=self._all(name, Phase.UPDATE, Purpose.FETCH_STATES)
            + self._all(name, Phase.UPDATE, Purpose.STORE_STATES),
            returned=self._all(name, Phase.UPDATE, Purpose.RETURN_PARAMETERS)
            + self._all(name, Phase.UPDATE, Purpose.STORE_PARAMETERS),
            share=None if share is None else share.times(1 - machine.hidden_share),
        )

    def _copied(self, touched_bytes: float) -> float:
        return self._prices.copied(touched_bytes)

    def _updated(self, elements: int, data: int, size: int) -> float:
        """The time of Adam on a rank's part of a unit; in stage 0 on all of its rows.

        On a host the ranks of a node share its cores and its memory.
        """
        by_host = self._prices.machine.host_update_ns
        if self._layout.config.offloads_optimizer and by_host:
            return by_host * shard_elements(elements, data) * min(self._size, data)
        rows = 1 if self._layout.config.stage else data
        row = shard_elements(elements, data)
        return self._prices.computing(update_operators(row, rows, size))

    def _again(self, name: str, forward: float) -> float:
        """The recomputation of a block in backward, ns."""
        if name not in BLOCKS:
            return 0.0
        computing, prices = self._layout.computing, self._prices
        match self._layout.recompute:
            case Recompute.FULL:
                return forward
            case Recompute.SELECTIVE if computing.has_scores:
                return prices.computing(computing.attention(name))
            case Recompute.OPERATORS:
                return prices.half_again(computing, name)
        return 0.0

    def _priced(self, one: Movement) -> LinkTime:
        if one.op is None:
            assert one.link is not None, "a copy leads from one tier to another"
            return self._prices.copy(one.buffer_bytes, one.link)
        where = self._prices.on_nodes(one.ranks, self._size)
        return self._prices.collective(one.op, one.buffer_bytes, where)

    def _all(self, *of: *tuple[str, Phase, Purpose]) -> tuple[LinkTime, ...]:
        return tuple(self._priced(one) for one in self._moves.get(of, ()))

    def _rest(self, *of: *tuple[str, Phase, Purpose]) -> tuple[LinkTime, ...]:
        """The movements of a unit's experts, in addition to its own."""
        return tuple(self._priced(one) for one in self._of_experts.get(of, ()))

    def _one(self, *of: *tuple[str, Phase, Purpose]) -> LinkTime | None:
        """A unit's own movement, followed by that of its experts."""
        found = [*self._all(*of)[:1], *self._rest(*of)[:1]]
        if not found:
            return None
        slower = max(found, key=lambda one: one.link is Link.NETWORK)
        return LinkTime(sum(one.ns for one in found), slower.link)

    def _reduced(self, name: str, elements: int) -> tuple[LinkTime, ...]:
        """The reductions of a unit's whole gradient, or those of one bucket."""
        bucket = self._layout.config.bucket_elements
        found = []
        for one in self._moves.get((name, Phase.BACKWARD, Purpose.REDUCE_GRADIENTS), ()):
            if bucket is None or one.op is None:
                found.append(self._priced(one))
                continue
            where = self._prices.on_nodes(one.ranks, self._size)
            size = max(1, one.buffer_bytes * bucket // elements)
            found.append(self._prices.collective(one.op, size, where))
        found += self._rest(name, Phase.BACKWARD, Purpose.REDUCE_GRADIENTS)
        if self._layout.replicas > 1:
            found.append(self._among_replicas(bucket or elements))
        return tuple(found)

    def _among_replicas(self, elements: int) -> LinkTime:
        """HSDP: the all-reduce of a rank's part of the gradients over the replicas."""
        layout = self._layout
        apart = layout.cut.tensor * layout.shards
        ranks = tuple(apart * number for number in range(layout.replicas))
        part = shard_elements(elements, layout.shards) * layout.config.dtype.element_bytes
        where = self._prices.on_nodes(ranks, self._size)
        return self._prices.collective(Op.ALL_REDUCE, part, where)


def sent_between_stages(prices: Prices, layout: Layout) -> LinkTime:
    """The time to send activations from one stage to the next, in one direction.

    Tensor-parallel ranks send one part each, and the receivers gather the parts (Narayanan et al.
    2021, 4.1).
    """
    computing = layout.computing
    whole = computing.tokens * layout.shape.width * computing.element_bytes
    size = whole // layout.cut.tensor
    group = layout.data * layout.cut.tensor
    node = layout.ranks_per_node or layout.num_ranks
    link = Link.NODE if layout.num_ranks <= node or 2 * group <= node else Link.NETWORK
    return prices.copy(size, link).times(1 - prices.machine.hidden_messages)


def number(prices: Prices, layout: Layout) -> LinkTime:
    """The time to average the loss in an update, or to agree on any other number."""
    moves = [
        one
        for (_, _, purpose), found in prices.planned(layout.workload()).items()
        if purpose is Purpose.AVERAGE_LOSS
        for one in found
    ]
    if not moves or moves[0].op is None:
        return LinkTime(0.0, Link.NODE)
    where = prices.on_nodes(moves[0].ranks, layout.ranks_per_node or layout.num_ranks)
    return prices.collective(moves[0].op, moves[0].buffer_bytes, where)
