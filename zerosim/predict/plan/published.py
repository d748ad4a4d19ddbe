"""Code shared by all reproduced figures: models, the time of a step, a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from zerosim.base.config.shapes import GPTConfig
from zerosim.base.tables import Cell, Column, Evidence, Table
from zerosim.base.tiers import Link
from zerosim.predict.placement.machine import Machine
from zerosim.predict.plan.prices import Prices
from zerosim.predict.plan.schedule import step_times
from zerosim.theory.layout import Layout


def gpt(
    layers: int, width: int, heads: int, context: int = 2048, vocabulary: int = 51_200
) -> GPTConfig:
    """A GPT with tied embedding and head."""
    return GPTConfig(
        layers=layers,
        width=width,
        heads=heads,
        context=context,
        vocabulary=vocabulary,
        tied=True,
    )


def flops(shape: GPTConfig, sequences: int) -> float:
    """Eq. 3 of Narayanan et al. 2021, which counts forward twice."""
    layers, width, context = shape.layers, shape.width, shape.context
    rest = 1 + context / (6 * width) + shape.vocabulary / (16 * layers * width)
    return 96 * sequences * context * layers * width**2 * rest


def step_s(prices: Prices, layout: Layout) -> float:
    """The duration of one optimizer step."""
    return sum(step_times(prices, layout).values()) / 1e9


def with_network(machine: Machine, gigabits: int) -> Machine:
    """A machine whose network between nodes has this bandwidth, in Gbit/s."""
    link = replace(
        machine.link(Link.NETWORK),
        bytes_per_second=gigabits / 8 * 1e9 / (machine.ranks_per_node or 1),
    )
    return replace(machine, links={**machine.links, Link.NETWORK: link})


def published_table(
    title: str,
    names: tuple[str, ...],
    numbers: tuple[str, ...],
    rows: Sequence[tuple[Cell, ...]],
    source: str,
    *notes: str,
) -> Table:
    """A figure's numbers; the name of a predicted column contains "predicted"."""
    columns = (*map(Column, names), *_columns(numbers))
    return Table(title, columns, tuple(rows), (f"source: {source}", *notes))


def _columns(names: tuple[str, ...]) -> Iterator[Column]:
    for name in names:
        yield Column(name, Evidence.PREDICTED if name.startswith("predicted") else None)
