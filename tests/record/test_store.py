"""Loading: what is merged, what is an error, what is a warning."""

import dataclasses
import gc
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import strategies as draw
from tests.record.samples import event, message, refusal, rows
from zerosim.record import load, raw_rows
from zerosim.schema.events import (
    Algorithm,
    Close,
    End,
    Event,
    Failure,
    Group,
    Kind,
    Metric,
    Occurrence,
    Op,
    Phase,
    Purpose,
    Socket,
    Template,
    WireDelta,
    WireSample,
)


def unfolded(transfer, parent):
    """What a transfer is as an event: what it does not say, its collective says."""
    inherited = ("rank", "iteration", "micro_step", "phase", "unit", "purpose", "algorithm",
                 "group", "dtype")  # fmt: skip
    size = transfer.payload_bytes
    own = dataclasses.asdict(transfer)
    peer = own.pop("peer")
    return Event(
        kind=Kind.TRANSFER,
        peers=(peer,),
        issue_ns=transfer.start_ns,
        sent_bytes=size if transfer.op is Op.SEND else 0,
        received_bytes=size if transfer.op is Op.RECEIVE else 0,
        **{name: getattr(parent, name) for name in inherited},
        **own,
    )


def folded(written):
    """What a rank's events must be, by the plain reading of its rows."""
    events, templates = {}, {}
    for name, record in written:
        if name in ("event", "open"):
            events[record.id] = record
        elif name == "template":
            templates[record.number] = record
        elif name in ("begin", "happened"):
            rank = written[0][1].rank
            events[record.id] = draw.from_template(record, templates[record.template], rank)
        elif name == "transfer":
            events[record.id] = unfolded(record, events[record.parent])
        elif name == "close":
            empty = Close(id=record.id)
            added = {
                field.name: getattr(record, field.name)
                for field in dataclasses.fields(Close)
                if getattr(record, field.name) != getattr(empty, field.name)
            }
            events[record.id] = dataclasses.replace(events[record.id], **added)
    return tuple(events[place] for place in sorted(events))


@settings(max_examples=30)
@given(draw.rank_rows(0, 2), st.sampled_from([1, 64]))
def test_short_rows_are_shown_as_lines_are(rows, sealed_after):
    rows = draw.with_places(rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rank-0.jsonl"
        shown = []
        for after in (0, sealed_after):
            path.write_bytes(draw.encode_rows(draw.ended(rows), sealed_after=after))
            shown.append([(row.line, row.name, row.values) for row in raw_rows(path)])
    assert shown[0] == shown[1]


@settings(max_examples=30)
@given(draw.traces(), st.sampled_from([0, 1, 3, 64]))
def test_a_trace_comes_back_whole(written, sealed_after):
    if sealed_after:
        rows = {rank: draw.with_places(rows) for rank, rows in written.rows.items()}
        written = draw.Written(written.manifest, rows)
    with tempfile.TemporaryDirectory() as folder:
        files = draw.trace_files(written, sealed_after=sealed_after)
        draw.write_files(Path(folder), files)
        trace = load(folder, strict=True)
    assert trace.manifest == written.manifest
    assert trace.warnings == ()
    assert trace.complete
    assert [rank.rank for rank in trace.ranks] == sorted(written.rows)
    for rank in trace.ranks:
        mine = written.rows[rank.rank]
        records = {name: [r for n, r in mine if n == name] for name, _ in mine}
        closed = {record.id for record in records.get("close", [])}
        opened = records.get("open", []) + records.get("begin", [])
        assert rank.complete
        assert rank.num_rows == len(mine) + 1
        assert rank.header == records["header"][0]
        assert rank.events == folded(mine)
        assert rank.unfinished == tuple(sorted({record.id for record in opened} - closed))
        assert list(rank.groups.values()) == records.get("group", [])
        assert list(rank.groups) == [record.name for record in records.get("group", [])]
        assert list(rank.sockets.values()) == records.get("socket", [])
        assert list(rank.wire_samples) == records.get("wire", [])
        assert list(rank.interfaces) == records.get("interface", [])
        assert list(rank.memory_samples) == records.get("memory", [])
        assert list(rank.allocations) == records.get("allocations", [])
        assert list(rank.address_maps) == records.get("addresses", [])
        assert list(map(repr, rank.metrics)) == list(map(repr, records.get("metric", [])))
        assert [rank.failure] == records.get("failure", [None])


def test_a_close_completes_its_event(tmp_path):
    (rank,) = load(draw.write_trace(tmp_path, {0: rows(0)})).ranks
    assert rank.events == (
        event(
            0,
            0,
            group="g",
            sequence=0,
            sent_bytes=3,
            start_ns=2,
            end_ns=7,
            wire=(WireDelta(0, 8, 9),),
        ),
        event(0, 1, end_ns=5),
    )
    assert rank.unfinished == ()


def test_a_transfer_says_what_its_collective_says(tmp_path):
    opened = event(
        0, 0, group="g", unit="head", purpose=Purpose.REDUCE_GRADIENTS, dtype="bfloat16",
        micro_step=2, algorithm=Algorithm.RING, source="train.py:1 in main",
    )  # fmt: skip
    posted = [
        ("group", Group(name="g", backend="gloo", ranks=(0,))),
        ("open", opened),
        ("transfer", message(2, parent=0, op=Op.RECEIVE, end_ns=6)),
        ("transfer", message(1, parent=0)),
        ("close", Close(id=0, end_ns=9)),
    ]
    (rank,) = load(draw.write_trace(tmp_path, {0: [("header", draw.header(0, 1)), *posted]})).ranks
    _, sent, received = rank.events
    for one, op, sizes in ((sent, Op.SEND, (64, 0)), (received, Op.RECEIVE, (0, 64))):
        assert (one.parent, one.kind, one.op) == (0, Kind.TRANSFER, op)
        assert (one.sent_bytes, one.received_bytes) == sizes
        assert (one.payload_bytes, one.elements, one.peers) == (64, 32, (0,))
        assert (one.hop, one.shard, one.issue_ns, one.start_ns) == (1, 2, 5, 5)
        for inherited in ("rank", "iteration", "micro_step", "phase", "unit", "purpose", "group",
                          "algorithm", "dtype"):  # fmt: skip
            assert getattr(one, inherited) == getattr(opened, inherited), inherited
        assert one.source == ""
    assert sent.end_ns is None
    assert received.end_ns == 6


def test_an_open_without_its_close_stays_open(tmp_path):
    (rank,) = load(draw.write_trace(tmp_path, {0: rows(0)[:-1]})).ranks
    assert rank.events[0].end_ns is None
    assert rank.unfinished == (0,)


def test_a_group_with_two_backends_keeps_the_first(tmp_path):
    again = ("group", Group(name="g", backend="nccl", ranks=(0,)))
    (rank,) = load(draw.write_trace(tmp_path, {0: [*rows(0), again]})).ranks
    assert rank.groups["g"].backend == "gloo"


def test_events_are_in_the_order_of_ids_not_of_rows(tmp_path):
    written = [("header", draw.header(0, 1)), *(("event", event(0, i)) for i in (5, 2, 9, 0))]
    (rank,) = load(draw.write_trace(tmp_path, {0: written})).ranks
    assert [e.id for e in rank.events] == [0, 2, 5, 9]


def test_ranks_are_sorted_as_numbers(tmp_path):
    written = {rank: [("header", draw.header(rank, 12))] for rank in range(12)}
    trace = load(draw.write_trace(tmp_path, written), strict=True)
    assert [rank.rank for rank in trace.ranks] == list(range(12))


def test_other_files_do_not_matter(tmp_path):
    draw.write_trace(tmp_path, {0: rows(0)})
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "rank-0.jsonl.bak").write_bytes(b"\xff")
    assert load(str(tmp_path), strict=True).complete


# ------------------------------------------------------------------ folders and manifests


def test_no_such_folder(tmp_path):
    message = refusal(tmp_path / "nowhere")
    assert "nowhere: there is no such folder: a trace is a folder with manifest.json" in message
    assert "check the path" in message


def test_a_file_instead_of_a_folder(tmp_path):
    folder = draw.write_trace(tmp_path, {0: rows(0)})
    assert "this is a file, expected its folder" in refusal(folder / "manifest.json")


def test_an_empty_folder(tmp_path):
    assert "it has no manifest.json" in refusal(tmp_path)


def test_rank_files_without_a_manifest(tmp_path):
    draw.write_trace(tmp_path, {0: rows(0)})
    (tmp_path / "manifest.json").unlink()
    message = refusal(tmp_path)
    assert "rank files but no manifest.json: the run was killed before it wrote one" in message


def test_a_manifest_without_rank_files(tmp_path):
    draw.write_trace(tmp_path, {0: rows(0)}, num_ranks=4)
    (tmp_path / "rank-0.jsonl").unlink()
    assert "a manifest.json for 4 ranks but no rank file" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["manifest.json", "rank-0.jsonl"])
@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: path.symlink_to("gone")])
def test_something_else_in_place_of_a_file(tmp_path, name, make):
    draw.write_trace(tmp_path, {0: rows(0)})
    (tmp_path / name).unlink()
    make(tmp_path / name)
    assert f"{name}: expected a file, found something else" in refusal(tmp_path)


@pytest.mark.parametrize("call", ["iterdir", "stat", "open"])
def test_what_may_not_be_read_is_named(tmp_path, monkeypatch, call):
    draw.write_trace(tmp_path, {0: rows(0)})

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, call, refuse)
    assert f"{tmp_path}" in (message := refusal(tmp_path))
    assert "cannot be read: Permission denied" in message


def test_a_rank_file_that_may_not_be_read(tmp_path, monkeypatch):
    draw.write_trace(tmp_path, {0: rows(0)})
    whole = Path.open

    def refuse(self, *args, **kwargs):
        if self.name == "rank-0.jsonl":
            raise PermissionError(13, "Permission denied")
        return whole(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refuse)
    assert "rank-0.jsonl: cannot be read: Permission denied" in refusal(tmp_path)


@pytest.mark.parametrize("folder", ["a\0b", "\ud800", "x" * 5000, "two\nlines\u2028three"])
def test_names_that_are_no_names(folder):
    assert "a trace is a folder" in refusal(folder) or "x" * 100 in refusal(folder)


def test_another_schema(tmp_path):
    files = draw.trace_files(
        draw.Written(dataclasses.replace(draw.manifest(1), schema=4), {0: rows(0)})
    )
    message = refusal(draw.write_files(tmp_path, files))
    assert (
        "manifest.json: written with schema 4; this version reads schemas 1, 2 and 3: read it"
        in message
    )


def test_another_schema_in_a_header_only(tmp_path):
    newer = [("header", dataclasses.replace(draw.header(0, 1), schema=4))]
    message = refusal(draw.write_trace(tmp_path, {0: newer}))
    assert "rank-0.jsonl: written with schema 4; this version reads schemas 1, 2 and 3" in message


# -------------------------------------------------------------- files against the manifest


def test_a_rank_that_the_manifest_does_not_know(tmp_path):
    draw.write_trace(tmp_path, {0: rows(0, 2), 1: rows(1, 2), 2: rows(2, 2)}, num_ranks=2)
    message = refusal(tmp_path)
    assert "rank-2.jsonl: the manifest says 2 ranks" in message
    assert "this is rank 2" in message


def test_a_file_under_another_ranks_name(tmp_path):
    draw.write_trace(tmp_path, {0: rows(0, 2), 1: rows(0, 2)})
    message = refusal(tmp_path)
    assert "rank-1.jsonl, row 1: the header names rank 0, the file rank 1" in message


def test_a_header_of_a_run_of_another_size(tmp_path):
    draw.write_trace(tmp_path, {0: rows(0, 3)}, num_ranks=1)
    assert "row 1: the header says 3 ranks, the manifest 1" in refusal(tmp_path)


@pytest.mark.parametrize(
    "name", ["rank-00.jsonl", "rank-.jsonl", "rank--1.jsonl", "rank-\u0661.jsonl"]
)
def test_a_second_spelling_of_a_rank(tmp_path, name):
    draw.write_trace(tmp_path, {0: rows(0, 2), 1: rows(1, 2)})
    (tmp_path / name).write_bytes((tmp_path / "rank-0.jsonl").read_bytes())
    assert "not the name of a rank file, such as rank-7.jsonl" in refusal(tmp_path)


# ------------------------------------------------------------------------------ damaged rows

TEMPLATE = ("template", Template(number=0, kind=Kind.WAIT, phase=Phase.FORWARD))


def occurrence(number, **fields):
    given_fields = {"iteration": 0, "issue_ns": number}
    return Occurrence(template=0, id=number, **given_fields | fields)


BAD_ROWS = {
    "transfer 9 belongs to event 7, which is unknown": [("transfer", message(9, parent=7))],
    "a second event with id 2": [("transfer", message(2, parent=0))] * 2,
    "transfer 2 is broadcast: expected send or receive": [
        ("transfer", message(2, parent=0, op=Op.BROADCAST))
    ],
    "the close of event 9, which is not open": [("close", Close(id=9))],
    "the close of event 1, which is not open": [("close", Close(id=1))],
    "the close of event 0, which is not open": [("close", Close(id=0))],
    "a second event with id 1": [("event", event(0, 1))],
    "a second event with id 0": [("open", event(0, 0))],
    "a second event with id 3": [TEMPLATE, *[("begin", occurrence(3))] * 2],
    "event 3 refers to template 0, which is unknown": [("happened", occurrence(3))],
    "a second template with number 0": [TEMPLATE] * 2,
    "peers is 1, expected a rank from 0 to 0": [
        ("template", dataclasses.replace(TEMPLATE[1], peers=(1,)))
    ],
    "payload_bytes is -1, expected": [
        ("template", dataclasses.replace(TEMPLATE[1], payload_bytes=-1))
    ],
    "iteration is -2, expected": [TEMPLATE, ("begin", occurrence(3, iteration=-2))],
    "parent of event 3 is 3, expected": [TEMPLATE, ("begin", occurrence(3, parent=3))],
    "issued at 3, started at 2, ended at": [TEMPLATE, ("happened", occurrence(3, start_ns=2))],
    "event 2 is of rank 4, not of rank 0": [("event", event(4, 2))],
    "a second header": [("header", draw.header(0, 1))],
    "a second group named 'g'": [("group", Group(name="g", backend="gloo", ranks=()))],
    "a second socket with index 3": [
        ("socket", Socket(index=3, local="a:1", remote="b:2")),
        ("socket", Socket(index=3, local="a:1", remote="b:3")),
    ],
    "a second failure": [
        (
            "failure",
            Failure(
                message="m",
                iteration=0,
                phase=Phase.FORWARD,
                unit="",
                op=Op.ALL_GATHER,
                purpose=None,
                waiting_for=(),
                peer_lost=False,
                time_ns=0,
            ),
        )
    ]
    * 2,
    "a row 'end' after the end row": [("end", End(time_ns=0, num_rows=5))],
    "a row 'metric' after the end row": [
        ("end", End(time_ns=0, num_rows=5)),
        ("metric", Metric(iteration=0, name="loss", value=1.0, time_ns=0)),
    ],
}


@pytest.mark.parametrize("what", BAD_ROWS)
def test_a_row_that_contradicts_an_earlier_one(tmp_path, what):
    bad = rows(0) + BAD_ROWS[what]
    draw.write_trace(tmp_path, {0: bad})
    # `write_trace` adds an end row, which is itself the contradiction after an end row
    number = len(bad) + 1 if what.startswith("a row 'end'") else len(bad)
    message = refusal(tmp_path)
    assert f"rank-0.jsonl, row {number}: {what}" in message
    assert "copy the file again" in message


def test_a_row_before_the_header(tmp_path):
    draw.write_trace(tmp_path, {0: rows(0)[1:]})
    assert "row 1: a row 'group' before the header" in refusal(tmp_path)


def test_bytes_after_the_end_row(tmp_path):
    draw.write_trace(tmp_path, {0: rows(0)})
    with (tmp_path / "rank-0.jsonl").open("ab") as file:
        file.write(b"more")
    assert "row 7: bytes after the end row" in refusal(tmp_path)


def test_a_file_that_was_not_yet_cut_where_its_rows_end(tmp_path):
    """The rank was killed as it closed its trace: nothing is missing but that."""
    draw.write_trace(tmp_path, {0: rows(0)})
    whole = load(tmp_path, strict=True)
    with (tmp_path / "rank-0.jsonl").open("ab") as file:
        file.write(bytes(5000))
    assert load(tmp_path, strict=True) == whole


ROOM = bytes(4096)
TORN = {
    "its middle": lambda row: row[:20] + bytes(30) + row[50:] + ROOM,
    "its beginning": lambda row: bytes(20) + row[20:] + ROOM,
    "its end": lambda row: row[:20] + ROOM,
    "its middle, at the end of the room": lambda row: row[:20] + bytes(30) + row[50:],
    "its newline": lambda row: row[:-1] + ROOM,
}


@pytest.mark.parametrize("missing", TORN)
def test_a_row_of_which_the_rank_had_copied_a_part(tmp_path, missing):
    draw.write_trace(tmp_path, {0: rows(0)})
    cut(tmp_path, 0, lambda lines: b"".join(lines[:-2]) + TORN[missing](lines[-2]))
    trace = load(tmp_path)
    assert trace.ranks[0].num_rows == 4
    assert trace.ranks[0].unfinished == (0,)
    assert trace.warnings[0].startswith("rank 0: the trace stops after 4 rows, within a row and")


def test_room_that_no_row_took_is_no_part_of_a_row(tmp_path):
    draw.write_trace(tmp_path, {0: rows(0)})
    cut(tmp_path, 0, lambda lines: b"".join(lines[:-1]) + ROOM)
    assert load(tmp_path).warnings[0].startswith("rank 0: the trace stops after 5 rows without")


@pytest.mark.parametrize("zeros", [0, 1, 30])
def test_rows_after_zeros_are_damage(tmp_path, zeros):
    """Of what a killed rank leaves nothing comes after what is missing."""
    draw.write_trace(tmp_path, {0: rows(0)})
    hole = b"\0" * zeros
    cut(tmp_path, 0, lambda lines: b"".join([*lines[:2], lines[2][:9] + hole, *lines[3:]]))
    assert "rank-0.jsonl, row 3: " in refusal(tmp_path)


def test_line_ends_of_another_system(tmp_path):
    draw.write_trace(tmp_path, {0: rows(0)})
    file = tmp_path / "rank-0.jsonl"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert "row 1: no checksum at its end" in refusal(tmp_path)


# ------------------------------------------------------------------------------- cut files


def cut(folder, rank, keep):
    file = folder / f"rank-{rank}.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(keep(lines))


def test_a_file_cut_at_the_border_of_a_row(tmp_path):
    draw.write_trace(tmp_path, {0: rows(0, 2), 1: rows(1, 2)})
    cut(tmp_path, 1, lambda lines: b"".join(lines[:-1]))
    trace = load(tmp_path)
    assert trace.warnings == (
        (
            "rank 1: the trace stops after 5 rows without its end row: "
            "the rank was killed or the file was cut"
        ),
    )
    assert [rank.complete for rank in trace.ranks] == [True, False]
    assert not trace.complete
    assert len(trace.ranks[1].events) == 2
    message = refusal(tmp_path, strict=True)
    assert "incomplete: rank 1: the trace stops after 5 rows" in message


def test_a_last_line_without_its_newline_counts_as_cut(tmp_path):
    draw.write_trace(tmp_path, {0: rows(0)})
    cut(tmp_path, 0, lambda lines: b"".join(lines)[:-1])
    trace = load(tmp_path)
    (rank,) = trace.ranks
    assert (rank.num_rows, rank.complete, len(rank.events)) == (5, False, 2)
    assert trace.warnings[0].startswith("rank 0: the trace stops after 5 rows, within a row and")
    refusal(tmp_path, strict=True)


def test_an_end_row_that_counts_other_rows(tmp_path):
    written = [*rows(0), ("end", End(time_ns=0, num_rows=17))]
    files = draw.trace_files(draw.Written(draw.manifest(1), {0: rows(0)}))
    files["rank-0.jsonl"] = draw.encode_rows(written)
    trace = load(draw.write_files(tmp_path, files))
    assert trace.warnings == (
        "rank 0: the trace has 5 rows before its end row, which counts 17: the writer lost some",
    )
    assert not trace.ranks[0].complete
    refusal(tmp_path, strict=True)


@pytest.mark.parametrize("content", [b"", b'{"row":"head', b"\x00" * 4096])
def test_a_rank_that_was_killed_before_its_first_row(tmp_path, content):
    draw.write_trace(tmp_path, {0: rows(0, 2), 1: rows(1, 2)})
    cut(tmp_path, 0, lambda _: content)
    trace = load(tmp_path)
    assert [rank.rank for rank in trace.ranks] == [1]
    assert trace.ranks[0].complete
    assert trace.warnings[0].startswith(
        "rank 0: the trace has no complete row: the rank was killed"
    )
    refusal(tmp_path, strict=True)


def test_no_rank_with_a_header(tmp_path):
    draw.write_trace(tmp_path, {0: rows(0, 2), 1: rows(1, 2)})
    cut(tmp_path, 0, lambda _: b"")
    cut(tmp_path, 1, lambda lines: lines[0][:-1])
    assert "no rank file has a header" in refusal(tmp_path)


def test_missing_rank_files(tmp_path):
    draw.write_trace(tmp_path, {1: rows(1, 4), 2: rows(2, 4)}, num_ranks=4)
    trace = load(tmp_path)
    assert [line.split(":")[0] for line in trace.warnings] == ["rank 0", "rank 3"]
    assert "rank-3.jsonl is missing" in trace.warnings[1]
    assert "rank-0.jsonl is missing" in refusal(tmp_path, strict=True)
    assert "(and 1 more)" in refusal(tmp_path, strict=True)


@pytest.mark.parametrize("num_ranks", [1000, 2**20])
def test_very_many_missing_files_are_one_warning(tmp_path, num_ranks):
    written = {5: [("header", draw.header(5, num_ranks))]}
    draw.write_trace(tmp_path, written, num_ranks=num_ranks)
    (line,) = load(tmp_path).warnings
    assert line.startswith(f"ranks 0-4, 6-{num_ranks - 1}: {num_ranks - 1} files are missing")


def test_the_garbage_collector_is_left_as_it_was(tmp_path):
    draw.write_trace(tmp_path, {0: rows(0)})
    assert gc.isenabled()
    load(tmp_path)
    assert gc.isenabled()
    gc.disable()
    try:
        load(tmp_path)
        assert not gc.isenabled()
    finally:
        gc.enable()


@given(st.lists(st.integers(0, 3), max_size=6))
def test_samples_and_metrics_keep_the_order_of_writing(iterations):
    written = [("header", draw.header(0, 1))]
    for iteration in iterations:
        sample = WireSample(
            iteration=iteration, micro_step=0, phase=Phase.FORWARD, time_ns=0, counters=()
        )
        written.append(("wire", sample))
        written.append(("metric", Metric(iteration=iteration, name="x", value=0.5, time_ns=0)))
    with tempfile.TemporaryDirectory() as folder:
        (rank,) = load(draw.write_trace(Path(folder), {0: written})).ranks
    assert [sample.iteration for sample in rank.wire_samples] == iterations
    assert [metric.iteration for metric in rank.metrics] == iterations
