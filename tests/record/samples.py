"""Small traces that many tests start from, and how a refusal is checked."""

import pytest

from tests import strategies as draw
from zerosim.base.errors import TraceError
from zerosim.record import load
from zerosim.schema.events import Close, Event, Group, Kind, Op, Phase, Transfer, WireDelta

GROUP = "dp"


def event(rank, place, **fields):
    return Event(
        id=place,
        rank=rank,
        kind=Kind.COLLECTIVE,
        iteration=0,
        phase=Phase.FORWARD,
        issue_ns=place,
        **fields,
    )


def message(place, parent, op=Op.SEND, end_ns=None):
    """A message of 32 elements to or from rank 0."""
    return Transfer(
        id=place, parent=parent, op=op, peer=0, elements=32, payload_bytes=64, start_ns=5,
        end_ns=end_ns, hop=1, shard=2,
    )  # fmt: skip


def rows(rank, num_ranks=1):
    """A header, an event that was opened and closed, and one that is over at once."""
    return [
        ("header", draw.header(rank, num_ranks)),
        ("group", Group(name="g", backend="gloo", ranks=tuple(range(num_ranks)))),
        ("open", event(rank, 0, group="g", sequence=0, sent_bytes=3)),
        ("event", event(rank, 1, end_ns=5)),
        ("close", Close(id=0, start_ns=2, end_ns=7, wire=(WireDelta(0, 8, 9),))),
    ]


def refusal(folder, *, strict=False):
    with pytest.raises(TraceError) as caught:
        load(folder, strict=strict)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert message.isprintable()
    return message


def call(rank, place, op=Op.ALL_GATHER, **fields):
    given_fields = {
        "group": GROUP,
        "sequence": place,
        "dtype": "bfloat16",
        "payload_bytes": 4096,
        "unit": "blocks.0",
        "source": f"train.py:{place} in step",
        "iteration": 0,
        "phase": Phase.FORWARD,
        "end_ns": place,
    }
    return Event(
        id=place, rank=rank, kind=Kind.COLLECTIVE, op=op, issue_ns=place, **given_fields | fields
    )


def write_calls(folder, calls, groups=None, more=None):
    """A trace of these events; each rank knows these groups, as {name: ranks}."""
    known = groups if groups is not None else {GROUP: tuple(range(len(calls)))}
    rows = {}
    for rank, events in enumerate(calls):
        rows[rank] = [("header", draw.header(rank, len(calls)))]
        for name, ranks in known.items():
            if rank in ranks:
                rows[rank].append(("group", Group(name=name, backend="gloo", ranks=ranks)))
        rows[rank] += [("event", event) for event in events]
        rows[rank] += (more or {}).get(rank, [])
    return draw.write_trace(folder, rows)


def stop(folder, rank, num_rows):
    """Cut a rank's file after so many rows."""
    file = folder / f"rank-{rank}.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:num_rows]))
