"""The inputs of a plan: a model, a number of GPUs, a machine, the tokens of a batch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import log

from zerosim.base.config.shapes import Transformer, shape_of
from zerosim.base.errors import ConfigError
from zerosim.base.quantities import format_exact
from zerosim.predict.placement.machine import Machine, known_machines, load_machine
from zerosim.predict.plan.wording import WORDS

MARGIN = Fraction(1, 20)
"""The default margin for memory that no law counts: an assumption."""
MOST_GPUS = 16_384
_BITS = 3
"""Significant bits of the rounded number of sequences per GPU."""
_ONE_NODE = 8
"""Maximum number of GPUs in one node for an accelerator without a system."""
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmMbBgGtT]?)", re.ASCII)
_TIMES = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuestion:
    """The inputs of a plan.

    Attributes:
        model: the name of the shape.
        gpus: total number of GPUs.
        sequences: sequences of one optimizer step, over all ranks.
        sequence: s, tokens of each.
        asked_tokens: tokens of one optimizer step, as requested.
        margin: memory that no law counts, as a fraction of the rest.
        is_ideal: whether times are those of ideal software.
    """

    model: str
    shape: Transformer
    machine: Machine
    gpus: int
    sequences: int
    sequence: int
    asked_tokens: int
    margin: Fraction = MARGIN
    is_ideal: bool = False

    @property
    def tokens(self) -> int:
        """Tokens of one optimizer step."""
        return self.sequences * self.sequence

    @property
    def node(self) -> int:
        """Ranks of a node."""
        return min(self.gpus, self.machine.ranks_per_node or self.gpus)

    @property
    def memory_bytes(self) -> int:
        """Memory of one card."""
        assert self.machine.memory_bytes is not None, "checked when it was asked"
        return int(self.machine.memory_bytes)


def ask(  # noqa: PLR0913 - a question has that many parts
    model: str,
    gpus: int,
    machine: str,
    tokens: int,
    *,
    shape: Transformer | None = None,
    sequence: int | None = None,
    margin: Fraction = MARGIN,
    is_ideal: bool = False,
) -> PlanQuestion:
    """Check that a plan can be made.

    Args:
        machine: a name of `known_machines`, an accelerator of one of them, or a file.
        tokens: tokens of one optimizer step; rounded to the nearest number of sequences that the
            GPUs can share equally.
        shape: the model's shape, if its name does not determine it.
        sequence: tokens of a sequence; by default the model's own.
        is_ideal: predict the machine's bound instead of the measured efficiency of software.

    Raises:
        ConfigError: a name is unknown, or these inputs are incompatible.
    """
    shape = shape_of(model) if shape is None else shape
    if not 1 <= gpus <= MOST_GPUS:
        raise ConfigError(WORDS("problems.gpus", gpus=gpus, most=format_exact(MOST_GPUS)))
    length = shape.context if sequence is None else sequence
    if not 1 <= length <= shape.context:
        most = format_exact(shape.context)
        raise ConfigError(WORDS("problems.sequence", length=length, most=most, model=model))
    if not 0 <= margin < 1:
        raise ConfigError(f"margin is {float(margin):g}: expected 0 or more, and below 1")
    if tokens < length:
        given = {"tokens": format_exact(tokens), "length": format_exact(length)}
        raise ConfigError(WORDS("problems.tokens", **given))
    costs = system_of(machine, gpus)
    return PlanQuestion(
        model=model,
        shape=shape,
        machine=costs,
        gpus=gpus,
        sequences=_sequences(tokens, length, gpus),
        sequence=length,
        asked_tokens=tokens,
        margin=margin,
        is_ideal=is_ideal,
    )


def _sequences(tokens: int, length: int, gpus: int) -> int:
    """The nearest number that GPUs can share and divide into micro-batches.

    Each gets equally many, from 8 on rounded to a multiple of a power of two: 60 to 64, 488 to 512.
    Of fewer sequences than GPUs, the nearest of gpus / 2, gpus / 4 ...
    """
    if tokens >= length * gpus:
        share = Fraction(tokens, length * gpus)
        grain = 1 << max(0, int(share).bit_length() - _BITS)
        return gpus * grain * round(share / grain)
    asked = tokens / length
    shared = [gpus >> power for power in range(gpus.bit_length()) if gpus % (1 << power) == 0]
    return min(shared, key=lambda one: abs(log(one / asked)))


def system_of(name: str, gpus: int) -> Machine:
    """A machine with a known network between its nodes, by its name or that of its accelerator.

    Raises:
        ConfigError: there is none, its file lacks the memory of a GPU, or these GPUs do not fill
            its nodes.
    """
    machine = load_machine(name)
    if machine.ranks_per_node is None and name in known_machines():
        machine = next((one for one in _systems() if one.accelerator == name), machine)
    if machine.memory_bytes is None:
        raise ConfigError(
            f"machine {name!r} does not define the memory of a GPU: expected [memory] bytes"
        )
    size = machine.ranks_per_node
    if size is None and gpus > _ONE_NODE:
        raise ConfigError(WORDS("problems.no_nodes", gpus=gpus, machine=name, most=_ONE_NODE))
    if size and gpus > size and gpus % size:
        raise ConfigError(WORDS("problems.nodes", gpus=gpus, machine=machine.name, size=size))
    return machine


@cache
def _systems() -> tuple[Machine, ...]:
    """The machines that come with zerosim, the usual ones first."""
    names = sorted(known_machines(), key=lambda name: (not name.startswith("dgx"), name))
    return tuple(one for one in map(load_machine, names) if one.ranks_per_node)


def parse_tokens(text: str, name: str = "tokens-per-batch") -> int:
    """Read an amount of tokens: `4M` is 4,000,000, `512k` 512,000, `15T` 15 * 10^12.

    Args:
        name: name of the option.

    Raises:
        ConfigError: the text is not an amount of tokens.
    """
    match = _AMOUNT.fullmatch(text.strip().replace(",", "").replace("_", ""))
    if match is None:
        raise ConfigError(WORDS("problems.amount", name=name, text=repr(text[:40])))
    value = Fraction(match[1]) * _TIMES[match[2].lower()]
    if value.denominator != 1:
        raise ConfigError(WORDS("problems.whole", name=name, text=repr(text[:40])))
    return value.numerator
