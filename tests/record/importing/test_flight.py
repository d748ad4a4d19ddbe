"""Flight Recorder dumps: what they say is read, what they would do is not done."""

from __future__ import annotations

import json
import os
import pickle

import pytest

from tests.cli.command import assert_one_line, command
from zerosim.base.errors import TraceError
from zerosim.record.importing.flight import read_dumps
from zerosim.verify.diagnosis import Wrong, diagnose_dumps


def entry(number, name="nccl:all_reduce", size=8, **more):
    return {
        "frames": [
            {"name": "all_reduce", "filename": "/site/torch/distributed/c10d.py", "line": 9},
            {"name": "step", "filename": "/home/me/train.py", "line": 41},
        ],
        "record_id": number,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number + 1,
        "p2p_seq_id": 0,
        "op_id": number + 1,
        "profiling_name": name,
        "time_created_ns": 1000 + number,
        "input_sizes": [[size]],
        "input_dtypes": ["Float"],
        "output_sizes": [[size]],
        "output_dtypes": ["Float"],
        "state": "completed",
        "time_discovered_started_ns": 1000 + number,
        "time_discovered_completed_ns": 1001 + number,
        "retired": True,
        "timeout_ms": 600000,
        "is_p2p": False,
        **more,
    }


def dump(entries, ranks=3):
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))}}
    return {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": entries}


def write(folder, *lists, as_json=False):
    for rank, entries in enumerate(lists):
        plain = dump(entries, len(lists))
        content = json.dumps(plain).encode() if as_json else pickle.dumps(plain, 2)
        (folder / f"trace_rank_{rank}").write_bytes(content)
    return folder


@pytest.mark.parametrize("as_json", [False, True])
def test_a_rank_that_has_not_come(tmp_path, as_json):
    full = [entry(number) for number in range(4)]
    late = {"state": "scheduled", "time_discovered_completed_ns": None, "retired": False}
    full[3] |= late
    found = diagnose_dumps([write(tmp_path, full, full[:3], full, as_json=as_json)])
    first = found.findings[0]
    assert (first.wrong, first.ranks) == (Wrong.STANDS_STILL, (1,))
    assert "me/train.py:41 in step" in first.sentence


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({"name": "nccl:broadcast"}, Wrong.OTHER_CALL),
        ({"size": 9}, Wrong.SIZE),
        ({"input_dtypes": ["Half"]}, Wrong.DTYPE),
    ],
)
def test_a_rank_that_called_something_else(tmp_path, changed, wrong):
    full = [entry(number) for number in range(4)]
    other = [*full[:2], entry(2, **changed), full[3]]
    first = diagnose_dumps([write(tmp_path, full, full, other)]).findings[0]
    assert (first.wrong, first.ranks) == (wrong, (2,)), first.sentence


def test_dumps_that_begin_later_on_one_rank_fit(tmp_path):
    full = [entry(number) for number in range(6)]
    assert not diagnose_dumps([write(tmp_path, full, full[2:], full[1:])]).findings


def test_what_gloo_does_not_say_is_said(tmp_path):
    lists = [[entry(0, "gloo:all_reduce")] for _ in range(2)]
    folder = write(tmp_path, *lists)
    for rank in range(2):
        plain = dump(lists[rank]) | {"pg_config": {"": {"name": "", "ranks": "[]"}}}
        (folder / f"trace_rank_{rank}").write_bytes(pickle.dumps(plain, 2))
    notes = read_dumps([folder]).notes
    assert any("do not describe groups" in note for note in notes)
    assert any("order of enqueued calls" in note for note in notes)


class _Runs:
    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return (os.mkdir, (str(self.folder),))


HOSTILE = {
    "calls": lambda mark: pickle.dumps({"entries": [_Runs(mark)]}),
    "calls, oldest": lambda mark: f"cos\nmkdir\n(S'{mark}'\ntR.".encode(),
    "names a class": lambda mark: pickle.dumps(dump([pytest.MonkeyPatch])),
    "is cut": lambda mark: pickle.dumps(dump([entry(0)]))[:-20],
    "is no dump": lambda mark: pickle.dumps([1, 2]),
    "has no entries": lambda mark: json.dumps({"a": 1}).encode(),
    "is nested": lambda mark: b'{"entries":' + b"[" * 100_000,
    "has other types": lambda mark: pickle.dumps({"entries": 3}),
    "is nothing": lambda mark: b"",
    "counts beyond": lambda mark: b"\x80\x02X\xff\xff\xff\x7fabc.",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_dumps_are_one_line_and_do_nothing(tmp_path, what):
    mark = tmp_path / "done"
    folder = tmp_path / "dumps"
    folder.mkdir()
    (folder / "rank_0").write_bytes(HOSTILE[what](mark))
    with pytest.raises(TraceError) as caught:
        read_dumps([folder])
    assert len(str(caught.value).splitlines()) == 1
    assert not mark.exists()
    assert_one_line(command("diagnose", folder), "rank_0")
    assert not mark.exists()


def test_entries_that_say_anything_do_no_harm(tmp_path):
    odd = [
        {}, {"profiling_name": 7}, {"frames": 3}, {"process_group": [1, 2]},
        entry(0, input_sizes="x"), entry(1, collective_seq_id="9" * 400), entry(2, frames=[1]),
        entry(3, time_created_ns=-4), entry(4, input_sizes=[[2**70] * 9]),
    ]  # fmt: skip
    assert command("diagnose", write(tmp_path, odd, odd)).code in (0, 1)
