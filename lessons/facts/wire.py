"""The three ledgers and what lies between them. Imports `facts.base`, theory and verify."""

from __future__ import annotations

from zerosim.events import Kind, Phase
from zerosim.lessons.facts.base import Base
from zerosim.theory import UnitSize, Workload, law
from zerosim.verify.outcome import Outcome


class Wire(Base):
    """Facts of ledgers, in bytes of one step; of rank 0 unless one is given."""

    def law_psi(self, stage: int, accumulate: int = 1, phase: str = "") -> float:
        """The paper's law: payload of a step, or of one phase of it, in Psi."""
        workload = Workload(
            stage=stage, num_ranks=2, units=(UnitSize("model", 2),), accumulate=accumulate
        )
        return float(law(workload, Phase(phase) if phase else None).payloads)

    def micro_steps(self, run: str) -> int:
        """g: forwards and backwards of one step."""
        return self._report(run).accumulate

    def on_ring(self, payload: float, num_ranks: int) -> float:
        """What a rank of a ring sends of a payload."""
        return payload * (num_ranks - 1) / num_ranks

    def as_payload(self, sent: float, num_ranks: int) -> float:
        """The payload of which a ring sends so much."""
        return sent * num_ranks / (num_ranks - 1)

    def theory(self, run: str, rank: int = 0) -> int:
        """What the bounds of the collectives make a rank send."""
        return self._report(run).total("theory", rank) or 0

    def framing(self, run: str, rank: int = 0) -> int:
        """What the backend's protocol adds on the wire."""
        found = self._report(run)
        if not found.wire_by_call:
            return found.wires[rank].framing or 0
        return sum(row.sent[rank].framing or 0 for row in found.rows)

    def unexplained(self, run: str) -> int:
        """The largest difference of any rank that no cause names, in the trace or on the wire."""
        found = self._report(run)
        return max(found.unexplained_trace, found.unexplained_wire or 0)

    def excess(self, run: str, rank: int = 0) -> int:
        """What the backend's algorithm sends beyond the bounds, on the wire alone."""
        return sum(row.sent[rank].algorithm for row in self._report(run).rows)

    def causes(self, run: str) -> list[tuple[str, float, str]]:
        """From the law to the wire: each cause, its bytes, and its words."""
        return [(each.cause, float(each.bytes), each.words) for each in self._report(run).causes]

    def keeps_law(self, run: str) -> bool:
        """True if the run's traffic is as predicted, and not only explained."""
        return self._report(run).outcome is Outcome.AS_PREDICTED

    def witness(self, run: str, op: str) -> str:
        """Who sees what is sent in a collective: "trace" if its messages were, else "wire"."""
        calls = [
            event
            for event in self._recordings.trace(run).ranks[0].events
            if event.kind is Kind.COLLECTIVE and event.op == op
        ]
        if calls and all(event.sent_bytes is not None for event in calls):
            return "trace"
        return "wire" if calls and all(event.wire for event in calls) else "nobody"
