"""The names of operations in PyTorch's backends: in spans, in records, in dumps.

Sources: ProcessGroupNCCL.cpp, ProcessGroupGloo.cpp (`profilingTitle`), PyTorch 1.12 to 2.13.
"""

from zerosim.schema.events import Op

OPERATIONS = {
    "all_reduce": Op.ALL_REDUCE,
    "allreduce": Op.ALL_REDUCE,
    "allreduce_coalesced": Op.ALL_REDUCE,
    "all_gather": Op.ALL_GATHER,
    "_all_gather_base": Op.ALL_GATHER,
    "all_gather_into_tensor_coalesced": Op.ALL_GATHER,
    "all_gather_base": Op.ALL_GATHER,
    "reduce_scatter": Op.REDUCE_SCATTER,
    "_reduce_scatter_base": Op.REDUCE_SCATTER,
    "reduce_scatter_base": Op.REDUCE_SCATTER,
    "reduce_scatter_tensor_coalesced": Op.REDUCE_SCATTER,
    "broadcast": Op.BROADCAST,
    "_broadcast_oop": Op.BROADCAST,
    "reduce": Op.REDUCE,
    "_reduce_oop": Op.REDUCE,
    "gather": Op.GATHER,
    "scatter": Op.SCATTER,
    "all_to_all": Op.ALL_TO_ALL,
    "barrier": Op.BARRIER,
    "send": Op.SEND,
    "recv": Op.RECEIVE,
}
"""By the part of the name after the backend and a colon, as in `nccl:all_reduce`."""
RECORDED: dict[str, tuple[Op, str]] = {
    "allreduce": (Op.ALL_REDUCE, "In"),
    "allreduce_coalesced": (Op.ALL_REDUCE, "In"),
    "all_gather": (Op.ALL_GATHER, "Out"),
    "_allgather_base": (Op.ALL_GATHER, "Out"),
    "allgather_into_tensor_coalesced": (Op.ALL_GATHER, "Out"),
    "reduce_scatter": (Op.REDUCE_SCATTER, "In"),
    "_reduce_scatter_base": (Op.REDUCE_SCATTER, "In"),
    "reduce_scatter_tensor_coalesced": (Op.REDUCE_SCATTER, "In"),
    "broadcast": (Op.BROADCAST, "In"),
    "reduce": (Op.REDUCE, "In"),
    "all_to_all": (Op.ALL_TO_ALL, "In"),
    "all_to_allv": (Op.ALL_TO_ALL, "In"),
    "send": (Op.SEND, "In"),
    "recv": (Op.RECEIVE, "Out"),
    "gather": (Op.GATHER, ""),
    "scatter": (Op.SCATTER, ""),
    "barrier": (Op.BARRIER, ""),
}
"""Names of operations in NCCL's records, and which of the two sizes is the payload."""
