"""Sockets find their peers, and the kernel's counters become bytes between ranks."""

import pytest

from tests import strategies as draw
from zerosim.record import (
    PeerBytes,
    load,
    match_sockets,
    phase_wire,
    wire_between,
    wire_by_peer,
)
from zerosim.schema.events import Event, Kind, Op, Phase, Socket, WireDelta, WireSample


def trace(tmp_path, sockets, hosts=(), more=None):
    """A trace whose ranks have these sockets, as (local, remote), and these further rows."""
    rows = {}
    for rank, own in enumerate(sockets):
        host = hosts[rank] if hosts else "box"
        rows[rank] = [("header", draw.header(rank, len(sockets), host))]
        for index, (local, remote) in enumerate(own):
            rows[rank].append(("socket", Socket(index=index, local=local, remote=remote)))
        rows[rank] += (more or {}).get(rank, [])
    return load(draw.write_trace(tmp_path, rows), strict=True)


def test_three_ranks_and_a_store(tmp_path):
    store = "10.0.0.1:29500"
    found = match_sockets(
        trace(
            tmp_path,
            [
                [("10.0.0.1:1", store), ("10.0.0.1:10", "10.0.0.2:20"), (store, "10.0.0.9:5")],
                [("10.0.0.2:20", "10.0.0.1:10"), ("10.0.0.2:21", "10.0.0.3:30")],
                [("10.0.0.3:7", store), ("10.0.0.3:30", "10.0.0.2:21")],
            ],
        )
    )
    assert found == {(0, 1): 1, (1, 0): 0, (1, 1): 2, (2, 1): 1}


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("127.0.0.1:1", "127.0.0.1:2"),
        ("::ffff:127.0.0.1:1", "127.0.0.1:2"),
        ("[::ffff:127.0.0.1]:1", "127.0.0.1:2"),
        ("[::1]:1", "::1:2"),
        ("[fe80::1%eth0]:1", "[FE80::1%eth0]:2"),
        ("[2001:db8:0:0::1]:1", "[2001:db8::1]:2"),
    ],
)
def test_one_address_has_several_spellings(tmp_path, a, b):
    other_a = a if a.endswith(":1") and "ffff" not in a else "127.0.0.1:1"
    assert match_sockets(trace(tmp_path, [[(a, b)], [(b, other_a)]])) == {(0, 0): 1, (1, 0): 0}


def test_a_connection_within_one_rank_has_no_peer(tmp_path):
    own = [("127.0.0.1:1", "127.0.0.1:2"), ("127.0.0.1:2", "127.0.0.1:1")]
    assert match_sockets(trace(tmp_path, [own, []])) == {}


def test_loopback_means_another_machine_on_another_host(tmp_path):
    here, there = ("127.0.0.1:1", "127.0.0.1:2"), ("127.0.0.1:2", "127.0.0.1:1")
    hosts = ("a", "a", "b", "b")
    found = match_sockets(trace(tmp_path, [[here], [there], [here], [there]], hosts))
    assert found == {(0, 0): 1, (1, 0): 0, (2, 0): 3, (3, 0): 2}
    assert match_sockets(trace(tmp_path / "x", [[here], [there]], ("a", "b"))) == {}


def test_an_address_that_two_ranks_own_is_nobodys(tmp_path):
    here, there = ("10.0.0.1:1", "10.0.0.2:2"), ("10.0.0.2:2", "10.0.0.1:1")
    assert match_sockets(trace(tmp_path, [[here], [there], [there]])) == {}


def test_other_hosts_match_by_their_own_addresses(tmp_path):
    found = match_sockets(
        trace(
            tmp_path,
            [[("10.0.0.1:1", "10.0.0.2:2")], [("10.0.0.2:2", "10.0.0.1:1")]],
            ("a", "b"),
        )
    )
    assert found == {(0, 0): 1, (1, 0): 0}


def test_what_is_no_address_still_compares(tmp_path):
    found = match_sockets(trace(tmp_path, [[("x", "y"), ("", "")], [("y", "x")]]))
    assert found == {(0, 0): 1, (1, 0): 0}


def sample(phase, time_ns, *counters, iteration=0, micro_step=0):
    deltas = tuple(WireDelta(*counter) for counter in counters)
    return (
        "wire",
        WireSample(
            iteration=iteration,
            micro_step=micro_step,
            phase=phase,
            time_ns=time_ns,
            counters=deltas,
        ),
    )


def collective(place, start_ns, *wire, parent=None, kind=Kind.COLLECTIVE, issue_ns=0):
    return (
        "event",
        Event(
            id=place,
            parent=parent,
            rank=0,
            kind=kind,
            iteration=0,
            phase=Phase.FORWARD,
            op=Op.ALL_GATHER,
            issue_ns=issue_ns,
            start_ns=start_ns,
            wire=tuple(WireDelta(*delta) for delta in wire),
        ),
    )


SOCKETS = [
    # of rank 0: two lead to rank 1, one to rank 2, one to a store
    [("h:1", "h:11"), ("h:2", "h:12"), ("h:3", "h:21"), ("h:4", "store:1")],
    [("h:11", "h:1"), ("h:12", "h:2")],
    [("h:21", "h:3")],
]
SAMPLES = [
    sample(Phase.FORWARD, 100, (0, 1000, 2000), (3, 5, 5)),
    sample(Phase.BACKWARD, 200, (0, 1100, 2300), (1, 7, 8), (2, 40, 50), (3, 900, 900)),
    sample(Phase.UPDATE, 300, (0, 1100, 2300), (2, 41, 52), micro_step=1),
    sample(Phase.OUTSIDE, 400, (0, 1101, 2300), (2, 41, 52)),
]


def test_bytes_of_a_phase_by_peer(tmp_path):
    loaded = trace(tmp_path, SOCKETS, more={0: SAMPLES})
    pieces = phase_wire(loaded.ranks[0], match_sockets(loaded))
    assert [(p.phase, p.micro_step, p.begin_ns, p.end_ns) for p in pieces] == [
        (Phase.FORWARD, 0, 100, 200),
        (Phase.BACKWARD, 0, 200, 300),
        (Phase.UPDATE, 1, 300, 400),
    ]
    # socket 1 opened during forward, so all it counts is new; socket 3 is the store's
    assert pieces[0].peers == {1: PeerBytes(100 + 7, 300 + 8), 2: PeerBytes(40, 50)}
    assert (pieces[0].sent_bytes, pieces[0].received_bytes) == (147, 358)
    assert pieces[0].lost_sockets == ()
    # socket 1 was closed during backward: its bytes are unknown, and that is said
    assert pieces[1].peers == {1: PeerBytes(0, 0), 2: PeerBytes(1, 2)}
    assert pieces[1].lost_sockets == (1,)
    assert pieces[2].peers == {1: PeerBytes(1, 0), 2: PeerBytes(0, 0)}
    assert wire_by_peer(loaded) == {0: {1: PeerBytes(108, 308), 2: PeerBytes(41, 52)}}


def test_bytes_between_any_two_samples(tmp_path):
    loaded = trace(tmp_path, SOCKETS, more={0: SAMPLES})
    rank = loaded.ranks[0]
    first, *_, last = rank.wire_samples
    assert wire_between(rank, match_sockets(loaded), first, last) == {
        1: PeerBytes(101, 300),
        2: PeerBytes(41, 52),
    }


def test_what_collectives_measured_for_themselves(tmp_path):
    events = [
        collective(0, 99, (0, 1, 1)),  # before the first sample
        collective(1, 100, (0, 10, 20), (3, 999, 999)),  # the store's bytes never count
        collective(2, 199, (2, 30, 40)),
        collective(3, None, (2, 5, 6), issue_ns=250),  # never seen to start: by its issue
        collective(4, 260, (0, 7, 7), parent=2),  # counted by its parent
        collective(5, 270, (0, 7, 7), kind=Kind.TRANSFER),
        collective(6, 200, (1, 100, 0)),  # a border belongs to what begins there
        collective(7, 400, (0, 1, 1)),  # after the last sample
    ]
    loaded = trace(tmp_path, SOCKETS, more={0: SAMPLES + events})
    pieces = phase_wire(loaded.ranks[0], match_sockets(loaded))
    assert [piece.collective_bytes for piece in pieces] == [
        PeerBytes(40, 60),
        PeerBytes(105, 6),
        PeerBytes(0, 0),
    ]


@pytest.mark.parametrize("samples", [[], SAMPLES[:1]])
def test_without_two_samples_nothing_was_measured(tmp_path, samples):
    loaded = trace(tmp_path, SOCKETS, more={0: [*samples, collective(0, 100, (0, 1, 1))]})
    assert phase_wire(loaded.ranks[0], match_sockets(loaded)) == []
    assert wire_by_peer(loaded) == {}
