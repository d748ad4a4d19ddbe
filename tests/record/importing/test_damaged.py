"""Files that were changed at random: what is read of them is a trace or one line, never more."""

import io
import json
import os
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest

from tests.cli.command import assert_one_line, command
from tests.record.importing.profiles import Made, record
from tests.record.importing.test_dumps import fsdp2
from tests.record.importing.test_execution import executed
from tests.record.importing.test_flight import dump

FEW, MANY = 30, 1000
WORDS = (
    b"null",
    b"[]",
    b"{}",
    b'""',
    b"-1",
    b"1e999",
    b"9" * 20,
    b"true",
    b'"\\ud800"',
)
STRANGE = (None, -1, 2**80, 1e300, "", "\x00\n\x1b[2J", [], {}, [[[]]], True, "../../x", "9" * 5000)


def pick(dice, some):
    return some[int(dice.integers(len(some)))]


def profile(_):
    made = Made(rank=1)
    made.step(3, [("c10d::allreduce_", record("allreduce", 1000, 1000))])
    made.call("c10d::alltoall_base_", {}, ([[64], [64]], ["float", "float"]), linked=False)
    return json.dumps({"traceEvents": made.events, **made.header}).encode()


def execution(dice):
    return executed(1, old=dice.random() < 0.5).content().encode()


def dumped(dice):
    """Flight Recorder's pickle; or JSON, or a pickle that would do something."""
    whole = dump(fsdp2(2), 4)
    if dice.random() < 0.4:
        return json.dumps(whole).encode()
    if dice.random() < 0.4:
        whole["entries"][int(dice.integers(12))]["frames"] = Runs()
    return pickle.dumps(whole, int(dice.integers(2, 6)))


class Runs:
    """Leaves a folder where it is read by a reader that does what it says."""

    def __reduce__(self):
        return os.mkdir, (RAN,)


RAN = "it-ran"


def archive(dice):
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w:gz") as made:
        for name in ("a/rank0.json", "../../outside.json", "/outside.json"):
            content = damaged(dice, pick(dice, (profile, execution, dumped)))
            info = tarfile.TarInfo(name)
            info.size = len(content)
            made.addfile(info, io.BytesIO(content))
    return found.getvalue()


def cut(dice, content):
    return content[: int(dice.integers(len(content)))]


def flipped(dice, content):
    found = bytearray(content)
    for _ in range(int(dice.integers(1, 9))):
        found[int(dice.integers(len(found)))] = int(dice.integers(256))
    return bytes(found)


def replaced(dice, content):
    """A number or a text in it by something else."""
    begin = int(dice.integers(len(content)))
    return content[:begin] + pick(dice, WORDS) + content[begin + int(dice.integers(1, 40)) :]


def repeated(dice, content):
    begin = int(dice.integers(len(content)))
    return (
        content[:begin] + content[begin : begin + 60] * int(dice.integers(2, 200)) + content[begin:]
    )


def another_value(dice, content):
    """Valid JSON, a value of which is not what it should be."""
    try:
        whole = json.loads(content)
    except ValueError:
        return content
    place, key = whole, None
    while isinstance(place, (dict, list)) and place:
        key = pick(dice, list(place) if isinstance(place, dict) else range(len(place)))
        if not isinstance(place[key], (dict, list)) or not place[key] or dice.random() < 0.2:
            break
        place = place[key]
    place[key] = pick(dice, STRANGE)
    return json.dumps(whole).encode()


CHANGES = (cut, flipped, replaced, repeated, another_value, another_value, another_value)


def damaged(dice, make):
    return pick(dice, CHANGES)(dice, make(dice))


NAMES = {archive: "given.tar.gz", dumped: "rank_1"}


def assert_all_are_read_or_refused(folder, seeds):
    outcomes = []
    for seed in seeds:
        dice = np.random.default_rng(seed)
        here = folder / str(seed)
        here.mkdir()
        make = pick(dice, (profile, execution, dumped, archive))
        file = here / NAMES.get(make, "given.json")
        file.write_bytes(damaged(dice, make) if dice.random() < 0.8 else make(dice))
        answer = command("import", file, "--out", here / "out")
        outcomes.append(answer.code)
        assert answer.code in (0, 2), seed
        if answer.code == 2:
            assert answer.err.count("\n") == 1, (seed, answer.err)
            assert answer.err.isprintable() or answer.err[:-1].isprintable(), (seed, answer.err)
            assert not list((here / "out").iterdir()), seed
        else:
            for reads in ("verify", "graph"):
                assert command(reads, here / "out").code in (0, 1, 2), seed
        assert {one.name for one in here.iterdir()} == {file.name, "out"}
        assert not Path(RAN).exists(), seed
    assert {one.name for one in folder.iterdir()} == set(map(str, seeds))
    return outcomes


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path.parent)


def test_a_pickle_that_would_do_something_is_refused(tmp_path):
    whole = dump([Runs()], 4)
    file = tmp_path / "rank_1"
    file.write_bytes(pickle.dumps(whole))
    answer = command("import", file, "--out", tmp_path / "out")
    assert_one_line(answer, "it names posix.mkdir")
    assert not Path(RAN).exists()


def test_some(tmp_path):
    outcomes = assert_all_are_read_or_refused(tmp_path, range(FEW))
    assert set(outcomes) == {0, 2}


@pytest.mark.long
def test_many(tmp_path):
    outcomes = assert_all_are_read_or_refused(tmp_path, range(FEW, FEW + MANY))
    assert outcomes.count(2) > MANY // 3
