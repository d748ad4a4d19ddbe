"""The traffic of a rank in zerosim's own ring: the bandwidth bound, row by row.

The payload is split into N rows as by `torch.tensor_split`: the first `num_elements % N` rows have
one element more. A rank sends to the next rank and receives from the previous one. In hop h (0 to N
- 2) of a reduce-scatter, rank r sends row r - 1 - h and receives row r - 2 - h, so that row r ends
summed on rank r; in an all-gather it sends row r - h and receives row r - h - 1, all modulo N.
Over a whole collective, a rank thus sends every row but one, and receives every row but one.

Source: P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", J. Parallel Distrib. Comput. 69 (2009): no algorithm sends less.
"""

from __future__ import annotations

from collections.abc import Callable

from zerosim.base.errors import ConfigError
from zerosim.schema.events import Algorithm, Op
from zerosim.theory.messages import NOTHING, Cost, Request


def ring_cost(request: Request) -> Cost:
    """Bytes that one rank of the ring sends and receives.

    A row, or the payload of an operation with a root, is sent in chunks of `chunk_bytes`, rounded
    down to whole elements but at least one; an empty row sends no message. A broadcast is a chain
    from the root through the next ranks, in which every rank but the last sends the payload once. A
    reduction is a chain that ends at the root.

    Args:
        request: an all-reduce, reduce-scatter, all-gather, broadcast, reduce, send or receive.

    Returns:
        Exact payload bytes and number of messages.

    Raises:
        ConfigError: zerosim's ring does not implement this operation.
    """
    rule = _RULES.get(request.op)
    if rule is None:
        raise ConfigError(
            f"the {Algorithm.RING} algorithm has no {request.op}: expected one of "
            f"{', '.join(_RULES)}"
        )
    return rule(request)


def _num_chunks(request: Request, num_elements: int) -> int:
    chunk_elements = max(1, request.chunk_bytes // request.element_bytes)
    return -(-num_elements // chunk_elements)


def _all_rows_but(request: Request, skipped: int) -> tuple[int, int]:
    """Bytes and messages of every row except `skipped` (taken modulo N)."""
    num_ranks = request.num_ranks
    short, num_long = divmod(request.num_elements, num_ranks)
    skips_long = skipped % num_ranks < num_long
    skipped_elements = short + skips_long
    num_messages = (num_long - skips_long) * _num_chunks(request, short + 1)
    num_messages += (num_ranks - num_long - (not skips_long)) * _num_chunks(request, short)
    return (request.num_elements - skipped_elements) * request.element_bytes, num_messages


def _rows(request: Request, not_sent: int, not_received: int) -> Cost:
    sent_bytes, messages_sent = _all_rows_but(request, not_sent)
    received_bytes, messages_received = _all_rows_but(request, not_received)
    return Cost(sent_bytes, received_bytes, messages_sent, messages_received)


def _reduce_scatter(request: Request) -> Cost:
    return _rows(request, not_sent=request.rank, not_received=request.rank - 1)


def _all_gather(request: Request) -> Cost:
    return _rows(request, not_sent=request.rank + 1, not_received=request.rank)


def _broadcast(request: Request) -> Cost:
    return _chain(request, first=request.root)


def _reduce(request: Request) -> Cost:
    return _chain(request, first=request.root + 1)


def _chain(request: Request, first: int) -> Cost:
    distance = (request.rank - first) % request.num_ranks
    num_messages = _num_chunks(request, request.num_elements)
    cost = NOTHING
    if distance < request.num_ranks - 1:
        cost += Cost(sent_bytes=request.payload_bytes, messages_sent=num_messages)
    if distance > 0:
        cost += Cost(received_bytes=request.payload_bytes, messages_received=num_messages)
    return cost


def _all_reduce(request: Request) -> Cost:
    return _reduce_scatter(request) + _all_gather(request)


def _send(request: Request) -> Cost:
    return Cost(sent_bytes=request.payload_bytes, messages_sent=1)


def _receive(request: Request) -> Cost:
    return Cost(received_bytes=request.payload_bytes, messages_received=1)


_RULES: dict[Op, Callable[[Request], Cost]] = {
    Op.ALL_REDUCE: _all_reduce,
    Op.REDUCE_SCATTER: _reduce_scatter,
    Op.ALL_GATHER: _all_gather,
    Op.BROADCAST: _broadcast,
    Op.REDUCE: _reduce,
    Op.SEND: _send,
    Op.RECEIVE: _receive,
}
