"""Workloads that the tests of traffic, laws and claims share."""

from hypothesis import strategies as st

from zerosim.base.config import DType, EngineConfig, Offload
from zerosim.schema.events import Algorithm
from zerosim.theory import Activations, Cost, UnitSize, Workload, planned

UNITS = st.lists(st.tuples(st.integers(1, 5000), st.booleans()), min_size=1, max_size=5).map(
    lambda sizes: tuple(UnitSize(f"u{i}", n, t) for i, (n, t) in enumerate(sizes))
)
_OPTIONS = [option.name for option in EngineConfig.options() if option.name != "ranks_per_node"]


def workload(stage, num_ranks, units, **more):
    """A workload, with options of the engine beside its own fields."""
    options = {name: more.pop(name) for name in _OPTIONS if name in more}
    config = EngineConfig(stage=stage, **options)
    return Workload(config=config, num_ranks=num_ranks, units=units, **more)


WORKLOADS = st.builds(
    workload,
    stage=st.integers(0, 3),
    num_ranks=st.integers(1, 9),
    units=UNITS,
    dtype=st.sampled_from(DType),
    accumulate=st.integers(1, 4),
    bucket_elements=st.none() | st.integers(1, 9000),
    clip=st.none() | st.just(1.0),
    averages_loss=st.booleans(),
    update_skipped=st.booleans(),
    chunk_bytes=st.integers(16, 10_000),
)


@st.composite
def families(draw):
    """Steps of the systems of the whole family, on nodes."""
    node_size, num_nodes = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    num_ranks = node_size * num_nodes
    stage = draw(st.integers(0, 3))
    is_last = stage == 3
    divisors = [size for size in range(1, num_ranks + 1) if num_ranks % size == 0]
    tiers = st.sampled_from(Offload)
    together = draw(st.integers(1, 3))
    optimizer = draw(tiers) if stage else Offload.NONE
    parameters = draw(tiers) if is_last else Offload.NONE
    can_delay = optimizer is Offload.CPU and parameters is Offload.NONE
    owners = parameters is not Offload.NONE and draw(st.booleans())
    owned = is_last and (optimizer, parameters) == (Offload.NONE,) * 2 and draw(st.booleans())
    checkpoints = draw(st.booleans())
    return workload(
        stage,
        num_ranks,
        draw(UNITS),
        dtype=draw(st.sampled_from([DType.BF16, DType.FP32])),
        accumulate=draw(st.integers(1, 3)),
        bucket_elements=None if owned else draw(st.none() | st.integers(1, 9000)),
        clip=draw(st.none() | st.just(1.0)),
        averages_loss=draw(st.booleans()),
        update_skipped=draw(st.booleans()),
        offload_optimizer=optimizer,
        offload_param=parameters,
        nvme_path="disk",
        owner_broadcast="states" if owned else owners,
        delayed_update=can_delay and draw(st.booleans()),
        has_pending_update=draw(st.booleans()),
        tensor_parallel=together,
        ranks_per_node=node_size * together,
        quantize_weights=is_last and not (owners or owned) and draw(st.booleans()),
        secondary_partition=draw(st.sampled_from(divisors))
        if is_last and not (owners or owned)
        else 1,
        quantize_gradients=is_last and not owned and draw(st.booleans()),
        quantization_block=2 * draw(st.integers(1, 200)),
        checkpoint_activations=checkpoints,
        partition_activations=checkpoints and draw(st.booleans()),
        cpu_checkpointing=checkpoints and draw(st.booleans()),
        activations=draw(
            st.none()
            | st.builds(Activations, num_blocks=st.integers(1, 3), elements=st.integers(1, 500))
        ),
    )


FAMILIES = families()
ALGORITHMS = st.sampled_from([Algorithm.RING, Algorithm.GLOO, Algorithm.NCCL])


def thousand(stage, **more):
    return workload(stage, 4, (UnitSize("all", 1000),), **more)


def calls(step, rank=0):
    """What goes between ranks."""
    return [one for one in planned(step, rank) if one.op is not None]


def copies(step, rank=0):
    """What goes between the tiers of a rank."""
    return [one for one in planned(step, rank) if one.op is None]


def traffic(step, rank=0, algorithm=Algorithm.RING, phase=None):
    """All that a rank sends and receives."""
    costs = [one.cost(rank, algorithm) for one in calls(step, rank) if phase in (None, one.phase)]
    return sum(costs, Cost())


def sent(step, algorithm=Algorithm.RING, rank=0, phase=None):
    return traffic(step, rank, algorithm, phase).sent_bytes


def rows(step, rank=0, algorithm=Algorithm.RING):
    """By reason in the order of the phases: calls, payload, and what they cost."""
    found = {}
    for one in calls(step, rank):
        reason = (one.phase, one.purpose, one.op)
        times, payload, cost = found.get(reason, (0, 0, Cost()))
        cost += one.cost(rank, algorithm)
        found[reason] = (times + one.times, payload + one.payload_bytes, cost)
    return found
