"""Profiles in the form of each PyTorch version, made event by event."""

from __future__ import annotations

import json
from pathlib import Path

BASE_NS = 1_767_189_312_000_000_000
MAIN, AUTOGRAD, STREAM = 1, 2, 20


class Made:
    """A file under construction; times in microseconds from its base."""

    def __init__(self, rank=0, num_ranks=4, groups=True, **header):
        self.events = []
        self.now = 100.0
        self.rank = rank
        info = {"backend": "nccl", "rank": rank, "world_size": num_ranks}
        if groups:
            everyone = {"pg_name": "0", "backend_config": "cuda:nccl"}
            info["pg_config"] = [everyone | {"ranks": list(range(num_ranks))}]
        self.header = {"distributedInfo": info, "baseTimeNanoseconds": BASE_NS, **header}
        self.links = 0

    def span(self, name, begin, duration, *, cat="cpu_op", tid=MAIN, pid=7, **args):
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": begin}
            | {"dur": duration, "args": {key.replace("_", " "): args[key] for key in args}}
        )

    def step(self, number, calls, *, update=True):
        """An iteration of DDP: forward, a backward that makes these calls, an update."""
        begin = self.now
        self.span("DistributedDataParallel.forward", begin + 10, 50, cat="user_annotation")
        self.now += 100
        for name, record in calls:
            self.call(name, record)
        self.now += 100
        if update:
            self.span("Optimizer.step#SGD.step", self.now, 50, cat="user_annotation")
        self.now += 100
        if number is not None:
            name = f"ProfilerStep#{number}"
            self.span(name, begin, self.now - begin, cat="user_annotation")

    def call(self, name, record, dims=None, *, linked=True):
        """A call on autograd's thread with its record, its launch and its kernel."""
        begin, thread = self.now, {"tid": AUTOGRAD}
        engine = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
        self.span(engine, begin, 30, **thread)
        self.links += 10
        shapes = {} if dims is None else {"Input_Dims": dims[0], "Input_type": dims[1]}
        self.span(name, begin + 1, 20, External_id=self.links, **shapes, **thread)
        link = {"External_id": self.links + 1}
        args = {key.replace(" ", "_"): value for key, value in record.items()}
        self.span("record_param_comms", begin + 2, 15, **link, **args, **thread)
        number = 1000 + self.links
        self.span(
            "cudaLaunchKernel", begin + 5, 2, cat="cuda_runtime", correlation=number, **thread
        )
        kernel = {"External_id": link["External_id"] if linked else number, "correlation": number}
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
        self.span(name, begin + 40, 25, cat="kernel", pid=0, tid=STREAM, **kernel)
        self.now += 70

    def save(self, folder: Path, name="") -> Path:
        file = folder / (name or f"rank{self.rank}.json")
        # no order of a file's fields is relied upon
        file.write_text(json.dumps({"traceEvents": self.events, **self.header}))
        return file


def record(name, given, gotten, dtype="Float", **more):
    """What PyTorch 2.4 and later say of a call."""
    args = {"Collective name": name, "In msg nelems": given, "Out msg nelems": gotten}
    args |= {"dtype": dtype, "Group size": 4, "Process Group Name": "0"}
    return args | {"Process Group Ranks": "[0, 1, 2, 3]", **more}
