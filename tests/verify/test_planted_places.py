"""Tiers and links: a trace that is as theory says holds, and what is planted in it is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cli.command import command
from tests.cli.traces import STEPS, engine_trace, write
from tests.verify.test_planted import alter, failed
from zerosim.base.tiers import Link, Tier
from zerosim.record import load, node_of, num_nodes, ranks_per_node
from zerosim.schema.events import Event, Kind, Op, Purpose
from zerosim.verify import verify

RANKS = 4
NVME = {"offload_optimizer": "nvme", "nvme_path": "disk"}
INFINITY = {**NVME, "offload_param": "nvme"}
ZEROPP = {
    "ranks_per_node": 2,
    "quantize_weights": True,
    "secondary_partition": 2,
    "quantize_gradients": True,
}


def places(rows, kind, **fields):
    """Where the events of a kind are in a rank's rows."""
    return [
        place
        for place, (_, event) in enumerate(rows)
        if isinstance(event, Event)
        and event.kind is kind
        and all(getattr(event, name) == value for name, value in fields.items())
    ]


@pytest.mark.parametrize(
    ("stage", "config"),
    [
        (1, {"offload_optimizer": "cpu"}),
        (2, {"offload_optimizer": "cpu", "accumulate": 2, "delayed_update": True}),
        (2, {**NVME, "clip": 1.0}),
        (3, {"offload_param": "cpu"}),
        (3, {"offload_param": "cpu", "offload_optimizer": "cpu", "owner_broadcast": "parameters"}),
        (3, {**INFINITY, "accumulate": 2}),
        (3, {**ZEROPP, "accumulate": 2}),
        (3, {**ZEROPP, **INFINITY}),
    ],
    ids=str,
)
def test_a_trace_that_is_as_theory_says_holds(tmp_path, stage, config):
    folder = write(tmp_path, engine_trace(stage, RANKS, **config))
    assert failed(folder) == {}
    for iteration in range(STEPS):
        report = verify(load(folder), iteration)
        assert report.unexplained_trace == 0
        on_disk = any(row.link is Link.STORAGE for row in report.copies)
        assert report.unexplained_disk == (0 if on_disk else None)


def test_the_bus_has_no_counter_and_the_disk_has_one(tmp_path):
    folder = write(tmp_path, engine_trace(3, RANKS, **INFINITY))
    report = verify(load(folder))
    for row in report.copies:
        for cell in row.sent:
            assert cell.trace == cell.theory > 0
            if row.link is Link.BUS:
                assert (cell.kernel, cell.framing) == (None, 0)
            else:
                assert cell.kernel == cell.trace + cell.framing
                assert cell.kernel % 4096 == 0
    answer = command("verify", folder, "-v")
    assert "over the bus" in answer.out
    assert "not measured" in answer.out
    assert "0 B unexplained of " in answer.out
    plain = report.to_plain()
    assert plain["unexplained_disk_bytes"] == 0
    assert {row["link"] for row in plain["copies"]} == {"bus", "storage"}
    assert (
        " and copies 6Ψ/N bytes over its bus and 30Ψ/N bytes to and from its disk, as the law "
        in (report.headline)
    )


def test_a_copy_that_is_missing(tmp_path):
    written = engine_trace(1, RANKS, offload_optimizer="cpu")
    rows = written.rows[2]
    del rows[places(rows, Kind.COPY, purpose=Purpose.RETURN_PARAMETERS)[-1]]
    found = failed(write(tmp_path, written))
    assert found.keys() == {"copies", "copied-over-the-bus"}
    said = "rank 2, iteration 1: planned but never made: 1 copy host to device of 32 B"
    assert f"{said} in update (return parameters)" in found["copies"]


def test_all_copies_of_a_reason_are_missing(tmp_path):
    written = engine_trace(1, RANKS, offload_optimizer="cpu")
    for rows in written.rows.values():
        for place in reversed(places(rows, Kind.COPY, purpose=Purpose.OFFLOAD_GRADIENTS)):
            del rows[place]
    found = failed(write(tmp_path, written))
    assert found.keys() == {"copies", "copied-over-the-bus"}
    said = "rank 0, iteration 0: planned but never made: 1 copy device to host of 32 B"
    assert f"{said} in backward (offload gradients)" in found["copies"]


@pytest.mark.parametrize("way", [(Tier.DEVICE, Tier.HOST), (Tier.HOST, Tier.DISK)])
def test_a_copy_that_nobody_planned(tmp_path, way):
    """Also in a run without offload."""
    written = engine_trace(2, RANKS)
    rows = written.rows[1]
    place = places(rows, Kind.COLLECTIVE)[-1]
    origin, target = way
    extra = replace(
        rows[place][1],
        id=9999,
        kind=Kind.COPY,
        op=None,
        algorithm=None,
        group="",
        sequence=None,
        peers=(),
        sent_bytes=None,
        received_bytes=None,
        payload_bytes=0,
        origin=origin,
        target=target,
        purpose=Purpose.STORE_PARAMETERS,
    )
    rows.insert(-1, ("event", extra))
    found = failed(write(tmp_path, written))
    assert found.keys() == {"copies"}
    said = f"made but not planned: 1 copy {origin} to {target} of 0 B in update"
    assert f"{said} (store parameters)" in found["copies"]


def test_a_copy_of_another_size_in_an_earlier_iteration(tmp_path):
    written = engine_trace(3, RANKS, offload_param="cpu")
    place = places(written.rows[3], Kind.COPY)[0]
    right = written.rows[3][place][1].payload_bytes
    alter(written, 3, place, payload_bytes=right + 2)
    found = failed(write(tmp_path, written))
    assert found.keys() == {"copies", "copied-over-the-bus"}
    assert "rank 3, iteration 0: planned but never made" in found["copied-over-the-bus"]
    assert "iteration 0" in found["copied-over-the-bus"]
    assert verify(load(tmp_path)).unexplained_trace == 0
    assert verify(load(tmp_path), 0).unexplained_trace == 2


def test_a_copy_the_wrong_way(tmp_path):
    written = engine_trace(1, RANKS, offload_optimizer="cpu")
    for rank, rows in written.rows.items():
        for place in places(rows, Kind.COPY, purpose=Purpose.OFFLOAD_GRADIENTS):
            alter(written, rank, place, origin=Tier.HOST, target=Tier.DISK)
    found = failed(write(tmp_path, written))
    assert {"copies", "copied-over-the-bus"} <= found.keys()


@pytest.mark.parametrize("off", [1, -4096])
def test_bytes_that_only_the_disks_counter_saw(tmp_path, off):
    written = engine_trace(2, RANKS, **NVME)
    place = places(written.rows[1], Kind.COPY, purpose=Purpose.STORE_STATES)[0]
    right = written.rows[1][place][1].counted_bytes
    alter(written, 1, place, counted_bytes=right + off)
    found = failed(write(tmp_path, written))
    assert found.keys() == {"disk-is-trace"}
    assert "on rank 1 in update of iteration 0 (store optimizer states)" in found["disk-is-trace"]
    assert verify(load(tmp_path), 0).unexplained_disk == abs(off)


def test_a_counter_of_the_disk_that_was_not_read_proves_nothing(tmp_path):
    written = engine_trace(2, RANKS, **NVME)
    place = places(written.rows[1], Kind.COPY, purpose=Purpose.STORE_STATES)[0]
    alter(written, 1, place, counted_bytes=None)
    folder = write(tmp_path, written)
    assert failed(folder) == {}
    report = verify(load(folder), 0)
    [verdict] = [v for v in report.verdicts if v.id == "disk-is-trace"]
    assert verdict.holds is None
    assert report.unexplained_disk is None


# ---- links


def test_rows_are_split_by_link(tmp_path):
    folder = write(tmp_path, engine_trace(3, RANKS, ranks_per_node=2))
    trace = load(folder)
    assert (ranks_per_node(trace), num_nodes(trace)) == (2, 2)
    assert [node_of(trace, rank) for rank in range(4)] == [0, 0, 1, 1]
    report = verify(trace)
    # a ring: the last rank of each node sends to the next node, the first within
    for row in report.links:
        # a call is for all links, and what is received is known by its sender
        assert (row.calls, row.payload_bytes, row.received) == ((), None, ())
        sends = {Link.NODE: (0, 2), Link.NETWORK: (1, 3)}[row.link]
        for cell in row.sent:
            assert cell.trace == cell.theory
            assert bool(cell.trace) == (cell.rank in sends)
            assert cell.kernel is None
    total = sum(cell.trace for row in report.links for cell in row.sent)
    assert total == sum(cell.trace for row in report.rows for cell in row.sent)
    [verdict] = [v for v in report.verdicts if v.id == "sent-between-nodes"]
    assert verdict.title == "A node of 2 ranks sends 3Ψ(N-1)/N to other nodes a step"
    out = command("verify", folder, "-v").out
    assert "between nodes" in out
    assert verdict.title in out


def test_one_node_has_nothing_to_split(tmp_path):
    report = verify(load(write(tmp_path, engine_trace(3, RANKS))))
    assert (report.num_nodes, report.links, report.copies, report.interfaces) == (1, (), (), ())
    assert all(verdict.id != "sent-between-nodes" for verdict in report.verdicts)


def test_a_message_to_another_node_that_should_stay_within(tmp_path):
    """As many bytes as planned, to the wrong peer: only the link tells."""
    written = engine_trace(3, RANKS, ranks_per_node=2)
    place = places(written.rows[0], Kind.TRANSFER, op=Op.SEND)[0]
    assert written.rows[0][place][1].peers == (1,)
    alter(written, 0, place, peers=(2,))
    found = failed(write(tmp_path, written))
    assert found.keys() == {"sent-between-nodes"}
    words = found["sent-between-nodes"]
    assert "rank 0 sends 96 B within a node in forward of iteration 0 " in words
    assert "theory says 144 B" in words
    assert " (and 1 more)" in found["sent-between-nodes"]


def test_quantized_messages_that_are_too_long(tmp_path):
    written = engine_trace(3, RANKS, **ZEROPP)
    rank = 3
    [place, *_] = [
        place
        for place in places(written.rows[rank], Kind.TRANSFER, op=Op.SEND)
        if written.rows[rank][place][1].group == "across"
    ]
    right = written.rows[rank][place][1].payload_bytes
    alter(written, rank, place, payload_bytes=right + 4)
    found = failed(write(tmp_path, written))
    assert found.keys() == {"sent-between-nodes"}
    assert (
        "between nodes in backward of iteration 0 (reduce gradients"
        in (found["sent-between-nodes"])
    )


def test_parameters_that_were_gathered_unquantized(tmp_path):
    """A run that says it quantizes, and does not."""
    written = engine_trace(3, RANKS, ranks_per_node=2)
    told = engine_trace(3, RANKS, ranks_per_node=2, quantize_weights=True)
    found = failed(write(tmp_path, replace(written, manifest=told.manifest)))
    assert {"sent-a-step", "sent-in-forward", "planned", "sent-between-nodes"} <= found.keys()


def test_nodes_as_they_were_launched(tmp_path):
    written = engine_trace(1, RANKS)
    for rank, rows in written.rows.items():
        rows[0] = ("header", replace(rows[0][1], node=rank // 2))
    folder = write(tmp_path, written)
    assert ranks_per_node(load(folder)) == 2
    assert failed(folder) == {}
    rows = written.rows[3]
    rows[0] = ("header", replace(rows[0][1], node=0))
    assert ranks_per_node(load(write(tmp_path, written))) == RANKS


def test_compare_shows_bytes_by_link(tmp_path):
    folders = [
        write(tmp_path / "plain", engine_trace(3, RANKS, ranks_per_node=2)),
        write(tmp_path / "zeropp", engine_trace(3, RANKS, **ZEROPP)),
        write(tmp_path / "infinity", engine_trace(3, RANKS, **INFINITY)),
    ]
    out = command("compare", *folders).out
    lines = {line.split("  ")[0].strip(): line for line in out.splitlines()}
    assert "by link, all ranks" in lines
    for words in ("over the bus", "to and from disks", "within nodes", "between nodes"):
        assert f"{words} B" in out
    assert "zeropp sends " in out
    assert " between nodes, plain " in out
