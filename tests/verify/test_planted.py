"""The verdict can fail: each thing that is planted in a good trace is found and named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cli.command import command
from tests.cli.traces import STEPS, engine_trace, write
from tests.strategies import Row, Written, header, write_trace
from zerosim.record import load
from zerosim.schema.events import Algorithm, Event, Group, Kind, Op, Phase, Purpose
from zerosim.verify import verify

RANKS = 3


def collectives(rows: list[Row]) -> list[int]:
    """Where the collectives of one rank are in its rows."""
    return [
        place
        for place, (_, record) in enumerate(rows)
        if isinstance(record, Event) and record.kind is Kind.COLLECTIVE
    ]


def alter(written: Written, rank: int, place: int, **changes: object) -> None:
    """Change a record of a trace."""
    name, record = written.rows[rank][place]
    written.rows[rank][place] = (name, replace(record, **changes))


def failed(folder) -> dict[str, str]:
    """The claims that are false, with what they say; the command line agrees."""
    report = verify(load(folder, strict=True))
    answer = command("verify", folder)
    assert answer.code == (0 if report.holds else 1)
    assert answer.err == ""
    found = {v.id: v.measured for v in report.verdicts if v.holds is False}
    assert bool(found) != bool(report.holds)
    assert answer.out.startswith("✓" if report.holds else "✗")
    for words in found.values():
        assert words in answer.out
    return found


@pytest.mark.parametrize("stage", range(4))
@pytest.mark.parametrize("config", [{}, {"accumulate": 2, "clip": 1.0}], ids=str)
def test_a_trace_that_is_as_theory_says_holds(tmp_path, stage, config):
    folder = write(tmp_path, engine_trace(stage, RANKS, **config))
    assert failed(folder) == {}
    report = verify(load(folder))
    assert report.unexplained_trace == 0
    assert report.iterations == tuple(range(STEPS))
    assert report.unexplained_wire is None
    assert "not measured" in command("verify", folder).out


@pytest.mark.parametrize("stage", range(4))
def test_a_changed_byte_count(tmp_path, stage):
    written = engine_trace(stage, RANKS)
    place = collectives(written.rows[1])[-1]
    right = written.rows[1][place][1].sent_bytes
    alter(written, 1, place, sent_bytes=right + 1)
    found = failed(write(tmp_path, written))
    assert "rank 1 sends " in found["sent-a-step"]
    assert f"of iteration {STEPS - 1}" in found["sent-a-step"]
    assert verify(load(tmp_path)).unexplained_trace == 1


def test_a_changed_byte_count_in_an_earlier_iteration(tmp_path):
    """Not only the iteration that is shown is verified."""
    written = engine_trace(2, RANKS)
    place = collectives(written.rows[2])[0]
    alter(written, 2, place, sent_bytes=written.rows[2][place][1].sent_bytes - 1)
    found = failed(write(tmp_path, written))
    assert "rank 2" in found["sent-in-backward"]
    assert "iteration 0" in found["sent-in-backward"]
    assert verify(load(tmp_path)).unexplained_trace == 0
    assert verify(load(tmp_path), 0).unexplained_trace == 1


@pytest.mark.parametrize("ranks", [(0,), (0, 1, 2)], ids=["on one rank", "on all ranks"])
def test_a_collective_too_many(tmp_path, ranks):
    written = engine_trace(3, RANKS)
    for rank in ranks:
        rows = written.rows[rank]
        name, last = rows[collectives(rows)[-1]]
        rows.insert(-1, (name, replace(last, id=9999, sequence=last.sequence + 1)))
    found = failed(write(tmp_path, written))
    assert "sent-a-step" in found
    assert f"rank {ranks[0]}, iteration 1: made but not planned: 1 " in found["planned"]
    assert ("matched" in found) == (len(ranks) == 1)
    assert verify(load(tmp_path)).unexplained_trace > 0


def test_a_collective_that_moves_nothing_is_too_many_as_well(tmp_path):
    written = engine_trace(1, RANKS)
    for rows in written.rows.values():
        name, last = rows[collectives(rows)[-1]]
        extra = replace(
            last,
            id=9999,
            sequence=last.sequence + 1,
            op=Op.BARRIER,
            purpose=Purpose.UNLABELLED,
            elements=0,
            payload_bytes=0,
            sent_bytes=0,
            received_bytes=0,
        )
        rows.insert(-1, (name, extra))
    found = failed(write(tmp_path, written))
    assert found.keys() == {"planned"}
    said = "rank 0, iteration 1: made but not planned: 1 barrier of 0 B in update"
    assert said in found["planned"]


@pytest.mark.parametrize("ranks", [(1,), (0, 1, 2)], ids=["on one rank", "on all ranks"])
def test_a_collective_that_is_missing(tmp_path, ranks):
    written = engine_trace(2, RANKS)
    for rank in ranks:
        rows = written.rows[rank]
        place = collectives(rows)[-1]
        del rows[place : place + 3]  # with its two messages
    found = failed(write(tmp_path, written))
    said = f"rank {ranks[0]}, iteration 1: planned but never made: 1 all-gather of 132 B"
    assert f"{said} in update (gather parameters)" in found["planned"]
    assert "sent-in-update" in found
    assert "sent-in-backward" not in found
    assert verify(load(tmp_path)).unexplained_trace > 0


def test_a_wrong_payload(tmp_path):
    written = engine_trace(3, RANKS)
    for rows in written.rows.values():
        place = collectives(rows)[-1]
        event = rows[place][1]
        rows[place] = (
            "event",
            replace(event, elements=2 * event.elements, payload_bytes=2 * event.payload_bytes),
        )
    found = failed(write(tmp_path, written))
    assert {"sent-a-step", "planned"} <= found.keys()
    assert "planned but never made" in found["planned"]


def test_a_payload_that_differs_between_ranks(tmp_path):
    written = engine_trace(3, RANKS)
    place = collectives(written.rows[1])[0]
    event = written.rows[1][place][1]
    alter(written, 1, place, payload_bytes=event.payload_bytes + 2, elements=event.elements + 1)
    found = failed(write(tmp_path, written))
    assert "rank 1, iteration 0: planned but never made" in found["planned"]
    assert found["matched"].startswith("1 mismatched; ")


def test_a_wrong_label_is_not_made_up_for_by_another_row(tmp_path):
    """The sum of a phase is right, its rows are not."""
    written = engine_trace(3, RANKS)
    for rows in written.rows.values():
        for place in collectives(rows):
            event = rows[place][1]
            if event.phase is Phase.BACKWARD and event.op is Op.ALL_GATHER:
                rows[place] = ("event", replace(event, purpose=Purpose.UNLABELLED))
                break
    found = failed(write(tmp_path, written))
    report = verify(load(tmp_path), 0)
    strays = {
        row.purpose: row.sent[0].unexplained_trace
        for row in report.rows
        if (row.phase, row.op) == (Phase.BACKWARD, Op.ALL_GATHER)
    }
    assert strays[Purpose.UNLABELLED] == -strays[Purpose.GATHER_PARAMETERS] > 0
    assert {"sent-a-step", "sent-in-backward", "planned"} <= found.keys()


@pytest.mark.parametrize("phase", [Phase.FORWARD, Phase.UPDATE])
def test_a_wrong_phase(tmp_path, phase):
    written = engine_trace(1, RANKS)
    for rows in written.rows.values():
        alter_place = collectives(rows)[0]
        rows[alter_place] = ("event", replace(rows[alter_place][1], phase=phase))
    found = failed(write(tmp_path, written))
    assert {"sent-in-backward", f"sent-in-{phase}"} <= found.keys()


def test_a_foreign_program_is_shown_and_not_judged(tmp_path):
    """Without an engine there is no law: what it sent is printed, and nothing is refuted."""
    rows = {
        rank: [
            ("header", header(rank, 2)),
            ("group", Group(name="world", backend="gloo", ranks=(0, 1))),
            ("event", _all_reduce(rank)),
        ]
        for rank in range(2)
    }
    folder = write_trace(tmp_path, rows)
    answer = command("verify", folder)
    assert answer.code == 0, answer
    assert "No law is known for this program" in answer.out.splitlines()[0]
    assert "unlabelled: all-reduce" in answer.out
    assert "4,096" in answer.out
    assert verify(load(folder)).law_bytes is None


def test_a_foreign_program_whose_ranks_disagree_fails(tmp_path):
    rows = {
        rank: [
            ("header", header(rank, 2)),
            ("group", Group(name="world", backend="gloo", ranks=(0, 1))),
            (
                "event",
                _all_reduce(rank, elements=1024 + rank),
            ),
        ]
        for rank in range(2)
    }
    found = failed(write_trace(tmp_path, rows))
    assert found.keys() == {"matched"}


def _all_reduce(rank: int, elements: int = 1024) -> Event:
    return Event(
        id=0,
        rank=rank,
        kind=Kind.COLLECTIVE,
        iteration=0,
        phase=Phase.BACKWARD,
        purpose=Purpose.UNLABELLED,
        op=Op.ALL_REDUCE,
        algorithm=Algorithm.GLOO,
        group="world",
        sequence=0,
        dtype="float32",
        elements=elements,
        payload_bytes=4 * elements,
        issue_ns=1,
        start_ns=1,
        end_ns=2,
    )
