"""Workloads that the tests of traffic, laws and claims share."""

from hypothesis import strategies as st

from zerosim.events import Algorithm, Phase
from zerosim.theory import UnitSize, Workload, expected_traffic, total_sent_bytes

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
ALGORITHMS = st.sampled_from([Algorithm.RING, Algorithm.GLOO, Algorithm.NCCL])


def thousand(stage, **more):
    return Workload(stage=stage, num_ranks=4, units=(UnitSize("all", 1000),), **more)


def sent(workload, algorithm=Algorithm.RING, rank=0, phase=None):
    return total_sent_bytes(expected_traffic(workload, rank, algorithm), phase)
