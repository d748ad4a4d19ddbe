"""What theory says: closed forms for memory and traffic, exact to the byte.

Owns padding and partition arithmetic, what each algorithm makes a rank send, the laws of the
paper with every named deviation from them, and the claims that a run can be held against. It is
layer L1: it imports the standard library and layer L0 (`errors`, `events`, `config`,
`quantities`), never torch, the engine or a trace: what it says would otherwise prove nothing.
"""

from __future__ import annotations

from zerosim.theory.algorithms import Framing, cost, framing
from zerosim.theory.claims import Claim, Measure, claims
from zerosim.theory.gloo import list_reduce_scatter_cost
from zerosim.theory.laws import Cause, Deviation, Law, deviations, law
from zerosim.theory.memory import (
    Optimizer,
    RoleBytes,
    RoleLaw,
    bytes_a_parameter,
    exact_model_states,
    ideal_model_states,
    law_words,
    optimizer_bytes,
    role_laws,
    state_deviations,
)
from zerosim.theory.messages import Cost
from zerosim.theory.partition import (
    UnitSize,
    bucket_columns,
    bucket_size,
    cut_buckets,
    padded_elements,
    padding_elements,
    shard_elements,
)
from zerosim.theory.residency import (
    module_of,
    most_gathered_bytes,
    num_ahead,
    whole_gradients,
)
from zerosim.theory.table import TableCell, paper_table_1
from zerosim.theory.traffic import (
    Call,
    TrafficRow,
    Workload,
    expected_traffic,
    planned_calls,
    total_received_bytes,
    total_sent_bytes,
)

__all__ = [
    "Call",
    "Cause",
    "Claim",
    "Cost",
    "Deviation",
    "Framing",
    "Law",
    "Measure",
    "Optimizer",
    "RoleBytes",
    "RoleLaw",
    "TableCell",
    "TrafficRow",
    "UnitSize",
    "Workload",
    "bucket_columns",
    "bucket_size",
    "bytes_a_parameter",
    "claims",
    "cost",
    "cut_buckets",
    "deviations",
    "exact_model_states",
    "expected_traffic",
    "framing",
    "ideal_model_states",
    "law",
    "law_words",
    "list_reduce_scatter_cost",
    "module_of",
    "most_gathered_bytes",
    "num_ahead",
    "optimizer_bytes",
    "padded_elements",
    "padding_elements",
    "paper_table_1",
    "planned_calls",
    "role_laws",
    "shard_elements",
    "state_deviations",
    "total_received_bytes",
    "total_sent_bytes",
    "whole_gradients",
]
