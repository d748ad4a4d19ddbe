"""What a verification says, as data that a command prints and a page draws.

Imports zerosim's L0.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from zerosim.events import Op, Phase, Purpose


@dataclass(frozen=True, slots=True, kw_only=True)
class RankBytes:
    """One row of the ledgers for one rank.

    Attributes:
        theory: what the bound of the collective makes the rank send, exact.
        trace: what PyTorch was asked to send.
        wire: what the kernel sent; None if it was not measured.
        algorithm: of `trace`, what the backend's algorithm adds to the bound.
        framing: of `wire`, what the backend's protocol adds; None if it is not known.
    """

    rank: int
    theory: int
    trace: int
    wire: int | None
    algorithm: int
    framing: int | None

    @property
    def unexplained_trace(self) -> int:
        """Bytes of the trace that no cause names."""
        return self.trace - self.theory - self.algorithm

    @property
    def unexplained_wire(self) -> int | None:
        """Bytes of the wire that no cause names."""
        if self.wire is None or self.framing is None:
            return None
        return self.wire - self.trace - self.framing


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """One reason for traffic, all ranks.

    Attributes:
        payload_bytes: what the collectives of one rank were asked for.
        sent, received: by rank.
    """

    phase: Phase
    purpose: Purpose
    op: Op
    num_collectives: int
    payload_bytes: int
    sent: tuple[RankBytes, ...]
    received: tuple[RankBytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseBytes:
    """One named difference, summed over a step, for one rank.

    Attributes:
        bytes: exact; positive if more is sent than the pure law says.
        words: how it comes about.
        is_excused: False if the law itself does not hold because of it.
    """

    cause: str
    bytes: Fraction
    words: str
    is_excused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One claim, held against all complete iterations and all ranks.

    Attributes:
        id: stable name.
        title: the sentence.
        formula: the law with this run's numbers in it; "" if it has none.
        holds: None if it could not be checked.
        measured: what was found, in words.
    """

    id: str
    title: str
    formula: str
    holds: bool | None
    measured: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The three ledgers of one iteration, and the verdicts over all of them.

    Attributes:
        headline: one sentence that answers: is the theory true here?
        num_parameters: Psi.
        iteration: whose ledgers `rows` are; -1 for all of a program that told of no iterations.
        iterations: all that the verdicts cover.
        law_bytes: what the pure law makes a rank send; None if no law is known.
        causes: from the law to the wire, for the first rank.
        outside_bytes: what the kernel sent outside of every collective in the iteration, by rank.
        notes: what else a reader should know.
    """

    folder: str
    headline: str
    holds: bool | None
    stage: int | None
    law: str
    dtype: str
    algorithm: str
    backend: str
    num_ranks: int
    num_parameters: int
    element_bytes: int
    accumulate: int
    iteration: int
    iterations: tuple[int, ...]
    law_bytes: Fraction | None
    rows: tuple[LedgerRow, ...]
    causes: tuple[CauseBytes, ...]
    outside_bytes: tuple[int, ...]
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...]

    def total(self, ledger: str, rank: int) -> int | None:
        """What a rank sent in the iteration by "theory", "trace" or "wire"."""
        values = [getattr(row.sent[rank], ledger) for row in self.rows]
        return None if any(value is None for value in values) else sum(values)

    @property
    def unexplained_trace(self) -> int:
        """The largest unexplained difference of a row of any rank, in bytes of the trace."""
        return max((abs(cell.unexplained_trace) for cell in self._cells()), default=0)

    @property
    def unexplained_wire(self) -> int | None:
        """Likewise on the wire; None if it was not measured."""
        values = [cell.unexplained_wire for cell in self._cells()]
        known = [abs(value) for value in values if value is not None]
        return max(known) if known and len(known) == len(values) else None

    def to_plain(self) -> dict[str, Any]:
        """The report as JSON values; fractions become numbers if whole, else strings."""
        plain: dict[str, Any] = to_json(asdict(self))
        plain["unexplained_trace_bytes"] = self.unexplained_trace
        plain["unexplained_wire_bytes"] = self.unexplained_wire
        return plain

    def _cells(self) -> list[RankBytes]:
        return [cell for row in self.rows for cell in row.sent]


def to_json(value: Any) -> Any:
    """Records' values as JSON has them; a fraction becomes a number if it is whole."""
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else str(value)
    if isinstance(value, dict):
        return {name: to_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value
