"""Files that are damaged, hostile or not what was meant: one line, exit 2, nothing written."""

import gzip
import json

import pytest

from tests.cli.command import assert_one_line, command
from tests.record.importing.profiles import Made, record

ONE = record("allreduce", 1000, 1000)


def good(folder, **header):
    made = Made(**header)
    made.call("c10d::allreduce_", ONE)
    return made.save(folder)


def text(**changes):
    whole = {"distributedInfo": {"rank": 0, "world_size": 2}, "traceEvents": []} | changes
    return json.dumps(whole).encode()


def event(**changes):
    one = {"ph": "X", "cat": "cpu_op", "name": "c10d::send", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    return text(traceEvents=[one | changes])


DAMAGED = {
    "empty": b"",
    "no JSON": b"no trace",
    "another thing": b'{"version": 1}',
    "a list": b"[1, 2]",
    "cut": text()[:-9],
    "no calls": text(),
    "no rank": text(distributedInfo=None),
    "a rank of nowhere": text(distributedInfo={"rank": 2, "world_size": 2}),
    "a rank that is none": text(distributedInfo={"rank": True, "world_size": 2}),
    "too many ranks": text(distributedInfo={"rank": 0, "world_size": 10**9}),
    "a name that is none": event(name=5),
    "a time of no century": event(ts=1e300),
    "a negative time": event(ts=-5e9),
    "a base with many digits": b'{"baseTimeNanoseconds": 1'
    + 5000 * b"0"
    + text()[1:].replace(b"{", b", {", 0),
    "packed and cut": gzip.compress(text() * 99)[:-30],
    "packed to do harm": gzip.compress(b" " * 2**27),
    "nested": b"[" * 10**6,
    "nested in arguments": event()[:-3] + b', "args": ' + b"[" * 10**5 + b"]" * 10**5 + b"}]}",
    "spans in each other": text(
        traceEvents=[
            json.loads(event())["traceEvents"][0] | {"dur": 2000 - n, "ts": n} for n in range(1500)
        ]
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_file_that_is_damaged_or_hostile(tmp_path, name):
    file = tmp_path / "given.json"
    file.write_bytes(DAMAGED[name])
    answer = command("import", file, "--out", tmp_path / "out")
    assert_one_line(answer, "given.json")
    assert answer.code == 2
    assert not list((tmp_path / "out").iterdir())


def test_files_that_do_not_belong_together(tmp_path):
    for name in "abc":
        (tmp_path / name).mkdir()
    first, same = good(tmp_path / "a"), good(tmp_path / "b")
    other = good(tmp_path / "c", rank=1, num_ranks=8)
    out = tmp_path / "out"
    assert_one_line(command("import", first, same, "--out", out), "this is rank 0, and so is")
    assert_one_line(command("import", first, other, "--out", out), "8 ranks", "of 4")
    assert command("import", first, first, "--out", out).code == 0
    assert_one_line(command("import", first, "--out", out), "already contains a trace")


def test_what_is_not_there(tmp_path):
    out = tmp_path / "out"
    (tmp_path / "empty").mkdir()
    assert_one_line(command("import", tmp_path / "no", "--out", out), "there is no such file")
    assert_one_line(command("import", tmp_path / "empty", "--out", out), "no .json or .json.gz")
    file = good(tmp_path)
    assert_one_line(command("import", file, "--out", file), "cannot create the folder")


def test_values_that_are_not_what_they_should_be_are_not_recorded(tmp_path):
    made = Made()
    strange = {"In msg nelems": -4, "Out msg nelems": 2**80, "Process Group Ranks": "[0, 9]"}
    for more in (strange, {"dtype": ["Float"]}, {"In msg nelems": 2**61}, {"Seq": "x"}):
        made.call("c10d::allreduce_", ONE | more)
    made.call("c10d::of_a_later_release", {})
    made.call("c10d::broadcast_", record("broadcast", 5, 5, Rank=77))
    out = tmp_path / "out"
    assert command("import", made.save(tmp_path), "--out", out).code == 0
    shown = json.loads(command("show", out, "--iteration", "all", "--json").out)
    assert [one["payload_bytes"] for one in shown] == [0, 0, 0, 4000, 0, 20]
    assert [bool(one["operator"]) for one in shown] == [True, True, True, False, True, False]
    assert shown[-1]["peers"] == []
    for reads in ("verify", "graph", "compare"):
        assert command(reads, out, *[out] * (reads == "compare")).code in (0, 1)


def test_names_with_control_characters_are_read_as_older_versions_wrote_them(tmp_path):
    file = good(tmp_path)
    file.write_bytes(file.read_bytes().replace(b"cudaLaunchKernel", b"cuda\x01Launch\xff"))
    assert command("import", file, "--out", tmp_path / "out").code == 0
