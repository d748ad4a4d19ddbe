"""The result of a comparison, in words: each sentence is built from measured numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from zerosim.base.config import STAGE_NAMES
from zerosim.base.language import clauses, enumerated, listed, term
from zerosim.base.quantities import PSI, format_bytes, format_decimal, format_exact_bytes
from zerosim.base.tiers import Link
from zerosim.schema.events import Purpose
from zerosim.view.reading.side import Side, TrafficReason
from zerosim.view.reading.wording import said

_SMALL = Fraction(1, 200)
"""Fraction of Psi, or of a peak: smaller parts of a difference are omitted."""
_SHORT_NS = 10**6
"""A shorter time has more decimals."""
_UNTOLD = ("stage",)
"""Settings that are already in the sides' names."""


def differences(sides: Sequence[Side]) -> tuple[str, ...]:
    """Differences from the first, one sentence each."""
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
        said(
            "differences.setting",
            name=name.replace("_", " "),
            before=_value(a.settings.get(name)),
            after=_value(b.settings.get(name)),
        )
        for name in names
        if name not in _UNTOLD and a.settings.get(name) != b.settings.get(name)
    ]
    if changed:
        changes = enumerated(changed)
        yield said("differences.settings", first=a.name, second=b.name, changes=changes)


def _value(value: object) -> str:
    if value is not None and not isinstance(value, bool):
        return str(value)
    return said(f"differences.{'none' if value is None else 'on' if value else 'off'}")


def _traffic(a: Side, b: Side) -> Iterator[str]:
    if not a.sent_bytes or not b.sent_bytes:
        return
    names = {"first": a.name, "second": b.name}
    parts = clauses(_parts(a, b))
    if a.total_bytes == b.total_bytes:
        key = "differences.as_much" if parts else "differences.as_much_alike"
        yield said(key, bytes=format_exact_bytes(a.total_bytes), parts=parts, **names)
        return
    yield said(
        "differences.sends_times" if a.total_bytes else "differences.sends",
        bytes=format_exact_bytes(b.total_bytes),
        before=format_exact_bytes(a.total_bytes),
        ratio=_times(b.total_bytes, a.total_bytes),
        parts=parts,
        **names,
    )


_OVER = {
    Link.BUS: "differences.bus",
    Link.STORAGE: "differences.storage",
    Link.NETWORK: "differences.network",
}


def _links(a: Side, b: Side) -> Iterator[str]:
    """Traffic outside of a single node; over all ranks."""
    if not a.link_bytes or not b.link_bytes:
        return
    told = []
    for link, key in _OVER.items():
        before, after = (side.link_bytes.get(link, 0) for side in (a, b))
        if before != after:
            sizes = {"bytes": format_exact_bytes(after), "before": format_exact_bytes(before)}
            words = said(key, first=a.name, **sizes)
            if before:
                ratio = _times(after, before)
                words = said("differences.with_ratio", words=words, ratio=ratio)
            told.append(words)
    if told:
        yield said("differences.links", second=b.name, parts=clauses(told))


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
    return [
        said(
            "differences.part_psi" if unit else "differences.part",
            bytes=_signed(gap),
            psi=_in_psi(gap, unit),
            why=_purpose(reason),
        )
        for reason, gap in told
    ]


def _purpose(reason: TrafficReason) -> str:
    if reason.purpose is Purpose.UNLABELLED:
        return said("differences.by", op=term(reason.op or ""))
    return said(
        "differences.to",
        purpose=term(reason.purpose),
        phase=term(reason.phase),
        op=term(reason.op or ""),
    )


def _in_psi(gap: int, unit: int) -> str:
    if not unit:
        return ""
    return f"{'+' if gap > 0 else ''}{format_decimal(Fraction(gap, unit), 2)} {PSI}"


def _memory(a: Side, b: Side) -> Iterator[str]:
    if a.held is None or b.held is None:
        return
    high_a, high_b = a.held.highest_bytes, b.held.highest_bytes
    roles = a.held.roles.keys() | b.held.roles.keys()
    gaps = {role: b.held.roles.get(role, 0) - a.held.roles.get(role, 0) for role in roles}
    told = [
        said("differences.role", role=term(role), bytes=_signed(gap))
        for role, gap in sorted(gaps.items(), key=lambda item: (-abs(item[1]), item[0]))
        if abs(gap) > _SMALL * max(high_a, high_b)
    ]
    yield said(
        "differences.memory_roles" if told else "differences.memory",
        second=b.name,
        bytes=format_bytes(high_b),
        first=a.name,
        before=format_bytes(high_a),
        ratio=_times(high_b, high_a),
        roles=enumerated(told),
    )


def _time(a: Side, b: Side) -> Iterator[str]:
    if a.times is None or b.times is None:
        return
    own = "predicted" if b.is_predicted else "takes"
    other = "predicted_both" if b.is_predicted else "takes_predicted_before"
    took = said(
        f"differences.{other if a.is_predicted else own}",
        second=b.name,
        time=_ms(b.times.duration_ns),
        first=a.name,
        before=_ms(a.times.duration_ns),
    )
    unknown = [side.name for side in (a, b) if side.times and not side.times.exposed_ns]
    if unknown:
        yield said("differences.unrecorded", took=took, names=listed(unknown))
        return
    exposed = [sum(times.exposed_ns.values()) for times in (a.times, b.times)]
    gap = exposed[1] - exposed[0]
    yield said(
        "differences.more_stalled" if gap > 0 else "differences.less_stalled",
        took=took,
        stalled=_ms(exposed[1]),
        gap=_ms(abs(gap)),
        hidden=_percent(b.times.overlap),
        against=_percent(a.times.overlap),
    )


def notes(sides: Sequence[Side]) -> tuple[str, ...]:
    """The traces that end early, the reasons, and the part compared; empty if all are complete."""
    early = [side for side in sides if side.incomplete]
    if not early:
        return ()
    found = [said("differences.incomplete", name=side.name, why=side.incomplete) for side in early]
    if len({side.iterations for side in sides}) > 1:
        each = enumerated(
            said("differences.in_iteration", name=side.name, iteration=side.iteration)
            for side in sides
        )
        return (*found, said("differences.no_common", sides=each))
    first, last = sides[0].iterations[0], sides[0].iterations[-1]
    key = "differences.common" if first == last else "differences.common_several"
    return (*found, said(key, first=first, last=last))


def headline(sides: Sequence[Side]) -> str:
    """The comparison in a sentence: the first against the last."""
    first, last = sides[0], sides[-1]
    told = []
    if first.sent_bytes and last.sent_bytes and first.total_bytes:
        told.append(said("against.sends", ratio=_times(last.total_bytes, first.total_bytes)))
    if first.held is not None and last.held is not None:
        ratio = _times(last.held.highest_bytes, first.held.highest_bytes)
        told.append(said("against.holds", ratio=ratio))
    if first.times is not None and last.times is not None:
        key = "predicted" if last.is_predicted else "takes"
        if first.is_predicted and not last.is_predicted:
            key = "of_predicted"
        ratio = _times(last.times.duration_ns, first.times.duration_ns, "long")
        told.append(said(f"against.{key}", first=first.name, ratio=ratio))
    if not told:
        return said("against.nothing", last=last.name, first=first.name)
    is_whole = not any(side.incomplete for side in sides)
    key = "against.headline" if is_whole else "against.headline_as_far"
    return said(key, first=first.name, last=last.name, said=listed(told, last="and_does"))


def title_of(side: Side) -> str:
    """A trace's subject, in a few words."""
    parts = [said.each("against.ranks", number=side.num_ranks)[side.num_ranks > 1]]
    if side.stage is not None:
        parts.insert(0, term(STAGE_NAMES[side.stage]))
    parts += [
        str(side.settings[name])
        for name in ("model", "dtype", "collectives")
        if name in side.settings
    ]
    return enumerated(parts)


def _signed(number: int) -> str:
    return f"{'+' if number > 0 else '-'}{format_bytes(abs(number))}"


def _times(number: int, base: int, what: str = "much") -> str:
    if number == base:
        return said(f"against.same_{what}")
    if not base:
        return said("against.more")
    return said(f"against.times_{what}", times=format_decimal(Fraction(number, base), 3))


def _ms(ns: int) -> str:
    return f"{format_decimal(Fraction(ns, 10**6), 1 if ns >= _SHORT_NS or not ns else 3)} ms"


def _percent(share: float | None) -> str:
    return "0 %" if share is None else f"{100 * share:.0f} %"
