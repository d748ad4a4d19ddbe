"""The memory law of any system: model states of one rank, by role and by tier.

Model states are parameters, gradients and optimizer states. A system lists, part by part, the
total, the number of ranks among which the law divides it, and the share of this rank; `ModelStates`
derives from it the law, the exact bytes, and the causes between the two. `zero_states` does so for
zerosim's own engine, `programs.states` for PyTorch's systems and DeepSpeed. Activations, buckets
and gathered units are not model states (`residency`).

Source: S. Rajbhandari et al., "ZeRO" (arXiv 1910.02054), sections 3.1 and 5.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from zerosim.base.language import listed
from zerosim.base.quantities import PSI, format_decimal, format_exact
from zerosim.base.tiers import Tier
from zerosim.schema.memory import MODEL_STATES, Role
from zerosim.theory.causes import Cause, Deviation
from zerosim.theory.wording import said

FP32_BYTES = 4

Place = tuple[Role, str]
"""A role and a unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A rank's part of a unit, a parameter or several of them, for one role.

    Attributes:
        unit: "" in a program that has no units.
        elements: elements over all ranks, as the law counts them.
        frozen: the frozen elements among them, which need no memory in this role.
        element_bytes: bytes of an element.
        among: number of ranks among which the law divides them; 0 for parts that each rank
            keeps whole.
        kept: elements on this rank.
        cause: why `kept` is not an equal share of the total.
        since: the first iteration whose update begins with these elements.
    """

    role: Role
    unit: str = ""
    tier: Tier = Tier.DEVICE
    elements: int
    frozen: int = 0
    element_bytes: int
    among: int = 0
    kept: int
    cause: Cause = Cause.PADDING
    since: int = 0

    @property
    def bytes(self) -> int:
        """Bytes on this rank."""
        return self.kept * self.element_bytes

    def share(self, elements: int) -> Fraction:
        """Bytes of a rank's equal share of the elements."""
        return Fraction(elements * self.element_bytes, max(1, self.among))


@dataclass(frozen=True, slots=True)
class RoleLaw:
    """The law of one role in one tier.

    Attributes:
        words: "2Ψ", "4Ψ/N".
        bytes: on each rank.
    """

    role: Role
    words: str
    bytes: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStates:
    """The model states of one rank of any system.

    Attributes:
        name: name of the system.
        num_ranks: N of the law: number of ranks that share the states; for states that are whole on
            every rank, the number of these ranks.
        parts: all parts.
        words: explanations of the causes.
        unknown: why some roles are unknown; "" if all are known.
        unsettled: an iteration during which the very first update may still be in progress.
        is_mean: whether the law holds only for the mean over ranks, because whole units have
            owners.
    """

    name: str
    num_ranks: int
    parts: tuple[Kept, ...]
    words: Mapping[Cause, str]
    unknown: str = ""
    unsettled: int | None = None
    is_mean: bool = False

    @property
    def num_parameters(self) -> int:
        """Psi."""
        return sum(part.elements for part in self.parts if part.role is Role.PARAMETERS)

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """Tiers with model states; always the device first."""
        found = {part.tier for part in self.parts}
        return tuple(tier for tier in Tier if tier is Tier.DEVICE or tier in found)

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles that the law covers."""
        lawful = {part.role for part in self.parts}
        return tuple(role for role in MODEL_STATES if role in lawful or not self.unknown)

    @property
    def what(self) -> str:
        """What the law describes, in words."""
        if not self.unknown:
            return said("states.model_states")
        return said("states.with_optimizer" if len(self.roles) > 1 else "states.parameters")

    @property
    def keeps(self) -> str:
        """The memory of each rank, by the laws of all tiers.

        "16Ψ/N bytes of model states on each rank", less the states that frozen parameters do not
        have; or "2Ψ bytes on the device and 14Ψ/N bytes on the host of model states".
        """
        if self.tiers == (Tier.DEVICE,):
            key = "states.keeps_in_mean" if self.is_mean else "states.keeps"
            keeps = said(key, law=self.law(Tier.DEVICE), what=self.what)
            less = self._law_of([replace(one, elements=one.frozen) for one in self.parts])
            if not less:
                return keeps
            words = self.words[Cause.FROZEN_PARAMETERS]
            return said("states.keeps_less", keeps=keeps, less=less, words=words)
        laws = listed(
            [said("states.of_tier", law=self.law(tier), place=tier.place) for tier in self.tiers]
        )
        return said("states.keeps_of_tiers", what=self.what, laws=laws)

    def role_laws(self, tier: Tier = Tier.DEVICE) -> tuple[RoleLaw, ...]:
        """The law of a tier, role by role."""
        by_role: dict[Role, list[Kept]] = defaultdict(list)
        for part in self.parts:
            if part.tier is tier:
                by_role[part.role].append(part)
        found = []
        for role, parts in by_role.items():
            size = sum((part.share(part.elements) for part in parts), Fraction())
            found.append(RoleLaw(role, self._law_of(parts), size))
        return tuple(found)

    def law(self, tier: Tier = Tier.DEVICE) -> str:
        """The law of a tier in words: "16Ψ/N", "8Ψ + 8Ψ/N"; "0" if nothing should be there."""
        return self._law_of([part for part in self.parts if part.tier is tier]) or "0"

    def _law_of(self, parts: Sequence[Kept]) -> str:
        """Their sum in words; "" if it is 0."""
        sizes = {"": Fraction(), "/N": Fraction()}
        for part in parts:
            total = part.elements * part.element_bytes
            sizes["/N" if part.among else ""] += total
        words = [f"{self._in_psi(size)}{end}" for end, size in sizes.items() if size]
        # two digits do not show one layer of a large model
        return " + ".join([one for one in words if one.strip("0.")[0] != PSI] or words)

    def law_bytes(self, tier: Tier = Tier.DEVICE) -> Fraction:
        """Bytes of a rank under the law of a tier."""
        return sum((law.bytes for law in self.role_laws(tier)), Fraction())

    def bytes(self, tier: Tier = Tier.DEVICE, iteration: int | None = None) -> dict[Place, int]:
        """Bytes of this rank in a tier, without zeros.

        Args:
            iteration: at the start of its update; by default once all states exist.
        """
        found: dict[Place, int] = defaultdict(int)
        for part in self.parts:
            if part.tier is tier and (iteration is None or iteration >= part.since):
                found[part.role, part.unit] += part.bytes
        return {place: size for place, size in found.items() if size}

    def is_whole(self, iteration: int) -> bool:
        """True if all states exist when an iteration's update begins."""
        return all(iteration >= part.since for part in self.parts)

    def deviations(self, tier: Tier = Tier.DEVICE) -> tuple[Deviation, ...]:
        """Why `bytes` differs from the law of a tier, cause by cause.

        Returns:
            The causes that are not zero. Their sum is exactly the difference.
        """
        gaps: dict[Cause, Fraction] = defaultdict(Fraction)
        for part in self.parts:
            if part.tier is tier:
                gaps[Cause.FROZEN_PARAMETERS] -= part.share(part.frozen)
                gaps[part.cause] += part.bytes - part.share(part.elements - part.frozen)
        return tuple(self._named(gaps))

    def _named(self, gaps: Mapping[Cause, Fraction]) -> Iterator[Deviation]:
        for cause in Cause:
            if gap := gaps.get(cause):
                yield Deviation(cause, gap, self.words[cause])

    def _in_psi(self, size: Fraction) -> str:
        amount = size / self.num_parameters
        is_whole = amount.denominator == 1
        return f"{format_exact(amount) if is_whole else format_decimal(amount, 2)}{PSI}"
