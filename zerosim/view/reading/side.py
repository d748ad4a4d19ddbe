"""One trace in a comparison, as data: what it sent, held and took."""

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
    """Where the time of an iteration went, ns: medians over iterations.

    Attributes:
        num_iterations: that the medians are over; the first one, which warms up, is left out if
            there are others.
        duration_ns: of the critical path.
        by_cause_ns: of the critical path, by `analysis.Cause`; medians need not sum up.
        wall_ns, exposed_ns, waiting_ns, hidden_ns: by phase, the mean of all ranks; but for the
            first empty, as `by_cause_ns`, for a program whose waits were not recorded.
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
        """Which part of the communication is hidden; None if there was none."""
        hidden, exposed = sum(self.hidden_ns.values()), sum(self.exposed_ns.values())
        return hidden / (hidden + exposed) if hidden + exposed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemoryUse:
    """What the first rank held, over all iterations.

    Attributes:
        peak_bytes: the most, by phase.
        roles: at the highest of these peaks.
        states_bytes: all model states when the last update began; of a program that told of no
            iterations, the most that there were.
    """

    peak_bytes: dict[Phase, int]
    roles: dict[Role, int]
    states_bytes: int

    @property
    def highest_bytes(self) -> int:
        """The most in any phase."""
        return max(self.peak_bytes.values(), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the traces.

    Attributes:
        name: what it is called in a table.
        traffic_law, states_law: what theory says of this run, such as "2Ψ(N-1)/N" and "16Ψ/N"; ""
            if it knows none.
        units: their names, in the order of the model.
        settings: the configuration and the run, as plain values.
        iteration: whose bytes these are; `WHOLE` of a program that told of none.
        iterations: all that memory and times are of.
        incomplete: why the trace ends early; "" if it is whole.
        sent_bytes: by reason, of the first rank; empty if a backend's algorithm is not known.
        unit_bytes: likewise by phase and unit; a bucket's bytes are its units' by their columns.
        link_bytes: of all ranks, sent and copied in a step over each link class.
        wire_bytes: that the kernel sent for the first rank; None if it was not measured.
        held: None if nothing was recorded about memory.
        times: None if the ranks do not fit together.
        is_predicted: the times are not those of a run that happened.
        loss: the last one; None if none was reported.
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
        """What the first rank sent in the iteration."""
        return sum(self.sent_bytes.values())

    def to_plain(self) -> dict[str, Any]:
        """As values that JSON knows; pairs become lists."""
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
