"""Finds the steps of an iteration in the event graph."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate

import numpy as np

from zerosim.analysis.frames.joined import groups_of, join, stand_in, together
from zerosim.analysis.frames.order import StepPart, begin_when_gathered, in_order, with_ends
from zerosim.analysis.frames.stages import stages_of, within
from zerosim.analysis.frames.step import Message, Step, Steps
from zerosim.analysis.frames.waiting import Stood, with_waits
from zerosim.analysis.graph import EventGraph
from zerosim.analysis.graph.phases import borders, late_updates
from zerosim.analysis.graph.table import NONE
from zerosim.base.errors import TraceError
from zerosim.record import MatchedCollective, RankTrace, still_in
from zerosim.schema.events import Algorithm, Event, Kind, Op, Phase

MOST_MESSAGES = 150_000
"""An iteration with more is replayed by collective, not by hop."""
MOST_STEPS = 20_000


def steps(graph: EventGraph, iteration: int) -> Steps:
    """The steps of an iteration, in order.

    Args:
        graph: the graph of a whole trace.
        iteration: complete or not.

    Raises:
        TraceError: there are more steps than a replay can show, or none.
    """
    finder = _Finder(graph, iteration)
    finder.find()
    return finder.result()


class _Finder:
    def __init__(self, graph: EventGraph, iteration: int) -> None:
        self.graph, self.iteration = graph, iteration
        trace = graph.trace
        self.num_ranks = trace.manifest.num_ranks
        self.shift = {rank.rank: graph.clocks.offset_ns(rank.rank) for rank in trace.ranks}
        of_call: dict[tuple[int, int], int] = {
            (rank, event.id): index
            for index, matched in enumerate(graph.matching.collectives)
            for rank, event in matched.events.items()
            if event.iteration == iteration
        }
        self.stages = {rank.rank: stages_of(rank.strategies) for rank in trace.ranks}
        self.joined = join(trace, graph.matching, set(of_call.values()), self._name)
        first = stand_in(self.joined)
        self.of_call = {call: first[index] for call, index in of_call.items()}
        self.units_in = {
            bucket.name: tuple(dict.fromkeys(one.unit for one in bucket.segments))
            for bucket in trace.manifest.buckets
        }
        self.late = {rank.rank: late_updates(trace, rank) for rank in trace.ranks}
        self.marks: list[StepPart] = []
        self.parts: list[StepPart] = []
        self.stood: list[Stood] = []
        self.end: StepPart | None = None
        self.notes: list[str] = []

    def _name(self, event: Event) -> str:
        """The name of an event's unit: two stages of a pipeline have equal module names."""
        return within(self.stages[event.rank], event)

    def _named(self, event: Event) -> Event:
        name = self._name(event)
        return event if name == event.unit else replace(event, unit=name)

    def find(self) -> None:
        self._find_marks()
        self._find_work()
        hops = self._find_hops()
        self._find_collectives(hops)
        if not self.parts and not self.marks:
            raise TraceError(
                f"{self.graph.trace.folder}: iteration {self.iteration} contains no "
                "events: nothing to replay"
            )

    def _find_marks(self) -> None:
        """The phases, the n-th of each rank with the n-th of the others; the iteration's end."""
        marks: dict[tuple[Phase, int], StepPart] = {}
        for rank in self.graph.trace.ranks:
            seen: Counter[Phase] = Counter()
            for border in borders(rank, self.shift[rank.rank]):
                if border.iteration != self.iteration:
                    continue
                place = seen[border.phase]
                seen[border.phase] += 1
                part = marks.setdefault(
                    (border.phase, place), StepPart(Kind.MARK, border.phase, place)
                )
                part.span(rank.rank, border.time_ns, border.time_ns)
        self.end = marks.pop((Phase.OUTSIDE, 0), None)
        if any(self.stages.values()):  # one stage is in backward while another is still in forward
            marks = {(phase, n): part for (phase, n), part in marks.items() if _is_first(phase, n)}
        self.marks = [part for (phase, _), part in marks.items() if phase is not Phase.OUTSIDE]

    def _find_work(self) -> None:
        """Computations and copies, the n-th of a kind with the n-th of the other ranks; waits."""
        found: dict[tuple[object, ...], StepPart] = {}
        for rank in self.graph.trace.ranks:
            seen: Counter[tuple[object, ...]] = Counter()
            shift, unfinished = self.shift[rank.rank], set(rank.unfinished)
            late: dict[int, int] = self.late[rank.rank]
            for event in rank.events:
                iteration = late.get(event.id, event.iteration)
                if iteration != self.iteration or event.start_ns is None:
                    continue
                if event.kind is Kind.COMPUTE:
                    key: tuple[object, ...] = (event.phase, event.micro_step, self._name(event))
                elif event.kind is Kind.COPY:
                    key = _of_copy(event)
                else:
                    if event.kind is Kind.WAIT:
                        self._find_wait(rank, event)
                    continue
                place = seen[key]
                seen[key] += 1
                part = found.setdefault(
                    (*key, place), StepPart(event.kind, event.phase, event.micro_step)
                )
                part.is_late = event.id in late
                part.units = (self._name(event),)
                end = event.start_ns if event.end_ns is None else event.end_ns
                part.add(self._named(event), event.start_ns + shift, end + shift)
                part.is_over &= event.id not in unfinished
        self.parts += found.values()

    def _find_wait(self, rank: RankTrace, event: Event) -> None:
        """The stalled ranks, and the cause; empty without stalls."""
        awaited = None if event.parent is None else rank.events.find(event.parent)
        if awaited is None or event.start_ns is None:
            return
        start = event.start_ns + self.shift[rank.rank]
        end = start if event.end_ns is None else event.end_ns + self.shift[rank.rank]
        collective = self.of_call.get((rank.rank, awaited.id))
        self.stood.append(Stood(event, awaited, collective, start, end))

    def _find_hops(self) -> dict[int, dict[int, StepPart]]:
        """The messages of collectives, by collective and hop."""
        ends = self._ends()
        if len(ends) > MOST_MESSAGES:
            self.notes.append(
                f"iteration {self.iteration} has {len(ends):,} messages, more than "
                f"{MOST_MESSAGES:,}: it is shown by collective instead of by hop"
            )
            return {}
        found: dict[int, dict[int, StepPart]] = defaultdict(dict)
        for send, receive in ends:
            known = send or receive
            assert known is not None
            collective = self.of_call.get(
                (known.rank, -1 if known.parent is None else known.parent)
            )
            if collective is None:
                continue
            is_pairwise = self._of(collective).algorithm is Algorithm.PAIRWISE
            hop = 0 if is_pairwise else known.hop or 0  # their messages are all posted at once
            part = found[collective].setdefault(
                hop, StepPart(Kind.TRANSFER, known.phase, known.micro_step, collective, hop)
            )
            message, is_over = self._message(send, receive)
            part.span(message.source, message.start_ns, message.end_ns)
            part.over(message.target, message.end_ns)
            part.is_over &= is_over
            part.messages.append(message)
        return found

    def _ends(self) -> list[tuple[Event | None, Event | None]]:
        """The send and the receive of each message in this iteration.

        One is None if that rank is not in the trace, if no rank received, or if the send has not
        ended: a paused rank waits for it only after its last hop.
        """
        graph, hops = self.graph, self.graph.hops
        ends: list[tuple[Event | None, Event | None]] = []
        own = graph.iteration[hops.sends] == self.iteration
        ends += [
            (self._event(sent), self._event(received))
            for sent, received in zip(
                hops.sends[own].tolist(), hops.receives[own].tolist(), strict=True
            )
        ]
        for row in hops.lost[graph.iteration[hops.lost] == self.iteration].tolist():
            ends.append((self._event(row), None))
        for row in hops.unsent[graph.iteration[hops.unsent] == self.iteration].tolist():
            receive = self._event(row)
            if receive.peers[0] not in self.shift or receive.end_ns is not None:
                ends.append((None, receive))
        return ends

    def _message(self, send: Event | None, receive: Event | None) -> tuple[Message, bool]:
        """One message, and whether it had arrived when the trace ended."""
        known = send or receive
        assert known is not None
        shift = self.shift[known.rank]
        begun = known.issue_ns if known.start_ns is None else known.start_ns
        source = known.rank if send is not None else known.peers[0]
        target = known.peers[0] if receive is None else receive.rank
        ended, is_over = known.end_ns, target not in self.shift
        if receive is not None:
            ended, is_over = receive.end_ns, receive.end_ns is not None
            end = begun + shift if ended is None else ended + self.shift[receive.rank]
        else:
            end = begun + shift if ended is None else ended + shift
        start = begun + shift
        return (
            Message(source, target, known.shard, known.payload_bytes, start, max(start, end)),
            is_over,
        )

    def _event(self, row: int) -> Event:
        """The event of a node that is a row of the table."""
        graph = self.graph
        return graph.trace.ranks[int(graph.place[row])].events[int(graph.event[row])]

    def _find_collectives(self, hops: dict[int, dict[int, StepPart]]) -> None:
        """Collectives that are not shown by hop, and the events of those that are."""
        unmet: dict[tuple[Phase, int], StepPart] = {}
        for index in sorted(set(self.of_call.values())):
            if self._find_unmet(index, unmet):
                continue
            members = self.joined[index]
            matched = together(self.graph.matching, members)
            event = self._named(next(iter(matched.events.values())))
            groups = groups_of(self.graph.matching, members, self.num_ranks)
            if index in hops:
                if matched.op is Op.REDUCE:
                    self._begin_when_called(matched, hops[index])
                for part in hops[index].values():
                    part.events, part.groups = dict(matched.events), groups
                    part.units = self.units_in.get(event.unit, (event.unit,))
                    self.parts.append(part)
                continue
            part = StepPart(Kind.COLLECTIVE, event.phase, event.micro_step, index, groups=groups)
            part.units = self.units_in.get(event.unit, (event.unit,))
            for rank, own in matched.events.items():
                start = own.issue_ns if own.start_ns is None else own.start_ns
                end = self._end_of(rank, own, start)
                part.add(self._named(own), start + self.shift[rank], end + self.shift[rank])
                part.is_over &= own.id not in self._unfinished(rank)
            if matched.op is Op.SEND:
                for member in members:
                    part.messages += self._point_to_point(self.graph.matching.collectives[member])
                part.is_message = True
            self.parts.append(part)

    def _find_unmet(self, index: int, unmet: dict[tuple[Phase, int], StepPart]) -> bool:
        """Whether a rank waits for a message that another one has not sent.

        All such waits at the end are one step: in a cycle of waits none can continue. Such a call
        is unfinished, or failed when a waiting rank was killed.
        """
        matched = self.graph.matching.collectives[index]
        event = next(iter(matched.events.values()))
        source = event.peers[0] if event.peers else -1
        is_alone = matched.key.is_message and len(matched.events) == 1 and source in self.shift
        is_in_vain = bool(event.error) or event.id in self._unfinished(event.rank)
        if event.op is not Op.RECEIVE or not is_alone or not is_in_vain:
            return False
        key = event.phase, event.micro_step
        if key not in unmet:
            unmet[key] = StepPart(Kind.COLLECTIVE, *key, index)
            self.parts.append(unmet[key])
        start = (event.start_ns or event.issue_ns) + self.shift[event.rank]
        unmet[key].add(self._named(event), start, start)
        unmet[key].is_over = False
        unmet[key].messages.append(Message(source, event.rank, None, 0, start, start))
        return True

    def _begin_when_called(self, matched: MatchedCollective, hops: dict[int, StepPart]) -> None:
        """Show the hops of a reduction to one rank only after all its ranks have called it.

        Such a reduction is a chain that ends at that rank: its first ranks may call and send long
        before the others call. (In a ring, every hop needs all ranks.) Every rank of the group,
        also one that sends and receives nothing in a hop, therefore starts each hop no earlier
        than its own call and its start of the previous hop.
        """
        begun = {
            rank: (own.issue_ns if own.start_ns is None else own.start_ns) + self.shift[rank]
            for rank, own in matched.events.items()
        }
        for _, part in sorted(hops.items()):
            for rank, before in begun.items():
                begun[rank] = part.starts[rank] = max(before, part.starts.get(rank, before))
                part.over(rank, begun[rank])

    def _of(self, index: int) -> Event:
        """The first call of a collective."""
        return next(iter(self.graph.matching.collectives[index].events.values()))

    def _unfinished(self, rank: int) -> tuple[int, ...]:
        return next(one.unfinished for one in self.graph.trace.ranks if one.rank == rank)

    def _end_of(self, rank: int, event: Event, start: int) -> int:
        """The end of a call; if its end was not observed, that of the wait for it."""
        if event.end_ns is not None:
            return event.end_ns
        graph = self.graph
        place = next(i for i, one in enumerate(graph.trace.ranks) if one.rank == rank)
        rows = np.flatnonzero((graph.place == place) & (graph.iteration == self.iteration))
        for row in rows.tolist():
            if graph.event[row] != NONE and self._event(row).id == event.id:
                return max(start, int(graph.end[row]) - self.shift[rank])
        return start

    def _point_to_point(self, matched: MatchedCollective) -> Iterable[Message]:
        source, target = matched.key.ranks
        sent, received = matched.events.get(source), matched.events.get(target)
        if sent is not None:
            start = (sent.start_ns or sent.issue_ns) + self.shift[source]
            end = start
            if received is not None and received.end_ns is not None:
                end = max(start, received.end_ns + self.shift[target])
            yield Message(source, target, None, sent.payload_bytes, start, end)

    def result(self) -> Steps:
        if not self.graph.trace.manifest.units:
            begin_when_gathered(self.parts)
        found = in_order([*self.marks, *self.parts])
        zero = min(min(part.starts.values()) for part in found)
        last = self.end or StepPart(Kind.MARK, Phase.OUTSIDE, 0)
        last.end = max(last.end, *(part.end for part in found))
        last.is_over = not still_in(self.graph.trace, self.iteration)
        found.append(last)
        if len(found) > MOST_STEPS:
            raise TraceError(
                f"{self.graph.trace.folder}: iteration {self.iteration} has {len(found):,} steps: "
                f"a replay holds up to {MOST_STEPS:,}; zerosim graph reads longer ones"
            )
        times = list(accumulate((part.last_start - zero for part in found[:-1]), max))
        times.append(last.end - zero)
        made = [
            Step(
                kind=part.kind,
                phase=part.phase,
                micro_step=part.micro_step,
                events=dict(sorted(part.events.items())),
                collective=part.collective,
                hop=part.hop,
                messages=tuple(sorted(part.messages, key=lambda one: (one.source, one.start_ns))),
                time_ns=time,
                start_ns=time if part is last else min(part.starts.values()) - zero,
                end_ns=max(time, part.end - zero),
                starts={rank: start - zero for rank, start in part.starts.items()},
                is_over=part.is_over,
                groups=part.groups,
            )
            for part, time in zip(found, times, strict=True)
        ]
        num_hops = Counter(s.collective for s in made if s.kind is Kind.TRANSFER)
        return Steps(
            iteration=self.iteration,
            zero_ns=zero,
            steps=with_waits(tuple(with_ends(made, times)), self.stood, zero),
            joined={index: members for index, members in self.joined.items() if len(members) > 1},
            num_hops={index: n for index, n in num_hops.items() if index is not None},
            notes=tuple(self.notes),
        )


def _is_first(phase: Phase, number: int) -> bool:
    """Whether a mark is common to all stages of a pipeline."""
    return phase is not Phase.BACKWARD and (phase is not Phase.FORWARD or not number)


def _of_copy(event: Event) -> tuple[object, ...]:
    """The key shared by copies of several ranks."""
    ways = (event.origin, event.target)
    return (event.purpose, *ways, event.phase, event.micro_step, event.unit)
