"""The c10d operators: which of their arguments are payload, group and peer.

One table for the interception of calls and for the import of profiles. An operator that is not in
it is unknown: its kind is never inferred from its name.
"""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.schema.events import Op


@dataclass(frozen=True, slots=True)
class C10dOperator:
    """How to read a call of an operator.

    Attributes:
        payload: the argument with the tensors of the payload; None if there is none.
        group, peer: the arguments with the process group, and with the peer or root; None if
            there is none.
        is_for_each: whether the payload is the argument's tensors once for each rank of the group.
        name: name of an operator that is not in the table.
    """

    op: Op
    payload: int | None
    group: int
    peer: int | None = None
    is_for_each: bool = False
    name: str = ""


OPERATORS: dict[str, C10dOperator | None] = {
    "c10d::allreduce_": C10dOperator(Op.ALL_REDUCE, 0, 1),
    "c10d::allreduce_coalesced_": C10dOperator(Op.ALL_REDUCE, 0, 1),
    "c10d::_allgather_base_": C10dOperator(Op.ALL_GATHER, 0, 2),
    "c10d::allgather_": C10dOperator(Op.ALL_GATHER, 0, 2),
    "c10d::allgather_coalesced_": C10dOperator(Op.ALL_GATHER, 0, 2),
    "c10d::allgather_into_tensor_coalesced_": C10dOperator(Op.ALL_GATHER, 0, 2),
    "c10d::_reduce_scatter_base_": C10dOperator(Op.REDUCE_SCATTER, 1, 2),
    "c10d::reduce_scatter_": C10dOperator(Op.REDUCE_SCATTER, 1, 2),
    "c10d::reduce_scatter_tensor_coalesced_": C10dOperator(Op.REDUCE_SCATTER, 1, 2),
    "c10d::broadcast_": C10dOperator(Op.BROADCAST, 0, 1, 2),
    "c10d::reduce_": C10dOperator(Op.REDUCE, 0, 1, 3),
    "c10d::gather_": C10dOperator(Op.GATHER, 1, 2, 3, is_for_each=True),
    "c10d::gather_into_tensor_": C10dOperator(Op.GATHER, 1, 2, 3, is_for_each=True),
    "c10d::scatter_": C10dOperator(Op.SCATTER, 0, 2, 3, is_for_each=True),
    "c10d::alltoall_": C10dOperator(Op.ALL_TO_ALL, 1, 2),
    "c10d::alltoall_base_": C10dOperator(Op.ALL_TO_ALL, 1, 2),
    "c10d::barrier": C10dOperator(Op.BARRIER, None, 1),
    "c10d::monitored_barrier_": C10dOperator(Op.BARRIER, None, 1),
    "c10d::send": C10dOperator(Op.SEND, 0, 1, 2),
    "c10d::recv_": C10dOperator(Op.RECEIVE, 0, 1, 2),
    "c10d::recv_any_source_": C10dOperator(Op.RECEIVE, 0, 1),
    # moves nothing between ranks
    "c10d::check_for_nan": None,
}
