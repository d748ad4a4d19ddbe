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
"PyTorch FSDP" (arXiv 2304.11277), sections 3.2 and 4. May import the standard library and layer L0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from zerosim.errors import ConfigError
from zerosim.memory import Role
from zerosim.quantities import PSI, format_decimal, format_exact
from zerosim.strategies import Bundle, Parameter, Strategy, System
from zerosim.theory.causes import Cause, Deviation
from zerosim.theory.placement import FP32_BYTES, RoleLaw
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

OPTIMIZER_ROLES = (Role.MASTER, Role.MOMENTUM, Role.VARIANCE)
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
        among: how many ranks parameters and gradients are divided among.
        states_among: likewise the optimizer's states.
        kept, kept_gradients, kept_states: elements of storages of this rank.
        is_padded: parts are equal, with zeros at the end.
        is_replicated: every rank keeps all of it, though the law divides it.
    """

    elements: int
    trainable: int
    size: int
    among: int
    states_among: int
    kept: int
    kept_gradients: int
    kept_states: int
    is_padded: bool = False
    is_replicated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptStates:
    """The model states of one rank.

    Attributes:
        name: of the system.
        num_parameters: Psi.
        among: N of the law: how many ranks the states are divided among; of states that are whole
            on every rank, those ranks.
        laws: role by role.
        bytes: what they mean on this rank, exactly.
        deviations: from all laws together to all bytes together.
        unknown: roles that this system keeps where no role can be told; "" if there are none.
    """

    name: str
    num_parameters: int
    among: int
    laws: tuple[RoleLaw, ...]
    bytes: Mapping[Role, int]
    deviations: tuple[Deviation, ...]
    unknown: str = ""

    @property
    def words(self) -> str:
        """All laws together: "16Ψ/N", "8Ψ + 8Ψ/N"."""
        whole = sum((law.bytes for law in self.laws if "/N" not in law.words), Fraction())
        parts = sum((law.bytes * self.among for law in self.laws if "/N" in law.words), Fraction())
        found = [
            f"{_in_psi(size, self.num_parameters)}{end}"
            for size, end in ((whole, ""), (parts, "/N"))
            if size
        ]
        return " + ".join(found) or "0"


def kept_states(
    strategies: Mapping[int, Sequence[Strategy]], rank: int, optimizer: Collection[Role]
) -> KeptStates | None:
    """What a rank keeps once it has updated; None where no law is known.

    Args:
        strategies: those in force, by rank.
        optimizer: which of `OPTIMIZER_ROLES` there are.
    """
    own = {one.system: one for one in strategies[rank]}
    if len(own) != len(strategies[rank]):
        return None  # several models, or several optimizers: whose states are whose is not told
    found = _divided(own, strategies, rank, frozenset(optimizer))
    if found is None:
        return None
    name, parts, unknown = found
    whole = sum(part.elements for part in parts)
    among = max(max(part.among, part.states_among) for part in parts) if parts else 1
    roles = [role for role in OPTIMIZER_ROLES if role in optimizer]
    if not whole:
        return None
    laws, sizes = [], {}
    if System.DDP in own and flag(own[System.DDP], "finds_unused", default=False):
        roles, unknown = [], "only the loss decides which parameters have gradients"
    for role in (Role.PARAMETERS, *(() if unknown else (Role.GRADIENTS,)), *roles):
        law, size = _of_role(role, parts, has_master=Role.MASTER in optimizer)
        laws.append(law)
        sizes[role] = size
    return KeptStates(
        name=name,
        num_parameters=whole,
        among=among if among > 1 else max(len(one.ranks) for one in strategies[rank]),
        laws=tuple(laws),
        bytes=sizes,
        deviations=tuple(_deviations(parts, laws, sizes, has_master=Role.MASTER in optimizer)),
        unknown=unknown,
    )


_Found = tuple[str, list[_Divided], str]


def _divided(
    own: Mapping[System, Strategy],
    strategies: Mapping[int, Sequence[Strategy]],
    rank: int,
    optimizer: Collection[Role],
) -> _Found | None:
    systems = frozenset(own)
    if systems == {System.DEEPSPEED}:
        return _of_deepspeed(own[System.DEEPSPEED], has_master=Role.MASTER in optimizer)
    if systems == {System.TENSOR_PARALLEL}:
        strategy = own[System.TENSOR_PARALLEL]
        known = "undivided" in strategy.options  # older traces do not tell
        return ("tensor parallel", list(_of_layers(strategy)), "") if known else None
    found: list[_Divided] = []
    if systems == {System.DDP}:
        name, found = "data parallel (DDP)", [_whole(one) for one in parameters_of(own[System.DDP])]
    elif systems == {System.DDP, System.ZERO_REDUNDANCY}:
        name, found = "ZeroRedundancyOptimizer", list(_of_owners(own, rank))
    elif systems == {System.FSDP2}:
        strategy = own[System.FSDP2]
        name, found = _name_of_shards(strategy), list(_rows(strategy, rank))
        among = max((part.among for part in found), default=1)
        found += [
            replace(_whole(one), among=among, states_among=among, is_replicated=among > 1)
            for one in _undivided(strategy)
        ]
    elif systems == {System.FSDP1}:
        name = _name_of_shards(own[System.FSDP1])
        found = [_flat(bundle, rank) for bundle in own[System.FSDP1].bundles]
    elif systems == {System.PIPELINE}:
        name, found = "pipeline parallel", list(_of_stages(strategies, rank))
    return (name, found, "") if found else None


def _whole(parameter: Parameter) -> _Divided:
    size = parameter.elements
    own = size if parameter.trainable else 0
    return _Divided(
        elements=size,
        trainable=own,
        size=element_bytes_of(parameter.dtype),
        among=1,
        states_among=1,
        kept=size,
        kept_gradients=own,
        kept_states=own,
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
        whole = _whole(parameter)
        has = owners.get(parameter.name) == rank
        yield _Divided(
            elements=whole.elements,
            trainable=whole.trainable,
            size=whole.size,
            among=1,
            states_among=len(redundancy.ranks),
            kept=whole.kept,
            kept_gradients=whole.kept_gradients,
            kept_states=whole.kept_states if has else 0,
        )


def _name_of_shards(strategy: Strategy) -> str:
    is_hybrid = any(
        len(numbers(bundle, "replicate_ranks")) > 1 and len(numbers(bundle, "shard_ranks")) > 1
        for bundle in strategy.bundles
    )
    if flag(strategy, "replicates", default=False):
        return f"{strategy.system}'s replicate"
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
            size = parameter.elements
            length = parameter.shape[dim] if parameter.shape else 1
            row = size // length if length else 0
            chunk = -(-length // len(ranks))
            own = max(0, min(chunk, length - place * chunk))
            trains = parameter.trainable
            yield _Divided(
                elements=size,
                trainable=size if trains else 0,
                size=element_bytes_of(parameter.dtype),
                among=len(ranks),
                states_among=len(ranks),
                kept=chunk * row,
                kept_gradients=chunk * row if trains else 0,
                kept_states=own * row if trains else 0,
                is_padded=True,
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
        among=len(ranks),
        states_among=len(ranks),
        kept=row,
        kept_gradients=row if trainable else 0,
        kept_states=states if trainable else 0,
        is_padded=True,
    )


def _of_layers(strategy: Strategy) -> Iterator[_Divided]:
    """Tensor parallel: the part of each matrix, and all of what is not divided."""
    among = len(strategy.ranks)
    whole = [*parameters_of(strategy), *_undivided(strategy)]
    gradients = set(texts(strategy, "whole_gradients"))
    for parameter, local in zip(whole, local_parameters(whole, [strategy]), strict=True):
        kept, has_whole_gradient = local.elements, parameter.name in gradients
        yield _Divided(
            elements=parameter.elements,
            trainable=parameter.elements if parameter.trainable else 0,
            size=element_bytes_of(parameter.dtype),
            among=among,
            states_among=among,
            kept=kept,
            kept_gradients=(parameter.elements if has_whole_gradient else kept)
            if parameter.trainable
            else 0,
            kept_states=kept if parameter.trainable else 0,
            is_replicated=(kept == parameter.elements or has_whole_gradient) and among > 1,
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
            whole, has = _whole(parameter), name in mine
            among = max(len(one) for one in ranks)
            yield _Divided(
                elements=whole.elements,
                trainable=whole.trainable,
                size=whole.size,
                among=among,
                states_among=among,
                kept=whole.kept if has else 0,
                kept_gradients=whole.kept_gradients if has else 0,
                kept_states=whole.kept_states if has else 0,
            )


def _of_deepspeed(strategy: Strategy, *, has_master: bool) -> _Found | None:
    stage, count = number(strategy, "stage"), len(strategy.ranks)
    offloads = any(
        strategy.options.get(name, "none") != "none"
        for name in ("offload_optimizer", "offload_param")
    )
    if offloads or (stage == 0 and has_master) or (stage == 3 and not _is_plain(strategy)):
        return None
    if stage == 0:
        return "DeepSpeed's stage 0", [_whole(one) for one in parameters_of(strategy)], ""
    unknown = "gradients are kept in DeepSpeed's own buffers, which no role tells apart"
    if stage == 3:
        count = number(strategy, "partition_count")
        parameters = {one.name: one for one in parameters_of(strategy)}  # those that are tied once
        return "DeepSpeed's stage 3", [_part(one, count) for one in parameters.values()], unknown
    parts = []
    for bundle in strategy.bundles:
        elements = sum(one.elements for one in bundle.parameters)
        parts.append(
            _Divided(
                elements=elements,
                trainable=elements,
                size=element_bytes_of(bundle.parameters[0].dtype),
                among=1,
                states_among=count,
                kept=number(bundle, "padded_elements"),
                kept_gradients=0,
                kept_states=number(bundle, "padded_elements") // count,
                is_padded=True,
            )
        )
    return f"DeepSpeed's stage {stage}", parts, unknown


def _is_plain(strategy: Strategy) -> bool:
    """Whether stage 3 keeps its parts as they are, and no more beside them."""
    known = number(strategy, "partition_count") > 0  # older traces do not tell, nor what is kept
    return known and not any(strategy.options.get(name) for name in _OTHER_PARTS)


def _part(parameter: Parameter, count: int) -> _Divided:
    """DeepSpeed's stage 3: equal parts of each parameter, padded, and the states of a part."""
    size = parameter.elements
    kept = -(-size // count)
    return _Divided(
        elements=size,
        trainable=size if parameter.trainable else 0,
        size=element_bytes_of(parameter.dtype),
        among=count,
        states_among=count,
        kept=kept,
        kept_gradients=0,
        kept_states=kept if parameter.trainable else 0,
        is_padded=True,
    )


# ------------------------------------------------------------------------------- the laws


def _of_role(role: Role, parts: Sequence[_Divided], *, has_master: bool) -> tuple[RoleLaw, int]:
    """The law of a role, and what it means on this rank."""
    total = law_bytes = Fraction()
    kept = 0
    is_divided = False
    for part in parts:
        size = _size(role, part, has_master=has_master)
        among = part.states_among if role in OPTIMIZER_ROLES else part.among
        total += part.elements * size
        law_bytes += Fraction(part.elements * size, among)
        is_divided |= among > 1
        kept += _kept(role, part) * size
    whole = sum(part.elements for part in parts)
    words = _in_psi(total, whole) + ("/N" if is_divided else "")
    return RoleLaw(role, words, law_bytes), kept


def _size(role: Role, part: _Divided, *, has_master: bool) -> int:
    return FP32_BYTES if role in OPTIMIZER_ROLES and has_master else part.size


def _kept(role: Role, part: _Divided) -> int:
    if role is Role.PARAMETERS:
        return part.kept
    return part.kept_gradients if role is Role.GRADIENTS else part.kept_states


def _in_psi(size: Fraction, num_parameters: int) -> str:
    amount = size / num_parameters
    number_ = format_exact(amount) if amount.denominator == 1 else format_decimal(amount, 2)
    return f"{number_}{PSI}"


def _deviations(
    parts: Sequence[_Divided],
    laws: Sequence[RoleLaw],
    sizes: Mapping[Role, int],
    *,
    has_master: bool,
) -> Iterator[Deviation]:
    """Why the bytes of a rank are not those of the law; their sum is exactly the difference."""
    frozen = padding = replicated = Fraction()
    num_frozen = sum(part.elements - part.trainable for part in parts)
    num_whole = sum(part.elements for part in parts if part.is_replicated)
    for law in laws:
        for part in parts:
            size = _size(law.role, part, has_master=has_master)
            among = part.states_among if law.role in OPTIMIZER_ROLES else part.among
            counted = part.elements if law.role is Role.PARAMETERS else part.trainable
            frozen -= Fraction((part.elements - counted) * size, among)
            if law.role not in OPTIMIZER_ROLES and part.is_padded:
                padding += (_kept(law.role, part) - Fraction(counted, among)) * size
            elif part.is_replicated:
                replicated += (_kept(law.role, part) - Fraction(counted, among)) * size
    rest = sum(sizes.values()) - sum((law.bytes for law in laws), Fraction())
    rest -= frozen + padding + replicated
    words = {
        Cause.FROZEN_PARAMETERS: f"{format_exact(num_frozen)} frozen parameters have no gradients "
        "and no optimizer states",
        Cause.PADDING: "zeros pad what is divided to the same size on all ranks",
        Cause.REPLICATED: f"{format_exact(num_whole)} parameters, or their gradients, are whole",
        Cause.UNEQUAL_PARTS: "what this rank keeps is more or less than an equal share",
    }
    for cause, gap in zip(words, (frozen, padding, replicated, rest), strict=True):
        if gap:
            yield Deviation(cause, gap, words[cause])
