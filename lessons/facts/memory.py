"""What a rank holds, by theory and as measured. Imports `facts.base` and zerosim's theory."""

from __future__ import annotations

from zerosim.config import DType
from zerosim.lessons.facts.base import Base
from zerosim.memory import Role
from zerosim.theory import Optimizer, bytes_a_parameter, ideal_model_states


class Memory(Base):
    """Facts of memory."""

    def bytes_a_parameter(self, dtype: str = "bf16", role: str = "") -> int:
        """By theory, with Adam: of one role, or of all."""
        return sum(
            each.bytes
            for each in bytes_a_parameter(DType(dtype), Optimizer.ADAM)
            if role in ("", each.role)
        )

    def dtype(self, run: str) -> str:
        """What a run computes in, such as "bf16"."""
        return self._report(run).dtype

    def states(self, stage: int, num_ranks: int, psi: float = 1, dtype: str = "bf16") -> float:
        """Model states of a rank by the paper's law."""
        return float(ideal_model_states(stage, num_ranks, 1, DType(dtype))) * psi

    def held(self, run: str, role: str = "", rank: int = 0) -> int:
        """Model states of a rank when the update begins, measured."""
        return sum(
            row.measured_bytes[rank] for row in self._memory(run).rows if role in ("", row.role)
        )

    def law_held(self, run: str) -> float:
        """Model states of a rank by the paper's law, for this stage and these ranks."""
        law = self._memory(run).law_bytes
        assert law is not None, run
        return float(law)

    def memory_law(self, run: str) -> str:
        """The paper's law of a run's model states in words, such as "4Ψ + 12Ψ/N"."""
        return self._memory(run).law

    def peak(self, run: str, rank: int = 0, role: str = "") -> int:
        """The most that a rank held, or what one role had of it."""
        peak = self._memory(run).peaks[rank]
        if not role:
            return peak.bytes
        return sum(part.bytes for part in peak.parts if part.role == Role(role))
