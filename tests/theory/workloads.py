"""Workloads that the tests of traffic, laws and claims share."""

from hypothesis import strategies as st

from zerosim.events import Algorithm, Phase
from zerosim.theory import Activations, Cost, UnitSize, Workload, planned
from zerosim.tiers import Tier

PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)
UNITS = st.lists(st.tuples(st.integers(1, 5000), st.booleans()), min_size=1, max_size=5).map(
    lambda sizes: tuple(UnitSize(f"u{i}", n, t) for i, (n, t) in enumerate(sizes))
)
WORKLOADS = st.builds(
    Workload,
    stage=st.integers(0, 3),
    num_ranks=st.integers(1, 9),
    units=UNITS,
    element_bytes=st.sampled_from([2, 4]),
    accumulate=st.integers(1, 4),
    bucket_elements=st.none() | st.integers(1, 9000),
    clips=st.booleans(),
    scales_loss=st.booleans(),
    averages_loss=st.booleans(),
    update_skipped=st.booleans(),
    chunk_bytes=st.integers(1, 10_000),
)


@st.composite
def families(draw):
    """Steps of the systems of the whole family, on nodes."""
    node_size, num_nodes = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    num_ranks = node_size * num_nodes
    stage = draw(st.integers(0, 3))
    is_last = stage == 3
    divisors = [size for size in range(1, num_ranks + 1) if num_ranks % size == 0]
    tiers = st.sampled_from(Tier)
    together = draw(st.integers(1, 3))
    offload_optimizer = draw(tiers) if stage else Tier.DEVICE
    offload_param = draw(tiers) if is_last else Tier.DEVICE
    delayed = offload_optimizer is not Tier.DEVICE and draw(st.booleans())
    kept = st.builds(
        Activations,
        num_blocks=st.integers(1, 3),
        elements=st.integers(1, 500),
        is_recomputed=st.booleans(),
        is_partitioned=st.booleans(),
        is_on_host=st.booleans(),
    )
    return Workload(
        stage=stage,
        num_ranks=num_ranks,
        units=draw(UNITS),
        element_bytes=draw(st.sampled_from([2, 4])),
        accumulate=draw(st.integers(1, 3)),
        bucket_elements=draw(st.none() | st.integers(1, 9000)),
        clips=draw(st.booleans()),
        averages_loss=draw(st.booleans()),
        update_skipped=draw(st.booleans()),
        offload_optimizer=offload_optimizer,
        offload_param=offload_param,
        owner_broadcast=offload_param is not Tier.DEVICE and draw(st.booleans()),
        delayed_update=delayed,
        has_pending_update=draw(st.booleans()),
        tensor_parallel=together,
        ranks_per_node=node_size * together,
        quantize_weights=is_last and draw(st.booleans()),
        secondary_partition=draw(st.sampled_from(divisors)) if is_last else 1,
        quantize_gradients=is_last and draw(st.booleans()),
        quantization_block=2 * draw(st.integers(1, 200)),
        activations=draw(st.none() | kept),
    )


FAMILIES = families()
ALGORITHMS = st.sampled_from([Algorithm.RING, Algorithm.GLOO, Algorithm.NCCL])


def thousand(stage, **more):
    return Workload(stage=stage, num_ranks=4, units=(UnitSize("all", 1000),), **more)


def calls(workload, rank=0):
    """What goes between ranks."""
    return [one for one in planned(workload, rank) if one.op is not None]


def copies(workload, rank=0):
    """What goes between the tiers of a rank."""
    return [one for one in planned(workload, rank) if one.op is None]


def traffic(workload, rank=0, algorithm=Algorithm.RING, phase=None):
    """All that a rank sends and receives."""
    costs = [
        one.cost(rank, algorithm) for one in calls(workload, rank) if phase in (None, one.phase)
    ]
    return sum(costs, Cost())


def sent(workload, algorithm=Algorithm.RING, rank=0, phase=None):
    return traffic(workload, rank, algorithm, phase).sent_bytes


def rows(workload, rank=0, algorithm=Algorithm.RING):
    """By reason in the order of the phases: calls, payload, and what they cost."""
    found = {}
    for one in calls(workload, rank):
        reason = (one.phase, one.purpose, one.op)
        times, payload, cost = found.get(reason, (0, 0, Cost()))
        cost += one.cost(rank, algorithm)
        found[reason] = (times + one.times, payload + one.payload_bytes, cost)
    return found
