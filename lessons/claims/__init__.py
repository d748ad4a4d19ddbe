"""Claims about ZeRO on the web, each tested against theory and a run.

`claims.toml` has the claimed, theoretical and measured values of each, as expressions. The verdict
is computed from them: a claim that holds for some numbers of ranks, or under some of its
conditions, is true only then. If theory and a run disagree, there is no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from zerosim.base.errors import ConfigError
from zerosim.base.language import Words, enumerated, in_each_language, overlaid
from zerosim.lessons.expressions import evaluate, fill
from zerosim.lessons.recordings import HERE

Names = Mapping[str, Callable[..., Any]]
_WORDS = Words(HERE / "words.toml")
MOST_RANKS = 1024
"""As in the paper's Table 1."""
MEASURED_WITHIN = 0.01
"""Frames are on the wire, and the average of the losses."""


class ClaimVerdict(StrEnum):
    """The verdict on a claim."""

    TRUE = "true"
    FALSE = "false"
    ONLY_IF = "only-if"
    """Under a condition that the claim usually omits."""
    OPEN = "open"
    """Theory and the run do not agree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """One number of a claim: expressions, in which `n()` is the number of ranks.

    Attributes:
        of: its meaning.
        says: the claimed value.
        theory: the value of theory.
        measured: the value measured in a run with `ranks` ranks; "" if no run can.
    """

    of: str
    says: str
    theory: str
    measured: str = ""
    ranks: str = "num_ranks('ring/stage-3')"


@dataclass(frozen=True, slots=True)
class Case:
    """A condition under which a claim may be meant, in words; "" for none."""

    when: str
    numbers: tuple[Number, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A sentence about ZeRO.

    Attributes:
        said: quotation of the claim.
        found: its place, in our words.
        link: an address of it; "" if it was not kept.
        unit: unit of its numbers.
        tolerance: relative deviation from theory within which a number holds.
        within: the same, absolute: half of the last printed digit.
        over_ranks: it is about any number of ranks: for which does it hold?
        because: the reason for the verdict.
        values: expressions by the names in `because`; they may use condition(), tolerance() and
            most_ranks().
    """

    id: str
    said: str
    found: str
    unit: str
    cases: tuple[Case, ...]
    because: str
    values: Mapping[str, str]
    tolerance: float = 0.01
    within: float = 0.0
    over_ranks: bool = False
    link: str = ""

    @property
    def found_in(self) -> str:
        """Its source, with the address if there is one."""
        key = "claims.found_at" if self.link else "claims.found"
        return _WORDS(key, where=self.found, link=self.link)


@dataclass(frozen=True, slots=True)
class ClaimNumber:
    """A computed number of a claim; `measured` is None if no run can measure it."""

    of: str
    says: float
    theory: float
    measured: float | None
    holds: bool

    @property
    def is_proved(self) -> bool:
        """Whether theory and the run agree, if there is a run."""
        return self.measured is None or math.isclose(
            self.theory, self.measured, rel_tol=MEASURED_WITHIN, abs_tol=1e-9
        )


@dataclass(frozen=True, slots=True)
class WorkedCase:
    """A case, worked out with the ranks of its runs."""

    when: str
    numbers: tuple[ClaimNumber, ...]

    @property
    def holds(self) -> bool:
        """All of its numbers do."""
        return all(number.holds for number in self.numbers)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a claim.

    Attributes:
        condition: for a claim that is true only then, such as "N is 133 or more"; else "".
        because: the reason in this run's numbers.
    """

    claim: Claim
    verdict: ClaimVerdict
    condition: str
    tried: tuple[WorkedCase, ...]
    because: str

    @property
    def words(self) -> str:
        """The verdict with its condition."""
        if self.verdict is ClaimVerdict.OPEN:
            return _WORDS("claims.open")
        if self.condition:
            return _WORDS("claims.only_if", condition=self.condition)
        return _WORDS(f"claims.{self.verdict}")


@in_each_language
def claims() -> Mapping[str, Claim]:
    """All claims, by id.

    Raises:
        ConfigError: a required field is missing.
    """
    return {name: _parse(name, each) for name, each in overlaid(HERE / "claims.toml").items()}


def judge(claim: Claim, names: Names) -> Judgement:
    """Work a claim's verdict out.

    Args:
        names: the names available in its expressions.
    """
    tried = tuple(
        WorkedCase(case.when, tuple(_find(claim, number, names) for number in case.numbers))
        for case in claim.cases
    )
    holding = [case for case in tried if case.holds]
    condition = ""
    if not all(number.is_proved for case in tried for number in case.numbers):
        verdict = ClaimVerdict.OPEN
    elif claim.over_ranks:
        ranks = [count for count in range(2, MOST_RANKS + 1) if _holds_for(claim, count, names)]
        verdict = _verdict(len(ranks), MOST_RANKS - 1)
        condition = _words_of(ranks) if verdict is ClaimVerdict.ONLY_IF else ""
    else:
        verdict = _verdict(len(holding), len(tried))
        if verdict is ClaimVerdict.ONLY_IF:
            condition = _WORDS("claims.or").join(case.when for case in holding)
    known = {
        **names,
        "condition": lambda: condition,
        "tolerance": lambda: claim.tolerance,
        "most_ranks": lambda: MOST_RANKS,
    }
    return Judgement(claim, verdict, condition, tried, fill(claim.because, claim.values, known))


def _verdict(num_holding: int, num_all: int) -> ClaimVerdict:
    if num_holding == num_all:
        return ClaimVerdict.TRUE
    return ClaimVerdict.ONLY_IF if num_holding else ClaimVerdict.FALSE


def _words_of(ranks: Sequence[int]) -> str:
    """The numbers of ranks for which it holds, in words."""
    first, last = ranks[0], ranks[-1]
    if len(ranks) != last - first + 1:
        return _WORDS("claims.one_of", numbers=enumerated(map(str, ranks)))
    if last == MOST_RANKS:
        return _WORDS("claims.or_more", first=first)
    return _WORDS("claims.exactly" if first == last else "claims.between", first=first, last=last)


def _find(claim: Claim, number: Number, names: Names) -> ClaimNumber:
    count = evaluate(number.ranks, names)
    measured = evaluate(number.measured, names) if number.measured else None
    says, theory = _both(number, count, names)
    return ClaimNumber(number.of, says, theory, measured, _is_close(claim, says, theory))


def _holds_for(claim: Claim, num_ranks: int, names: Names) -> bool:
    return all(
        _is_close(claim, *_both(number, num_ranks, names))
        for case in claim.cases
        for number in case.numbers
    )


def _both(number: Number, num_ranks: int, names: Names) -> tuple[float, float]:
    """The claimed and the theoretical value, for a number of ranks."""
    known = {**names, "n": lambda: num_ranks}
    return float(evaluate(number.says, known)), float(evaluate(number.theory, known))


def _is_close(claim: Claim, says: float, theory: float) -> bool:
    within = claim.within or 1e-9
    relative = 0.0 if claim.within else claim.tolerance
    return math.isclose(says, theory, rel_tol=relative, abs_tol=within)


def _parse(name: str, plain: Mapping[str, Any]) -> Claim:
    fields = dict(plain)
    try:
        cases = tuple(
            Case(case.get("when", ""), tuple(Number(**number) for number in case["numbers"]))
            for case in fields.pop("cases")
        )
        return Claim(id=name, cases=cases, values=fields.pop("values", {}), **fields)
    except (KeyError, TypeError) as error:
        raise ConfigError(f"claim {name!r}: {error}") from None
