"""The constants of a machine, fitted to recorded runs, each with its residual."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zerosim.analysis.graph import build_graph
from zerosim.base.errors import ConfigError
from zerosim.base.tiers import Link
from zerosim.predict.placement.computing import ComputeRates, fit_computing
from zerosim.predict.placement.durations import durations
from zerosim.predict.placement.fitting import FittedLine, fit_line
from zerosim.predict.placement.modelled import Work
from zerosim.predict.placement.network import make_network
from zerosim.predict.placement.seen import CostSurvey, Points
from zerosim.record import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The fitted constants; None if the runs have no data for one.

    Attributes:
        computing: of forward, backward and update.
        message: of zerosim's rings, per hop; native: of a step of the backend's collectives.
        ask: of the request of a collective or a copy.
        program_ns, handover_ns, wake_ns, post_ns: as in `Machine`.
    """

    computing: ComputeRates
    message: FittedLine | None
    native: FittedLine | None
    bus: FittedLine | None
    storage: FittedLine | None
    ask: FittedLine | None
    program_ns: float
    handover_ns: float
    wake_ns: float
    post_ns: float


def calibrate(runs: Sequence[tuple[Trace, Work]]) -> Calibration:
    """Fit the constants of the machine that some runs were recorded on.

    Args:
        runs: each with the work of its computations.

    Raises:
        ConfigError: nothing was computed in them.
    """
    seen = CostSurvey()
    for trace, work in runs:
        network = make_network(build_graph(trace))
        seen.work = work
        durations(network, seen)
    if not any(one.flops for one in seen.computed):
        names = ", ".join(str(trace.folder) for trace, _ in runs)
        raise ConfigError(f"{names}: no computation is recorded: record a run of zerosim's engine")
    return Calibration(
        computing=fit_computing(seen.computed),
        message=_line(seen.transfers),
        native=_line(seen.steps),
        bus=_line(seen.copied[Link.BUS]),
        storage=_line(seen.copied[Link.STORAGE]),
        ask=_line(seen.asked),
        program_ns=_mean(seen.program),
        handover_ns=_mean(seen.handover),
        wake_ns=_mean(seen.wake),
        post_ns=_mean(seen.post),
    )


def _mean(times: Sequence[int]) -> float:
    return float(np.mean(times)) if times else 0.0


def _line(points: Points) -> FittedLine | None:
    if not points:
        return None
    sizes, times = (np.array(column) for column in zip(*points, strict=True))
    return fit_line(np.rint(sizes).astype(np.int64), np.rint(times).astype(np.int64), np.mean)


def write_machine(found: Calibration, title: str, source: str, cores: float | None) -> str:
    """A machine file: every constant with how it was fitted.

    Args:
        source: the command of the fit.
        cores: number of ranks per node that compute at full speed, if given.

    Raises:
        ConfigError: nothing was computed, or nothing updated.
    """
    computing = found.computing
    flops = computing.flops_per_second or computing.flops_per_second_fp32
    if flops is None or computing.bytes_per_second is None:
        raise ConfigError(
            "no forward, backward or update is recorded, so there are no times to fit"
        )
    said = f"fitted by {source}"
    words = f"{said}: {computing.count} events, {100 * computing.residual:.0f} % off in the median"
    lines = [
        f"title = {json.dumps(title)}",
        *(
            _entry(name, round(getattr(found, name)), said)
            for name in ("program_ns", "handover_ns", "wake_ns", "post_ns")
        ),
        _entry("operator_ns", round(computing.operator_ns), words),
    ]
    if cores is not None:
        lines.append(_entry("cores", cores, f"given to {source}"))
    for name, peak, rate in (
        ("compute", "flops_per_second", flops),
        ("memory", "bytes_per_second", computing.bytes_per_second),
    ):
        lines += ["", f"[{name}]", _entry(peak, float(f"{rate:.4g}"), words)]
        if name == "compute" and (wide := computing.flops_per_second_fp32) is not None:
            lines.append(_entry("flops_per_second_fp32", float(f"{wide:.4g}"), words))
        lines.append(_entry("fraction", [[0, 1.0]], "the rate is what was reached"))
    # a native collective has the steps of a ring's messages, if no ring was observed
    for name, line in (
        ("ask", found.ask),
        ("node", found.message or found.native),
        ("native", found.native),
        ("bus", found.bus),
        ("storage", found.storage),
    ):
        if line is not None:
            words = f"{said}: {line.count} events, {100 * line.residual:.0f} % off in the median"
            speed = float(f"{1e9 / max(line.ns_per_byte, 1e-6):.4g}")
            lines += ["", f"[{name}]", _entry("bytes_per_second", speed, words)]
            lines.append(_entry("latency_ns", round(line.latency_ns), words))
    return "\n".join(lines) + "\n"


def _entry(name: str, value: object, source: str) -> str:
    return f"{name} = {{ value = {json.dumps(value)}, source = {json.dumps(source)} }}"
