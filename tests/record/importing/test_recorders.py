"""NCCL Inspector and Nsight Systems: small files made by their documented form, not by them."""

import json
import sqlite3

import pytest

from tests.cli.command import assert_one_line, command
from zerosim.record import load
from zerosim.record.importing import import_run
from zerosim.schema.events import Kind, Op
from zerosim.verify import verify

WORLD, PAIR = "0x7f8c496ae9f661", "0x11"
CALLS = [("AllReduce", 40_000, 50), ("AllGather", 8192, 20), ("ReduceScatter", 8192, 30)]


def line(rank, number, name, size, lasted, *, verbose=False, communicator=WORLD, place=None):
    """As NCCL Inspector writes one in its format v4.0."""
    perf = {"coll": name, "coll_sn": number, "coll_msg_size_bytes": size}
    perf |= {"coll_exec_time_us": lasted, "coll_algobw_gbs": 1.0, "coll_busbw_gbs": 1.5}
    if verbose:
        begin = 1_752_867_229_235_059 + 1000 * number
        kernels = [
            {"kernel_start_ts": begin + 5 + channel, "kernel_stop_ts": begin + 5 + lasted}
            for channel in range(2)
        ]
        perf["event_trace_ts"] = {"coll_start_ts": begin, "kernel_events": kernels}
    size = 4 if communicator == WORLD else 2
    header = {"id": communicator, "rank": rank if place is None else place, "n_ranks": size}
    version = {"inspector_output_format_version": "v4.0", "hostname": f"h{rank}", "pid": 7}
    return json.dumps({"header": header | {"nnodes": 4}, "metadata": version, "coll_perf": perf})


def written(folder, *, verbose=False):
    for rank in range(4):
        lines = [line(rank, n, *call, verbose=verbose) for n, call in enumerate(CALLS, 5)]
        lines.append(
            line(rank, 1, "AllReduce", 9000, 10, verbose=verbose, communicator=f"{PAIR}{rank // 2}",
                 place=rank % 2)
        )  # fmt: skip
        (folder / f"h{rank}.log").write_text("\n".join(lines))


@pytest.mark.parametrize("verbose", [True, False])
def test_inspector(tmp_path, verbose):
    written(tmp_path, verbose=verbose)
    answer = command("import", tmp_path, "--out", tmp_path / "out")
    assert answer.code == 0
    assert "the recording is incomplete" in answer.err
    trace = load(tmp_path / "out")
    assert trace.manifest.is_timed is verbose
    calls = [e for e in trace.ranks[3].events if e.kind is Kind.COLLECTIVE]
    told = {(e.op, e.payload_bytes, e.group, e.sequence, e.dtype) for e in calls}
    assert told == {
        (Op.ALL_REDUCE, 40_000, WORLD, 5, ""),
        (Op.ALL_GATHER, 4 * 8192, WORLD, 6, ""),
        (Op.REDUCE_SCATTER, 4 * 8192, WORLD, 7, ""),
        (Op.ALL_REDUCE, 9000, f"{PAIR}1", 1, ""),
    }
    assert trace.ranks[3].groups[f"{PAIR}1"].ranks == (2, 3)
    assert {e.end_ns - e.start_ns for e in calls} == {50_000, 20_000, 30_000, 10_000}
    assert verify(trace).total("trace", 0) == 60_000 + 2 * 3 * 8192 + 9000
    answer = command("graph", tmp_path / "out")
    assert answer.code == 0
    assert ("in order, but without recorded times" in answer.out) is not verbose
    assert "5 collectives" in answer.out


def test_lines_that_are_not_inspectors_or_of_one_run(tmp_path):
    file = tmp_path / "x.log"
    good = line(0, 1, *CALLS[0])
    for text in (good + "\n{]", good + "\n" + good.replace('"rank": 0', '"rank": 2')):
        file.write_text(text)
        assert_one_line(command("import", file, "--out", tmp_path / "out"), "x.log")
    file.write_text(good.replace('"rank": 0', '"rank": 9'))
    assert_one_line(
        command("import", file, "--out", tmp_path / "out"), "no communicator contains all of them"
    )


def nsight(file, *, more=()):
    """An export of a node with two processes, in the columns that are documented."""
    database = sqlite3.connect(file)
    tables = {
        "NVTX_EVENTS": "start, end, eventType, text, textId, globalTid, jsonText",
        "StringIds": "id, value",
        "CUPTI_ACTIVITY_KIND_KERNEL": "start, end, correlationId, shortName, globalPid",
        "CUPTI_ACTIVITY_KIND_RUNTIME": "start, end, correlationId, globalTid",
        "TARGET_INFO_SESSION_START_TIME": "utcEpochNs",
    }
    for name, columns in tables.items():
        database.execute(f"CREATE TABLE {name} ({columns})")
    database.execute("INSERT INTO StringIds VALUES (1, 'ncclAllGather'), (2, 'ncclDevKernel_X')")
    database.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000)")
    for rank in range(2):
        process = (100 + rank) << 24
        thread = process | (500 + rank)
        made = {"NCCL communicator ID": 77, "No. of ranks": 2, "Rank": rank, "CUDA device": rank}
        asked = {"NCCL communicator ID": 77, "Message size [bytes]": 4096}
        events = [
            (10, 20, 59, "ncclCommInitRank", None, thread, json.dumps({"Payload": made})),
            (1000, 1100, 59, None, 1, thread, json.dumps({"Payload": [asked]})),
            (1200, 1300, 59, "ncclAllReduce", None, thread, json.dumps(asked)),
            (900, 1400, 59, "Optimizer.step#Adam.step", None, thread, None),
            (5, 6, 33, "a mark", None, thread, None),
        ]
        database.executemany("INSERT INTO NVTX_EVENTS VALUES (?,?,?,?,?,?,?)", events)
        database.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,?,?,?)",
            (1150 + rank, 1190, 9, 2, process),
        )
        database.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,?,?)", (1050, 1060, 9, thread)
        )
    for statement in more:
        database.execute(statement)
    database.commit()
    database.close()


def test_nsight_systems(tmp_path):
    nsight(tmp_path / "node.sqlite")
    import_run([tmp_path], tmp_path / "out")
    trace = load(tmp_path / "out")
    assert [rank.rank for rank in trace.ranks] == [0, 1]
    gather, reduction = [e for e in trace.ranks[1].events if e.kind is Kind.COLLECTIVE]
    assert (gather.op, gather.payload_bytes, gather.group) == (Op.ALL_GATHER, 8192, "77")
    base = 1_700_000_000_000_000_000
    assert (gather.issue_ns, gather.start_ns, gather.end_ns) == (
        base + 1000,
        base + 1151,
        base + 1190,
    )
    assert (reduction.op, reduction.payload_bytes, reduction.end_ns) == (Op.ALL_REDUCE, 4096, None)
    assert command("verify", tmp_path / "out").code == 0
    assert "2 collectives" in command("graph", tmp_path / "out").out


def test_databases_that_are_damaged_hostile_or_of_something_else(tmp_path):
    file, out = tmp_path / "x.sqlite", tmp_path / "out"
    nsight(file)
    whole = file.read_bytes()
    file.unlink()
    nsight(file, more=["ALTER TABLE NVTX_EVENTS DROP COLUMN jsonText"])
    assert_one_line(command("import", file, "--out", out), "no annotations of NCCL")
    file.unlink()
    endless = """CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE
        n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n)
        SELECT x start, x end, 59 eventType, 'a' text, 1 textId, 1 globalTid, '' jsonText FROM n"""
    nsight(file, more=["DROP TABLE NVTX_EVENTS", endless])
    assert_one_line(command("import", file, "--out", out), "no table NVTX_EVENTS")
    for content in (whole[:5000], whole[:100] + bytes(len(whole) - 100), b"SQLite format 3\x00"):
        file.write_bytes(content)
        assert_one_line(command("import", file, "--out", out), "x.sqlite")
