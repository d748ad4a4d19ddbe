"""What the model states of a program that zerosim's engine does not run occupy on a rank.

Of each system the law, role by role, and exactly what it means for these parameters: computed from
the strategy, which says how each parameter is divided and in which dtype it is kept. A gradient has
its parameter's dtype, and PyTorch's optimizers keep their states in it too, or in fp32 beside an
fp32 master copy. Which states an optimizer keeps no strategy tells: that is given.

    DDP, ZeRO stage 0            everything whole
    ZeroRedundancyOptimizer      parameters whole; states of a parameter with its owner
    FSDP1                        flat parameters in equal rows, padded
    FSDP2, HSDP                  rows of each parameter among the ranks that it is divided among
    tensor parallel              parts of matrices, and all that is not divided
    pipeline parallel            the parameters of a rank's own stages
    DeepSpeed, stages 1 and 2    optimizer's states in equal rows of flat groups, padded
    DeepSpeed, stage 3           equal parts of each parameter, padded, and the states of them

Sources: S. Rajbhandari et al., "ZeRO" (arXiv 1910.02054), sections 3.1 and 5; Y. Zhao et al.,
"PyTorch FSDP" (arXiv 2304.11277), sections 3.2 and 4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from zerosim.base.errors import ConfigError
from zerosim.base.language import term
from zerosim.base.quantities import format_exact
from zerosim.schema.memory import MOMENTS, OPTIMIZER_STATES, Role
from zerosim.schema.strategies import Bundle, Parameter, Strategy, System
from zerosim.theory.causes import Cause
from zerosim.theory.memory import FP32_BYTES, Kept, ModelStates
from zerosim.theory.programs.options import (
    flag,
    number,
    number_map,
    numbers,
    parameters_of,
    text,
    texts,
)
from zerosim.theory.programs.plan import element_bytes_of
from zerosim.theory.programs.tensor_parallel import local_parameters
from zerosim.theory.wording import said

_OTHER_PARTS = (
    "secondary_ranks",
    "zero_quantized_weights",
    "zero_quantized_nontrainable_weights",
    "mics_shard_size",
)
"""Options of DeepSpeed's stage 3 that make it keep something else."""
_ALIGNMENT_BYTES = 16
"""FSDP1 begins each of several original parameters in a flat one there, in what it gathers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Divided:
    """Parameters that are kept alike: one, or those of a flat parameter.

    Attributes:
        elements, trainable: of all ranks; with and without those that are frozen.
        size: bytes of an element.
        kept: elements of the storages of this rank.
        kept_gradients, kept_states: likewise, if that is not as many, or none where all is frozen.
        among: how many ranks they are divided among.
        states_among: likewise the optimizer's states, if these are divided otherwise.
        cause: why what is kept is not an equal share; states are never padded.
    """

    elements: int
    trainable: int
    size: int
    kept: int
    kept_gradients: int | None = None
    kept_states: int | None = None
    among: int = 1
    states_among: int | None = None
    cause: Cause = Cause.UNEQUAL_PARTS

    def of_role(self, role: Role, *, has_master: bool) -> Kept:
        """What it means for one role."""
        is_state = role in OPTIMIZER_STATES
        among, kept = self.among, self.kept
        if role is not Role.PARAMETERS:
            own = self.kept_states if is_state else self.kept_gradients
            kept = (self.kept if self.trainable else 0) if own is None else own
        if is_state and self.states_among is not None:
            among = self.states_among
        is_padded = self.cause is Cause.PADDING
        return Kept(
            role=role,
            elements=self.elements,
            frozen=0 if role is Role.PARAMETERS else self.elements - self.trainable,
            element_bytes=FP32_BYTES if is_state and has_master else self.size,
            among=among if among > 1 else 0,
            kept=kept,
            cause=Cause.UNEQUAL_PARTS if is_state and is_padded else self.cause,
        )


def program_states(
    strategies: Mapping[int, Sequence[Strategy]],
    rank: int,
    optimizer: Collection[Role],
    first_update: int = 0,
) -> ModelStates | None:
    """What a rank keeps; None where no law is known.

    Args:
        strategies: those in force, by rank.
        optimizer: which of `OPTIMIZER_STATES` there are.
        first_update: the iteration that makes the first one, and with it momentum and variance; a
            master copy comes with it, too.
    """
    own = {one.system: one for one in strategies[rank]}
    if len(own) != len(strategies[rank]):
        return None  # several models, or several optimizers: whose states are whose is not told
    has_master = Role.MASTER in optimizer
    found = _divided(own, strategies, rank, has_master=has_master)
    if found is None:
        return None
    name, parts, unknown = found
    if not any(part.elements for part in parts):
        return None
    roles = [role for role in OPTIMIZER_STATES if role in optimizer]
    if System.DDP in own and flag(own[System.DDP], "finds_unused", default=False):
        roles, unknown = [], said("states.only_loss")
    among = max(max(part.among, part.states_among or 1) for part in parts)
    kept = [
        part.of_role(role, has_master=has_master)
        for role in (Role.PARAMETERS, *(() if unknown else (Role.GRADIENTS,)), *roles)
        for part in parts
    ]
    return ModelStates(
        name=name,
        num_ranks=among if among > 1 else max(len(one.ranks) for one in strategies[rank]),
        parts=tuple(
            replace(one, since=first_update + 1) if one.role in MOMENTS else one for one in kept
        ),
        words=_words(parts),
        unknown=unknown,
        unsettled=first_update if has_master and roles else None,
    )


def _words(parts: Sequence[_Divided]) -> dict[Cause, str]:
    num_frozen = sum(part.elements - part.trainable for part in parts)
    num_whole = sum(part.elements for part in parts if part.cause is Cause.REPLICATED)
    return {
        Cause.FROZEN_PARAMETERS: said("states.frozen", count=format_exact(num_frozen)),
        Cause.PADDING: said("states.same_size"),
        Cause.REPLICATED: said("states.whole", count=format_exact(num_whole)),
        Cause.UNEQUAL_PARTS: said("states.unequal"),
    }


_Found = tuple[str, list[_Divided], str]


def _divided(
    own: Mapping[System, Strategy],
    strategies: Mapping[int, Sequence[Strategy]],
    rank: int,
    *,
    has_master: bool,
) -> _Found | None:
    systems = frozenset(own)
    if systems == {System.DEEPSPEED}:
        return _of_deepspeed(own[System.DEEPSPEED], has_master=has_master)
    if systems == {System.TENSOR_PARALLEL}:
        strategy = own[System.TENSOR_PARALLEL]
        known = "undivided" in strategy.options  # older traces do not tell
        return (term("tensor parallel"), list(_of_layers(strategy)), "") if known else None
    found: list[_Divided] = []
    if systems == {System.DDP}:
        name = said("states.ddp")
        found = [_whole(one) for one in parameters_of(own[System.DDP])]
    elif systems == {System.DDP, System.ZERO_REDUNDANCY}:
        name, found = "ZeroRedundancyOptimizer", list(_of_owners(own, rank))
    elif systems == {System.FSDP2}:
        strategy = own[System.FSDP2]
        name, found = _name_of_shards(strategy), list(_rows(strategy, rank))
        among = max((part.among for part in found), default=1)
        found += [
            replace(_whole(one), among=among, cause=Cause.REPLICATED)
            for one in _undivided(strategy)
        ]
    elif systems == {System.FSDP1}:
        name = _name_of_shards(own[System.FSDP1])
        found = [_flat(bundle, rank) for bundle in own[System.FSDP1].bundles]
    elif systems == {System.PIPELINE}:
        name, found = term("pipeline parallel"), list(_of_stages(strategies, rank))
    return (name, found, "") if found else None


def _whole(parameter: Parameter) -> _Divided:
    size = parameter.elements
    return _Divided(
        elements=size,
        trainable=size if parameter.trainable else 0,
        size=element_bytes_of(parameter.dtype),
        kept=size,
    )


def _of_owners(own: Mapping[System, Strategy], rank: int) -> Iterator[_Divided]:
    """The states of each parameter are with its owner."""
    redundancy = own[System.ZERO_REDUNDANCY]
    owners = {
        parameter.name: number(bundle, "owner")
        for bundle in redundancy.bundles
        for parameter in bundle.parameters
    }
    for parameter in parameters_of(own[System.DDP]):
        has = owners.get(parameter.name) == rank
        yield replace(
            _whole(parameter),
            states_among=len(redundancy.ranks),
            kept_states=None if has else 0,
        )


def _name_of_shards(strategy: Strategy) -> str:
    is_hybrid = any(
        len(numbers(bundle, "replicate_ranks")) > 1 and len(numbers(bundle, "shard_ranks")) > 1
        for bundle in strategy.bundles
    )
    if flag(strategy, "replicates", default=False):
        return said("states.replicate", system=strategy.system)
    return f"{strategy.system} (HSDP)" if is_hybrid else str(strategy.system)


def _rows(strategy: Strategy, rank: int) -> Iterator[_Divided]:
    """FSDP2: storages of parameters and gradients are padded, states have the rows there are."""
    for bundle in strategy.bundles:
        ranks = numbers(bundle, "shard_ranks") or [rank]
        place = ranks.index(rank) if rank in ranks else 0
        dims = numbers(bundle, "shard_dims")
        shapes = [one.shape for one in bundle.parameters]
        if len(dims) != len(shapes) or not all(
            -len(shape) <= dim < max(1, len(shape)) for shape, dim in zip(shapes, dims, strict=True)
        ):
            raise ConfigError(
                f"option 'shard_dims' of {bundle.name!r} is {dims}: expected a dim of each of its "
                f"{len(shapes)} parameters"
            )
        for parameter, dim in zip(bundle.parameters, dims, strict=True):
            length = parameter.shape[dim] if parameter.shape else 1
            row = parameter.elements // length if length else 0
            chunk = -(-length // len(ranks))
            own = max(0, min(chunk, length - place * chunk))
            yield replace(
                _whole(parameter),
                kept=chunk * row,
                kept_states=own * row if parameter.trainable else 0,
                among=len(ranks),
                cause=Cause.PADDING,
            )


def _flat(bundle: Bundle, rank: int) -> _Divided:
    """FSDP1: a row of the flat parameter; original parameters have states of what is in it."""
    ranks = numbers(bundle, "shard_ranks") or [rank]
    size = element_bytes_of(bundle.parameters[0].dtype) if bundle.parameters else FP32_BYTES
    row = number(bundle, "padded_elements") // len(ranks)
    elements = sum(one.elements for one in bundle.parameters)
    trainable = sum(one.elements for one in bundle.parameters if one.trainable)
    states = row
    if flag(bundle, "use_orig_params", default=False):
        begin = row * (ranks.index(rank) if rank in ranks else 0)
        states, place = 0, 0
        wide = element_bytes_of(text(bundle, "parameter_dtype") or bundle.parameters[0].dtype)
        for one in bundle.parameters:
            end = place + one.elements
            if one.trainable:
                states += max(0, min(end, begin + row) - max(place, begin))
            aligned = max(1, _ALIGNMENT_BYTES // wide)
            place = -(-end // aligned) * aligned
    return _Divided(
        elements=elements,
        trainable=trainable,
        size=size,
        kept=row,
        kept_states=states if trainable else 0,
        among=len(ranks),
        cause=Cause.PADDING,
    )


def _of_layers(strategy: Strategy) -> Iterator[_Divided]:
    """Tensor parallel: the part of each matrix, and all of what is not divided."""
    among = len(strategy.ranks)
    whole = [*parameters_of(strategy), *_undivided(strategy)]
    gradients = set(texts(strategy, "whole_gradients"))
    for parameter, local in zip(whole, local_parameters(whole, [strategy]), strict=True):
        part, has_whole_gradient = _whole(parameter), parameter.name in gradients
        is_replicated = local.elements == parameter.elements or has_whole_gradient
        yield replace(
            part,
            kept=local.elements,
            kept_gradients=part.trainable if has_whole_gradient else None,
            among=among,
            cause=Cause.REPLICATED if is_replicated else Cause.UNEQUAL_PARTS,
        )


def _undivided(strategy: Strategy) -> Iterator[Parameter]:
    """What a model has beside that which is divided: as many elements of each dtype."""
    for option, trains in (("undivided", True), ("undivided_frozen", False)):
        for dtype, elements in number_map(strategy, option).items():
            yield Parameter(name="", shape=(elements,), dtype=dtype, trainable=trains)


def _of_stages(strategies: Mapping[int, Sequence[Strategy]], rank: int) -> Iterator[_Divided]:
    """Every parameter of every stage; this rank keeps those of its own."""
    mine = {bundle.name for one in strategies[rank] for bundle in one.bundles}
    seen: dict[str, Bundle] = {}
    ranks = {one.ranks for of_rank in strategies.values() for one in of_rank}
    for of_rank in strategies.values():
        for one in of_rank:
            seen |= {bundle.name: bundle for bundle in one.bundles}
    for name, bundle in seen.items():
        for parameter in bundle.parameters:
            whole = _whole(parameter)
            kept = whole.kept if name in mine else 0
            yield replace(whole, kept=kept, among=max(len(one) for one in ranks))


def _of_deepspeed(strategy: Strategy, *, has_master: bool) -> _Found | None:
    stage, count = number(strategy, "stage"), len(strategy.ranks)
    offloads = any(
        strategy.options.get(name, "none") != "none"
        for name in ("offload_optimizer", "offload_param")
    )
    if offloads or (stage == 0 and has_master) or (stage == 3 and not _is_plain(strategy)):
        return None
    if stage == 0:
        return said("states.stage", stage=0), [_whole(one) for one in parameters_of(strategy)], ""
    unknown = said("states.own_buffers")
    if stage == 3:
        count = number(strategy, "partition_count")
        parameters = {one.name: one for one in parameters_of(strategy)}  # those that are tied once
        parts = [_part(one, count) for one in parameters.values()]
        return said("states.stage", stage=3), parts, unknown
    parts = []
    for bundle in strategy.bundles:
        elements = sum(one.elements for one in bundle.parameters)
        parts.append(
            _Divided(
                elements=elements,
                trainable=elements,
                size=element_bytes_of(bundle.parameters[0].dtype),
                kept=number(bundle, "padded_elements"),
                kept_states=number(bundle, "padded_elements") // count,
                states_among=count,
                cause=Cause.PADDING,
            )
        )
    return said("states.stage", stage=stage), parts, unknown


def _is_plain(strategy: Strategy) -> bool:
    """Whether stage 3 keeps its parts as they are, and no more beside them."""
    known = number(strategy, "partition_count") > 0  # older traces do not tell, nor what is kept
    return known and not any(strategy.options.get(name) for name in _OTHER_PARTS)


def _part(parameter: Parameter, count: int) -> _Divided:
    """DeepSpeed's stage 3: equal parts of each parameter, padded, and the states of a part."""
    kept = -(-parameter.elements // count)
    return replace(_whole(parameter), kept=kept, among=count, cause=Cause.PADDING)
