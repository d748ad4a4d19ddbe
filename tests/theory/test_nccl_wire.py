"""NCCL's framing held against what its sockets sent on an H100, to the byte."""

from __future__ import annotations

import pytest

from zerosim.lessons.facts.nccl import measured_calls
from zerosim.schema.events import Op
from zerosim.theory.messages import Request
from zerosim.theory.nccl import NcclAlgorithm, Protocol, num_messages, on_wire

KEEP_ALIVE_BYTES = 60
"""NCCL's ranks tell each other now and then, over connections of their own, that they are alive."""
OPS = {
    "all_reduce": Op.ALL_REDUCE,
    "all_gather": Op.ALL_GATHER,
    "reduce_scatter": Op.REDUCE_SCATTER,
    "broadcast": Op.BROADCAST,
    "all_to_all": Op.ALL_TO_ALL,
    "send": Op.SEND,
}


def predicted(row, rank):
    if row["op"] == "send" and rank:
        return 0
    request = Request(
        op=OPS[row["op"]],
        num_ranks=row["ranks"],
        rank=rank,
        num_elements=row["payload"],
        element_bytes=1,
    )
    algorithm, protocol = row["algorithm"], row["protocol"]
    found = on_wire(
        request,
        NcclAlgorithm(algorithm) if algorithm else None,
        Protocol(protocol) if protocol else None,
    )
    return found.sent_bytes


@pytest.mark.parametrize("protocol", ["", *Protocol])
def test_what_nccl_sends_is_what_its_sockets_sent(protocol):
    rows = [row for row in measured_calls() if row["protocol"] == protocol]
    assert len(rows) >= 108
    for row in rows:
        for rank, sent in enumerate(row["sent"]):
            over = sent - predicted(row, rank)
            alive, rest = divmod(over, KEEP_ALIVE_BYTES)
            assert rest == 0, (row, rank, over)
            assert 0 <= alive <= 8, (row, rank, over)


def test_a_message_is_cut_among_channels():
    """Stage 3 sends rows of embedding, blocks and head: 58 messages, three times a step."""
    assert [num_messages(size) for size in (4, 66_048, 81_920, 789_760)] == [1, 3, 3, 13]
    assert num_messages(1 << 20) == 8


@pytest.mark.parametrize(
    ("op", "rank", "sent", "received"),
    [
        (Op.BARRIER, 1, 24, 24),  # an all-reduce of one fp32 in two rows, one of them empty
        (Op.GATHER, 0, 0, 4 + 400),
        (Op.GATHER, 1, 4 + 400, 0),
        (Op.SCATTER, 0, 4 + 400, 0),
        (Op.RECEIVE, 1, 0, 4 + 800),
    ],
)
def test_what_else_is_called(op, rank, sent, received):
    found = on_wire(Request(op=op, num_ranks=2, rank=rank, num_elements=200, element_bytes=4))
    assert (found.sent_bytes, found.received_bytes) == (sent, received)


@pytest.mark.parametrize("op", [Op.ALL_GATHER, Op.REDUCE_SCATTER])
@pytest.mark.parametrize("num_ranks", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("bytes_of_a_rank", [1_000_001, 1_000_002, 1_000_003])
def test_channels_split_what_a_rank_has(op, num_ranks, bytes_of_a_rank):
    """No byte is lost where a half of the buffer is not a multiple of N."""
    size = num_ranks * bytes_of_a_rank
    found = on_wire(Request(op=op, num_ranks=num_ranks, rank=1, num_elements=size, element_bytes=1))
    headers = found.sent_bytes - (num_ranks - 1) * bytes_of_a_rank
    assert headers > 0
    assert headers % 4 == 0


def test_a_buffer_with_fewer_bytes_than_ranks():
    found = on_wire(Request(op=Op.ALL_GATHER, num_ranks=8, rank=0, num_elements=1, element_bytes=1))
    assert found.sent_bytes >= 0


def test_what_is_not_known_is_not_guessed():
    """Several tensors in one call share the channels."""
    assert (
        on_wire(
            Request(
                op=Op.REDUCE_SCATTER,
                num_ranks=2,
                rank=0,
                num_elements=8,
                element_bytes=4,
                parts=(4, 4),
            )
        )
        is None
    )
