"""Messages whose contents a puzzle's check determined, as hops of one collective.

A ring written by a student is thus shown like the engine's own: with pieces, and with partial sums.
The trace's data of each message (ends, times, bytes) are unchanged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from zerosim.analysis.frames import Band, Message, ProgramUnits, Step
from zerosim.analysis.frames.layout import Division, ShardDuties
from zerosim.base.language import fill
from zerosim.record import Events, RankTrace, Trace, match_collectives
from zerosim.record.judged import CarriedPiece, Judged
from zerosim.schema.events import Algorithm, Event, Kind, Op, Purpose
from zerosim.schema.manifest import BucketLayout, Segment, UnitLayout
from zerosim.schema.memory import Role
from zerosim.view.replay.step_sentences import StepText, find

UNIT = "vector"
_SEQUENCE = 1 << 30
"""Sequence of the collective: no call of the program has it."""
_MOST_PIECES = 1024
_End = tuple[int, int]
"""Rank and event of a send or a receive."""


def carried_of(trace: Trace, judged: Judged | None) -> CarriedMessages | None:
    """The messages of a run; None without a verdict on them, or if the verdict is of another
    run.
    """
    if judged is None or not judged.messages:
        return None
    sent = _sent(trace)
    said = {(one.rank, one.event): one for one in judged.messages}
    if not said.keys() <= sent.keys():
        return None
    ranks = {rank for end in said for rank in (end[0], sent[end][1].rank)}
    rounds = {one.round for one in judged.messages}
    fits = (
        ranks == {rank.rank for rank in trace.ranks}
        and rounds == set(range(1, 1 + max(rounds)))
        and 0 < judged.num_pieces <= _MOST_PIECES
        and all(-1 <= one.piece < judged.num_pieces for one in judged.messages)
    )
    return CarriedMessages(trace, judged) if fits else None


def _sent(trace: Trace) -> dict[_End, tuple[Event, Event]]:
    """The send and the receive of each message that arrived, by the send."""
    pairs = {}
    for matched in match_collectives(trace).collectives:
        calls = {event.op: event for event in matched.events.values()}
        sent, received = calls.get(Op.SEND), calls.get(Op.RECEIVE)
        if sent is not None and received is not None:
            pairs[sent.rank, sent.id] = sent, received
    return pairs


class CarriedMessages:
    """The messages of one iteration.

    Attributes:
        trace: the run, with the messages as hops.
        program, bands: contents of the ranks, as for a known program.
    """

    def __init__(self, trace: Trace, judged: Judged) -> None:
        """Combine the messages; see `carried_of`.

        Args:
            judged: a verdict with the contents of all messages of the iteration.
        """
        self._of_send = {(one.rank, one.event): one for one in judged.messages}
        self._num_ranks = trace.manifest.num_ranks
        is_sum = any(one.summed for one in judged.messages)
        is_whole = judged.num_pieces < self._num_ranks or any(
            len(one.summed) == self._num_ranks for one in judged.messages
        )
        self.op = Op.ALL_GATHER
        if is_sum:
            self.op = Op.ALL_REDUCE if is_whole else Op.REDUCE_SCATTER
        ends = dict(self._of_send)
        self._target_of: dict[_End, int] = {}
        sizes: dict[int, tuple[int, int]] = {}
        for end, (sent, received) in _sent(trace).items():
            known = self._of_send.get(end)
            if known is not None:
                ends[received.rank, received.id] = known
                self._target_of[end] = received.rank
                largest = sizes.get(known.piece, (0, 0))
                sizes[known.piece] = max(largest, (sent.elements, sent.payload_bytes))
        self._unknown = self._first_round_of_its_own()
        self._elements, self._bytes = map(sum, zip(*sizes.values(), strict=True))
        self.trace = replace(
            trace, ranks=tuple(self._with_hops(rank, ends) for rank in trace.ranks)
        )
        self.program = self._program(judged, is_whole=is_whole)
        role = Role.GRADIENTS if is_sum else Role.PARAMETERS
        self.bands = {Band(role): self.program.element_bytes}

    def _with_hops(self, rank: RankTrace, ends: Mapping[_End, CarriedPiece]) -> RankTrace:
        own = [one for one in rank.events if (rank.rank, one.id) in ends]
        first = own[0].id
        call = replace(
            self._of_ring(own[0]),
            op=self.op,
            sequence=_SEQUENCE,
            peers=tuple(sorted({peer for one in own for peer in one.peers})),
            elements=self._elements,
            payload_bytes=self._bytes,
            sent_bytes=sum(one.payload_bytes for one in own if one.op is Op.SEND),
            received_bytes=sum(one.payload_bytes for one in own if one.op is Op.RECEIVE),
            wire=(),
            end_ns=max((one.end_ns for one in own if one.end_ns is not None), default=None),
        )
        messages = {one.id for one in own}

        def moved(number: int) -> int:
            """Ids from the first message on move up by one, because the collective took one."""
            return number + (number >= first)

        def of(number: int | None) -> int | None:
            return None if number is None else moved(number)

        made: list[Event] = []
        for event in rank.events:
            if event.id == first:
                made.append(call)
            known = ends.get((rank.rank, event.id))
            parent = first if event.parent in messages else of(event.parent)
            one = replace(event, id=moved(event.id), parent=parent)
            if known is not None:
                shard = known.piece if known.round < self._unknown else None
                hop = known.round - 1
                one = replace(
                    self._of_ring(one), kind=Kind.TRANSFER, parent=first, hop=hop, shard=shard,
                    sequence=None,
                )  # fmt: skip
            made.append(one)
        return replace(
            rank,
            events=Events(made),
            memory_samples=tuple(replace(one, event=of(one.event)) for one in rank.memory_samples),
            checksums=tuple(replace(one, event=of(one.event)) for one in rank.checksums),
            unfinished=tuple(map(moved, rank.unfinished)),
        )

    def _of_ring(self, event: Event) -> Event:
        is_gather = self.op is Op.ALL_GATHER
        purpose = Purpose.GATHER_PARAMETERS if is_gather else Purpose.REDUCE_GRADIENTS
        return replace(event, unit=UNIT, purpose=purpose, algorithm=Algorithm.RING)

    def _program(self, judged: Judged, *, is_whole: bool) -> ProgramUnits:
        is_sum = self.op is not Op.ALL_GATHER
        unit = UnitLayout(
            name=UNIT, elements=self._elements, padded_elements=self._elements, trainable=True
        )
        every = frozenset(range(judged.num_pieces))
        parts = {  # gathered pieces are the program's result, and are never freed
            (rank.rank, UNIT): ShardDuties(
                computes=every, keeps=frozenset({rank.rank}), updates=frozenset({rank.rank})
            )
            for rank in self.trace.ranks
        }
        dtypes = {one.dtype for rank in self.trace.ranks for one in rank.events if one.dtype}
        return ProgramUnits(
            units=(unit,),
            buckets=(BucketLayout(name=UNIT, segments=(Segment(unit=UNIT, start=0, stop=1),)),),
            division=Division(
                parameters=False,
                gradients=not is_whole,
                states=not is_whole or not is_sum,
                num_shards=judged.num_pieces,
                parts={} if is_sum else parts,
            ),
            computed={},
            gathered={},
            dtype=min(dtypes, default=""),
            element_bytes=self._bytes // max(1, self._elements),
        )

    def _first_round_of_its_own(self) -> int:
        """The round from which the ranks' contents do not follow from these messages.

        A rank adds an arriving message to its own part, and sends its contents: a message with
        other contents is not drawn, and nothing after it.
        """
        rounds: dict[int, list[CarriedPiece]] = defaultdict(list)
        for one in self._of_send.values():
            rounds[one.round].append(one)
        held: dict[tuple[int, int], frozenset[int]] = {}
        for number, sent in sorted(rounds.items()):
            for one in sent:
                own = held.get((one.rank, one.piece), frozenset({one.rank}))
                expected = tuple(sorted(own)) if self.op is not Op.ALL_GATHER else ()
                has = one.piece == one.rank or (one.rank, one.piece) in held
                if one.piece < 0 or one.summed != expected or (not expected and not has):
                    return number
            for one in sent:
                target = self._target_of[one.rank, one.event]
                own = held.get((target, one.piece), frozenset({target}))
                held[target, one.piece] = own | set(one.summed)
        return 1 + max(rounds)

    def hop_of(self, rank: int, event: int) -> int | None:
        """The hop, from 0, that a send is shown as; None for any other event."""
        known = self._of_send.get((rank, event))
        return None if known is None else known.round - 1

    def describe(self, step: Step, num_hops: int) -> StepText | None:
        """The text of a round; None for any other step."""
        if step.hop is None:
            return None
        in_round = {one.rank: one for one in self._of_send.values() if one.round == step.hop + 1}
        said = [self._message(message, in_round[message.source]) for message in step.messages]
        kind = "gather" if self.op is Op.ALL_GATHER else "sum"
        title = fill(find("carried", "title"), {"hop": step.hop + 1, "hops": num_hops})
        return StepText(title, find("carried", "between").join(said), find("carried", kind))

    def _message(self, message: Message, known: CarriedPiece) -> str:
        which = "other" if known.piece < 0 else "added" if known.summed else "piece"
        ranks = "+".join(map(str, known.summed))
        fields = {
            "source": message.source,
            "target": message.target,
            "letter": letter_of(known.piece),
            "piece": known.piece,
            "ranks": ranks,
        }
        return fill(find("carried", which), fields)


def letter_of(shard: int) -> str:
    """The player's label of a shard: a, b ... z, aa."""
    before = letter_of(shard // 26 - 1) if shard >= 26 else ""
    return before + chr(ord("a") + shard % 26)
