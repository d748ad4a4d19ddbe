"""How far `zerosim whatif` is from a run over another cable, which is then really taken.

Two network namespaces are joined by a cable whose rate is limited; needs root.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from tests.bench.real import FITTED, STEPS, Recorded
from tests.ranks import free_port
from tests.train.launch.test_nodes import Node, cabled, finish, merged, torchrun, unable
from zerosim.predict.placement.changes import Changes
from zerosim.record import Trace
from zerosim.view.reading import Run

RATE_MBIT = (100, 25)
"""The run that is asked, and the one that is done."""
TC = shutil.which("tc")


def cable() -> Iterator[str]:
    """What if the cable were slower, and a run over the slower cable."""
    if why := unable():
        yield f"Over another cable: {why}."
        return
    if TC is None:
        yield "Over another cable: needs the command tc (Debian's iproute2)."
        return
    with TemporaryDirectory(prefix="zerosim-cable-") as home, cabled() as nodes:
        fast, slow = (_over(nodes, Path(home, str(rate)), rate) for rate in RATE_MBIT)
    changes = Changes(bandwidth=RATE_MBIT[1] / RATE_MBIT[0])
    run = Run(fast)
    would = median(
        run.what_if(changes, iteration=one)[0].after.path.duration_ns for one in run.iterations[1:]
    )
    was, truth = (Recorded(FITTED[0], [one]).step_ns for one in (fast, slow))
    times = " | ".join(f"{ns / 1e6:.1f}" for ns in (was, would, truth))
    yield (
        f"| a cable of {RATE_MBIT[0]} Mb/s | `--bandwidth x{changes.bandwidth:g}`, and a cable of "
        f"{RATE_MBIT[1]} Mb/s | {times} | {100 * (would / truth - 1):+.1f} % |"
    )


def _over(nodes: tuple[Node, Node], folder: Path, rate: int) -> Trace:
    """ZeRO-3 on two ranks, each at an end of a cable of so many Mb a second."""
    for node in nodes:
        limit = ("tbf", "rate", f"{rate}mbit", "burst", "256kb", "latency", "400ms")
        words = (str(TC), "qdisc", "replace", "dev", node.interface, "root", *limit)
        subprocess.run((*node.prefix, *words), check=True)
    port = free_port()
    folders = [folder.with_name(f"{folder.name}-{node.number}") for node in nodes]
    finish(
        *(
            torchrun(
                node, "--nproc-per-node", 1, "--node-rank", node.number,
                "--master-addr", "10.0.0.1", "--master-port", port,
                "-m", "zerosim", "run", "--model", "gpt-tiny", "--stage", 3,
                "--steps", STEPS, "--batch", 1, "--no-memory", "--out", own,
            )
            for node, own in zip(nodes, folders, strict=True)
        )
    )  # fmt: skip
    return merged(folder, folders)
