"""DeepSpeed: optimizer states in equal rows of flat groups (stages 1 and 2), or parts of all (3).

Each part of stage 3 is padded to the same size on all ranks.
"""

from __future__ import annotations

from dataclasses import replace

from zerosim.schema.strategies import Parameter, Strategy
from zerosim.systems.deepspeed import NAME
from zerosim.theory.causes import Cause
from zerosim.theory.programs.divided import Divided, whole
from zerosim.theory.programs.options import number, parameters_of
from zerosim.theory.programs.plan import element_bytes_of
from zerosim.theory.programs.states import AskedStates, KeptParts
from zerosim.theory.wording import said

BESIDE = (frozenset[str](),)
_OTHER_PARTS = (
    "secondary_ranks",
    "zero_quantized_weights",
    "zero_quantized_nontrainable_weights",
    "mics_shard_size",
)
"""Options of stage 3 that change its memory."""


def keeps(asked: AskedStates) -> KeptParts | None:
    """The memory of a rank; None if no law is known."""
    strategy, has_master = asked.own[NAME], asked.has_master
    stage, count = number(strategy, "stage"), len(strategy.ranks)
    offloads = any(
        strategy.options.get(name, "none") != "none"
        for name in ("offload_optimizer", "offload_param")
    )
    if offloads or (stage == 0 and has_master) or (stage == 3 and not _is_plain(strategy)):
        return None
    if stage == 0:
        parts = [whole(one) for one in parameters_of(strategy)]
        return KeptParts(name=said("states.stage", stage=0), parts=parts)
    unknown = said("states.own_buffers")
    if stage == 3:
        count = number(strategy, "partition_count")
        parameters = {one.name: one for one in parameters_of(strategy)}  # those that are tied once
        parts = [_part(one, count) for one in parameters.values()]
        return KeptParts(name=said("states.stage", stage=3), parts=parts, unknown=unknown)
    parts = []
    for bundle in strategy.bundles:
        elements = sum(one.elements for one in bundle.parameters)
        parts.append(
            Divided(
                elements=elements,
                trainable=elements,
                size=element_bytes_of(bundle.parameters[0].dtype),
                kept=number(bundle, "padded_elements"),
                kept_states=number(bundle, "padded_elements") // count,
                states_among=count,
                cause=Cause.PADDING,
            )
        )
    return KeptParts(name=said("states.stage", stage=stage), parts=parts, unknown=unknown)


def _is_plain(strategy: Strategy) -> bool:
    """Whether stage 3 keeps its parts as they are, and no further copies."""
    known = number(strategy, "partition_count") > 0  # not in older traces
    return known and not any(strategy.options.get(name) for name in _OTHER_PARTS)


def _part(parameter: Parameter, count: int) -> Divided:
    """Stage 3: equal parts of each parameter, padded, and the states of a part."""
    kept = -(-parameter.elements // count)
    return replace(whole(parameter), kept=kept, among=count, cause=Cause.PADDING)
