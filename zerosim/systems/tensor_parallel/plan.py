"""Tensor parallel: a layer's matrices are divided, and activations are summed over the ranks.

Law: 4 all-reduces of b s h per layer, two in forward and two in backward: a pair of a column-wise
and a row-wise module sums its output in forward and the gradient of its input in backward. With
sequence parallelism each of them is a reduce-scatter and an all-gather, the same bytes. Source: M.
Shoeybi et al., "Megatron-LM" (arXiv 1909.08053), section 3; V. Korthikanti et al., "Reducing
Activation Recomputation in Large Transformer Models" (arXiv 2205.05198), section 4.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from zerosim.base.language import enumerated
from zerosim.schema.events import Op, Phase, Purpose
from zerosim.schema.strategies import Bundle, Strategy
from zerosim.theory.causes import Cause, Deviation, Law
from zerosim.theory.movement import Movement
from zerosim.theory.programs.options import flag, number, text, texts
from zerosim.theory.programs.parts import BSH, shape_of
from zerosim.theory.programs.plan import Plan, Scale, element_bytes_of
from zerosim.theory.programs.steps import StrategyStep
from zerosim.theory.wording import said

SOURCE = (
    "Shoeybi et al., arXiv 1909.08053, section 3; Korthikanti et al., arXiv 2205.05198, section 4.2"
)
_READS = {"Adam": 3, "AdamW": 3, "RMSprop": 3, "Adagrad": 3}
"""Number of operations of an optimizer step that read a gradient; 1 for other and fused optimizers.
"""
REPLICATE, PARTIAL = "replicate", "partial"
_SUMS_INPUTS = ("column", "prepare input")
"""Styles whose inputs have gradients that are still partial sums."""


@dataclass(frozen=True, slots=True)
class _Change:
    """Activations at a module's input or output, and the change of their layout there.

    Attributes:
        sums: whether their gradients are still partial sums.
        is_tensor: a plain tensor instead of a DTensor.
    """

    before: str
    after: str
    shape: tuple[int, ...]
    element_bytes: int
    sums: bool
    is_tensor: bool
    has_gradient: bool

    @property
    def is_exchange(self) -> bool:
        """Whether each rank has a shard before and after, along different dimensions."""
        return self.before != self.after and {self.before, self.after}.isdisjoint(
            (REPLICATE, PARTIAL)
        )


def plan(asked: StrategyStep) -> Plan:
    """The calls of a rank in one step; each micro-step has one forward and backward.

    Raises:
        ConfigError: an option or a dtype is not known.
    """
    micro_steps, strategy = asked.steps, asked.strategy
    num_ranks = len(strategy.ranks)
    share = Fraction(num_ranks - 1, num_ranks)
    rows = [bundle for bundle in strategy.bundles if text(bundle, "style") == "row"]
    pairs = [pair for pair in _pairs(strategy.bundles) if pair.row is not None and pair.inputs]
    first = next((pair.row for pair in pairs if pair.row is not None), None) or next(
        iter(rows or strategy.bundles), None
    )
    scale = Scale(
        unit=BSH,
        unit_bytes=0 if first is None else _bytes(first),
        share=2 * share,
        suffix=" 2(N-1)/N",
    )
    law_bytes, num_sums = Fraction(0), 0
    calls: list[Movement] = []
    causes: list[Deviation] = []
    for held in micro_steps:
        for pair in _pairs(held.bundles):
            made = [call for bundle in pair.bundles for call in _calls(held, bundle)]
            calls += made
            sent = sum((call.ring_share() for call in made), Fraction(0))
            exchanges = [call for bundle in pair.bundles for call in _exchanges(held, bundle)]
            calls += exchanges
            exchanged = sum((call.ring_share() for call in exchanges), Fraction(0))
            names = enumerated(dict.fromkeys(call.unit for call in exchanges))
            words = said("tensor_parallel.exchanged", names=names)
            causes.append(Deviation(Cause.BESIDE_THE_LAYERS, exchanged, words))
            again = [call for bundle in pair.bundles for call in _again(held, bundle)]
            calls += again
            more = sum((call.ring_share() for call in again), Fraction(0))
            words = said("tensor_parallel.again")
            causes.append(Deviation(Cause.RECOMPUTATION, more, words))
            if pair.row is None or not pair.inputs:
                names = enumerated(bundle.name for bundle in pair.bundles)
                words = said("tensor_parallel.no_pair", names=names)
                causes.append(Deviation(Cause.BESIDE_THE_LAYERS, sent, words))
                continue
            law = 2 * 2 * _bytes(pair.row) * number(pair.row, "forwards", 1) * share
            law_bytes += law
            num_sums += 2 * number(pair.row, "forwards", 1)
            causes += _unlike(pair, sent - law)
    completions = list(_completions(strategy))
    calls += completions
    causes.append(
        Deviation(
            Cause.PARTIAL_GRADIENTS,
            sum((call.ring_share() for call in completions), Fraction(0)),
            said(
                "tensor_parallel.completes",
                optimizer=text(strategy, "optimizer"),
                count=len(texts(strategy, "partial_gradients")),
                times=_times_read(strategy),
            ),
        )
    )
    return Plan(
        system=strategy.system,
        name=strategy.name,
        title=strategy.system,
        ranks=strategy.ranks,
        law=Law(
            Fraction(num_sums),
            said("tensor_parallel.law", unit=BSH, sums=num_sums, pairs=num_sums // 2),
            SOURCE,
            law_bytes,
            BSH,
        ),
        law_name="tensor parallel",
        formula=f"{num_sums}{BSH} 2(N-1)/N",
        scale=scale,
        calls=tuple(calls),
        causes=tuple(causes),
    )


def _completions(strategy: Strategy) -> Iterator[Movement]:
    """The calls of an optimizer: DTensor completes a sum for each operation that reads it."""
    parameters = {one.name: one for bundle in strategy.bundles for one in bundle.parameters}
    for name in texts(strategy, "partial_gradients"):
        yield Movement(
            phase=Phase.UPDATE,
            purpose=Purpose.REDUCE_GRADIENTS,
            op=Op.ALL_REDUCE,
            ranks=strategy.ranks,
            elements=parameters[name].elements,
            element_bytes=element_bytes_of(parameters[name].dtype),
            times=_times_read(strategy),
        )


def _times_read(strategy: Strategy) -> int:
    """Number of operations of the optimizer step that read a gradient."""
    return _READS.get(text(strategy, "optimizer"), 1)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Modules up to a row-wise one: attention's query, key, value and output, or the MLP's two."""

    bundles: tuple[Bundle, ...]
    row: Bundle | None

    @property
    def inputs(self) -> list[Bundle]:
        """The column-wise modules, with a sum of their inputs' gradients."""
        return [bundle for bundle in self.bundles if text(bundle, "style") == "column"]


def _pairs(bundles: Sequence[Bundle]) -> Iterator[_Pair]:
    found: list[Bundle] = []
    for bundle in bundles:
        found.append(bundle)
        if text(bundle, "style") == "row":
            yield _Pair(tuple(found), bundle)
            found = []
    if found:
        yield _Pair(tuple(found), None)


def _unlike(pair: _Pair, rest: Fraction) -> list[Deviation]:
    """Why a pair does not send exactly two sums of its output's size."""
    if not rest:
        return []
    names = enumerated(bundle.name.rpartition(".")[2] for bundle in pair.inputs)
    if rest > 0 and len(pair.inputs) > 1:
        words = said("tensor_parallel.own_inputs", names=names)
        return [Deviation(Cause.SEPARATE_INPUTS, rest, words)]
    if rest < 0:
        words = said("tensor_parallel.smaller", names=names)
        return [Deviation(Cause.NOT_REDUCED, rest, words)]
    words = said("tensor_parallel.larger", names=names)
    return [Deviation(Cause.BESIDE_THE_LAYERS, rest, words)]


def _bytes(bundle: Bundle) -> int:
    """The outputs of a module in one forward, unsharded."""
    size = element_bytes_of(text(bundle, "dtype") or "float32")
    return _elements(shape_of(bundle, "output_shape")) * size


def _elements(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _calls(strategy: Strategy, bundle: Bundle) -> Iterator[Movement]:
    """The calls of a module's forwards and backward in one micro-step, without `_exchanges`."""
    for change in _changes(bundle):
        for phase, op in _ops(change):
            yield _call(strategy, bundle, change, phase, op)


def _exchanges(strategy: Strategy, bundle: Bundle) -> Iterator[Movement]:
    """The calls that change the sharded dimension of activations, which no layer needs.

    An all-to-all; on a CPU DTensor gathers all shards, and keeps its own part
    (`torch.distributed.tensor._collective_utils.shard_dim_alltoall`).
    """
    op = Op.ALL_GATHER if text(strategy, "device") == "cpu" else Op.ALL_TO_ALL
    for change in _changes(bundle):
        if change.is_exchange:
            for phase in (Phase.FORWARD, Phase.BACKWARD)[: 1 + change.has_gradient]:
                yield _call(strategy, bundle, change, phase, op)


def _call(strategy: Strategy, bundle: Bundle, change: _Change, phase: Phase, op: Op) -> Movement:
    return Movement(
        phase=phase,
        purpose=Purpose.ACTIVATIONS,
        op=op,
        ranks=strategy.ranks,
        elements=_padded(change, op, len(strategy.ranks)),
        element_bytes=change.element_bytes,
        times=number(bundle, "forwards", 1),
        unit=bundle.name,
    )


def _again(strategy: Strategy, bundle: Bundle) -> Iterator[Movement]:
    """The repeated calls of a recomputation of the module's forward."""
    recomputed = number(bundle, "recomputed")
    for call in (*_calls(strategy, bundle), *_exchanges(strategy, bundle)):
        if recomputed and call.phase is Phase.FORWARD:
            yield replace(call, phase=Phase.BACKWARD, times=recomputed)


def _changes(bundle: Bundle) -> Iterator[_Change]:
    """The effect of a style on a module's input and output; "" if there is none."""
    inside, given = shape_of(bundle, "input_shape"), text(bundle, "input_layout")
    if inside and given:
        yield _Change(
            before=given,
            after=text(bundle, "wanted_layout") or given,
            shape=inside,
            element_bytes=element_bytes_of(text(bundle, "input_dtype") or "float32"),
            # outputs passed on as plain tensors get whole gradients
            sums=text(bundle, "style") in _SUMS_INPUTS
            and not flag(bundle, "wanted_is_tensor", default=False),
            is_tensor=flag(bundle, "input_is_tensor"),
            has_gradient=flag(bundle, "input_has_gradient"),
        )
    outside, made = shape_of(bundle, "output_shape"), text(bundle, "made_layout")
    if outside and made:
        yield _Change(
            before=made,
            after=text(bundle, "output_layout") or made,
            shape=outside,
            element_bytes=element_bytes_of(text(bundle, "dtype") or "float32"),
            sums=False,
            is_tensor=False,
            has_gradient=True,
        )


def _ops(change: _Change) -> Iterator[tuple[Phase, Op]]:
    """The collectives of a redistribution: in forward, and for the gradient in backward."""
    before, after, goes_back = change.before, change.after, change.has_gradient
    if before == after:
        if before == REPLICATE and change.sums and change.is_tensor and goes_back:
            yield Phase.BACKWARD, Op.ALL_REDUCE
    elif before == PARTIAL and after == REPLICATE:
        yield Phase.FORWARD, Op.ALL_REDUCE
    elif before == PARTIAL:
        yield Phase.FORWARD, Op.REDUCE_SCATTER
        yield Phase.BACKWARD, Op.ALL_GATHER
    elif after == REPLICATE:
        yield Phase.FORWARD, Op.ALL_GATHER
        if change.sums and goes_back:
            yield Phase.BACKWARD, Op.REDUCE_SCATTER
    elif before == REPLICATE and goes_back:
        yield Phase.BACKWARD, Op.ALL_GATHER


def _padded(change: _Change, op: Op, num_ranks: int) -> int:
    """Elements of the whole buffer: a divided dimension is padded to a multiple of the ranks."""
    divided = next((one for one in (change.after, change.before) if one.startswith("shard")), "")
    if op is Op.ALL_REDUCE or not divided:
        return _elements(change.shape)
    dim = int(divided.split()[-1])
    size = change.shape[dim] if -len(change.shape) <= dim < len(change.shape) else 1
    padded = -(-size // num_ranks) * num_ranks
    return _elements(change.shape) // size * padded if size else 0
