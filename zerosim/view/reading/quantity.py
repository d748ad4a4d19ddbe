"""Quantities as users write them: "2Psi", "2Psi (N-1)/N", "4Psi + 12Psi/N", "12 MB", 4096."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from zerosim.base.errors import ConfigError
from zerosim.base.quantities import PSI, format_exact, parse_bytes

_TERM = re.compile(
    r"(?P<times>\d+(?:\.\d+)?(?:/\d+)?)?\s*\*?\s*(?:Ψ|[Pp]si|PSI)"
    r"\s*\*?\s*(?P<share>/\s*N|\(\s*N\s*-\s*1\s*\)\s*/\s*N)?"
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """An expected quantity, in Psi or in bytes.

    Attributes:
        whole: multiple of Psi.
        per_rank: multiple of Psi/N.
        ring: multiple of Psi (N-1)/N.
        num_bytes: the quantity in bytes; None if it is given in Psi.
        text: the original text.
    """

    whole: Fraction = Fraction(0)
    per_rank: Fraction = Fraction(0)
    ring: Fraction = Fraction(0)
    num_bytes: int | None = None
    text: str = ""

    @property
    def is_bytes(self) -> bool:
        """Whether it is given in bytes."""
        return self.num_bytes is not None

    def in_psi(self, num_ranks: int) -> Fraction:
        """Its value in Psi for `num_ranks` ranks."""
        share = Fraction(1, num_ranks)
        return self.whole + self.per_rank * share + self.ring * (1 - share)


def parse_quantity(given: object) -> Quantity:
    """Parse an expected quantity.

    Args:
        given: a text in Psi, a text with a unit of bytes, or a whole number of bytes.

    Raises:
        ConfigError: it is none of these.
    """
    if isinstance(given, int) and not isinstance(given, bool):
        if given < 0:
            raise ConfigError(f"{given} bytes is negative: expected 0 or more")
        return Quantity(num_bytes=given, text=f"{format_exact(given)} B")
    if not isinstance(given, str):
        raise ConfigError(_what_is_expected(given))
    if PSI not in given and "psi" not in given.lower():
        try:
            return Quantity(num_bytes=parse_bytes(given), text=given.strip())
        except ConfigError:
            raise ConfigError(_what_is_expected(given)) from None
    parts = {"": Fraction(0), "/N": Fraction(0), "(N-1)/N": Fraction(0)}
    for term in given.split("+"):
        match = _TERM.fullmatch(term.strip())
        if match is None:
            raise ConfigError(_what_is_expected(given))
        share = "".join((match["share"] or "").split())
        try:
            parts[share] += Fraction(match["times"]) if match["times"] else 1
        except (ValueError, ZeroDivisionError):
            raise ConfigError(_what_is_expected(given)) from None
    text = re.sub("(?i)psi", PSI, given.strip())
    return Quantity(parts[""], parts["/N"], parts["(N-1)/N"], text=text)


def parse_tolerance(given: object) -> Fraction:
    """Read a relative tolerance.

    Raises:
        ConfigError: it is not a number of at least 0.
    """
    if not isinstance(given, float | int | Fraction) or isinstance(given, bool) or not given >= 0:
        raise ConfigError(f"tolerance is {given!r}: expected a fraction such as 0.02 for 2 %")
    try:
        return Fraction(str(given))
    except ValueError:
        raise ConfigError(f"tolerance is {given!r}: expected a fraction such as 0.02") from None


def _what_is_expected(given: object) -> str:
    return (
        f"{given!r} is not a quantity: expected a multiple of the number of parameters such as "
        f"'2Psi', '2Psi (N-1)/N' or '4Psi + 12Psi/N', or bytes such as 4096 or '12 MB'"
    )
