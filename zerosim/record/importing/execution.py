"""A PyTorch execution trace (`ExecutionTraceObserver`) as spans related to communication.

It has the calls with their arguments in order, without times: here, the position in that order
stands in for the time. The contents are converted to the form of a profile, so that calls, places
and purposes need one reader.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from zerosim.base.errors import TraceError
from zerosim.record.bounds import MOST_RANKS
from zerosim.record.importing.kineto import KEPT, RECORD, group_config
from zerosim.record.importing.spans import ProfileSpan, in_order, nest
from zerosim.record.importing.values import ELEMENT_TYPES, counted

GROUPS = "## process_group:init ##"
LINK = "Record function id"
"""A profile's name for the number by which it and an execution trace identify a call."""
_ROOTED = ("broadcast", "reduce", "gather", "scatter", "send", "recv", "wait")
"""Records in which the rank may be that of a different process."""
_APART_NS = 1000
_TENSOR = re.compile(r"Tensor\(([^()]*)\)")
_ATTRIBUTES = {
    "collective_name": "Collective name",
    "dtype": "dtype",
    "in_msg_nelems": "In msg nelems",
    "out_msg_nelems": "Out msg nelems",
    "in_split_size": "In split size",
    "out_split_size": "Out split size",
    "pg_name": "Process Group Name",
    "pg_size": "Group size",
    "global_rank_start": "Global rank start",
    "global_rank_stride": "Global rank stride",
}
"""Fields of newer versions, and their names in a profile."""
_NO_GROUP = ("", None)


class _Attribute(msgspec.Struct, gc=False):
    name: str = ""
    value: Any = None


class _Node(msgspec.Struct, gc=False):
    """One operator; older versions list separately what newer ones have in `inputs`."""

    id: int = 0
    name: str = ""
    parent: int = 0
    ctrl_deps: int = 0
    rf_id: int = 0
    tid: int = 0
    seq_id: int = -1
    fw_tid: int = 0
    inputs: msgspec.Raw = msgspec.Raw(b"[]")
    input_shapes: msgspec.Raw = msgspec.Raw(b"[]")
    input_types: msgspec.Raw = msgspec.Raw(b"[]")
    outputs: msgspec.Raw = msgspec.Raw(b"[]")
    attrs: list[_Attribute] = []


class _ExecutionFile(msgspec.Struct):
    nodes: list[_Node]
    schema: str
    pid: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The contents of one rank's file.

    Attributes:
        rank, num_ranks: None if not recorded.
        groups: the ranks of each process group, by name; empty if not recorded.
        spans: the spans kept, in order, with arguments named as in a profile.
        differentiated_ns: times of operators that a backward refers to, ascending.
    """

    path: Path
    pid: int
    rank: int | None
    num_ranks: int | None
    groups: dict[str, tuple[int, ...]]
    backends: dict[str, str]
    begin_ns: int
    end_ns: int
    spans: tuple[ProfileSpan, ...]
    differentiated_ns: tuple[int, ...]


def read_execution(path: Path, content: bytes) -> Execution:
    """Read one rank's execution trace.

    Raises:
        TraceError: it is damaged, or not an execution trace.
    """
    try:
        file = msgspec.json.decode(content, type=_ExecutionFile)
        return _read(path, file)
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, TraceError):
            raise
        why = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise TraceError(
            f"{path}: not a PyTorch execution trace, or a damaged one ({why}): expected JSON with "
            "nodes, as ExecutionTraceObserver writes it"
        ) from None


def _read(path: Path, file: _ExecutionFile) -> Execution:
    nodes = sorted((_modern(node) for node in file.nodes), key=lambda one: one.id)
    ends = _ends(nodes)
    spans = [
        ProfileSpan(
            node.name,
            (file.pid, node.tid),
            node.id * _APART_NS,
            ends[node.id] * _APART_NS + _APART_NS - 1,
            _arguments(node),
        )
        for node in nodes
        if node.name.startswith(KEPT)
    ]
    if any(not 0 <= one.start_ns <= one.end_ns < 2**62 for one in spans):
        raise ValueError("the ids of nodes are not in order")
    spans.sort(key=in_order)
    nest(spans)
    records = [one for one in spans if one.name == RECORD]
    groups, backends, num_ranks = _groups(nodes)
    return Execution(
        path=path,
        pid=file.pid,
        rank=_rank(records, groups),
        num_ranks=num_ranks,
        groups=groups,
        backends=backends,
        begin_ns=min((one.start_ns for one in spans), default=0),
        end_ns=max((one.end_ns for one in spans), default=0),
        spans=tuple(spans),
        differentiated_ns=tuple(_differentiated(nodes)),
    )


def _modern(node: _Node) -> _Node:
    """A node, with the attributes of newer versions as fields."""
    for one in node.attrs:
        if one.name in ("rf_id", "tid", "seq_id", "fw_tid") and isinstance(one.value, int):
            setattr(node, one.name, one.value)
    node.parent = node.parent or node.ctrl_deps
    if bytes(node.inputs).startswith(b"{"):
        given = msgspec.json.decode(node.inputs, type=dict[str, msgspec.Raw])
        node.inputs = given.get("values", node.inputs)
        node.input_shapes = given.get("shapes", node.input_shapes)
        node.input_types = given.get("types", node.input_types)
    if bytes(node.outputs).startswith(b"{"):
        node.outputs = msgspec.json.decode(node.outputs, type=dict[str, msgspec.Raw]).get(
            "values", msgspec.Raw(b"[]")
        )
    return node


def _ends(nodes: list[_Node]) -> dict[int, int]:
    """The last node within each node, by id: a node has a larger id than its parent."""
    ends = {node.id: node.id for node in nodes}
    for node in reversed(nodes):
        if node.parent in ends and node.parent < node.id:
            ends[node.parent] = max(ends[node.parent], ends[node.id])
    return ends


def _differentiated(nodes: list[_Node]) -> Iterator[int]:
    """Times of operators whose sequence number recurs in autograd's functions."""
    came_back = {node.seq_id for node in nodes if node.fw_tid > 0}
    for node in nodes:
        if node.fw_tid <= 0 <= node.seq_id and node.seq_id in came_back:
            yield node.id * _APART_NS


def _arguments(node: _Node) -> dict[str, Any]:
    """The arguments of the same call in a profile."""
    values, shapes, types = (
        _decoded(raw) for raw in (node.inputs, node.input_shapes, node.input_types)
    )
    flat = [_flat(shape, str(type_)) for shape, type_ in zip(shapes, types, strict=False)]
    found: dict[str, Any] = {
        LINK: node.rf_id,
        "Input Dims": [dims for dims, _ in flat],
        "Input type": [type_ for _, type_ in flat],
        ELEMENT_TYPES: [_element_type(str(type_)) for type_ in types],
        "Concrete Inputs": [
            str(one) if isinstance(one, int) and not isinstance(one, bool) else "" for one in values
        ],
    }
    if node.name == RECORD:
        found |= _of_values(values, [str(one) for one in types], _decoded(node.outputs))
        given = {_ATTRIBUTES[one.name]: one.value for one in node.attrs if one.name in _ATTRIBUTES}
        found |= {name: value for name, value in given.items() if value not in _NO_GROUP}
    return found


def _decoded(raw: msgspec.Raw) -> list[Any]:
    found = msgspec.json.decode(raw)
    return found if isinstance(found, list) else []


def _flat(shape: Any, type_: str) -> tuple[Any, str]:
    """The shapes and dtype of an argument; lists of lists of tensors as one list."""
    if type_.startswith("Tensor("):
        return shape, type_[len("Tensor(") : -1]
    if not type_.startswith("GenericList[") or "Tensor(" not in type_:
        return [], ""
    while isinstance(shape, list) and shape and _is_nested(shape[0]):
        shape = [inner for outer in shape if isinstance(outer, list) for inner in outer]
    return shape, "TensorList"


def _element_type(type_: str) -> str:
    """The dtype of the tensors of an argument or list; "" if not all are tensors."""
    found = set(_TENSOR.findall(type_))
    return found.pop() if len(found) == 1 else ""


def _is_nested(shape: Any) -> bool:
    return isinstance(shape, list) and bool(shape) and isinstance(shape[0], list)


def _of_values(values: list[Any], types: list[str], outputs: list[Any]) -> dict[str, Any]:
    """The values of a record: tensors, sequence, group, rank, name, splits, and newer ones."""
    place = next((at for at, type_ in enumerate(types) if type_ == "String"), None)
    if place is None or place < 2 or place + 2 >= len(values):
        return {}
    name, rank, group = values[place], values[place - 1], values[place - 2]
    sequence = values[place - 3] if place > 2 else None
    found: dict[str, Any] = {
        "Collective name": name,
        "Rank": rank,
        "In split size": values[place + 1],
        "Out split size": values[place + 2],
        "Seq": sequence[0] if isinstance(sequence, list) and sequence else sequence,
        "Process Group Name": str(group[0] if isinstance(group, list) and group else group),
    }
    more = ("Global rank start", "Global rank stride", "Group size")
    found |= dict(zip(more, values[place + 3 : place + 6], strict=False))
    for way, tensors in (("In", values[: max(place - 3, 0)]), ("Out", outputs)):
        elements = [one[3] for one in _tensors(tensors)]
        if elements and all(isinstance(one, int) for one in elements):
            found[f"{way} msg nelems"] = sum(elements)
    return found


def _tensors(values: Any) -> Iterator[list[Any]]:
    """The tensors of values, each [id, storage, offset, elements, bytes of one, device]."""
    if not isinstance(values, list):
        return
    if len(values) == 6 and isinstance(values[5], str) and not isinstance(values[0], list):
        yield values
        return
    for one in values:
        yield from _tensors(one)


def _groups(
    nodes: list[_Node],
) -> tuple[dict[str, tuple[int, ...]], dict[str, str], int | None]:
    """The recorded process groups and the number of ranks."""
    for node in nodes:
        if node.name != GROUPS:
            continue
        (text, *_) = _decoded(node.inputs) or [""]
        config = json.loads(text) if isinstance(text, str) else None
        sizes = [counted(one, "group_size") or 0 for one in config or () if isinstance(one, dict)]
        num_ranks = max(sizes, default=0)
        if 0 < num_ranks <= MOST_RANKS:
            return *group_config(config, num_ranks), num_ranks
    return {}, {}, None


def _rank(records: list[ProfileSpan], groups: dict[str, tuple[int, ...]]) -> int | None:
    """The rank of the trace, if its records agree."""
    ranks = set[int]()
    for record in records:
        args = record.args
        place, start = counted(args, "Rank"), counted(args, "Global rank start")
        if place is None or args.get("Collective name") in _ROOTED:
            continue
        stride = counted(args, "Global rank stride")
        known = groups.get(str(args.get("Process Group Name")), ())
        if place < len(known):
            ranks.add(known[place])
        elif start is not None and stride:
            ranks.add(start + stride * place)
        elif start is None:
            ranks.add(place)
    return ranks.pop() if len(ranks) == 1 else None


def sizes_of_groups(execution: Execution) -> dict[str, int]:
    """The size of each group, from records with a size or exchanges with parts."""
    found: dict[str, int] = {}
    for span in execution.spans:
        name = span.args.get("Process Group Name")
        parts = span.args.get("In split size")
        size = counted(span.args, "Group size")
        if size is None and isinstance(parts, list):
            size = len(parts)
        if isinstance(name, str) and size:
            found[name] = max(size, found.get(name, 0))
    return found
