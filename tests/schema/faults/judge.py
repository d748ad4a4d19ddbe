"""Runs a fault, and reads its diagnosis: culprit, event, line, and the seconds until then."""

from __future__ import annotations

import json
import os
import pickle
import re
import threading
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist

import zerosim
from tests.schema.faults import programs
from zerosim.base.config import EngineConfig, RunConfig
from zerosim.base.errors import TraceError
from zerosim.schema.faults import OF_CALLS, OF_GRADIENTS, Fault, FaultKind
from zerosim.trace import guard
from zerosim.train.launch import worker
from zerosim.train.launch.calls import FunctionCall
from zerosim.train.launch.forkserver import Work, keep, lent
from zerosim.train.launch.job import Job
from zerosim.train.launch.rendezvous import open_rendezvous
from zerosim.verify.diagnosis import Diagnosis, Wrong, diagnose_folder

SYSTEMS = ("engine", "ddp", "fsdp2", "pipeline")
STEPS = 6
TIMEOUT_S = 12.0
PATIENCE_S = 2.0
_LOOK_S = 0.25
_DEADLINE_S = 90.0
_DUMP_S = 0.4
_SETTLE_S = 2.0
"""From the verdict until the last dumps: what hangs has come to a halt by then."""
SEEN_IN_DUMPS = OF_CALLS - OF_GRADIENTS - {FaultKind.FLIP_MESSAGE, FaultKind.PEER} | {
    *(FaultKind.SHORT_DATA, FaultKind.LOADER_ERROR, FaultKind.NO_BACKWARD)
}
"""Faults of which the order of calls tells."""
_SAID = re.compile(
    r"fault (?P<fault>\S.*?): (?:(?P<op>[a-z-]+)(?: of (?P<unit>[^,]+))?, )?"
    r"(?:.*?)(?P<phase>\w+) of iteration (?P<iteration>\d+)(?: on)?(?:, (?P<source>.+))?$"
)


@dataclass(frozen=True)
class Case:
    """One fault on one system; None for a clean run."""

    system: str
    fault: str | None
    seed: int
    ranks: int = 3
    check: int = 1


@dataclass
class Told:
    """What was said, and whether it is right; None where there is nothing to be right about."""

    case: Case
    happened: str = ""
    culprit: bool | None = None
    event: bool | None = None
    line: bool | None = None
    seconds: float | None = None
    sentence: str = ""
    torch_says: str = ""
    dumps: Path | None = field(default=None, repr=False)


def take_part(system, folder, faults, check, seed, dumps):
    """Be a rank of a program."""
    torch.set_num_threads(1)
    rank = dist.get_rank()
    _tell_in(folder)
    _dump_now_and_then(Path(dumps), rank)
    options = {"faults": [Fault.read(one) for one in faults], "check_replicas": check}
    with zerosim.trace(folder, **options):
        getattr(programs, system)(seed, STEPS)


def be_engine(argument):
    """Be a rank of zerosim's engine, as `zerosim run` starts them; returns the exit code."""
    folder, job = json.loads(argument)
    _tell_in(folder)
    return worker.work(job)


def _tell_in(folder):
    """Have what a rank says of its faults written to a file."""
    said = Path(folder, f"said-{os.environ['RANK']}.txt")
    said.parent.mkdir(parents=True, exist_ok=True)

    def say(what):
        with said.open("a") as file:
            file.write(f"{time.time()} {what}\n")

    guard.arm(None, say)


def _dump_now_and_then(folder, rank):
    """Flight Recorder's dumps, as its watchdog would leave them: Gloo has none."""

    def dump():
        while True:
            content = torch._C._distributed_c10d._dump_fr_trace()
            partial = folder / f".{rank}"
            partial.write_bytes(content)
            partial.rename(folder / f"rank_{rank}")
            time.sleep(_DUMP_S)

    threading.Thread(target=dump, daemon=True).start()


def run_case(case: Case, folder: Path) -> Told:
    """Do it, and ask while the ranks run; they are ended when something is said, or at the end."""
    keep()
    told = Told(case)
    trace, dumps = folder / "trace", folder / "dumps"
    dumps.mkdir(parents=True)
    faults = (Fault.read(case.fault),) if case.fault else ()
    work = _work(case, trace, dumps, faults, folder)
    found: Diagnosis | None = None
    with lent() as server, open_rendezvous(None) as place:
        server.start(work, [_rank(rank, case.ranks, place) for rank in range(case.ranks)])
        begun = time.monotonic()
        while time.monotonic() - begun < _DEADLINE_S:
            time.sleep(_LOOK_S)
            is_over = len(server.exit_codes()) == case.ranks
            with suppress(TraceError) if not is_over else nullcontext():
                found = diagnose_folder(trace, patience_s=PATIENCE_S)
                if found.findings or is_over:
                    break
            if is_over:
                break
        told_at = time.time()
        time.sleep(_SETTLE_S if has_dumps(case) else 0)
        server.end_ranks()
    told.dumps = dumps
    _judge(told, found, trace, told_at)
    return told


def has_dumps(case: Case) -> bool:
    """Whether its dumps are judged: of programs, and of faults that the order of calls tells."""
    is_seen = case.fault is not None and Fault.read(case.fault).kind in SEEN_IN_DUMPS
    return is_seen and case.system in ("ddp", "fsdp2")


def _work(case, trace, dumps, faults, folder):
    if case.system == "engine":
        config = EngineConfig(stage=case.seed % 4, bucket_elements=20_000)
        run = RunConfig(
            ranks=case.ranks, steps=STEPS, model="mlp", seed=case.seed, timeout_s=TIMEOUT_S
        )
        job = Job(run, ((config, trace),), "", faults, case.check)
        return Work("tests.schema.faults.judge:be_engine", json.dumps([str(trace), job.encode()]))
    call = FunctionCall(
        function=take_part,
        args=(case.system, str(trace), [str(one) for one in faults], case.check, case.seed,
              str(dumps)),
        timeout_s=TIMEOUT_S,
    )  # fmt: skip
    (folder / "request").write_bytes(pickle.dumps(call))
    return Work("zerosim.train.launch.calls:answer", str(folder))


def _rank(rank, ranks, place):
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        **place,
    }


def _judge(told, found, trace, told_at):
    case = told.case
    told.sentence = "" if found is None else found.headline
    findings = () if found is None else found.findings
    if case.fault is None:
        told.culprit = not findings
        return
    for path in trace.glob("said-*.txt"):
        for line in path.read_text().splitlines():
            at, _, what = line.partition(" ")
            if "did not occur" not in what:
                told.happened, told.seconds = what, told_at - float(at)
    told.culprit = bool(findings) and Fault.read(case.fault).rank in findings[0].ranks[:1]
    match = _SAID.search(told.happened)
    if match is None or not findings:
        told.event = None if findings else False
        return
    told.event, told.line = _is_there(findings[0], match)


def _is_there(finding, match):
    """Whether a finding is about the event at which the fault was made, and its line."""
    place, iteration = finding.place, int(match["iteration"])
    in_iteration = place.iteration == iteration
    if match["phase"] == "data":  # they are read between two iterations
        is_before = place.iteration == iteration - 1 and place.phase == "outside"
        return in_iteration or is_before, None
    is_kept = finding.wrong in (Wrong.DIFFERS, Wrong.CHANGED) and not place.op
    if finding.wrong is Wrong.SLOW_LINK or is_kept:  # it is seen in what the rank keeps, later
        return in_iteration, None
    line = place.source == match["source"] if match["source"] else None
    if not match["op"]:
        return in_iteration, line
    in_phase = in_iteration and place.phase == match["phase"]
    if finding.wrong is Wrong.DIED:  # what it had asked for in the background died with it
        return in_phase, line
    is_op = match["op"] == place.op or finding.wrong is Wrong.ON_THE_WAY
    return in_phase and is_op and place.unit == (match["unit"] or ""), line
