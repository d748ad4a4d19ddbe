"""Whether a program loads, its messages fit together, and every rank comes to its end.

Imports diagnosis, record and its siblings.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence

from zerosim.diagnosis import Finding, Wrong
from zerosim.puzzles.evidence import Evidence
from zerosim.puzzles.messages import Message, calls_of, messages, never_waited
from zerosim.puzzles.rank import RankSaid
from zerosim.puzzles.standstill import STOOD_STILL
from zerosim.puzzles.verdict import Reason, buffer_words, call_words, reason_at
from zerosim.record.postmortem import end_words

_LOST = re.compile("[Cc]onnection (closed|reset)|Broken pipe|[Tt]imed out|Timeout")
"""What a rank says that another one has left."""
_OVERTIME = "used more processor time than a program may, and was ended"
_LATE = "the ranks did not come to an end in time"
_DISAGREE = frozenset({Wrong.SIZE, Wrong.DTYPE, Wrong.OTHER_CALL, Wrong.ORDER, Wrong.GROUP})


def loads(seen: Evidence) -> Iterator[Reason]:
    """Every rank can import it, and its body is filled in."""
    for rank, said in enumerate(seen.ran.said):
        if said is not None and not said.is_loaded:
            yield _raised(seen, "loads", rank, said)
        if said is not None and said.error.startswith("NotImplementedError"):
            words = "the body is not filled in yet: it raises NotImplementedError"
            yield Reason(check="loads", sentence=words, line=seen.line(said))


def fit_together(seen: Evidence) -> Iterator[Reason]:
    """Each message is received as it is sent, and what is received is waited for."""
    if seen.trace is None:
        return
    stuck = "" if seen.is_over else ": no rank can go on"
    for rank in seen.trace.ranks if seen.is_over and not seen.failed else ():
        unread = never_waited(rank)
        if unread is not None:
            yield reason_at(
                "messages",
                f"rank {unread.rank} never waits for the message from rank {unread.peers[0]} "
                f"at {unread.source}: what it reads may not have come yet",
                unread,
            )
    unmatched = []
    for message in messages(seen.trace):
        send, receive = message.send, message.receive
        if send is None or receive is None:
            unmatched.append(message)
        elif (send.payload_bytes, send.dtype) != (receive.payload_bytes, receive.dtype):
            yield reason_at(
                "messages",
                f"rank {send.rank} sends {buffer_words(send)} to rank {receive.rank}, which "
                f"receives into {buffer_words(receive)}",
                send,
            )
    if not seen.failed:
        yield from _alone(seen, unmatched, stuck)


def _alone(seen: Evidence, unmatched: Sequence[Message], stuck: str) -> Iterator[Reason]:
    """Messages of which one end never called: first who waits in vain, then what is not read."""
    for receive in filter(None, (one.receive for one in unmatched)):
        peer = f"rank {receive.peers[0]}" if receive.peers else "some rank"
        yield reason_at(
            "messages",
            f"rank {receive.rank} waits for a message from {peer}, which never sends it{stuck}",
            receive,
        )
    for send in filter(None, (one.send for one in unmatched)):
        if seen.is_over or seen.is_stuck:
            yield reason_at(
                "messages",
                f"rank {send.rank} sends {buffer_words(send)} to rank {send.peers[0]}, which never "
                f"receives it{stuck}",
                send,
            )


def come_to_an_end(seen: Evidence) -> Iterator[Reason]:
    """No error, no rank that waits for ever."""
    failed = seen.failed
    if failed or not seen.is_over:
        yield from _disagree(seen)
    of_itself = [(rank, said) for rank, said in failed if not _LOST.search(said.error)]
    for rank, said in of_itself:
        yield _raised(seen, "ends", rank, said)
    for rank, code in seen.ran.codes.items():
        if code != STOOD_STILL and seen.ran.said[rank] is None:
            yield _died(seen, rank, _OVERTIME if code == -signal.SIGXCPU else end_words(code))
    for rank, said in failed:
        yield _raised(seen, "ends", rank, said)
    if not seen.is_over:
        yield _hang(seen)


def _disagree(seen: Evidence) -> Iterator[Reason]:
    for finding in seen.findings:
        if finding.wrong in _DISAGREE:
            yield _found(seen, finding)


def _found(seen: Evidence, finding: Finding) -> Reason:
    """What the diagnosis says, at the last call of the rank whose doing it is."""
    event = seen.last_of(finding.ranks[0]) if finding.ranks else None
    return Reason(check="ends", sentence=finding.sentence, line=finding.place.source, event=event)


def _died(seen: Evidence, rank: int, words: str) -> Reason:
    return Reason(check="ends", sentence=f"rank {rank} {words}", event=seen.last_of(rank))


def _hang(seen: Evidence) -> Reason:
    for finding in seen.findings:
        return _found(seen, finding)
    waiting = [
        event
        for rank in (() if seen.trace is None else seen.trace.ranks)
        for event in calls_of(rank)
        if event.id in rank.unfinished
    ]
    for event in waiting:
        words = f"no rank can go on: rank {event.rank} is in {call_words(event)}"
        return reason_at("ends", words, event)
    if seen.trace is not None and seen.is_stuck:
        return Reason(check="ends", sentence="the ranks stand still outside of any call")
    return Reason(check="ends", sentence=_LATE)


def _raised(seen: Evidence, check: str, rank: int, said: RankSaid) -> Reason:
    line = seen.line(said)
    at = f" at {line}" if line else ""
    return Reason(
        check=check,
        sentence=f"rank {rank} fails{at}: {said.error}",
        line=line,
        event=seen.last_of(rank),
    )
