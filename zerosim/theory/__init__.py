"""The theory: closed forms for memory and traffic, exact to the byte.

It has padding and partition arithmetic, the traffic of each algorithm on a rank, the laws of the
papers with every named deviation, and the claims that a run can be compared with. It is layer L1:
it imports the standard library and layer L0 (`errors`, `events`, `config`, `quantities`), never
torch, the engine or a trace; otherwise, its predictions would prove nothing.
"""

from __future__ import annotations

from zerosim.theory.algorithms import Framing, cost, framing
from zerosim.theory.causes import LEFT_OUT, Cause, Deviation, Law
from zerosim.theory.deviations import deviations, node_deviations
from zerosim.theory.laws import formula, law, law_bytes, node_law, system_name
from zerosim.theory.messages import Cost
from zerosim.theory.model_states import ModelStates
from zerosim.theory.movement import Movement
from zerosim.theory.nodes import ranks_of_node
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
    secondary_bytes,
    whole_bytes,
    whole_gradients,
)
from zerosim.theory.table import TableCell, paper_table_1
from zerosim.theory.workload import Activations, Workload
from zerosim.theory.zero import planned
from zerosim.theory.zero_states import (
    Optimizer,
    bytes_a_parameter,
    optimizer_bytes,
    stage_states,
    zero_states,
)

__all__ = [
    "LEFT_OUT",
    "Activations",
    "Cause",
    "Cost",
    "Deviation",
    "Framing",
    "Law",
    "ModelStates",
    "Movement",
    "Optimizer",
    "TableCell",
    "UnitSize",
    "Workload",
    "bucket_columns",
    "bucket_size",
    "bytes_a_parameter",
    "cost",
    "cut_buckets",
    "deviations",
    "formula",
    "framing",
    "law",
    "law_bytes",
    "module_of",
    "most_gathered_bytes",
    "node_deviations",
    "node_law",
    "num_ahead",
    "optimizer_bytes",
    "padded_elements",
    "padding_elements",
    "paper_table_1",
    "planned",
    "ranks_of_node",
    "secondary_bytes",
    "shard_elements",
    "stage_states",
    "system_name",
    "whole_bytes",
    "whole_gradients",
    "zero_states",
]
