"""One trace in a comparison, as data: traffic, memory and times."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from zerosim.base.tiers import Link
from zerosim.schema.events import Op, Phase, Purpose
from zerosim.schema.memory import Role
from zerosim.verify.report import to_json


@dataclass(frozen=True, slots=True, order=True)
class TrafficReason:
    """Why a rank sent bytes."""

    phase: Phase
    purpose: Purpose
    op: Op


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Time of an iteration by cause, ns: medians over iterations.

    Attributes:
        num_iterations: number of iterations behind the medians; the first one, a warm-up, is
            omitted if there are others.
        duration_ns: duration of the critical path.
        by_cause_ns: critical path by `analysis.Cause`; medians need not add up.
        wall_ns, exposed_ns, waiting_ns, hidden_ns: by phase, the mean over ranks; all but the
            first, and `by_cause_ns`, are empty for a program without recorded waits.
    """

    num_iterations: int
    duration_ns: int
    by_cause_ns: dict[str, int]
    wall_ns: dict[Phase, int]
    exposed_ns: dict[Phase, int]
    waiting_ns: dict[Phase, int]
    hidden_ns: dict[Phase, int]

    @property
    def overlap(self) -> float | None:
        """The hidden fraction of the communication; None if there was none."""
        hidden, exposed = sum(self.hidden_ns.values()), sum(self.exposed_ns.values())
        return hidden / (hidden + exposed) if hidden + exposed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemoryUse:
    """Memory of the first rank, over all iterations.

    Attributes:
        peak_bytes: the peak, by phase.
        roles: roles at the highest of these peaks.
        states_bytes: all model states at the start of the last update; for a program without
            iterations, their maximum.
    """

    peak_bytes: dict[Phase, int]
    roles: dict[Role, int]
    states_bytes: int

    @property
    def highest_bytes(self) -> int:
        """The largest peak of any phase."""
        return max(self.peak_bytes.values(), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the traces.

    Attributes:
        name: its name in a table.
        traffic_law, states_law: the laws of this run, such as "2Ψ(N-1)/N" and "16Ψ/N"; "" if
            unknown.
        units: their names, in the order of the model.
        settings: the configuration and the run, as plain values.
        iteration: the iteration of the bytes; `WHOLE` for a program without iterations.
        iterations: all iterations of memory and times.
        incomplete: why the trace ends early; "" if it is complete.
        sent_bytes: by reason, for the first rank; empty if a backend's algorithm is unknown.
        unit_bytes: the same by phase and unit; a bucket's bytes are assigned to units by columns.
        link_bytes: over all ranks, sent and copied in a step over each link class.
        wire_bytes: the kernel's count for the first rank; None if not measured.
        held: None if memory was not recorded.
        times: None if the ranks are inconsistent.
        is_predicted: the times are predicted.
        loss: the last loss; None if none was reported.
    """

    name: str
    folder: str
    stage: int | None
    traffic_law: str
    states_law: str
    num_ranks: int
    num_parameters: int
    element_bytes: int
    units: tuple[str, ...]
    settings: dict[str, object]
    iteration: int
    iterations: tuple[int, ...]
    incomplete: str
    sent_bytes: dict[TrafficReason, int]
    unit_bytes: dict[tuple[Phase, str], int]
    link_bytes: dict[Link, int]
    wire_bytes: int | None
    held: RankMemoryUse | None
    times: Times | None
    loss: float | None
    is_predicted: bool = False

    @property
    def total_bytes(self) -> int:
        """Bytes that the first rank sent in the iteration."""
        return sum(self.sent_bytes.values())

    def to_plain(self) -> dict[str, Any]:
        """As JSON values; pairs become lists."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        plain["held"] = None if self.held is None else asdict(self.held)
        plain["times"] = None if self.times is None else asdict(self.times)
        plain["sent_bytes"] = [
            {**asdict(reason), "bytes": sent} for reason, sent in self.sent_bytes.items()
        ]
        plain["unit_bytes"] = [
            {"phase": phase, "unit": unit, "bytes": sent}
            for (phase, unit), sent in self.unit_bytes.items()
        ]
        plain["total_bytes"] = self.total_bytes
        converted: dict[str, Any] = to_json(plain)
        return converted
