"""Whether a program loads, its messages match, and every rank ends."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence

from zerosim.puzzles.evidence import RunEvidence
from zerosim.puzzles.messages import MatchedMessage, calls_of, messages, never_waited
from zerosim.puzzles.rank import RankSaid
from zerosim.puzzles.standstill import STOOD_STILL
from zerosim.puzzles.verdict import FailedCheck, buffer_words, call_words, reason_at
from zerosim.puzzles.wording import words
from zerosim.record.postmortem import end_words
from zerosim.schema.events import Event, Op
from zerosim.verify.diagnosis import Finding, Wrong

_LOST = re.compile("[Cc]onnection (closed|reset)|Broken pipe|[Tt]imed out|Timeout")
"""Error messages of a rank when another one has left."""
_DISAGREE = frozenset({Wrong.SIZE, Wrong.DTYPE, Wrong.OTHER_CALL, Wrong.ORDER, Wrong.GROUP})


def loads(seen: RunEvidence) -> Iterator[FailedCheck]:
    """Every rank can import the program, and its body is filled in."""
    for rank, said in enumerate(seen.ran.said):
        if said is not None and not said.is_loaded:
            yield _raised(seen, "loads", rank, said)
        if said is not None and said.error.startswith("NotImplementedError"):
            yield FailedCheck(check="loads", sentence=words("loads.unfilled"), line=seen.line(said))


def fit_together(seen: RunEvidence) -> Iterator[FailedCheck]:
    """Each message is received as sent, and every receive is awaited."""
    if seen.trace is None:
        return
    for rank in seen.trace.ranks if seen.is_over and not seen.failed else ():
        unread = never_waited(rank)
        if unread is not None:
            yield reason_at(
                "messages",
                words(
                    "messages.unwaited",
                    rank=unread.rank,
                    peer=unread.peers[0],
                    line=unread.source,
                ),
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
                words(
                    "messages.unlike",
                    sender=send.rank,
                    sent=buffer_words(send),
                    receiver=receive.rank,
                    taken=buffer_words(receive),
                ),
                send,
                buffer_words(send),
                buffer_words(receive),
            )
    if not seen.failed:
        yield from _alone(seen, unmatched)


def _alone(seen: RunEvidence, unmatched: Sequence[MatchedMessage]) -> Iterator[FailedCheck]:
    """Messages with one end missing: first waits that cannot end, then unread messages."""
    for receive in filter(None, (one.receive for one in unmatched)):
        peers = receive.peers
        form, peer = ("unsent", peers[0]) if peers else ("unsent_by_any", None)
        said = words(f"messages.{form}", rank=receive.rank, peer=peer)
        yield reason_at("messages", _stuck(seen, said), receive)
    for send in filter(None, (one.send for one in unmatched)):
        if seen.is_over or seen.is_stuck:
            said = words(
                "messages.unread", rank=send.rank, sent=buffer_words(send), peer=send.peers[0]
            )
            yield reason_at("messages", _stuck(seen, said), send)


def _stuck(seen: RunEvidence, sentence: str) -> str:
    return sentence if seen.is_over else words("messages.stuck", sentence=sentence)


def come_to_an_end(seen: RunEvidence) -> Iterator[FailedCheck]:
    """No rank fails, and no rank waits for ever."""
    failed = seen.failed
    if failed or not seen.is_over:
        yield from _disagree(seen)
    of_itself = [(rank, said) for rank, said in failed if not _LOST.search(said.error)]
    for rank, said in of_itself:
        yield _raised(seen, "ends", rank, said)
    for rank, code in seen.ran.codes.items():
        if code != STOOD_STILL and seen.ran.said[rank] is None:
            yield _died(seen, rank, code)
    for rank, said in failed:
        yield _raised(seen, "ends", rank, said)
    if not seen.is_over:
        yield _hang(seen)


def _disagree(seen: RunEvidence) -> Iterator[FailedCheck]:
    for finding in seen.findings:
        if finding.wrong in _DISAGREE:
            yield _found(seen, finding)


def _found(seen: RunEvidence, finding: Finding) -> FailedCheck:
    """The diagnosis, at the last call of the culprit."""
    event = seen.last_of(finding.ranks[0]) if finding.ranks else None
    return FailedCheck(
        check="ends", sentence=finding.sentence, line=finding.place.source, event=event
    )


def _died(seen: RunEvidence, rank: int, code: int) -> FailedCheck:
    if code == -signal.SIGXCPU:
        said = words("ends.overtime", rank=rank)
        sent = _dropped(seen, rank)
        if sent is not None:
            said = words("ends.overtime_sending", rank=rank, peer=sent.peers[0], line=sent.source)
            return reason_at("ends", said, sent)
    else:
        said = words("ends.died", rank=rank, how=end_words(code))
    return FailedCheck(check="ends", sentence=said, event=seen.last_of(rank))


def _dropped(seen: RunEvidence, rank: int) -> Event | None:
    """The first message that a rank sent and did not wait for: Gloo may try for ever to send it."""
    trace = seen.trace
    for one in () if trace is None else trace.ranks:
        if one.rank == rank:
            return never_waited(one, Op.SEND)
    return None


def _hang(seen: RunEvidence) -> FailedCheck:
    for finding in seen.findings:
        return _found(seen, finding)
    waiting = [
        event
        for rank in (() if seen.trace is None else seen.trace.ranks)
        for event in calls_of(rank)
        if event.id in rank.unfinished
    ]
    for event in waiting:
        said = words("ends.hangs", rank=event.rank, call=call_words(event))
        return reason_at("ends", said, event)
    if seen.trace is not None and seen.is_stuck:
        return FailedCheck(check="ends", sentence=words("ends.outside"))
    return FailedCheck(check="ends", sentence=words("ends.late"))


def _raised(seen: RunEvidence, check: str, rank: int, said: RankSaid) -> FailedCheck:
    line = seen.line(said)
    form = "ends.fails_at" if line else "ends.fails"
    return FailedCheck(
        check=check,
        sentence=words(form, rank=rank, line=line, error=said.error),
        line=line,
        event=seen.last_of(rank),
    )
