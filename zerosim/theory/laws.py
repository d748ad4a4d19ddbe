"""The papers' pure traffic laws.

A law counts payloads in Psi, all parameters without padding; a rank of a ring of N sends
(N-1)/N of each. Why a real step differs from it is in `deviations`.

Sources: as each system's `law` says. May import the standard library and layer L0.
"""

from __future__ import annotations

from fractions import Fraction

from zerosim.config import STAGE_NAMES
from zerosim.events import Phase
from zerosim.quantities import PSI, format_exact, format_exact_bytes
from zerosim.theory.causes import Cause, Deviation, Law
from zerosim.theory.nodes import SYMBOLS, Span, span_size
from zerosim.theory.terms import Term, terms
from zerosim.theory.traffic import require_rank
from zerosim.theory.workload import Workload
from zerosim.tiers import Link

PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)
"""The phases in which a step communicates, in their order."""

_WORDS = {
    0: "all-reduce of the gradients, which is a reduce-scatter and an all-gather",
    1: "reduce-scatter of the gradients, all-gather of the updated parameters",
    2: "reduce-scatter of the gradients in each micro-step, all-gather of the updated parameters",
    3: "all-gather of the parameters in forward and in backward, reduce-scatter of the "
    "gradients, in each micro-step",
}
_ZERO = "Rajbhandari et al., arXiv 1910.02054"
SOURCES = {
    0: f"{_ZERO}, section 7.1",
    1: f"derived as stage 2 is in {_ZERO}, section 7.2.1, which gives no traffic of stage 1 alone",
    2: f"{_ZERO}, section 7.2.1",
    3: f"{_ZERO}, section 7.2.2, where owners broadcast what is gathered here",
}
"""Where the law of each stage comes from."""


def system_name(workload: Workload) -> str:
    """What the system is called: its stage, and what beside it changes its traffic."""
    options = [
        word
        for word, is_on in (
            ("qwZ", workload.quantize_weights),
            ("hpZ", workload.has_secondary),
            ("qgZ", workload.quantize_gradients),
            ("owner broadcast", workload.owner_broadcast),
        )
        if is_on
    ]
    name = STAGE_NAMES[workload.stage]
    if not options:
        return name
    *others, last = options
    return f"{name} with {', '.join(others)} and {last}" if others else f"{name} with {last}"


def law(workload: Workload, phase: Phase | None = None) -> Law:
    """The pure law: 2 Psi for stages 0 and 1, g + 1 for stage 2, 3g for stage 3; ZeRO++ sends less.

    Args:
        workload: the step; g is its number of micro-steps. The law knows nothing of padding,
            frozen parameters, clipping, loss scaling or the scales of quantization.
        phase: only this phase's part of it; None for the whole step.
    """
    found = terms(workload, phases_of(phase))
    payloads = sum((_payloads(workload, term) for term in found), Fraction(0))
    words = f"{system_name(workload)}: {_words(workload)}"
    if phase is not None:
        words += f" ({phase} only)"
    sent = sum((_law_bytes(workload, term, term.share(workload)) for term in found), Fraction(0))
    return Law(payloads, words, _source(workload), sent, symbols=_symbols(workload, found))


def link_law_bytes(
    workload: Workload, rank: int, link: Link, phase: Phase | None = None
) -> Fraction:
    """What the pure law makes `rank` send over one link class.

    A ring goes in the order of the ranks; an all-to-all goes within a node or across nodes.

    Raises:
        ConfigError: there is no such rank.
    """
    require_rank(workload, rank)
    return sum(
        (
            _law_bytes(workload, term, term.share(workload, rank, link))
            for term in terms(workload, phases_of(phase))
        ),
        Fraction(0),
    )


def formula(workload: Workload, phase: Phase | None = None) -> str:
    """The law with this step's numbers, and its value."""
    found = terms(workload, phases_of(phase))
    psi, size = format_exact(workload.num_parameters), workload.element_bytes
    parts = [
        f"{multiple(payloads) or 1} x {psi} x {size} B x {count - 1}/{count}"
        for span, payloads in _by_span(workload, found).items()
        if (count := span_size(workload, span))
    ]
    none = f"0 x {psi} x {size} B x {workload.num_ranks - 1}/{workload.num_ranks}"
    return f"{' + '.join(parts) or none} = {format_exact_bytes(law(workload, phase).sent_bytes)}"


def multiple(payloads: Fraction) -> str:
    """So many payloads before a Psi: nothing for 1, exact decimals if there are few."""
    if payloads == 1:
        return ""
    in_decimals = payloads * 10_000
    if in_decimals.denominator != 1:
        return format_exact(payloads)
    whole, rest = divmod(in_decimals.numerator, 10_000)
    return f"{whole:,}.{rest:04}".rstrip("0") if rest else f"{whole:,}"


def _symbols(workload: Workload, found: tuple[Term, ...]) -> str:
    parts = [
        f"{multiple(payloads)}{PSI}({SYMBOLS[span]}-1)/{SYMBOLS[span]}"
        for span, payloads in _by_span(workload, found).items()
    ]
    return " + ".join(parts) or "0"


def _by_span(workload: Workload, found: tuple[Term, ...]) -> dict[Span, Fraction]:
    sums: dict[Span, Fraction] = {}
    for term in found:
        sums[term.span] = sums.get(term.span, Fraction(0)) + _payloads(workload, term)
    return sums


def _words(workload: Workload) -> str:
    if not _is_changed(workload):
        return _WORDS[workload.stage]
    gathers = "all-gather of the parameters in forward and in backward"
    if workload.owner_broadcast:
        gathers = "broadcast of the parameters by their owners in forward and in backward"
    elif workload.quantize_weights and workload.has_secondary:
        gathers = "all-gather of int8 parameters in forward"
    elif workload.quantize_weights:
        gathers = "all-gather of int8 parameters in forward and in backward"
    if workload.has_secondary:
        gathers = gathers.removesuffix(" and in backward")
        gathers += ", all-gather among the ranks of a secondary partition in backward"
    reduces = "reduce-scatter of the gradients"
    if workload.quantize_gradients:
        reduces = "all-to-all of int4 gradients within and across nodes"
    words = f"{gathers}, {reduces}, in each micro-step"
    return f"{words}; updated rows to their owners" if workload.owner_broadcast else words


def _is_changed(workload: Workload) -> bool:
    return workload.owner_broadcast or _is_zeropp(workload)


def _is_zeropp(workload: Workload) -> bool:
    return workload.quantize_weights or workload.has_secondary or workload.quantize_gradients


def _source(workload: Workload) -> str:
    if workload.owner_broadcast:
        return (
            f"derived: broadcasts by owners as in {_ZERO}, sections 5.3 and 7.2.2; gradients "
            "reduce-scattered and updated rows sent to their owners, which no paper does"
        )
    source = SOURCES[workload.stage]
    if _is_zeropp(workload):
        source += "; Wang et al., arXiv 2306.10209, section 3"
    if workload.accumulate > 1:
        source += f"; with {workload.accumulate} micro-steps"
    return source


def phases_of(phase: Phase | None) -> tuple[Phase, ...]:
    """That phase alone, or all for None."""
    return PHASES if phase is None else (phase,)


def _payloads(workload: Workload, term: Term) -> Fraction:
    """In Psi of the compute dtype."""
    return term.passes * term.element_bytes / workload.element_bytes


def _law_bytes(workload: Workload, term: Term, share: Fraction) -> Fraction:
    return term.passes * term.element_bytes * workload.num_parameters * share


__all__ = [
    "PHASES",
    "SOURCES",
    "Cause",
    "Deviation",
    "Law",
    "formula",
    "law",
    "link_law_bytes",
    "multiple",
    "phases_of",
    "system_name",
]
