"""Strategies of every system, drawn and small, for tests of what programs send."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from zerosim.schema.events import Algorithm
from zerosim.schema.strategies import Bundle, Parameter, Strategy
from zerosim.theory.programs import in_force, plan_step

if TYPE_CHECKING:
    from zerosim.theory.programs import Plan

DTYPES = st.sampled_from(["float32", "bfloat16"])


def parameter(name: str, *shape: int, **fields) -> Parameter:
    """One parameter."""
    return Parameter(name=name, shape=shape, **fields)


def ddp(ranks: int, *parameters: Parameter, **options) -> Strategy:
    """DDP of a model with these parameters, all in one bucket unless said otherwise."""
    buckets = [sum(one.elements for one in parameters if one.trainable)]
    return Strategy(
        system="DDP",
        name="model",
        ranks=tuple(range(ranks)),
        bundles=(Bundle(name="model", parameters=parameters),),
        options={"buckets": buckets, "reduces": True, "buffer_elements": {}, "comm_hook": ""}
        | options,
    )


def zero(ranks: int, *parameters: Parameter, **options) -> Strategy:
    """ZeroRedundancyOptimizer, with parameters dealt out in turn."""
    return Strategy(
        system="ZeroRedundancyOptimizer",
        name="optimizer",
        ranks=tuple(range(ranks)),
        bundles=tuple(
            Bundle(name=f"rank {rank}", parameters=parameters[rank::ranks], options={"owner": rank})
            for rank in range(ranks)
        ),
        options={"bucket_view": False} | options,
    )


def module(name: str, *parameters: Parameter, **options) -> Bundle:
    """A module that FSDP2 wraps, with its defaults."""
    defaults = {"reshards_after_forward": name != "root", "reshards_after_backward": True}
    return Bundle(name=name, parameters=parameters, options=defaults | {"reduces": True} | options)


def fsdp(ranks: int, *modules: Bundle, system: str = "FSDP2", **fields) -> Strategy:
    """FSDP of these modules."""
    return Strategy(
        system=system, name="model", ranks=tuple(range(ranks)), bundles=modules, **fields
    )


def plans_of(ranks: int, *strategies: Strategy, rank: int = 0, micro_steps: int = 1):
    """What the same strategies on all ranks make one of them call in iteration 0."""
    held = in_force(strategies, 0, micro_steps)
    return plan_step(dict.fromkeys(range(ranks), held), rank)


def plan_of(ranks: int, *strategies: Strategy, **which) -> Plan:
    """Likewise, where it is one plan."""
    (plan,) = plans_of(ranks, *strategies, **which)
    return plan


def sent(plan: Plan, rank: int = 0, algorithm: Algorithm = Algorithm.RING) -> int:
    """What a plan makes a rank send."""
    return sum(call.cost(rank, algorithm).sent_bytes for call in plan.calls)


def causes(plan: Plan, rank: int = 0, algorithm: Algorithm = Algorithm.RING) -> dict[str, Fraction]:
    """Why that is not the law, by cause."""
    return {one.cause.value: one.bytes for one in plan.deviations(rank, algorithm)}


# ------------------------------------------------------------------------------- drawn

shapes = st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple)


@st.composite
def parameters(draw: st.DrawFn, most: int = 4) -> tuple[Parameter, ...]:
    """Parameters of one dtype, some of them frozen."""
    dtype = draw(DTYPES)
    return tuple(
        Parameter(name=f"p{place}", shape=shape, dtype=dtype, trainable=draw(st.booleans()))
        for place, shape in enumerate(draw(st.lists(shapes, min_size=1, max_size=most)))
    )


@st.composite
def data_parallel(draw: st.DrawFn, ranks: int) -> tuple[Strategy, ...]:
    """DDP, with or without ZeroRedundancyOptimizer."""
    own = draw(parameters())
    total = sum(one.elements for one in own if one.trainable)
    cut = draw(st.integers(0, total))
    first = ddp(
        ranks,
        *own,
        buckets=[size for size in (cut, total - cut) if size],
        reduces=draw(st.booleans()),
        buffer_elements=draw(st.dictionaries(st.sampled_from(["float32", "int64"]), st.just(5))),
        comm_hook=draw(st.sampled_from(["", "bf16_compress_hook", "my_own_hook"])),
    )
    if draw(st.booleans()):
        return (first, zero(ranks, *own, bucket_view=draw(st.booleans())))
    return (first,)


@st.composite
def sharded(draw: st.DrawFn, ranks: int) -> tuple[Strategy, ...]:
    """FSDP2, FSDP1 or HSDP, with any of their options."""
    num_replicas = draw(st.sampled_from([n for n in (1, 2, ranks) if ranks % n == 0]))
    num_shards = ranks // num_replicas
    hybrid = {
        "shard_ranks": list(range(num_shards)),
        "replicate_ranks": list(range(0, ranks, num_shards)) if num_replicas > 1 else [],
        "parameter_dtype": draw(st.sampled_from(["", "bfloat16"])),
        "reduce_dtype": draw(st.sampled_from(["", "float32"])),
    }
    modules = [
        module(
            name,
            *(
                Parameter(
                    name=f"{name}.{one.name}",
                    shape=one.shape,
                    dtype="float32",
                    trainable=one.trainable,
                )
                for one in draw(parameters())
            ),
            reshards_after_forward=draw(st.booleans()),
            reshards_after_backward=draw(st.booleans()),
            reduces=draw(st.booleans()),
            reshard_ranks=draw(st.sampled_from([[], [0, 1]])) if num_shards == 4 else [],
            **hybrid,
        )
        for name in ("root", "a", "b")
    ]
    system = draw(st.sampled_from(["FSDP2", "FSDP1"]))
    return (fsdp(ranks, *modules, system=system),)


# ----------------------------------------------------------- tensor and pipeline parallel


def divided(name: str, style: str, inside: tuple[int, ...], outside: tuple[int, ...], **options):
    """A module as `parallelize_module` divides it with the defaults of a style."""
    last = [f"shard {len(shape) - 1}" for shape in (inside, outside)]
    layouts = {
        "column": ("replicate", "replicate", last[1], last[1]),
        "row": (last[0], last[0], "partial", "replicate"),
        "sequence": ("shard 1", "shard 1", "shard 1", "shard 1"),
    }
    given, wanted, made, handed = layouts.get(style, ("replicate",) * 4)
    usual = {
        "style": style,
        "input_shape": list(inside),
        "input_dtype": "float32",
        "input_layout": given,
        "wanted_layout": wanted,
        "input_is_tensor": True,
        "input_has_gradient": True,
        "output_shape": list(outside),
        "dtype": "float32",
        "made_layout": made,
        "output_layout": handed,
        "forwards": 1,
        "recomputed": 0,
    }
    own = options.pop("parameters", ())
    return Bundle(name=name, parameters=own, options=usual | options)


def tensor_parallel(ranks: int, *bundles: Bundle, **fields) -> Strategy:
    """These modules, divided."""
    return Strategy(
        system="tensor parallel",
        name="model",
        ranks=tuple(range(ranks)),
        bundles=bundles,
        **fields,
    )


def layer(h: tuple[int, ...], wide: tuple[int, ...], **options) -> list[Bundle]:
    """A block of a transformer as Megatron divides it: q, k, v and o; up and down."""
    inputs = [divided(name, "column", h, h, **options) for name in ("q", "k", "v")]
    return [
        *inputs,
        divided("o", "row", h, h),
        divided("up", "column", h, wide, **options),
        divided("down", "row", wide, h),
    ]


def pipeline(
    rank_of: list[int], num_microbatches: int, shape: tuple[int, ...], schedule: str = "1F1B"
) -> dict[int, tuple[Strategy, ...]]:
    """A pipeline as each of its ranks tells of it; stage i sends i + 1 rows of `shape`."""
    last = len(rank_of) - 1
    return {
        rank: (
            Strategy(
                system="pipeline parallel",
                name=f"Schedule{schedule}",
                ranks=tuple(dict.fromkeys(rank_of)),
                bundles=tuple(
                    Bundle(
                        name=f"stage {index}",
                        options={
                            "index": index,
                            "output_shapes": [] if index == last else [[index + 1, *shape]],
                            "dtypes": [] if index == last else ["float32"],
                        },
                    )
                    for index, owner in enumerate(rank_of)
                    if owner == rank
                ),
                options={
                    "schedule": schedule,
                    "num_stages": len(rank_of),
                    "num_microbatches": num_microbatches,
                    "ranks_by_stage": rank_of,
                },
            ),
        )
        for rank in set(rank_of)
    }


# ------------------------------------------------------------------------------ DeepSpeed

NO_LIMITS = {"prefetch_bucket_size": 0, "max_live_parameters": 10**9, "max_reuse_distance": 0}


def deepspeed(ranks: int, stage: int, *bundles: Bundle, **options) -> Strategy:
    """DeepSpeed; stage 3 with a root, a first and a second module, and nothing that it keeps."""
    usual = {
        "stage": stage,
        "optimizer": "DeepSpeedZeroOptimizer",
        "dtype": "float32",
        "communication_data_type": "float32",
        "use_multi_rank_bucket_allreduce": True,
        "reduce_scatter": True,
    }
    if stage == 3:
        order = ["root", "a", "b"]
        usual |= NO_LIMITS | {"trace": "complete", "module_order": [*order, "root", "b", "a"]}
    return Strategy(
        system="DeepSpeed",
        name="model",
        ranks=tuple(range(ranks)),
        bundles=bundles,
        options=usual | options,
    )
