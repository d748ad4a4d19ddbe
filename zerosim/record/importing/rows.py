"""A rank's profile as the rows of a trace, equal to those of a recorder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from zerosim.record.importing.calls import ImportedCall
from zerosim.record.importing.carriers import calls_of
from zerosim.record.importing.computed import computed, stalls
from zerosim.record.importing.kineto import ACCUMULATES, KinetoProfile
from zerosim.record.importing.phase_timeline import PhaseTimeline
from zerosim.record.importing.purposes import Purposes
from zerosim.record.importing.values import sizes_at, type_at
from zerosim.schema.events import (
    SCHEMA_VERSION,
    STEP_PHASES,
    Algorithm,
    End,
    Event,
    Group,
    Header,
    Kind,
    Op,
)
from zerosim.schema.rows import encode_row
from zerosim.schema.strategies import HAND_WRITTEN, Bundle, Parameter, Strategy

_ALGORITHMS = {"gloo": Algorithm.GLOO, "nccl": Algorithm.NCCL}
_COUNTED: dict[str, object] = {"counted_by": "as many elements as gradients are added up for"}
_MESSAGES = (Op.SEND, Op.RECEIVE)
_AWAITED = "awaited"
"""The key of a wait's call, until the call has a number."""


class RankRows:
    """The rows of one rank.

    Attributes:
        calls: the rank's calls, in order.
    """

    def __init__(self, profile: KinetoProfile) -> None:
        self.profile = profile
        self.calls = calls_of(profile)
        self._places = PhaseTimeline(profile)

    def encoded(self, node: int) -> bytes:
        """The rank's file.

        Args:
            node: position of the rank's node.
        """
        lines, crc = [], 0
        for name, record in self._records(node):
            line, crc = encode_row(name, record, crc)
            lines.append(line)
        end = End(time_ns=self.profile.end_ns, num_rows=len(lines))
        return b"".join([*lines, encode_row("end", end, crc)[0]])

    def _records(self, node: int) -> Iterator[tuple[str, Any]]:
        profile = self.profile
        yield (
            "header",
            Header(
                schema=SCHEMA_VERSION,
                rank=profile.rank,
                num_ranks=profile.num_ranks,
                local_rank=profile.rank,
                host=profile.host or f"of rank {profile.rank} (not recorded)",
                pid=profile.pid,
                device="cuda" if profile.is_on_gpu else "cpu",
                clock_ns=profile.begin_ns,
                wall_ns=profile.begin_ns,
                node=node,
            ),
        )
        backends = {call.group: call for call in self.calls if call.group}
        for name, call in backends.items():
            yield "group", Group(name=name, backend=call.backend, ranks=call.ranks)
        if (strategy := self._strategy()) is not None:
            yield "strategy", strategy
        called = list(self._called())
        begun = [*self._marks(), *called, *computed(profile, self._places)]
        begun += self._stalls(called) if profile.computing else ()
        begun.sort(key=lambda one: int(one["issue_ns"]))
        numbers: dict[int, int] = {}
        for number, values in enumerate(begun):
            numbers[id(values)] = number
            own = {name: value for name, value in values.items() if name != _AWAITED}
            parent = numbers.get(id(values.get(_AWAITED)))
            yield "event", Event(id=number, rank=profile.rank, parent=parent, **own)

    def _stalls(self, called: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Intervals in which the device is idle, waiting for communication."""
        events = {id(call): values for call, values in zip(self.calls, called, strict=True)}
        for (start_ns, end_ns), call in stalls(self.profile, self.calls):
            of = events[id(call)]
            yield {
                "kind": Kind.WAIT,
                _AWAITED: of,
                **{name: of[name] for name in ("iteration", "micro_step", "phase", "unit")},
                "issue_ns": start_ns,
                "start_ns": start_ns,
                "end_ns": end_ns,
                "device_begin_ns": start_ns,
                "device_end_ns": end_ns,
            }

    def _marks(self) -> Iterator[dict[str, Any]]:
        """The beginning of a phase."""
        for place in self._places.all:
            yield {
                "kind": Kind.MARK,
                "iteration": place.iteration,
                "micro_step": place.micro_step,
                "phase": place.phase,
                "issue_ns": place.begin_ns,
                "start_ns": place.begin_ns,
                "end_ns": place.begin_ns,
            }

    def _called(self) -> Iterator[dict[str, Any]]:
        purposes = Purposes.of(self.profile)
        sequences: Counter[str] = Counter()
        for call in self.calls:
            issue_ns = call.span.start_ns
            place = self._places.at(issue_ns)
            purpose, unit = purposes.explain(call, place)
            is_message = call.op in _MESSAGES
            if call.group and not is_message and call.group not in sequences:
                sequences[call.group] = call.sequence or 0
            sequence = sequences[call.group] if call.group and not is_message else None
            sequences[call.group] += sequence is not None
            size = call.payload_bytes
            start_ns = None if call.carried is None else max(issue_ns, call.carried.start_ns)
            end_ns = None if call.carried is None else max(start_ns or 0, call.carried.end_ns)
            on_device = call.carried is not None and self.profile.is_on_gpu
            yield {
                "kind": Kind.COLLECTIVE,
                "iteration": place.iteration,
                "micro_step": place.micro_step,
                "phase": place.phase,
                "unit": unit,
                "purpose": purpose,
                "op": call.op,
                "operator": call.span.name if size is None else "",
                "algorithm": _ALGORITHMS.get(call.backend, Algorithm.OTHER),
                "group": call.group,
                "sequence": sequence,
                "peers": () if call.peer is None else (call.peer,),
                "dtype": "" if call.op is Op.BARRIER else call.dtype,
                "elements": 0 if size is None else call.elements or 0,
                "payload_bytes": size or 0,
                "parts": () if size is None else call.parts,
                "received_parts": () if size is None else call.received_parts,
                "sent_bytes": _message(call, Op.SEND),
                "received_bytes": _message(call, Op.RECEIVE),
                "issue_ns": issue_ns,
                "start_ns": start_ns,
                "end_ns": end_ns,
                "device_begin_ns": start_ns if on_device else None,
                "device_end_ns": end_ns if on_device else None,
                "source": call.source,
            }

    def _strategy(self) -> Strategy | None:
        """The parameters whose gradients autograd accumulates, if their shapes were recorded."""
        sizes: Counter[str] = Counter()
        for call in self.calls:
            if self._places.at(call.span.start_ns).phase in STEP_PHASES and call.group:
                sizes[call.group] += call.payload_bytes or 0
        found: dict[tuple[int, int], list[Parameter]] = {}
        for span in self.profile.spans:
            if span.name != ACCUMULATES:
                continue
            shapes, dtype = sizes_at(span.args, 0), type_at(span.args, 0)
            place = self._places.at(span.start_ns)
            if place.iteration < 0:
                continue
            if shapes is None or not dtype:
                return None
            some = found.setdefault((place.iteration, place.micro_step), [])
            name = f"parameter {len(some)} of backward"
            some.append(Parameter(name=name, shape=tuple(shapes[0]), dtype=dtype))
        if not sizes or not found:
            return None
        parameters = max(found.values(), key=lambda some: sum(one.elements for one in some))
        ranks = {call.group: call.ranks for call in self.calls}[sizes.most_common(1)[0][0]]
        return Strategy(
            system=HAND_WRITTEN,
            name="program",
            ranks=ranks,
            bundles=(Bundle(name="model", parameters=tuple(parameters), options=_COUNTED),),
        )


def _message(call: ImportedCall, op: Op) -> int | None:
    """`SEND` or `RECEIVE` for a message; None for other calls."""
    if call.op not in _MESSAGES or call.payload_bytes is None:
        return None
    return call.payload_bytes if call.op is op else 0
