"""The plan of zerosim's own engine: a configured system of the ZeRO family."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from zerosim.base.language import begun, term
from zerosim.base.quantities import PSI, format_decimal, format_exact_bytes
from zerosim.base.tiers import Link
from zerosim.schema.events import STEP_PHASES, Algorithm, Phase
from zerosim.theory.causes import Deviation
from zerosim.theory.deviations import deviations
from zerosim.theory.laws import formula, law, system_name
from zerosim.theory.programs.plan import Plan, PlanClaim, Scale
from zerosim.theory.terms import Term
from zerosim.theory.wording import said
from zerosim.theory.workload import Workload
from zerosim.theory.zero import step_terms

ENGINE = "ZeRO"
"""The system of zerosim's own engine, `zerosim.initialize`."""
COPIED = {Link.BUS: "copied-over-the-bus", Link.STORAGE: "copied-to-and-from-the-disk"}
"""The claim about a rank's copies over a link."""


def copied(link: Link, what: str) -> str:
    """A rank's copies over one of these links, in words: "2Ψ/N bytes over its bus"."""
    return said(f"claims.{link}", what=what)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroPlan(Plan):
    """A plan whose law is divided by phase and link, each part with its causes.

    Attributes:
        terms: the terms of its law and its calls.
    """

    workload: Workload
    terms: tuple[Term, ...]

    @property
    def ranks_per_node(self) -> int:
        """The mean over all ranks."""
        return self.workload.world_node_size

    def deviations(self, rank: int, algorithm: Algorithm) -> tuple[Deviation, ...]:
        """The same as for any plan, with this step's numbers in the words."""
        return deviations(self.workload, rank, algorithm)

    def claims(self, rank: int, algorithm: Algorithm) -> tuple[PlanClaim, ...]:
        """The whole step, each phase, and each link between tiers with traffic."""
        workload = self.workload
        found = []
        for phase in (None, *STEP_PHASES):
            pure = law(workload, phase)
            found.append(
                PlanClaim(
                    id="sent-a-step" if phase is None else f"sent-in-{phase}",
                    title=_title(workload, pure.symbols if pure.payloads else "", phase),
                    formula=formula(workload, phase),
                    law=pure,
                    causes=deviations(workload, rank, algorithm, phase),
                    phase=phase,
                )
            )
        for link, identity in COPIED.items():
            if any(term.link is link for term in self.terms):
                pure = law(workload, link=link)
                what = pure.symbols if pure.payloads else said("claims.not_copied")
                found.append(
                    PlanClaim(
                        id=identity,
                        title=said("claims.copies", what=copied(link, what)),
                        formula=formula(workload, link=link),
                        law=pure,
                        causes=deviations(workload, rank, link=link),
                        link=link,
                    )
                )
        return tuple(found)

    def in_words(self, moved: Fraction, link: Link | None) -> str:
        """Sent bytes in Psi; for copies, bytes in Psi/N."""
        workload = self.workload
        if link is None:
            unit = workload.num_parameters * workload.element_bytes
            return f"{format_exact_bytes(moved)} = {format_decimal(moved / unit, 3)} {PSI}"
        each = moved * Fraction(workload.num_ranks, workload.num_parameters)
        return f"{format_exact_bytes(moved)} = {format_decimal(each, 3)}{PSI}/N bytes"


def plan_zero(workload: Workload, rank: int) -> ZeroPlan:
    """The movements of one rank in one step.

    Raises:
        ConfigError: there is no such rank.
    """
    terms = step_terms(workload, rank)
    name = system_name(workload)
    pure = law(workload)
    return ZeroPlan(
        system=ENGINE,
        name=name,
        title=name,
        ranks=tuple(range(workload.world_size)),
        law=pure,
        law_name=name,
        formula=pure.symbols,
        scale=Scale(
            unit=PSI,
            unit_bytes=workload.num_parameters * workload.element_bytes,
            share=workload.ring_share,
        ),
        calls=tuple(one for term in terms for one in term.movements),
        num_parameters=workload.num_parameters,
        is_complete=True,
        workload=workload,
        terms=terms,
    )


def _title(workload: Workload, symbols: str, phase: Phase | None) -> str:
    count = workload.config.accumulate
    key = f"claims.sends{'' if phase is None else '_in'}{'_micro' if count > 1 else ''}"
    return said(
        key,
        name=begun(system_name(workload)),
        what=symbols or said("claims.nothing"),
        phase=term(phase or ""),
        micro_steps=count,
    )
