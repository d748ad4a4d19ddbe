"""What a comparison amounts to, in words: each sentence is made of numbers that were measured.

Imports zerosim's L0 and this package.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from zerosim.config import STAGE_NAMES
from zerosim.events import Purpose
from zerosim.quantities import PSI, format_bytes, format_decimal, format_exact_bytes
from zerosim.reading.side import Side, TrafficReason
from zerosim.tiers import Link

_SMALL = Fraction(1, 200)
"""Of Psi, or of a peak: a smaller part of a difference is not told."""
_SHORT_NS = 10**6
"""A shorter time has more decimals."""
_UNTOLD = ("stage",)
"""Settings that the sides' names tell already."""


def differences(sides: Sequence[Side]) -> tuple[str, ...]:
    """What tells the others from the first, a sentence for each thing."""
    first, *others = sides
    return tuple(line for other in others for line in _pair(first, other))


def _pair(a: Side, b: Side) -> Iterator[str]:
    yield from _settings(a, b)
    yield from _traffic(a, b)
    yield from _links(a, b)
    yield from _memory(a, b)
    yield from _time(a, b)


def _settings(a: Side, b: Side) -> Iterator[str]:
    names = sorted(a.settings.keys() | b.settings.keys())
    changed = [
        f"{name.replace('_', ' ')} {_value(a.settings.get(name))} → {_value(b.settings.get(name))}"
        for name in names
        if name not in _UNTOLD and a.settings.get(name) != b.settings.get(name)
    ]
    if changed:
        yield f"{a.name} → {b.name}: different configuration: {', '.join(changed)}."


def _value(value: object) -> str:
    words = {None: "none", True: "on", False: "off"}
    return words.get(value, str(value)) if value is None or isinstance(value, bool) else str(value)


def _traffic(a: Side, b: Side) -> Iterator[str]:
    if not a.sent_bytes or not b.sent_bytes:
        return
    if a.total_bytes == b.total_bytes:
        yield (
            f"{b.name} sends as much as {a.name}: {format_exact_bytes(a.total_bytes)}"
            f"{_by_other_means(a, b)}."
        )
        return
    parts = _parts(a, b)
    ratio = f", {_times(b.total_bytes, a.total_bytes)}" if a.total_bytes else ""
    yield (
        f"{b.name} sends {format_exact_bytes(b.total_bytes)}, {a.name} "
        f"{format_exact_bytes(a.total_bytes)}{ratio}: {'; '.join(parts)}."
    )


_OVER = {
    Link.BUS: "copies {} over the bus",
    Link.STORAGE: "copies {} to and from disks",
    Link.NETWORK: "sends {} between nodes",
}


def _links(a: Side, b: Side) -> Iterator[str]:
    """What moves elsewhere than within one node; of all ranks."""
    if not a.link_bytes or not b.link_bytes:
        return
    told = []
    for link, words in _OVER.items():
        before, after = (side.link_bytes.get(link, 0) for side in (a, b))
        if before != after:
            ratio = f", {_times(after, before)}" if before else ""
            moves = words.format(format_exact_bytes(after))
            told.append(f"{moves}, {a.name} {format_exact_bytes(before)}{ratio}")
    if told:
        yield f"{b.name} {'; '.join(told)}: of all ranks in a step."


def _by_other_means(a: Side, b: Side) -> str:
    parts = _parts(a, b)
    return f", by other means: {'; '.join(parts)}" if parts else ", for the same reasons"


def _parts(a: Side, b: Side) -> list[str]:
    """The reasons that differ, the largest first."""
    unit = a.num_parameters * a.element_bytes
    gaps = {
        reason: b.sent_bytes.get(reason, 0) - a.sent_bytes.get(reason, 0)
        for reason in a.sent_bytes.keys() | b.sent_bytes.keys()
    }
    told = [
        (reason, gap)
        for reason, gap in sorted(gaps.items(), key=lambda item: (-abs(item[1]), item[0]))
        if abs(gap) > _SMALL * max(unit, 1)
    ]
    return [f"{_signed(gap)}{_in_psi(gap, unit)} {_purpose(reason)}" for reason, gap in told]


def _purpose(reason: TrafficReason) -> str:
    if reason.purpose is Purpose.UNLABELLED:
        return f"by {reason.op}"
    return f"to {reason.purpose} in {reason.phase} ({reason.op})"


def _in_psi(gap: int, unit: int) -> str:
    return (
        f" ({'+' if gap > 0 else ''}{format_decimal(Fraction(gap, unit), 2)} {PSI})" if unit else ""
    )


def _memory(a: Side, b: Side) -> Iterator[str]:
    if a.held is None or b.held is None:
        return
    high_a, high_b = a.held.highest_bytes, b.held.highest_bytes
    roles = a.held.roles.keys() | b.held.roles.keys()
    gaps = {role: b.held.roles.get(role, 0) - a.held.roles.get(role, 0) for role in roles}
    told = [
        f"{role} {_signed(gap)}"
        for role, gap in sorted(gaps.items(), key=lambda item: (-abs(item[1]), item[0]))
        if abs(gap) > _SMALL * max(high_a, high_b)
    ]
    more = f": {', '.join(told)}" if told else ""
    yield (
        f"{b.name} holds {format_bytes(high_b)} at its peak, {a.name} {format_bytes(high_a)}, "
        f"{_times(high_b, high_a)}{more}."
    )


def _time(a: Side, b: Side) -> Iterator[str]:
    if a.times is None or b.times is None:
        return
    takes = "is predicted to take" if b.is_predicted else "takes"
    predicted = ", predicted as well" if b.is_predicted else ", which is predicted"
    before = f"{a.name} {_ms(a.times.duration_ns)}{predicted if a.is_predicted else ''}"
    took = f"{b.name} {takes} {_ms(b.times.duration_ns)}, {before}"
    unknown = [side.name for side in (a, b) if side.times and not side.times.exposed_ns]
    if unknown:
        yield f"{took}; what {' and '.join(unknown)} waited for was not recorded."
        return
    exposed = [sum(times.exposed_ns.values()) for times in (a.times, b.times)]
    gap = exposed[1] - exposed[0]
    yield (
        f"{took}; a rank is stalled in communication for {_ms(exposed[1])}, {_ms(abs(gap))} "
        f"{'more' if gap > 0 else 'less'}; hidden are {_percent(b.times.overlap)} of its "
        f"communication, against {_percent(a.times.overlap)}."
    )


def notes(sides: Sequence[Side]) -> tuple[str, ...]:
    """Which traces end early, why, and what is compared then; nothing if all are whole."""
    early = [side for side in sides if side.incomplete]
    if not early:
        return ()
    found = [f"{side.name} is incomplete: {side.incomplete}" for side in early]
    if len({side.iterations for side in sides}) > 1:
        each = ", ".join(f"{side.name} in iteration {side.iteration}" for side in sides)
        return (*found, f"no iteration was finished in all of them; compared are {each}")
    first, last = sides[0].iterations[0], sides[0].iterations[-1]
    which = f"iteration {first}" if first == last else f"iterations {first} to {last}"
    return (*found, f"what all of them finished is compared: {which}")


def headline(sides: Sequence[Side]) -> str:
    """The comparison in a sentence: the first against the last."""
    first, last = sides[0], sides[-1]
    said = []
    if first.sent_bytes and last.sent_bytes and first.total_bytes:
        said.append(f"sends {_times(last.total_bytes, first.total_bytes)}")
    if first.held is not None and last.held is not None:
        ratio = _times(last.held.highest_bytes, first.held.highest_bytes)
        said.append(f"holds {ratio} at the peak")
    if first.times is not None and last.times is not None:
        takes = "is predicted to take" if last.is_predicted else "takes"
        if first.is_predicted and not last.is_predicted:
            takes = f"takes, of what is predicted for {first.name},"
        said.append(f"{takes} {_times(last.times.duration_ns, first.times.duration_ns, 'long')}")
    if not said:
        return f"{last.name} and {first.name} have nothing in common that was recorded."
    whole = said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"
    extent = ", as far as all of them got" if any(side.incomplete for side in sides) else ""
    return f"Against {first.name}, {last.name} {whole}{extent}."


def title_of(side: Side) -> str:
    """What a trace is of, in a few words."""
    parts = [f"{side.num_ranks} rank{'s' if side.num_ranks > 1 else ''}"]
    if side.stage is not None:
        parts.insert(0, STAGE_NAMES[side.stage])
    parts += [
        str(side.settings[name])
        for name in ("model", "dtype", "collectives")
        if name in side.settings
    ]
    return ", ".join(parts)


def _signed(number: int) -> str:
    return f"{'+' if number > 0 else '-'}{format_bytes(abs(number))}"


def _times(number: int, base: int, what: str = "much") -> str:
    if number == base:
        return f"as {what}"
    return f"{format_decimal(Fraction(number, base), 3)} times as {what}" if base else "more"


def _ms(ns: int) -> str:
    return f"{format_decimal(Fraction(ns, 10**6), 1 if ns >= _SHORT_NS or not ns else 3)} ms"


def _percent(share: float | None) -> str:
    return "0 %" if share is None else f"{100 * share:.0f} %"
