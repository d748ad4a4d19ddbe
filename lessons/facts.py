"""What an answer can be made of: the numbers of recorded runs, and of theory.

Every public method of `Facts` is a name that an expression of a question may call. A run is named
as in `recordings`. Bytes unless the name says otherwise; rank 0 unless a rank is given; the last
complete iteration. Imports the standard library, its siblings and zerosim's readers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from lessons.recordings import Recordings
from zerosim.analysis import GraphReport, report
from zerosim.config import STAGE_NAMES, DType
from zerosim.graph import build_graph
from zerosim.memory import Role
from zerosim.replay import replay_document
from zerosim.theory import Optimizer, bytes_a_parameter, ideal_model_states
from zerosim.verify import MemoryReport, Report, verify, verify_memory
from zerosim.verify.report import LedgerRow


class Facts:
    """The facts of some recordings."""

    def __init__(self, recordings: Recordings) -> None:
        self._recordings = recordings
        # each is worked out once a run
        self._report: Callable[[str], Report] = lru_cache(None)(
            lambda run: verify(recordings.trace(run))
        )
        self._memory: Callable[[str], MemoryReport] = lru_cache(None)(
            lambda run: verify_memory(recordings.trace(run))
        )
        self._graph: Callable[[str], GraphReport] = lru_cache(None)(
            lambda run: report(build_graph(recordings.trace(run)))
        )
        self._document: Callable[[str], dict[str, Any]] = lru_cache(None)(
            lambda run: replay_document(recordings.trace(run), name=run)
        )

    def names(self) -> Mapping[str, Callable[..., Any]]:
        """The functions that an expression may call, by name."""
        own = {
            name: getattr(self, name)
            for name in dir(self)
            if not name.startswith("_") and name != "names"
        }
        return own | {"abs": abs, "len": len, "max": max, "min": min, "round": round, "sum": sum}

    # -------------------------------------------------------------------------------- a run

    def title(self, run: str) -> str:
        """Its stage by name, such as "ZeRO-2"."""
        stage = self._report(run).stage
        assert stage is not None, run
        return STAGE_NAMES[stage]

    def num_ranks(self, run: str) -> int:
        """N."""
        return self._report(run).num_ranks

    def psi(self, run: str) -> int:
        """Number of parameters."""
        return self._report(run).num_parameters

    def element_bytes(self, run: str) -> int:
        """Bytes of a parameter as it is computed with."""
        return self._report(run).element_bytes

    # ------------------------------------------------------------------------------ traffic

    def payload(self, run: str, phase: str = "", purpose: str = "", op: str = "") -> int:
        """What the collectives of one rank were asked for."""
        return sum(row.payload_bytes for row in self._rows(run, phase, purpose, op))

    def sent(
        self, run: str, rank: int = 0, phase: str = "", purpose: str = "", op: str = ""
    ) -> int:
        """What PyTorch was asked to send."""
        return sum(row.sent[rank].trace for row in self._rows(run, phase, purpose, op))

    def wire(
        self, run: str, rank: int = 0, phase: str = "", purpose: str = "", op: str = ""
    ) -> int:
        """What the kernel sent."""
        return sum(row.sent[rank].wire or 0 for row in self._rows(run, phase, purpose, op))

    def calls(self, run: str, phase: str = "", purpose: str = "", op: str = "") -> int:
        """Number of collectives."""
        return sum(row.num_collectives for row in self._rows(run, phase, purpose, op))

    def law_sent(self, run: str) -> float:
        """What the paper's law makes a rank send on a ring."""
        law = self._report(run).law_bytes
        assert law is not None, run
        return float(law)

    def in_psi(self, num_bytes: float, run: str) -> float:
        """Bytes as a multiple of all parameters."""
        return num_bytes / (self.psi(run) * self.element_bytes(run))

    def _rows(self, run: str, phase: str, purpose: str, op: str) -> list[LedgerRow]:
        """Those of the model: its parameters and gradients, not the loss."""
        return [
            row
            for row in self._report(run).rows
            if phase in ("", row.phase) and purpose in ("", row.purpose) and op in ("", row.op)
        ]

    # ------------------------------------------------------------------------------- memory

    def bytes_a_parameter(self, dtype: str = "bf16", role: str = "") -> int:
        """By theory, with Adam: of one role, or of all."""
        return sum(
            each.bytes
            for each in bytes_a_parameter(DType(dtype), Optimizer.ADAM)
            if role in ("", each.role)
        )

    def states(self, stage: int, num_ranks: int, psi: float = 1, dtype: str = "bf16") -> float:
        """Model states of a rank by the paper's law."""
        return float(ideal_model_states(stage, num_ranks, 1, DType(dtype))) * psi

    def held(self, run: str, role: str = "", rank: int = 0) -> int:
        """Model states of a rank when the update begins, measured."""
        return sum(
            row.measured_bytes[rank] for row in self._memory(run).rows if role in ("", row.role)
        )

    def peak(self, run: str, rank: int = 0, role: str = "") -> int:
        """The most that a rank held, or what one role had of it."""
        peak = self._memory(run).peaks[rank]
        if not role:
            return peak.bytes
        return sum(part.bytes for part in peak.parts if part.role == Role(role))
