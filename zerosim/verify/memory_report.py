"""What a verification of memory says, as data that a command prints and a page draws."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from zerosim.base.tiers import Tier
from zerosim.schema.events import Phase
from zerosim.schema.memory import Role
from zerosim.verify.outcome import Outcome, together
from zerosim.verify.report import CauseBytes, Verdict, to_json, with_outcomes


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRow:
    """One model state when the update begins, all ranks.

    Attributes:
        law: in words, such as "12Ψ/N"; "" if no law is known.
        law_bytes: what the law gives a rank.
        theory_bytes: what it means here for the first rank, exact: padding, frozen units, what
            comes later.
        measured_bytes: by rank, in the order of `MemoryReport.ranks`.
        theory_of_ranks: likewise; they differ where whole units have owners. Empty without a law.
    """

    role: Role
    law: str
    law_bytes: Fraction | None
    theory_bytes: int | None
    measured_bytes: tuple[int, ...]
    theory_of_ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RolePart:
    """What one role has at a peak.

    Attributes:
        units: that make it up, where that is worth telling: gathered, or with a whole gradient.
    """

    role: Role
    bytes: int
    units: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPeak:
    """The most that one rank held within iterations.

    Attributes:
        sample: number of the sample.
        bytes: alive at it: all roles, and what PyTorch's allocator counted beside them if it was
            asked.
        when: the event, in words.
        parts: the roles that made it, the largest first.
        other_bytes: what no role explains; None if it was not measured.
        causes: from the law of model states to this peak; empty if no law is known.
        between_bytes: the most that the allocator counted between two samples; None if it was
            not measured or is no more than `bytes`.
        between: when that was, in words.
        setup_bytes: the most outside of iterations, if that is more; else None.
        sentence: all of this, to be read aloud.
    """

    rank: int
    sample: int
    iteration: int
    phase: Phase
    bytes: int
    when: str
    parts: tuple[RolePart, ...]
    other_bytes: int | None
    causes: tuple[CauseBytes, ...]
    between_bytes: int | None
    between: str
    setup_bytes: int | None
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TierPeak:
    """The most that one rank held in a tier beyond the device, within iterations.

    Attributes:
        bytes: by all roles: no allocator is asked for this tier alone.
        when: the event, in words.
        parts: the roles that made it, the largest first.
        sentence: all of this, to be read aloud.
    """

    rank: int
    bytes: int
    when: str
    parts: tuple[RolePart, ...]
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TierReport:
    """What is kept in a tier beyond the device.

    Attributes:
        law: of the model states there, in words; "0" if there should be none.
        law_bytes: of a rank.
        rows: model states, one role each.
        causes: from the law to what the report's first rank keeps there.
        peaks: by rank.
    """

    tier: Tier
    law: str
    law_bytes: Fraction
    rows: tuple[RoleRow, ...]
    causes: tuple[CauseBytes, ...]
    peaks: tuple[TierPeak, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressFigures:
    """How full a device with a limit was in one iteration, and how its free memory lay.

    Attributes:
        iteration: -1 is the set-up.
        limit_bytes: of the device.
        used_bytes: the most, with what rounding up added.
        free_bytes, largest_free_bytes: when the free memory lay in the smallest pieces: all of
            it, and its largest piece.
        full: something had no room.
    """

    rank: int
    iteration: int
    limit_bytes: int
    used_bytes: int
    free_bytes: int
    largest_free_bytes: int
    full: bool

    @property
    def fragmentation(self) -> Fraction:
        """The share of the free bytes that lies outside the largest piece; 0 if none is free."""
        if not self.free_bytes:
            return Fraction(0)
        return 1 - Fraction(self.largest_free_bytes, self.free_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReport:
    """Model states against their law, the peaks, and the verdicts over all complete iterations.

    What is not in `tiers` is of the device.

    Attributes:
        headline: one sentence that answers: is the law true here?
        law: of the model states, in words; "" if none is known.
        num_parameters: Psi.
        ranks: those that recorded memory.
        iteration: whose update `rows` are of; None if no iteration is complete.
        iterations: all that the verdicts cover.
        law_bytes: model states of a rank by the pure law; None if no law is known.
        rows: model states, one role each.
        causes: from the law to what `ranks[0]` keeps.
        peaks: by rank.
        tiers: the host and the disk, if anything was there or should have been.
        addresses: by rank and iteration, of a device with a limit; empty without one.
        is_dry: of a dry run: sizes are those of storages that have no memory.
        notes: what else a reader should know.
    """

    folder: str
    headline: str
    holds: bool | None
    stage: int | None
    law: str
    dtype: str
    num_ranks: int
    num_parameters: int
    element_bytes: int
    ranks: tuple[int, ...]
    iteration: int | None
    iterations: tuple[int, ...]
    law_bytes: Fraction | None
    rows: tuple[RoleRow, ...]
    causes: tuple[CauseBytes, ...]
    peaks: tuple[RankPeak, ...]
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...]
    tiers: tuple[TierReport, ...] = ()
    addresses: tuple[AddressFigures, ...] = ()
    is_dry: bool = False

    @property
    def outcome(self) -> Outcome | None:
        """What all verdicts come to; None if none could be checked."""
        return together(verdict.outcome for verdict in self.verdicts)

    @property
    def device(self) -> TierReport:
        """What is kept on the device, as of any other tier; its peaks are in `peaks`."""
        return TierReport(
            tier=Tier.DEVICE,
            law=self.law,
            law_bytes=self.law_bytes or Fraction(),
            rows=self.rows,
            causes=self.causes,
            peaks=(),
        )

    @property
    def unexplained_bytes(self) -> int | None:
        """The largest difference between theory and a role in any tier; None without a law."""
        gaps = [
            abs(measured - theory)
            for tier in (self.device, *self.tiers)
            for row in tier.rows
            if row.theory_of_ranks
            for measured, theory in zip(row.measured_bytes, row.theory_of_ranks, strict=True)
        ]
        return max(gaps, default=None)

    def to_plain(self) -> dict[str, Any]:
        """The report as JSON values; fractions become numbers if whole, else strings."""
        plain: dict[str, Any] = with_outcomes(to_json(asdict(self)), self)
        plain["unexplained_bytes"] = self.unexplained_bytes
        return plain
