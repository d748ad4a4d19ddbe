"""The papers' pure laws of a rank's traffic to others, and of copies between its tiers.

A law counts payloads in Psi, all parameters without padding; a rank of a ring of N sends (N-1)/N of
each, and copies 1/N. `deviations` explains how a real step differs from it.

ZeRO-Offload: 4 bytes x Psi over the bus with 16-bit elements, 2 to the host and 2 back, among N
ranks. No partition between device and host moves less: a partition through an fp32 edge moves 6 or
more.
ZeRO-Infinity: parameters are read from their tier before each use, optimizer states are read from
the disk and written back, each rank over its own bus and disk (bandwidth-centric partitioning). The
papers state the 4 bytes of ZeRO-Offload; the total of ZeRO-Infinity's copies (6 bytes over the bus,
30 to and from the disk, with everything on a disk) is derived from its description.

A ring in the order of the ranks crosses each node's border once, with (N-1)/N of a payload. An
all-to-all across K nodes sends (K-1)/K of the data that the ranks of a node contribute. Stage 3
therefore sends 3M across nodes and ZeRO++ 0.75M, M being 2 bytes per parameter: 0.5M with qwZ in
forward, nothing in backward with hpZ, 0.25M with qgZ (arXiv 2306.10209, section 3 and Table 1).

Each law gives its source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from zerosim.base import language
from zerosim.base.config import STAGE_NAMES, EngineConfig
from zerosim.base.language import enumerated, listed
from zerosim.base.quantities import PSI, format_exact, format_exact_bytes
from zerosim.base.tiers import Link, Tier
from zerosim.schema.events import Phase, Purpose
from zerosim.theory.causes import Law
from zerosim.theory.nodes import SYMBOLS, Span, ranks_of_node
from zerosim.theory.terms import Term
from zerosim.theory.wording import said
from zerosim.theory.workload import Workload
from zerosim.theory.zero import step_terms

_INFINITY = "Rajbhandari et al., arXiv 2104.07857, sections 5 and 6"
_ZERO = "Rajbhandari et al., arXiv 1910.02054"
SOURCES = {
    0: f"{_ZERO}, section 7.1",
    1: f"derived like stage 2 in {_ZERO}, section 7.2.1, which omits stage 1 alone",
    2: f"{_ZERO}, section 7.2.1",
    3: f"{_ZERO}, section 7.2.2, where owners broadcast the parameters that are gathered here",
}
"""The source of each stage's law."""


def system_name(workload: Workload) -> str:
    """The name of a system: its stage, and the options that change its traffic."""
    options = [
        word
        for word, is_on in (
            ("qwZ", workload.config.quantize_weights),
            ("hpZ", workload.config.has_secondary),
            ("qgZ", workload.config.quantize_gradients),
            (
                said("systems.owners"),
                workload.config.has_owners and not workload.config.owners_update,
            ),
            (said("systems.own"), workload.config.owners_update),
        )
        if is_on
    ]
    name = language.term(STAGE_NAMES[workload.config.stage])
    return said("systems.with", name=name, options=listed(options)) if options else name


def terms_of(
    workload: Workload, rank: int = 0, phase: Phase | None = None, link: Link | None = None
) -> list[Term]:
    """The terms of a step that a law covers.

    Args:
        phase: None for the whole step.
        link: None for all traffic between ranks.

    Raises:
        ConfigError: there is no such rank.
    """
    return [
        term
        for term in step_terms(workload, rank)
        if phase in (None, term.phase) and term.goes_over(link)
    ]


def law(workload: Workload, phase: Phase | None = None, link: Link | None = None) -> Law:
    """The pure law: 2 Psi for stages 0 and 1, g + 1 for stage 2, 3g for stage 3; ZeRO++ sends less.

    Args:
        workload: the step; g is its number of micro-steps. The law ignores padding, frozen
            parameters, clipping, loss scaling and the scales of quantization.
        phase: only this phase's part of it; None for the whole step.
        link: copies over the bus, or to and from the disk; None for traffic between ranks.
    """
    found = terms_of(workload, 0, phase, link)
    payloads = sum((_payloads(workload, term) for term in found), Fraction(0))
    sent = _bytes(workload, found, 0)
    if link in (Link.BUS, Link.STORAGE):
        each = sum((term.bytes_a_parameter for term in found), Fraction(0))
        return Law(
            payloads,
            _copied_words(found),
            _copied_source(workload.config),
            sent,
            symbols=f"{multiple(each)}{PSI}/N" if each else "0",
        )
    words = said(
        "laws.of" if phase is None else "laws.of_phase",
        name=system_name(workload),
        words=_words(workload.config),
        phase=language.term(phase or ""),
    )
    return Law(payloads, words, _source(workload.config), sent, symbols=_symbols(workload, found))


def law_bytes(
    workload: Workload, rank: int, link: Link | None = None, phase: Phase | None = None
) -> Fraction:
    """Traffic of `rank` over one link class under the pure law.

    A ring follows the order of the ranks; an all-to-all is within a node or across nodes.

    Raises:
        ConfigError: there is no such rank.
    """
    return _bytes(workload, terms_of(workload, rank, phase, link), rank, link)


def node_law(workload: Workload, node: int = 0) -> Law:
    """Total traffic of a node's ranks to other nodes under the pure law."""
    ranks = ranks_of_node(workload, node)
    by_span: dict[Span, Fraction] = {}
    for rank in ranks:
        for term in terms_of(workload, rank):
            crossing = term.share(workload, rank, Link.NETWORK) / (
                term.share(workload, rank, None) or 1
            )
            payloads = crossing * _payloads(workload, term)
            by_span[term.span] = by_span.get(term.span, Fraction(0)) + payloads
    crossing_spans = {span: payloads for span, payloads in by_span.items() if payloads}
    return Law(
        sum(crossing_spans.values(), Fraction(0)),
        said("laws.node", name=system_name(workload), ranks=workload.world_node_size),
        _source(workload.config),
        sum((law_bytes(workload, rank, Link.NETWORK) for rank in ranks), Fraction(0)),
        symbols=_in_symbols(crossing_spans),
    )


def formula(workload: Workload, phase: Phase | None = None, link: Link | None = None) -> str:
    """The law with this step's numbers, and its value."""
    found = terms_of(workload, 0, phase, link)
    psi, size = format_exact(workload.num_parameters), workload.element_bytes
    value = format_exact_bytes(law(workload, phase, link).sent_bytes)
    if link in (Link.BUS, Link.STORAGE):
        each = sum((term.bytes_a_parameter for term in found), Fraction(0))
        return f"{each} B x {psi} / {workload.num_ranks} = {value}"
    sizes = {term.span: len(term.ranks) for term in found}
    parts = [
        f"{multiple(payloads) or 1} x {psi} x {size} B x {sizes[span] - 1}/{sizes[span]}"
        for span, payloads in _by_span(workload, found).items()
    ]
    none = f"0 x {psi} x {size} B x {workload.num_ranks - 1}/{workload.num_ranks}"
    return f"{' + '.join(parts) or none} = {value}"


def multiple(payloads: Fraction) -> str:
    """The factor in front of Psi: empty for 1, an exact decimal if it is short."""
    if payloads == 1:
        return ""
    in_decimals = payloads * 10_000
    if in_decimals.denominator != 1:
        return format_exact(payloads)
    whole, rest = divmod(in_decimals.numerator, 10_000)
    return f"{whole:,}.{rest:04}".rstrip("0") if rest else f"{whole:,}"


def _symbols(workload: Workload, found: Sequence[Term]) -> str:
    return _in_symbols(_by_span(workload, found))


def _in_symbols(by_span: Mapping[Span, Fraction]) -> str:
    parts = [
        f"{multiple(payloads)}{PSI}({SYMBOLS[span]}-1)/{SYMBOLS[span]}"
        for span, payloads in by_span.items()
    ]
    return " + ".join(parts) or "0"


def _by_span(workload: Workload, found: Sequence[Term]) -> dict[Span, Fraction]:
    sums: dict[Span, Fraction] = {}
    for term in found:
        if term.passes:
            sums[term.span] = sums.get(term.span, Fraction(0)) + _payloads(workload, term)
    return sums


def _words(config: EngineConfig) -> str:
    if not _is_changed(config):
        return said(f"laws.{config.stage}")
    own, forward = "both", "forward"
    if config.has_owners:
        own, forward = "owners", "owners_forward"
    elif config.quantize_weights:
        own, forward = "int8", "int8_forward"
    gathers = said(f"gathers.{forward if config.has_secondary else own}")
    if config.has_secondary:
        gathers = said("gathers.secondary", gathers=gathers)
    reduces = "owners" if config.owners_update else "ring"
    reduces = said(f"reduces.{'int4' if config.quantize_gradients else reduces}")
    words = said("laws.changed", gathers=gathers, reduces=reduces)
    if config.has_owners and not config.owners_update:
        return said("laws.to_owners", words=words)
    return words


def _is_changed(config: EngineConfig) -> bool:
    return config.has_owners or _is_zeropp(config)


def _is_zeropp(config: EngineConfig) -> bool:
    return config.quantize_weights or config.has_secondary or config.quantize_gradients


def _source(config: EngineConfig) -> str:
    if config.has_owners and not config.owners_update:
        return (
            f"derived: broadcasts by owners as in {_ZERO}, sections 5.3 and 7.2.2; gradients "
            "reduce-scattered and updated shards sent to their owners, which no paper does"
        )
    source = SOURCES[config.stage]
    if config.owners_update:
        source = f"{_ZERO}, sections 5.3 and 7.2.2"
    if _is_zeropp(config):
        source += "; Wang et al., arXiv 2306.10209, section 3"
    if config.accumulate > 1:
        source += f"; with {config.accumulate} micro-steps"
    return source


def _copied_words(found: Sequence[Term]) -> str:
    sizes: dict[tuple[Purpose, Tier | None, Tier | None], Fraction] = {}
    for term in found:
        if term.passes:
            key = (term.purpose, term.origin, term.target)
            sizes[key] = sizes.get(key, Fraction(0)) + term.bytes_a_parameter
    parts = enumerated(
        said("laws.copied_part", purpose=language.term(key[0]), size=multiple(each))
        for key, each in sizes.items()
    )
    return said("laws.copied", parts=parts) if parts else said("laws.not_copied")


def _copied_source(config: EngineConfig) -> str:
    is_infinity = (
        config.offload_optimizer.tier is Tier.DISK or config.offload_param.tier is not Tier.DEVICE
    )
    sources = [
        "Ren et al., arXiv 2101.06840, section 3" if config.offloads_optimizer else "",
        f"derived from {_INFINITY}" if is_infinity else "",
    ]
    return "; ".join(filter(None, sources))


def _payloads(workload: Workload, term: Term) -> Fraction:
    """The payload of a term, in Psi of the compute dtype."""
    return term.bytes_a_parameter / workload.element_bytes


def _bytes(
    workload: Workload, found: Sequence[Term], rank: int, link: Link | None = None
) -> Fraction:
    parts = (term.bytes_a_parameter * term.share(workload, rank, link) for term in found)
    return workload.num_parameters * sum(parts, Fraction(0))
