"""What collectives were asked for, what was sent, and what the law says. Imports `facts.base`."""

from __future__ import annotations

from zerosim.events import Purpose
from zerosim.lessons.facts.base import Base
from zerosim.verify.report import LedgerRow


class Traffic(Base):
    """Facts of traffic, in bytes of one step."""

    def payload(self, run: str, phase: str = "", purpose: str = "", op: str = "") -> int:
        """What the collectives of one rank were asked for."""
        return sum(row.payload_bytes for row in self._rows(run, phase, purpose, op))

    def sent(
        self, run: str, rank: int = 0, phase: str = "", purpose: str = "", op: str = ""
    ) -> int:
        """What PyTorch was asked to send."""
        return sum(row.sent[rank].trace for row in self._rows(run, phase, purpose, op))

    def model_sent(self, run: str, rank: int = 0) -> int:
        """What PyTorch was asked to send of gradients and parameters: all but the loss."""
        wanted = (Purpose.REDUCE_GRADIENTS, Purpose.GATHER_PARAMETERS)
        return sum(self.sent(run, rank, purpose=purpose) for purpose in wanted)

    def wire(
        self, run: str, rank: int = 0, phase: str = "", purpose: str = "", op: str = ""
    ) -> int:
        """What the kernel sent."""
        return sum(row.sent[rank].kernel or 0 for row in self._rows(run, phase, purpose, op))

    def calls(self, run: str, phase: str = "", purpose: str = "", op: str = "") -> int:
        """Number of collectives."""
        return sum(row.num_calls for row in self._rows(run, phase, purpose, op))

    def law_sent(self, run: str) -> float:
        """What the paper's law makes a rank send on a ring."""
        law = self._report(run).law_bytes
        assert law is not None, run
        return float(law)

    def traffic_law(self, run: str) -> str:
        """The same in words, such as "2Ψ(N-1)/N"."""
        law: str = self._document(run)["traffic"]["law"]
        return law.replace("\u2212", "-")

    def in_psi(self, num_bytes: float, run: str) -> float:
        """Bytes as a multiple of all parameters."""
        return num_bytes / (self.psi(run) * self.element_bytes(run))

    def compare(self, one: float, other: float) -> str:
        """Whether the first is "less" than the second, "more", or, to 1 %, the "same"."""
        if abs(one - other) <= 0.01 * max(abs(one), abs(other)):
            return "same"
        return "less" if one < other else "more"

    def _rows(self, run: str, phase: str, purpose: str, op: str) -> list[LedgerRow]:
        """Those of the model: its parameters and gradients, not the loss."""
        return [
            row
            for row in self._report(run).rows
            if phase in ("", row.phase) and purpose in ("", row.purpose) and op in ("", row.op)
        ]
