"""A run as PyTorch profiler traces that Holistic Trace Analysis and TraceLens analyse.

Both read the streams of a GPU. zerosim recorded threads, so computation, collectives and copies are
on streams of their own, numbered below, and each file says so. Values that were not recorded are
omitted: an imported run has collectives alone. Sources: HolisticTraceAnalysis,
hta/common/trace_parser.py; TraceLens, NcclAnalyser; the arguments of a record: PyTorch,
torch/csrc/distributed/c10d/ParamCommsUtils.hpp.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from zerosim.analysis.graph import EventGraph
from zerosim.analysis.graph.kinds import PHASES, NodeKind
from zerosim.record import require_times
from zerosim.schema.events import Event, Group, Op
from zerosim.view.export.perfetto import Slice, lanes

STREAMS = {NodeKind.COMPUTE: 100, NodeKind.CALL: 200, NodeKind.COPY: 300}
"""The first stream of each kind; overlapping events use the next one. HTA ignores stream 0."""
_KINDS = {NodeKind.COMPUTE: "computation", NodeKind.COPY: "copies", NodeKind.CALL: "collectives"}
_PROGRAM, _THREAD = 1, 2
"""Threads: the program's own, and the one that launches concurrent work."""
_NAMES: dict[Op | None, tuple[str, str]] = {
    Op.ALL_REDUCE: ("all_reduce", "allreduce"),
    Op.ALL_GATHER: ("all_gather", "_allgather_base"),
    Op.REDUCE_SCATTER: ("reduce_scatter", "_reduce_scatter_base"),
    Op.BROADCAST: ("broadcast", "broadcast"),
    Op.REDUCE: ("reduce", "reduce"),
    Op.ALL_TO_ALL: ("all_to_all", "all_to_allv"),
    Op.GATHER: ("gather", "gather"),
    Op.SCATTER: ("scatter", "scatter"),
    Op.SEND: ("send", "send"),
    Op.RECEIVE: ("recv", "recv"),
    Op.BARRIER: ("barrier", "barrier"),
}
"""PyTorch's name of an operation in a kernel's name and in a record."""
_DTYPES = {
    "float32": "Float",
    "float64": "Double",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "int64": "Long",
    "int32": "Int",
    "int16": "Short",
    "int8": "Char",
    "uint8": "Byte",
    "bool": "Bool",
}
_PARTS = {Op.ALL_GATHER: (True, False), Op.REDUCE_SCATTER: (False, True)}
"""Whether the input, and the output, is one rank's part of the payload."""
_LAUNCH_US = 2.0
"""HTA rounds starts up and ends down to whole µs, and drops empty events from its path."""
_FIRST_LINK = 2**20
"""HTA stores these numbers in as few bits as they need, then overwrites them with event indices."""


def hta_files(graph: EventGraph, folder: Path) -> dict[Path, bytes]:
    """A whole run, a file for each rank.

    Args:
        graph: the graph of a whole trace.
        folder: folder of the files.

    Returns:
        The contents of each file.

    Raises:
        TraceError: nothing of the run has times.
    """
    require_times(graph.trace, "HTA and TraceLens analyse")
    base = int(graph.at.min()) if graph.num_nodes else 0
    return {
        folder / f"rank-{rank.rank}.json": _RankFile(graph, place, base).content()
        for place, rank in enumerate(graph.trace.ranks)
    }


class _RankFile:
    """One rank's file."""

    def __init__(self, graph: EventGraph, place: int, base_ns: int) -> None:
        self.graph, self.base_ns = graph, base_ns
        self.trace = graph.trace.ranks[place]
        self.mine = graph.place == place
        self.device = self.trace.header.local_rank
        self.last_link = _FIRST_LINK

    def content(self) -> bytes:
        """The whole of it: HTA looks for a blank after the colon behind `"rank"`."""
        groups = self.trace.groups
        config = [
            {"pg_name": name, "pg_desc": name, "backend_config": group.backend}
            | {"pg_size": len(group.ranks), "ranks": list(group.ranks)}
            for name, group in groups.items()
        ]
        whole = {
            "schemaVersion": 1,
            "distributedInfo": {
                "backend": "nccl",  # known to HTA and TraceLens; `zerosim` names the actual one
                "rank": self.trace.rank,
                "world_size": self.graph.trace.manifest.num_ranks,
                "pg_count": len(config),
                "pg_config": config,
            },
            "zerosim": {
                "backend": self.graph.trace.manifest.backend,
                "source": str(self.graph.trace.folder),
                "streams": "no GPU's: those of zerosim's record, "
                + ", ".join(f"{words} from {STREAMS[kind]}" for kind, words in _KINDS.items()),
                "times": "predicted" if self.graph.trace.manifest.is_predicted else "recorded",
                "last step": "empty: HTA omits the kernels of the last one",
            },
            "traceEvents": [*self._steps(), *self._phases(), *self._work()],
        }
        return (json.dumps(whole) + "\n").encode()

    def _us(self, time_ns: int) -> float:
        return (time_ns - self.base_ns) / 1000

    def _span(self, category: str, name: str, begin: float, end: float, **more: Any) -> Any:
        """A complete event; on the program's thread unless `more` has another."""
        found = {"ph": "X", "cat": category, "name": name, "pid": self.trace.header.pid}
        return found | {"tid": _PROGRAM, "ts": begin, "dur": max(end - begin, 0.001)} | more

    def _steps(self) -> Iterator[Any]:
        """The profiler steps: each iteration, and an empty one at the end."""
        graph = self.graph
        numbers = graph.iteration[self.mine]
        end = 0.0
        for number in sorted({int(one) for one in numbers if one >= 0}):
            nodes = self.mine & (graph.iteration == number)
            begin, end = self._us(int(graph.at[nodes].min())), self._us(int(graph.end[nodes].max()))
            yield self._span("user_annotation", f"ProfilerStep#{number}", begin, end)
        if end:
            last = f"ProfilerStep#{int(numbers.max()) + 1}"
            yield self._span("user_annotation", last, end + 1, end + 2)

    def _phases(self) -> Iterator[Any]:
        graph = self.graph
        borders = np.flatnonzero(self.mine & graph.is_kind(NodeKind.PHASE)).tolist()
        for border, following in pairwise(borders):
            if graph.iteration[border] >= 0:
                name = f"## {PHASES[graph.phase[border]].value} ##"
                begin, end = self._us(int(graph.at[border])), self._us(int(graph.at[following]))
                yield self._span("user_annotation", name, begin, end)

    def _work(self) -> Iterator[Any]:
        """Operators, their launches, and the corresponding kernels on a GPU."""
        graph = self.graph
        for kind, first in STREAMS.items():
            nodes = np.flatnonzero(self.mine & graph.is_kind(kind)).tolist()
            slices = [
                Slice(str(node), int(graph.start[node]), int(graph.end[node]))
                for node in nodes
                if graph.end[node] > graph.start[node]
            ]
            for number, lane in enumerate(lanes(slices)):
                for one in lane:
                    yield from self._kernel(int(one.name), one, first + number)

    def _kernel(self, node: int, one: Slice, stream: int) -> Iterator[Any]:
        event = self.graph.event_of(node)
        assert event is not None, "only phases have none"
        self.last_link += 1
        said = self._said(event) | {"External id": self.last_link}
        link = {"correlation": self.last_link}
        begin, end = self._us(one.start_ns), self._us(one.end_ns)
        thread = _THREAD if event.op is not None else _PROGRAM
        operator = event.operator or self.graph.label(node).removeprefix("arrival at ")
        launched = begin + min(_LAUNCH_US, (end - begin) / 2)
        yield self._span("cpu_op", operator, begin, launched, tid=thread, args=said)
        yield self._span("cuda_runtime", "cudaLaunchKernel", begin, launched, tid=thread, args=link)
        args = said | link | {"device": self.device, "stream": stream}
        yield self._span(
            "kernel", self._name(event), begin, end, pid=self.device, tid=stream, args=args
        )

    def _name(self, event: Event) -> str:
        """The name by which HTA and TraceLens distinguish communication from computation."""
        if event.op is None:
            return f"Memcpy {event.origin} to {event.target}" if event.origin else "compute"
        backend = self.trace.groups[event.group].backend if event.group else "not recorded"
        name = _NAMES.get(event.op, (event.operator or event.op.value, ""))[0]
        return f"nccl:{name} ({backend})"

    def _said(self, event: Event) -> dict[str, Any]:
        """PyTorch's record of a call, with the fields that were recorded."""
        found: dict[str, Any] = {"Phase": event.phase.value}
        if event.unit:
            found["Unit"] = event.unit
        if event.purpose:
            found["Purpose"] = event.purpose.value
        if event.op is None:
            return found
        found["Collective name"] = _NAMES.get(event.op, ("", event.operator))[1]
        if group := self.trace.groups.get(event.group):
            found |= self._of_group(event, group)
        if not event.operator and event.dtype:
            found["dtype"] = _DTYPES.get(event.dtype, event.dtype)
            given, gotten = _PARTS.get(event.op, (False, False))
            size = len(group.ranks) if group else 1
            found["In msg nelems"] = event.elements // (size if given else 1)
            found["Out msg nelems"] = event.elements // (size if gotten else 1)
        return found

    def _of_group(self, event: Event, group: Group) -> dict[str, Any]:
        place = group.ranks.index(self.trace.rank)
        found: dict[str, Any] = {
            "Process Group Name": event.group,
            "Process Group Description": event.group,
            "Process Group Ranks": json.dumps(list(group.ranks)),
            "Group size": len(group.ranks),
            "Rank": place,
        }
        if event.sequence is not None:
            found["Seq"] = event.sequence
        if event.parts:
            found["In split size"] = json.dumps(list(event.parts))
            found["Out split size"] = json.dumps(list(event.received_parts))
        return found
