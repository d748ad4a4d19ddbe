"""The result of a verification of memory, as data for commands and pages."""

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
        law_bytes: bytes of a rank under the law.
        theory_bytes: the exact value for the first rank here: with padding, frozen units, states
            allocated later.
        measured_bytes: measured bytes, in the order of `MemoryReport.ranks`.
        theory_of_ranks: the same by rank; they differ if whole units have owners. Empty without a
            law.
    """

    role: Role
    law: str
    law_bytes: Fraction | None
    theory_bytes: int | None
    measured_bytes: tuple[int, ...]
    theory_of_ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RolePart:
    """One role at a peak.

    Attributes:
        units: its units, if relevant: gathered ones, or those with a whole gradient.
    """

    role: Role
    bytes: int
    units: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPeak:
    """The peak of one rank within iterations.

    Attributes:
        sample: index of the sample.
        bytes: live bytes: all roles, and the allocator's further bytes if it was queried.
        when: the moment of the peak, in words.
        parts: its roles, the largest first.
        other_bytes: bytes that no role explains; None if not measured.
        causes: from the law of model states to this peak; empty if no law is known.
        between_bytes: the allocator's peak between two samples; None if not measured or not above
            `bytes`.
        between: its moment, in words.
        setup_bytes: the peak outside of iterations, if larger; else None.
        sentence: all of this in one sentence.
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
    """The peak of one rank in a tier off the device, within iterations.

    Attributes:
        bytes: of all roles: this tier has no allocator to query.
        when: the event, in words.
        parts: its roles, the largest first.
        sentence: all of this in one sentence.
    """

    rank: int
    bytes: int
    when: str
    parts: tuple[RolePart, ...]
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TierReport:
    """The contents of a tier off the device.

    Attributes:
        law: the law of model states there, in words; "0" if there should be none.
        law_bytes: bytes of a rank under the law.
        rows: model states, one role each.
        causes: from the law to the bytes of the report's first rank there.
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
    """The fill level and fragmentation of a device with a limit, in one iteration.

    Attributes:
        iteration: the iteration; -1 for the set-up.
        limit_bytes: the limit of the device.
        used_bytes: the peak, including rounding.
        free_bytes, largest_free_bytes: at the worst fragmentation: free memory, and its largest
            piece.
        full: whether an allocation failed.
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

    Fields outside of `tiers` refer to the device.

    Attributes:
        headline: whether the law holds here, in one sentence.
        law: the law of the model states, in words; "" if none is known.
        num_parameters: Psi.
        ranks: ranks with recorded memory.
        iteration: the iteration of `rows`, at its update; None if no iteration is complete.
        iterations: all iterations of the verdicts.
        law_bytes: model states of a rank by the pure law; None if no law is known.
        rows: model states, one role each.
        causes: from the law to the bytes of `ranks[0]`.
        peaks: by rank.
        tiers: the host and the disk, if there was, or should have been, anything in them.
        addresses: by rank and iteration, for a device with a limit; empty without one.
        is_dry: for a dry run: sizes are those of storages without memory.
        notes: further information for the reader.
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
        """The outcome of all verdicts; None if none could be checked."""
        return together(verdict.outcome for verdict in self.verdicts)

    @property
    def device(self) -> TierReport:
        """The memory of the device, as for any other tier; its peaks are in `peaks`."""
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
