"""The strategy that a trace of DeepSpeed would record, from a configuration and a model's modules.

Modules are assumed to compute in order of registration, and backward to visit them in reverse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

from zerosim.base.config import DType
from zerosim.base.errors import ConfigError
from zerosim.schema.strategies import Bundle, Parameter, Strategy
from zerosim.systems.deepspeed import NAME
from zerosim.train.deepspeed.config.check import Given
from zerosim.train.deepspeed.config.settings import DTYPES, compute_dtype
from zerosim.train.deepspeed.config.table_zero import SECTION as ZERO

_TORCH_NAMES = {DType.FP32: "float32", DType.FP16: "float16", DType.BF16: "bfloat16"}
_STAGES_1_2 = ("reduce_scatter", "use_multi_rank_bucket_allreduce")
_STAGE_3 = (
    "reduce_scatter",
    "stage3_prefetch_bucket_size",
    "stage3_max_live_parameters",
    "stage3_max_reuse_distance",
    "stage3_allgather_sequential",
    "stage3_use_all_reduce_for_fetch_params",
    "zero_quantized_weights",
    "zero_quantized_gradients",
)
"""The keys that a strategy has under their own names, without "stage3_"."""
_ROOT = "root"


class Model(Protocol):
    """A `torch.nn.Module` on any device: only names and shapes are read."""

    def named_modules(self) -> Iterator[tuple[str, Any]]:
        """Every module with its name from the root, "" for the root itself."""
        ...


@dataclass(frozen=True, slots=True)
class Modules:
    """The modules of a model.

    Attributes:
        bundles: modules with parameters of their own, and these parameters.
        order: modules that compute, in the order in which forward and backward enter them.
    """

    bundles: tuple[Bundle, ...]
    order: tuple[str, ...]


def modules_of(model: Model) -> Modules:
    """Describe a model; a parameter shared by several modules has its first name in all of them."""
    names: dict[int, str] = {}
    bundles, computing = [], []
    for name, module in model.named_modules():
        own = []
        for short, parameter in module.named_parameters(recurse=False):
            full = names.setdefault(id(parameter), f"{name}.{short}" if name else short)
            own.append(
                Parameter(
                    name=full,
                    shape=tuple(parameter.shape),
                    trainable=bool(parameter.requires_grad),
                )
            )
        if own:
            bundles.append(Bundle(name=name or _ROOT, parameters=tuple(own)))
        if type(module).forward.__name__ != "_forward_unimplemented":  # a list of modules
            computing.append(name)
    order = [*computing, *_backward("", computing)]
    return Modules(tuple(bundles), tuple(name or _ROOT for name in order))


def without_padding(num_ranks: int) -> Modules:
    """A single parameter instead of a model; its size is divisible by everything DeepSpeed divides
    by.
    """
    one = Parameter(name="model", shape=(2 * num_ranks,))
    return Modules((Bundle(name=_ROOT, parameters=(one,)),), ())


def strategy_of(given: Given, modules: Modules, num_ranks: int, num_micro_steps: int) -> Strategy:
    """The strategy of DeepSpeed with these keys, after the first iterations.

    Raises:
        ConfigError: DeepSpeed refuses these keys together.
    """
    stage, dtype = given[f"{ZERO}.stage"], _TORCH_NAMES[compute_dtype(given)]
    travels = _dtype_at(given, "communication_data_type")
    options: dict[str, object] = {
        "stage": stage,
        "optimizer": _optimizer(given),
        "dtype": dtype,
        "communication_data_type": _TORCH_NAMES[travels],
        "gradient_accumulation_steps": num_micro_steps,
        "offload_optimizer": given[f"{ZERO}.offload_optimizer.device"] or "none",
        "offload_param": given[f"{ZERO}.offload_param.device"] or "none",
    }
    named = _STAGE_3 if stage == 3 else _STAGES_1_2
    options |= {name.removeprefix("stage3_"): given[f"{ZERO}.{name}"] for name in named}
    bundles = tuple(
        replace(one, parameters=tuple(replace(it, dtype=dtype) for it in one.parameters))
        for one in modules.bundles
    )
    if stage == 3:
        size = given[f"{ZERO}.zero_hpz_partition_size"]
        options |= {
            "partition_count": num_ranks,
            "secondary_ranks": list(range(size)) if size > 1 else [],
            "trace": "complete",
            "module_order": list(modules.order),
        }
        bundles = tuple(_with_persistent(bundles, given))
    else:
        bundles = (_group(bundles, num_ranks),)
    return Strategy(
        system=NAME,
        name="model",
        ranks=tuple(range(num_ranks)),
        bundles=bundles,
        options=options,
    )


def _dtype_at(given: Given, path: str) -> DType:
    """A dtype, by default that of the parameters."""
    value = given[path]
    return DTYPES[value] if value else compute_dtype(given)


def _backward(parent: str, computing: list[str]) -> Iterator[str]:
    """A module, then those in it from the last to the first."""
    yield parent
    prefix = f"{parent}." if parent else ""
    within = [name for name in computing if name != parent and name.startswith(prefix)]
    nearest = [name for name in within if not any(name.startswith(f"{other}.") for other in within)]
    for name in reversed(nearest):
        yield from _backward(name, within)


def _optimizer(given: Given) -> str:
    """The class that implements the stage, if a plan needs it."""
    stage, dtype = given[f"{ZERO}.stage"], compute_dtype(given)
    sums = _dtype_at(given, "data_types.grad_accum_dtype")
    if stage == 0 and sums is not dtype:
        raise ConfigError(
            f"data_types.grad_accum_dtype is {_TORCH_NAMES[sums]}: expected {_TORCH_NAMES[dtype]}, "
            "as DeepSpeed's stage 0 does not sum gradients in a dtype different from that of the "
            "parameters"
        )
    offloads = (given[f"{ZERO}.offload_optimizer.device"] or "none") != "none"
    wraps = stage == 1 and dtype is DType.BF16 and sums is DType.FP32 and not offloads
    return "BF16_Optimizer" if wraps else ""


def _group(bundles: tuple[Bundle, ...], num_ranks: int) -> Bundle:
    """Stages 0 to 2: all parameters, in stages 1 and 2 in one flat buffer."""
    found = {one.name: one for bundle in bundles for one in bundle.parameters}
    elements, multiple = sum(one.elements for one in found.values()), 2 * num_ranks
    padded = -(-elements // multiple) * multiple
    return Bundle(
        name="group 0", parameters=tuple(found.values()), options={"padded_elements": padded}
    )


def _with_persistent(bundles: tuple[Bundle, ...], given: Given) -> Iterator[Bundle]:
    """Stage 3: with the names of those that are small enough to be kept."""
    most = given[f"{ZERO}.stage3_param_persistence_threshold"]
    left = given[f"{ZERO}.stage3_model_persistence_threshold"]
    found: dict[str, bool] = {}
    for bundle in bundles:
        for one in bundle.parameters:
            if one.name not in found:
                found[one.name] = one.elements <= min(most, left)
                left -= one.elements if found[one.name] else 0
        names = [one.name for one in bundle.parameters if found[one.name]]
        yield replace(bundle, options={"persistent": names})
