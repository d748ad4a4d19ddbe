"""Network interfaces against sockets: hand-made counters, and what is planted in them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cli.command import command
from tests.cli.traces import STEPS, engine_trace, write
from zerosim.record import load
from zerosim.schema.events import InterfaceSample, Phase, Repeated, Socket, WireDelta, WireSample
from zerosim.verify import InterfaceBytes, verify

HEADERS = 66
SENT, TO_STORE, AGAIN, PACKETS, REST = 800_000, 300, 1_500, 700, 120
"""From each node: what crosses, what is said at a store, sent again, in packets; what is left."""


def add(rows, rank, other, *, store, counted):
    """Give a rank a connection to another node, one to a store, and its node's counters."""
    here, there = f"10.0.0.{rank + 1}", f"10.0.0.{other + 1}"
    ports = {0: ("5000", "6000"), 1: ("6000", "5000")}[rank]
    sockets = [
        Socket(index=0, local=f"{here}:{ports[0]}", remote=f"{there}:{ports[1]}"),
        Socket(index=1, local=f"[::ffff:{here}]:7000", remote="[::ffff:10.0.0.9]:29400"),
        Socket(index=2, local=f"{here}:8000", remote=f"{here}:8001"),
        Socket(index=3, local="127.0.0.1:9000", remote="127.0.0.1:9001"),
    ]
    rows[1:1] = [("socket", socket) for socket in sockets]
    for place, total in enumerate((0, 1)):
        counters = (
            WireDelta(0, 100 + total * SENT, 0),
            WireDelta(1, 10 + total * store, 0),
            WireDelta(2, 7 + total * 9_999, 0),
            WireDelta(3, 7 + total * 9_999, 0),
        )
        sample = WireSample(
            iteration=place,
            micro_step=0,
            phase=Phase.OUTSIDE,
            time_ns=place,
            counters=counters,
            repeated=(Repeated(0, total * AGAIN),),
        )
        found = InterfaceSample(
            time_ns=place,
            name="eth0",
            sent_bytes=1_000_000 + total * counted,
            received_bytes=0,
            sent_packets=5_000 + total * PACKETS,
            received_packets=0,
            addresses=(here, "[fe80::1]"),
        )
        rows += [("wire", sample), ("interface", found)]


def written(**changes):
    """Two nodes of one rank, on a card: what its collectives sent is not measured one by one."""
    counted = SENT + AGAIN + TO_STORE + PACKETS * HEADERS + REST
    found = engine_trace(3, 2, ranks_per_node=1)
    for rank, rows in found.rows.items():
        rows[0] = ("header", replace(rows[0][1], node=rank, device="cuda"))
        of_rank = {"store": TO_STORE, "counted": counted} | (changes if rank == 1 else {})
        add(rows, rank, 1 - rank, **of_rank)
    return found


def verdict_of(report):
    [verdict] = [v for v in report.verdicts if v.id == "interface-is-sockets"]
    return verdict


def test_packets_are_what_sockets_sent_and_their_headers(tmp_path):
    folder = write(tmp_path, written())
    report = verify(load(folder, strict=True))
    assert report.interfaces == tuple(
        InterfaceBytes(
            node=node,
            name="eth0",
            sockets=SENT + AGAIN,
            others=TO_STORE,
            headers=PACKETS * HEADERS,
            counted=SENT + AGAIN + TO_STORE + PACKETS * HEADERS + REST,
        )
        for node in (0, 1)
    )
    assert [row.unexplained for row in report.interfaces] == [REST, REST]
    assert verdict_of(report).holds is True
    assert f"{2 * REST} B unexplained of " in verdict_of(report).measured
    out = command("verify", folder).out
    assert "counted by its network interfaces" in out
    assert f"{SENT + AGAIN:,}" in out


@pytest.mark.parametrize(("off", "holds"), [(-50_000, False), (50_000, None)])
def test_counters_that_do_not_fit(tmp_path, off, holds):
    """An interface cannot count less than went through it; others may use it, too."""
    counted = SENT + AGAIN + TO_STORE + PACKETS * HEADERS + off
    report = verify(load(write(tmp_path, written(counted=counted))))
    assert verdict_of(report).holds is holds
    assert report.interfaces[1].unexplained == off
    assert report.iterations == tuple(range(STEPS))


def test_an_interface_that_nothing_went_through_is_left_out(tmp_path):
    found = written()
    for rows in found.rows.values():
        [place, *_] = [place for place, (name, _) in enumerate(rows) if name == "interface"]
        idle = replace(rows[place][1], name="eth1", addresses=("192.168.0.1",))
        rows.append(("interface", idle))
    report = verify(load(write(tmp_path, found)))
    assert [row.name for row in report.interfaces] == ["eth0", "eth0"]
