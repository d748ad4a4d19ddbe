"""Traces with valid checksums and absurd values: read, or refused in one line, by all that reads.

Whoever writes a trace can sign it. A number of a real trace is replaced, its rows are signed again,
and every command that reads and every page that is served gets it.
"""

from __future__ import annotations

import json
import random
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import assert_one_line, command
from tests.dashboards.samples import make_site
from zerosim.base.errors import TraceError
from zerosim.record import load
from zerosim.schema.rows import MANIFEST_NAME

TRACES = Path(__file__).parents[2] / "lessons" / "traces"
KINDS = ("kept/stage-1", "profiles/ddp", "device/stage-2", "profiles/fsdp2", "hpz/stage-3")
"""Runs that have, together, rows of every kind but one of several machines."""
ABSURD = (-(2**63) - 1, -1, 0, 1, 7, 2**31, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, 10**400)
STRANGE = (None, True, "3", "", 1.5, [], {}, [-1], "<script>")
BOUNDED = "hpz/stage-3"
HUGE = 987654321
"""Stands for a thousand times as many digits, which Python would not write."""
FEW = 12
MANY = 600
Row = dict[str, Any]


def read_rows(path: Path) -> list[Row]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        del row["crc"]
    return rows


def signed(rows: list[Row]) -> str:
    crc, lines = 0, []
    for row in rows:
        body = json.dumps(row, separators=(",", ":"))[:-1]
        crc = zlib.crc32(body.encode(), crc)
        lines.append(f'{body},"crc":"{crc:08x}"}}\n')
    return "".join(lines)


def signed_manifest(plain: Row) -> str:
    plain = {name: value for name, value in plain.items() if name != "crc"}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return json.dumps(plain | {"crc": f"{zlib.crc32(text.encode()):08x}"})


def numbers(value: Any) -> Iterator[tuple[Any, Any]]:
    """All places of numbers: what holds it, and its key or index."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in list(pairs):
        if isinstance(each, dict | list):
            yield from numbers(each)
        elif isinstance(each, int | float) and not isinstance(each, bool):
            yield value, key


def changed(chance: random.Random, target: Path) -> str:
    """Put a signed trace there in which one value or two are absurd; says which."""
    kind = chance.choice(KINDS)
    shutil.copytree(TRACES / kind, target, dirs_exist_ok=True)
    said = [kind]
    for _ in range(chance.choice((1, 1, 2))):
        what = chance.choice((ABSURD, ABSURD, ABSURD, STRANGE))
        value = chance.choice(what)
        if chance.random() < 0.25:
            path = target / MANIFEST_NAME
            plain = json.loads(path.read_text())
            place, key = chance.choice(list(numbers(plain)))
            place[key] = value
            path.write_text(signed_manifest(plain))
        else:
            path = target / f"rank-{chance.randrange(2)}.jsonl"
            rows = read_rows(path)
            # rare kinds of rows as often as frequent ones
            row = chance.choice([r for r in rows if r["row"] == chance.choice(rows)["row"]] or rows)
            place, key = chance.choice(list(numbers(row)))
            place[key] = value
            path.write_text(signed(rows))
        said.append(f"{path.name} {key} = {str(value)[:40]}")
    return "; ".join(said)


def is_read(folder: Path) -> bool:
    try:
        load(folder)
    except TraceError:
        return False
    return True


def read_by_all(folder: Path, other: Path, out: Path) -> None:
    """Every command and every page: an answer, or one line."""
    if not is_read(folder):
        assert_one_line(command("verify", folder))
    else:
        for args in (
            ("verify", folder),
            ("verify", folder, "--json"),
            ("compare", folder, other),
            ("memory", folder),
            ("show", folder),
            ("graph", folder),
            ("graph", folder, "--json"),
            ("graph", folder, "--graphml", out / "x.graphml"),
            ("export", folder, "--html", out / "x.html"),
        ):
            answer = command(*args)
            assert answer.code in (0, 1, 2), (args, answer)
            if answer.code == 2:
                assert_one_line(answer)
    client = make_site(folder.parent).client
    name = folder.name
    for path in ("/api/traces", "/", "/lessons", f"/replay?trace={name}", f"/graph?trace={name}"):
        assert client.get(path).status_code < 400, path
    for path in ("/api/replay", "/api/graph", "/api/compare", "/verify", "/compare"):
        found = client.get(f"{path}?trace={name}&trace=other")
        assert found.status_code < 500, (path, found.get_data(as_text=True)[:500])


def fuzz(rounds: range, folder: Path) -> None:
    for seed in rounds:
        home = folder / str(seed)
        served = home / "served"
        shutil.copytree(TRACES / KINDS[0], served / "other")
        chance = random.Random(seed)  # noqa: S311 - any seed will do, but always the same
        said = changed(chance, served / "signed")
        try:
            read_by_all(served / "signed", served / "other", home)
        except BaseException as error:
            error.add_note(f"seed {seed}: {said}")
            raise
        shutil.rmtree(home)


def test_a_few_signed_traces_are_read_or_refused(tmp_path):
    fuzz(range(FEW), tmp_path)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_signed_traces_are_read_or_refused(tmp_path):
    fuzz(range(FEW, FEW + MANY), tmp_path)


def _with(tmp_path: Path, rank: int, row: str, key: str, value: object) -> Path:
    folder = tmp_path / "t"
    shutil.copytree(TRACES / BOUNDED, folder)
    path = folder / f"rank-{rank}.jsonl"
    rows = read_rows(path)
    places = [one for one in rows if one["row"] == row and (row == "header" or key in one)]
    places[0][key] = value
    path.write_text(signed(rows))
    return folder


@pytest.mark.parametrize(
    ("row", "key", "value", "words"),
    [
        ("transfer", "peer", -1, "peer is -1, expected a rank from 0 to"),
        ("transfer", "peer", 10**30, "peer is a number of 100 bits"),
        ("transfer", "shard", -1, "shard is -1, expected 0 to"),
        ("transfer", "start_ns", 2**63, "start_ns is 9223372036854775808, expected 0 to 2^63 - 1"),
        ("transfer", "end_ns", 1, "expected times in this order"),
        ("transfer", "parent", -1, "parent is -1"),
        ("event", "parent", 2**40, "expected an event before it"),
        ("open", "id", -1, "id is -1, expected 0 to 2^63 - 1"),
        ("open", "issue_ns", -5, "issue_ns is -5"),
        ("open", "iteration", 2**63, "iteration is 9223372036854775808, expected -1"),
        ("open", "peers", [99], "peers is 99, expected a rank from 0 to"),
        ("open", "payload_bytes", -4, "payload_bytes is -4"),
        ("close", "end_ns", 0, "expected times in this order"),
        ("group", "ranks", [0, 0], "has a rank twice"),
        ("header", "node", 10**6, "node is 1000000, expected a rank from 0 to"),
        ("end", "num_rows", -1, "num_rows is -1"),
    ],
)
def test_each_number_has_its_bounds(tmp_path, row, key, value, words):
    folder = _with(tmp_path, 0, row, key, value)
    assert_one_line(command("verify", folder), "rank-0.jsonl, line ", words)


def with_manifest(tmp_path: Path, change: Row) -> Path:
    folder = tmp_path / "t"
    shutil.copytree(TRACES / BOUNDED, folder)
    path = folder / MANIFEST_NAME
    plain = json.loads(path.read_text())
    for key, value in change.items():
        plain[key] = {**plain[key], **value} if isinstance(value, dict) else value
    path.write_text(signed_manifest(plain).replace(str(HUGE), str(HUGE) * 1000))
    return folder


def test_what_a_user_chose_may_be_more_than_64_bits(tmp_path):
    folder = with_manifest(tmp_path, {"config": {"bucket_elements": 2**64}})
    for name in ("verify", "compare"):
        others = [TRACES / BOUNDED] if name == "compare" else []
        answer = command(name, folder, *others)
        assert answer.code in (0, 1)
        assert answer.err == ""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_ranks": 10**18}, "num_ranks is 1000000000000000000, expected 1 to 1048576"),
        ({"config": {"stage": 9}}, "stage is 9"),
        ({"config": {"stage": "3"}}, "stage is '3'"),
        ({"run": {"tensor_parallel": 0}}, "tensor_parallel is 0"),
        ({"run": {"tensor_parallel": 3}}, "tensor_parallel is 3, expected"),
        ({"config": {"bucket_elements": 10**30}}, "expected a number of at most 30 digits"),
        ({"run": {"batch": -(10**30)}}, "expected a number of at most 30 digits"),
        ({"run": {"batch": HUGE}}, "a number that is too long to be read, expected at most 30"),
    ],
)
@pytest.mark.parametrize("name", ["verify", "compare"])
def test_a_manifest_s_numbers_have_bounds(tmp_path, name, change, words):
    folder = with_manifest(tmp_path, change)
    others = [TRACES / BOUNDED] if name == "compare" else []
    assert_one_line(command(name, folder, *others), MANIFEST_NAME, words)
