"""What each algorithm makes a rank send: by hand, by replay, and by conservation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.base.errors import ConfigError
from zerosim.schema.events import Algorithm, Op
from zerosim.theory import Cost, Framing, cost, framing

RING_OPS = (Op.ALL_REDUCE, Op.REDUCE_SCATTER, Op.ALL_GATHER, Op.BROADCAST, Op.REDUCE)
IN_PARTS = (Op.REDUCE_SCATTER, Op.ALL_GATHER, Op.ALL_TO_ALL, Op.GATHER, Op.SCATTER)
GROUP_OPS = tuple(op for op in Op if op not in (Op.SEND, Op.RECEIVE, Op.UNKNOWN))
RANKS = st.integers(1, 9)
BYTES = st.sampled_from([1, 2, 4, 8])


def costs(algorithm, op, num_ranks, num_elements, element_bytes, **more):
    return [
        cost(algorithm, op, num_ranks, rank, num_elements, element_bytes, **more)
        for rank in range(num_ranks)
    ]


def conserves(of_ranks):
    total = sum(of_ranks, Cost())
    return (total.sent_bytes, total.messages_sent) == (
        total.received_bytes,
        total.messages_received,
    )


def replay_ring(op, num_ranks, rank, num_elements, element_bytes, chunk_bytes):
    """The hops as DESIGN describes them, one by one."""
    sizes = [
        num_elements // num_ranks + (row < num_elements % num_ranks) for row in range(num_ranks)
    ]
    chunk = max(1, chunk_bytes // element_bytes)
    sent, received = [], []
    for hop in range(num_ranks - 1):
        if op is not Op.ALL_GATHER:
            sent.append((rank - 1 - hop) % num_ranks)
            received.append((rank - 2 - hop) % num_ranks)
        if op is not Op.REDUCE_SCATTER:
            sent.append((rank - hop) % num_ranks)
            received.append((rank - hop - 1) % num_ranks)
    chunks = [len(range(0, size, chunk)) for size in sizes]
    return Cost(
        sum(sizes[row] for row in sent) * element_bytes,
        sum(sizes[row] for row in received) * element_bytes,
        sum(chunks[row] for row in sent),
        sum(chunks[row] for row in received),
    )


@given(st.data(), RANKS, st.integers(0, 400), BYTES, st.integers(1, 200))
def test_ring_is_its_hops(data, num_ranks, num_elements, element_bytes, chunk_bytes):
    op = data.draw(st.sampled_from(RING_OPS[:3]))
    rank = data.draw(st.integers(0, num_ranks - 1))
    args = (op, num_ranks, rank, num_elements, element_bytes)
    assert cost(Algorithm.RING, *args, chunk_bytes=chunk_bytes) == replay_ring(*args, chunk_bytes)


@given(RANKS, st.integers(0, 10**12), BYTES)
def test_all_reduce_is_reduce_scatter_and_all_gather(num_ranks, num_elements, element_bytes):
    def of(op):
        return costs(Algorithm.RING, op, num_ranks, num_elements, element_bytes)

    both = zip(of(Op.REDUCE_SCATTER), of(Op.ALL_GATHER), strict=True)
    assert of(Op.ALL_REDUCE) == [one + other for one, other in both]


@given(st.sampled_from(RING_OPS), RANKS, st.integers(0, 10**9), BYTES, st.integers(1, 1 << 20))
def test_ring_ranks_receive_what_ranks_send(
    op, num_ranks, num_elements, element_bytes, chunk_bytes
):
    assert conserves(
        costs(
            Algorithm.RING,
            op,
            num_ranks,
            num_elements,
            element_bytes,
            root=num_ranks - 1,
            chunk_bytes=chunk_bytes,
        )
    )


@given(st.sampled_from(GROUP_OPS), RANKS, st.integers(0, 10**8), BYTES, st.data())
def test_gloo_ranks_receive_what_ranks_send(op, num_ranks, num_elements, element_bytes, data):
    root = data.draw(st.integers(0, num_ranks - 1))
    if op in IN_PARTS:
        num_elements *= num_ranks
    of_ranks = costs(Algorithm.GLOO, op, num_ranks, num_elements, element_bytes, root=root)
    assert conserves(of_ranks)
    frames = [framing("gloo", each) for each in of_ranks]
    assert sum(f.sent_bytes for f in frames) == sum(f.received_bytes for f in frames)
    total_bytes = num_elements * element_bytes
    others = num_ranks - 1
    sent = sum(each.sent_bytes for each in of_ranks)
    if op in (Op.ALL_REDUCE, Op.REDUCE_SCATTER):
        assert sent == 2 * others * total_bytes
    elif op in (Op.ALL_GATHER, Op.ALL_TO_ALL):
        assert all(each.sent_bytes * num_ranks == others * total_bytes for each in of_ranks)
    elif op is Op.BROADCAST:
        assert sent == others * total_bytes
        assert all(
            each.received_bytes == (0 if rank == root else total_bytes)
            for rank, each in enumerate(of_ranks)
        )
    elif op in (Op.GATHER, Op.SCATTER):
        assert sent * num_ranks == others * total_bytes


def test_ring_by_hand():
    # 7 floats over 4 ranks: rows of 2, 2, 2, 1; rank r keeps row r in a reduce-scatter
    scatter = costs(Algorithm.RING, Op.REDUCE_SCATTER, 4, 7, 4)
    assert [each.sent_bytes for each in scatter] == [20, 20, 20, 24]
    assert [each.received_bytes for each in scatter] == [24, 20, 20, 20]
    gather = costs(Algorithm.RING, Op.ALL_GATHER, 4, 7, 4)
    assert [each.sent_bytes for each in gather] == [20, 20, 24, 20]
    # 3 rows of 5 bf16 in messages of at most 4 bytes: 2 + 2 + 1 elements
    assert cost(Algorithm.RING, Op.ALL_GATHER, 4, 0, 20, 2, chunk_bytes=5) == Cost(30, 30, 9, 9)
    # 2 elements over 4 ranks: two rows are empty and send no message
    assert cost(Algorithm.RING, Op.ALL_GATHER, 4, 0, 2, 4) == Cost(4, 4, 1, 1)
    chain = costs(Algorithm.RING, Op.BROADCAST, 3, 10, 2, root=1)
    assert chain == [Cost(0, 20, 0, 1), Cost(20, 0, 1, 0), Cost(20, 20, 1, 1)]
    back = costs(Algorithm.RING, Op.REDUCE, 3, 10, 2, root=1)
    assert back == [Cost(20, 20, 1, 1), Cost(0, 20, 0, 1), Cost(20, 0, 1, 0)]
    assert cost(Algorithm.RING, Op.SEND, 2, 0, 10, 2) == Cost(20, 0, 1, 0)
    assert cost(Algorithm.RING, Op.RECEIVE, 2, 1, 10, 2) == Cost(0, 20, 0, 1)


def test_gloo_all_reduce_as_first_measured():
    sent = [each.sent_bytes for each in costs(Algorithm.GLOO, Op.ALL_REDUCE, 4, 7, 4)]
    assert sent == [44, 40, 40, 44]
    sent = [each.sent_bytes for each in costs(Algorithm.GLOO, Op.ALL_REDUCE, 4, 1001, 4)]
    assert sent == [6020, 5992, 5992, 6020]


def test_gloo_reduce_scatter_is_an_all_reduce():
    for args in ((4, 28, 2), (3, 3 << 20, 4)):
        scatter = costs(Algorithm.GLOO, Op.REDUCE_SCATTER, *args)
        assert scatter == costs(Algorithm.GLOO, Op.ALL_REDUCE, *args)
    listed = cost(Algorithm.GLOO, Op.REDUCE_SCATTER, 2, 0, 2002, 4, parts=(1001, 1001))
    assert listed == cost(Algorithm.GLOO, Op.ALL_REDUCE, 2, 0, 1001, 4) * 2
    assert listed.messages_sent == 8


def test_gloo_reduce_of_a_large_buffer_sends_more_than_the_bound():
    # as measured: 1,310,720 floats, 2 ranks, root 0; 5 MiB in segments of 1 MiB
    assert costs(Algorithm.GLOO, Op.REDUCE, 2, 1_310_720, 4) == [
        Cost(3 << 20, 6 << 20, 3, 5),
        Cost(6 << 20, 3 << 20, 5, 3),
    ]


def test_gloo_broadcast_is_a_binomial_tree():
    sends = [each.messages_sent for each in costs(Algorithm.GLOO, Op.BROADCAST, 8, 5, 4)]
    assert sends == [3, 2, 1, 1, 0, 0, 0, 0]
    sends = [each.messages_sent for each in costs(Algorithm.GLOO, Op.BROADCAST, 3, 5, 4, root=1)]
    assert sends == [0, 2, 0]


@given(st.sampled_from(GROUP_OPS), st.integers(0, 1000))
def test_one_rank_sends_nothing(op, num_elements):
    assert cost(Algorithm.GLOO, op, 1, 0, num_elements, 4) == Cost()
    if op in RING_OPS:
        assert cost(Algorithm.RING, op, 1, 0, num_elements, 4) == Cost()
    if op in RING_OPS[:3]:
        assert cost(Algorithm.NCCL, op, 1, 0, num_elements, 4) == Cost()


def test_nccl_is_the_documented_bound():
    assert cost(Algorithm.NCCL, Op.ALL_REDUCE, 4, 1, 1000, 2) == Cost(3000, 3000, None, None)
    for op in (Op.ALL_GATHER, Op.REDUCE_SCATTER):
        assert cost(Algorithm.NCCL, op, 4, 1, 1000, 2) == Cost(1500, 1500, None, None)
    assert cost(Algorithm.NCCL, Op.SEND, 4, 1, 10, 2) == Cost(20, 0, None, None)
    assert cost(Algorithm.NCCL, Op.RECEIVE, 4, 1, 10, 2) == Cost(0, 20, None, None)
    # along the ring from its root; to its root; between each two ranks
    assert cost(Algorithm.NCCL, Op.BROADCAST, 4, 3, 10, 2) == Cost(0, 20, None, None)
    assert cost(Algorithm.NCCL, Op.REDUCE, 4, 1, 10, 2) == Cost(20, 0, None, None)
    assert cost(Algorithm.NCCL, Op.ALL_TO_ALL, 4, 1, 8, 2) == Cost(12, 12, None, None)


def test_framing_is_known_of_gloo_and_of_nccls_messages():
    assert framing("gloo", Cost(9, 9, 2, 3)) == Framing(2 * 96 + 3 * 48, 3 * 96 + 2 * 48)
    assert framing(Algorithm.GLOO, Cost(9, 9, 1, 0)) == Framing(96, 48)
    barrier = cost(Algorithm.GLOO, Op.BARRIER, 8, 3, 0, 1)
    assert framing("gloo", barrier) == Framing(432, 432)
    assert framing("nccl", Cost(9, 9, 1, 3)) == Framing(4, 12)
    assert framing("mpi", Cost(9, 9, 1, 1)) is None
    assert framing("gloo", Cost(9, 9, None, None)) is None
    with pytest.raises(ConfigError, match="not a backend"):
        framing(Algorithm.RING, Cost())


def test_costs_add_up():
    assert Cost(1, 2, 3, 4) + Cost(10, 20, 30, 40) == Cost(11, 22, 33, 44)
    assert Cost(1, 2, 3, 4) * 3 == Cost(3, 6, 9, 12)
    assert Cost(1, 2, None, 4) * 2 + Cost(0, 0, 1, None) == Cost(2, 4, None, None)


@pytest.mark.parametrize(
    ("algorithm", "op", "more", "words"),
    [
        (Algorithm.RING, Op.BARRIER, {}, "ring algorithm has no barrier"),
        (Algorithm.RING, Op.ALL_TO_ALL, {}, "ring algorithm has no all-to-all"),
        (Algorithm.NCCL, Op.ALL_REDUCE, {"num_elements": 7}, "multiple of 4"),
        (Algorithm.OTHER, Op.ALL_REDUCE, {}, "not known"),
        *((Algorithm.GLOO, op, {"num_elements": 7}, "multiple of 4") for op in IN_PARTS),
        (Algorithm.GLOO, Op.REDUCE, {"root": 4}, "root 4"),
        (Algorithm.GLOO, Op.ALL_REDUCE, {"rank": -1}, "rank -1"),
        (Algorithm.GLOO, Op.ALL_REDUCE, {"num_ranks": 0}, "0 ranks"),
        (Algorithm.RING, Op.ALL_REDUCE, {"num_elements": -1}, "number of elements"),
        (Algorithm.RING, Op.ALL_REDUCE, {"element_bytes": 0}, "element bytes"),
        (Algorithm.RING, Op.ALL_REDUCE, {"chunk_bytes": 0}, "chunk bytes"),
    ],
)
def test_what_is_not_known_is_refused(algorithm, op, more, words):
    given_values = {"num_ranks": 4, "rank": 0, "num_elements": 8, "element_bytes": 4} | more
    with pytest.raises(ConfigError, match=words):
        cost(algorithm, op, **given_values)


@pytest.mark.parametrize("rank", range(4))
def test_our_own_messages_between_each_two_ranks(rank):
    found = cost(Algorithm.PAIRWISE, Op.ALL_TO_ALL, 4, rank, 4000, 1)
    assert found == Cost(3000, 3000, 3, 3)
    assert found.sent_bytes == cost(Algorithm.GLOO, Op.ALL_TO_ALL, 4, rank, 4000, 1).sent_bytes
    with pytest.raises(ConfigError, match="the pairwise algorithm has no all-gather: expected all"):
        cost(Algorithm.PAIRWISE, Op.ALL_GATHER, 4, rank, 4000, 1)
