"""The communication within a unit's forward or backward, besides that of its parameters.

Tensor-parallel ranks sum their partial results of a block, ranks that share a sequence exchange
keys and values, and ranks that share experts exchange tokens. Meanwhile nothing of the block is
computed, except for the fraction that a software was measured to overlap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from zerosim.base.tiers import Link
from zerosim.predict.placement.machine import Machine
from zerosim.predict.placement.nccl import RanksOnNodes
from zerosim.schema.events import Op
from zerosim.theory.layout import Layout
from zerosim.theory.saved import Recompute
from zerosim.theory.transformer import BLOCKS, EMBEDDING, HEAD, kinds_of
from zerosim.theory.zero import SUMS_A_PASS


@dataclass(frozen=True, slots=True)
class LinkTime:
    """The use of a link, and its duration."""

    ns: float
    link: Link

    def times(self, factor: float) -> LinkTime:
        """The same, a number of times."""
        return LinkTime(self.ns * factor, self.link)


@dataclass(frozen=True, slots=True)
class WaitedFor:
    """The time of one kind of exchange in forward, in recomputed forward, and in backward."""

    forward: LinkTime
    again: LinkTime
    backward: LinkTime


class ExchangePrices(Protocol):
    """The costs of a machine that exchanges need."""

    machine: Machine

    def collective(self, op: Op, payload_bytes: int, where: RanksOnNodes) -> LinkTime:
        """The time of a collective of ranks with this placement on nodes."""
        ...

    def copy(self, payload_bytes: int, link: Link) -> LinkTime:
        """The time of a message."""
        ...

    def copied(self, touched_bytes: float) -> float:
        """The time of a copy within the device's memory, ns."""
        ...

    def on_nodes(self, ranks: tuple[int, ...], size: int) -> RanksOnNodes:
        """The placement of ranks on nodes of `size`."""
        ...


_AGAIN = {Recompute.FULL: 1.0, Recompute.OPERATORS: 0.5}
"""Fraction of forward's exchanges that backward repeats; a kept product saves one of each pair."""


def waited_for(
    prices: ExchangePrices, layout: Layout, name: str, *, is_again: bool
) -> tuple[WaitedFor, ...]:
    """All exchanges of a unit; `is_again`: whether backward recomputes a part of it."""
    again = _AGAIN.get(layout.recompute, 0.0) if is_again else 0.0
    return tuple([one for one in _exchanges(prices, layout, name, again) if one.forward.ns])


def _exchanges(
    prices: ExchangePrices, layout: Layout, name: str, again: float
) -> Iterator[WaitedFor]:
    cut = layout.cut
    if cut.tensor > 1 and name in (EMBEDDING, HEAD, *BLOCKS):
        yield _alike(_of_tensor(prices, layout, name), again)
    if cut.context > 1 and name in BLOCKS:
        # the output of attention is kept
        yield _of_context(prices, layout, name, float(again == 1))
    if cut.experts > 1 and name in BLOCKS:
        experts = kinds_of(layout.shape)[name].experts
        if experts is not None:
            yield _alike(_of_tokens(prices, layout, experts.active), again)


def _alike(one: LinkTime, again: float) -> WaitedFor:
    return WaitedFor(one, one.times(again), one)


def _of_tensor(prices: ExchangePrices, layout: Layout, name: str) -> LinkTime:
    """A block has two sums in each direction; a sharded table has one, in one direction.

    With sequence parallelism each is a reduce-scatter and an all-gather (Korthikanti et al.
    2022, section 4.2.2).
    """
    cut, computing = layout.cut, layout.computing
    count = SUMS_A_PASS if name in BLOCKS else 0.5 * cut.ends
    elements = computing.tokens * layout.shape.width
    size, group = elements * computing.element_bytes, _group(prices, layout, cut.tensor, 1)
    sizes = {Op.ALL_REDUCE: size}
    if cut.sequence:  # inputs are gathered in the dtype of the products
        sizes = {Op.REDUCE_SCATTER: size, Op.ALL_GATHER: size // (2 if layout.float8 else 1)}
    parts = [prices.collective(op, each, group) for op, each in sizes.items()]
    copied = len(parts) * prices.copied(elements * prices.machine.sum_bytes)
    return LinkTime(count * (sum(one.ns for one in parts) + copied), parts[0].link)


def _of_context(prices: ExchangePrices, layout: Layout, name: str, again: float) -> WaitedFor:
    """Keys and values of all ranks that share a sequence, and in backward also their gradients.

    Forward gathers them, and backward once more, as a rank keeps its own. Each rank then has a
    gradient of all of them: these are reduced and scattered (Llama 3, arXiv 2407.21783, section
    3.3.2), or go around a ring in as many messages as there are ranks (PyTorch). A compiled ring
    waits for each message as it is sent.
    """
    cut, computing, machine = layout.cut, layout.computing, prices.machine
    block = kinds_of(layout.shape)[name]
    width = block.queries + block.mixed if machine.context_heads else block.keys + block.values
    elements = computing.tokens * (width // cut.tensor)
    size = elements * cut.context * computing.element_bytes
    group = _group(prices, layout, cut.context, cut.tensor)
    gather = prices.collective(Op.ALL_GATHER, size, group)
    if machine.context_ring_bytes:
        message = prices.copy(int(elements * machine.context_ring_bytes), gather.link)
        back = message.times(cut.context)
    else:
        back = prices.collective(Op.REDUCE_SCATTER, size, group)
    return WaitedFor(gather, gather.times(again), LinkTime(gather.ns + back.ns, gather.link))


def _of_tokens(prices: ExchangePrices, layout: Layout, active: int) -> LinkTime:
    """Tokens to the ranks of their experts and back: two all-to-alls of k b s h elements.

    Source: D. Lepikhin et al., "GShard" (arXiv 2006.16668), section 3.2.
    """
    cut, computing = layout.cut, layout.computing
    size = active * computing.between_elements * computing.element_bytes
    group = _group(prices, layout, cut.experts, cut.tensor)
    return prices.collective(Op.ALL_TO_ALL, size, group).times(2)


def _group(prices: ExchangePrices, layout: Layout, count: int, apart: int) -> RanksOnNodes:
    """A number of ranks at equal distances."""
    ranks = tuple(apart * number for number in range(count))
    return prices.on_nodes(ranks, layout.ranks_per_node or layout.num_ranks)
