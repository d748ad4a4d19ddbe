"""The state of DeepSpeed: its stage, and the options that affect its traffic.

It is recorded for each computing model that is an engine of `deepspeed.initialize`. DeepSpeed's
traffic
depends on its configuration, on its padding, and in stage 3 on the order of modules that it records
in its first micro-step and repeats from then on; docs/deepspeed.md explains it. Options of its
`Strategy`:

    label                in front of its model's units
    stage                0 to 3
    optimizer            the class that carries the stage out ("DeepSpeedZeroOptimizer")
    dtype                of the parameters that compute
    communication_data_type  of gradients on the way
    gradient_accumulation_steps, gradient_clipping
    reduces_norm, reduces_overflow   whether a step agrees on the norm, on an overflow
    offload_optimizer, offload_param "none", "cpu" or "nvme"
    stages 1 and 2       reduce_bucket_size, use_multi_rank_bucket_allreduce, reduce_scatter,
                         contiguous_gradients, overlap_comm; a bundle for each parameter group,
                         "group 0" (padded_elements: of its flat buffer)
    stage 3              reduce_bucket_size, reduce_scatter, overlap_comm, prefetch_bucket_size,
                         max_live_parameters, max_reuse_distance, allgather_sequential,
                         use_all_reduce_for_fetch_params, num_sub_groups;
                         partition_count: among how many ranks parameters are divided;
                         zero_quantized_weights, zero_quantized_nontrainable_weights,
                         zero_quantized_gradients, mics_shard_size;
                         secondary_ranks: ranks that share a secondary partition (hpZ), [] if there
                             is none;
                         trace: "record" for a micro-step that records, "complete" for one that
                         repeats; module_order: what was recorded, forward and backward, [] if
                         nothing is; recomputed: the places in it of forwards that are computed
                         again in backward, recomputed_within: for each of them the modules whose
                         backward is under way, cut_short: the places of those that end early;
                         met: the external parameters that were found while it was recorded, each
                         as module that reads it and name, met_at: the place in the order at which;
                         partitioned: names of persistent parameters that are not whole when the
                         micro-step begins; a bundle for each module that has parameters, in the
                         model's order, "root" for the outermost (persistent: the names of those
                         that are gathered after a step and kept; direct: of a leaf module, the
                         names of its own parameters, beside those of the modules within it;
                         external: of those that it reads and another module owns; returned: of
                         those that a module hands out, which stay until an update). A parameter of
                         several modules has one name in all of them
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator
from types import FrameType
from typing import Any

from torch import nn

from zerosim.schema.events import Phase, Purpose
from zerosim.schema.memory import Role
from zerosim.schema.strategies import Bundle, Strategy
from zerosim.systems.deepspeed import NAME
from zerosim.systems.deepspeed.observed_engine import (
    device_of,
    listed,
    own_gradients,
    own_parameters,
    parameter_groups,
    reduces_norm,
    reduces_overflow,
    secondary_ranks,
    whole_parameters,
)
from zerosim.systems.deepspeed.observed_order import RepeatedOrders
from zerosim.trace.autolabel.observer import Observer, Shard, dtype_name, ranks_of
from zerosim.trace.autolabel.rules import Rule
from zerosim.trace.autolabel.units import Units
from zerosim.trace.looking import Content

_MODULE = "deepspeed.runtime.engine"
_ENGINE = "/deepspeed/runtime/engine.py"
_UTILS = "/deepspeed/runtime/utils.py"
_ZERO_UTILS = "/deepspeed/runtime/zero/utils.py"
_STAGES_1_2 = "/deepspeed/runtime/zero/stage_1_and_2.py"
_STAGE_3 = "/deepspeed/runtime/zero/stage3.py"
_COORDINATOR = "/deepspeed/runtime/zero/partitioned_param_coordinator.py"
_PARAMETERS = "/deepspeed/runtime/zero/partition_parameters.py"
_OFFLOAD = "/deepspeed/runtime/zero/parameter_offload.py"

_PREFETCH = "prefetch"
_ASKED_FOR = "GatheredParameters"
_SHARED_OPTIONS = ("reduce_bucket_size", "reduce_scatter", "contiguous_gradients", "overlap_comm")
_STAGE_1_2_OPTIONS = (*_SHARED_OPTIONS, "use_multi_rank_bucket_allreduce")
_STAGE_3_OPTIONS = (
    *_SHARED_OPTIONS,
    "prefetch_bucket_size",
    "max_live_parameters",
    "max_reuse_distance",
    "allgather_sequential",
    "use_all_reduce_for_fetch_params",
    "zero_quantized_weights",
    "zero_quantized_nontrainable_weights",
    "zero_quantized_gradients",
    "mics_shard_size",
)


class DeepSpeed(Observer):
    """Every engine of `deepspeed.initialize` that computes."""

    def __init__(self, units: Units) -> None:
        self._units = units
        self._engines: list[Any] = []
        self._modules: dict[nn.Module, str] = {}
        self._buckets: dict[int, str] = {}
        self._orders = RepeatedOrders(self._modules)
        self.rules = self._rules()

    def meet(self, thing: Any) -> None:
        """Determine whether a model is an engine."""
        kind = getattr(sys.modules.get(_MODULE), "DeepSpeedEngine", None)
        if kind is None or not isinstance(thing, kind):
            return
        self._engines.append(thing)
        for name, module in thing.module.named_modules():
            self._modules.setdefault(module, name or "root")

    def remove(self) -> None:
        """Stop observing."""
        self._orders.remove()

    def shards(self, module: nn.Module) -> Iterator[Shard]:
        """The shards of a module's parameters in stage 3; a shard has no gradient of its own."""
        for parameter in module.parameters(recurse=False):
            kept = getattr(parameter, "ds_tensor", None)
            if kept is not None:
                yield Shard(kept, parameter, is_parameter=False)

    def kept(self, *, wholly: bool) -> Iterator[Content]:
        """Memory of buckets in flight, gradients outside of `grad`, gathered parameters."""
        for engine in self._engines:
            for role, unit, tensor in own_gradients(engine.optimizer, wholly=wholly):
                yield Content(role, unit, tensor)
            for parameter in whole_parameters(engine) if wholly else ():
                yield Content(Role.GATHERED, "", parameter)

    def settings(self) -> Hashable:
        """Read the order that stage 3 recorded; all else is known when an engine is created."""
        return tuple(self._orders.of(engine) for engine in self._engines)

    def describe(self) -> Iterator[Strategy]:
        """The current strategy of each engine."""
        for engine in self._engines:
            stage = int(engine.zero_optimization_stage())
            zero = engine._config.zero_config
            options: dict[str, object] = {
                "label": self._units.label(engine),
                "stage": stage,
                "optimizer": type(engine.optimizer).__name__,
                "dtype": dtype_name(engine.get_data_types()[0]),
                "communication_data_type": dtype_name(engine.communication_data_type),
                "gradient_accumulation_steps": int(engine.gradient_accumulation_steps()),
                "gradient_clipping": float(engine.gradient_clipping()),
                "reduces_norm": reduces_norm(engine, stage),
                "reduces_overflow": reduces_overflow(engine, stage),
                "offload_optimizer": device_of(zero.offload_optimizer),
                "offload_param": device_of(zero.offload_param),
            }
            if stage in (1, 2):
                options |= {name: getattr(zero, name, None) for name in _STAGE_1_2_OPTIONS}
                bundles = tuple(parameter_groups(engine))
            elif stage == 3:
                options |= {name: getattr(zero, name, None) for name in _STAGE_3_OPTIONS}
                order = self._orders.of(engine)
                options |= {
                    "partition_count": int(getattr(engine.optimizer, "partition_count", 0)),
                    "num_sub_groups": len(getattr(engine.optimizer, "fp16_groups", ())),
                    "secondary_ranks": secondary_ranks(engine),
                    "trace": order.trace,
                    "module_order": list(order.module_order),
                    "recomputed": [one.place for one in order.recomputed],
                    "recomputed_within": [list(one.within) for one in order.recomputed],
                    "cut_short": list(order.cut_short),
                    "met": [[one.reader, one.name] for one in order.met],
                    "met_at": [one.place for one in order.met],
                    "partitioned": list(order.partitioned),
                }
                bundles = tuple(own_parameters(engine))
            else:
                named = engine.module.named_parameters()
                bundles = (Bundle(name="model", parameters=tuple(listed(named))),)
            yield Strategy(
                system=NAME,
                name=type(engine.module).__name__,
                ranks=ranks_of(engine.seq_data_parallel_group),
                bundles=bundles,
                options=options,
            )

    def _rules(self) -> tuple[Rule, ...]:
        gather, reduce = Purpose.GATHER_PARAMETERS, Purpose.REDUCE_GRADIENTS
        coordinator, stage_3 = "PartitionedParameterCoordinator", "DeepSpeedZeroOptimizer_Stage3"
        stages_1_2 = "DeepSpeedZeroOptimizer"
        norms = {
            _UTILS: ("clip_grad_norm_", "get_grad_norm", "get_global_norm_of_tensors"),
            _STAGES_1_2: (
                f"{stages_1_2}.get_grad_norm_direct",
                f"{stages_1_2}.complete_grad_norm_calculation_for_cpu_offload",
            ),
            _STAGE_3: (
                f"{stage_3}.get_grad_norm_direct",
                f"{stage_3}.complete_grad_norm_calculation_for_cpu_offload",
            ),
        }
        overflows = {
            _UTILS: ("CheckOverflow.check_using_norm", "CheckOverflow.has_overflow"),
            _STAGES_1_2: (f"{stages_1_2}.has_overflow",),
            _STAGE_3: (f"{stage_3}.has_overflow",),
        }
        update = Phase.UPDATE
        return (
            Rule(_ENGINE, "DeepSpeedEngine._broadcast_model", Purpose.BROADCAST_STATE),
            Rule(_PARAMETERS, "Init._zero_init_param", Purpose.BROADCAST_STATE),
            Rule(_ZERO_UTILS, "assert_ints_same_as_other_ranks", Purpose.METADATA),
            Rule(_COORDINATOR, f"{coordinator}._fetch_sub_module_impl", gather, self._fetched),
            Rule(_OFFLOAD, "ZeROOrderedDict.__getitem__", gather, self._reads),
            Rule(_STAGE_3, f"{stage_3}._post_step", gather, _persistent, update),
            Rule(_STAGE_3, f"{stage_3}.create_reduce_and_remove_grad_hooks", gather),
            Rule(_PARAMETERS, f"{_ASKED_FOR}.__enter__", gather, _asked_for),
            Rule(_PARAMETERS, f"{_ASKED_FOR}._exit", Purpose.BROADCAST_PARAMETERS, _asked_for),
            Rule(_PARAMETERS, "Init._all_gather", gather, is_weak=True),
            Rule(_UTILS, "all_gather_dp_groups", gather, phase=update, is_weak=True),
            Rule(_UTILS, "all_gather_into_tensor_dp_groups", gather, _gathered_group, update),
            Rule(_ENGINE, "DeepSpeedEngine._reduce_non_expert_gradients", reduce),
            Rule(_ENGINE, "DeepSpeedEngine._reduce_expert_gradients", reduce),
            Rule(_STAGES_1_2, f"{stages_1_2}.reduce_ipg_grads", reduce, self._bucket_of_ids),
            Rule(
                _STAGE_3,
                f"{stage_3}.__reduce_and_partition_ipg_grads",
                reduce,
                self._bucket_of_parameters,
            ),
            *(
                Rule(file, name, Purpose.GRADIENT_NORM, phase=update)
                for file, names in norms.items()
                for name in names
            ),
            *(
                Rule(file, name, Purpose.OVERFLOW_FLAG, phase=update)
                for file, names in overflows.items()
                for name in names
            ),
        )

    def _fetched(self, frame: FrameType) -> str:
        """The module whose parameters are fetched or prefetched."""
        here = frame.f_locals
        if here.get("params_to_prefetch"):
            return _PREFETCH
        return self._modules.get(here.get("current_submodule"), "")  # type: ignore[arg-type]

    def _reads(self, frame: FrameType) -> str:
        """The reader of an external parameter that was not known to be one."""
        stack = frame.f_globals.get("FWD_MODULE_STACK") or [None]
        reader = self._modules.get(stack[-1], "")
        for engine in self._engines:
            self._orders.reads(engine, reader, frame.f_locals["param"])
        return reader

    def _bucket_of_ids(self, frame: FrameType) -> str:
        """The bucket of stages 1 and 2, identified by its first parameter."""
        here = frame.f_locals
        bucket = here.get("bucket")
        return self._bucket(bucket.params[0][-1]) if bucket is not None and bucket.params else ""

    def _bucket_of_parameters(self, frame: FrameType) -> str:
        """The bucket of stage 3."""
        parameters = frame.f_locals.get("params_in_bucket")
        return self._bucket(id(parameters[0])) if parameters else ""

    def _bucket(self, first: int) -> str:
        """Buckets are rebuilt in each backward from the same parameters; numbered as first seen."""
        return self._buckets.setdefault(first, f"bucket {len(self._buckets)}")


def _persistent(_: FrameType) -> str:
    return "persistent"


def _asked_for(_: FrameType) -> str:
    return _ASKED_FOR


def _gathered_group(frame: FrameType) -> str:
    return f"group {frame.f_locals.get('group_id', 0)}"


def observer(units: Units) -> Observer:
    """The observer of this system."""
    return DeepSpeed(units)
