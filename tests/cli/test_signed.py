"""Traces with valid checksums and absurd values: read, or refused in one line, by all that reads.

Whoever writes a trace can sign it. What a reader may assume is checked once, where a trace is
loaded or its graph is built; so a traceback is a defect of a check, whichever reader it comes from.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from tests.cli.command import assert_one_line, command
from tests.readings import Readers
from tests.signed import Row, alter, read_rows, signed, signed_manifest
from zerosim.analysis.frames.cuts import NotShown
from zerosim.base.errors import ConfigError, TraceError
from zerosim.schema.rows import MANIFEST_NAME
from zerosim.schema.strategies import Strategy
from zerosim.systems.registry import understood

TRACES = Path(__file__).parents[2] / "lessons" / "traces"
KINDS = (
    *("one/stage-0", "across/stage-1", "inside/stage-1", "fused/stage-0", "spread/stage-3"),
    *("kept/stage-1", "collectives/stage-0", "walk/stage-1", "profiles/ddp", "parallel/1f1b"),
    *("parallel/tensor-parallel", "device/stage-2", "deepspeed/deepspeed-2", "profiles/fsdp2"),
    "hpz/stage-3",
)
"""Runs that have, together, rows of every kind but one of several machines; small ones first."""
BOUNDED = "hpz/stage-3"
HUGE = 987654321
"""Stands for a thousand times as many digits, which Python would not write."""
FEW = 4
MANY = 10_000


def fuzz(seeds: range, home: Path) -> None:
    readers = Readers(home, TRACES / "one/stage-0")
    for seed in seeds:
        chance = random.Random(seed)  # noqa: S311 - any seed will do, but always the same
        kind = KINDS[min(chance.randrange(len(KINDS)), chance.randrange(len(KINDS)))]
        folder = home / "altered"
        shutil.copytree(TRACES / kind, folder)
        said = alter(folder, chance)
        for problem in readers.problems(folder):
            pytest.fail(f"seed {seed}, {kind}: {said}: {problem}")


def test_a_few_signed_traces_are_read_or_refused(tmp_path):
    fuzz(range(FEW), tmp_path)


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
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
        (
            "transfer",
            "start_ns",
            2**63,
            "start_ns is 9223372036854775808, expected 0 to 46116",
        ),
        ("transfer", "end_ns", 1, "expected times in this order"),
        ("transfer", "parent", -1, "parent is -1"),
        ("event", "parent", 2**40, "expected an event before it"),
        ("open", "id", -1, "id is -1, expected 0 to 9007199254740992"),
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
    assert_one_line(command("verify", folder), "rank-0.jsonl, row ", words)


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
        ({"run": {"batch": HUGE}}, "a number that is too long, expected at most 30"),
    ],
)
@pytest.mark.parametrize("name", ["verify", "compare"])
def test_a_manifest_s_numbers_have_bounds(tmp_path, name, change, words):
    folder = with_manifest(tmp_path, change)
    others = [TRACES / BOUNDED] if name == "compare" else []
    assert_one_line(command(name, folder, *others), MANIFEST_NAME, words)


def every(tmp_path: Path, kind: str, row: str, **values: object) -> Path:
    """A trace of which all rows of one name say something else."""
    folder = tmp_path / "t"
    shutil.copytree(TRACES / kind, folder)
    for path in folder.glob("rank-*.jsonl"):
        rows = read_rows(path)
        for one in rows:
            one.update(values if one["row"] == row else {})
        path.write_text(signed(rows))
    return folder


def test_a_group_that_is_named_and_not_there_is_seen_where_a_trace_is_loaded(tmp_path):
    folder = every(tmp_path, "kept/stage-1", "group", name="another")
    for words in (("verify",), ("graph",), ("export", "--chakra", tmp_path / "x")):
        answer = command(words[0], folder, *words[1:])
        assert_one_line(answer, "rank-0.jsonl", "is of group '", "which is unknown")


def test_a_run_of_years_is_seen_where_its_graph_is_built(tmp_path):
    """Sums of its times have no 64 bits, nor have those of what would change."""
    folder = every(tmp_path, "one/stage-0", "close", end_ns=2**61)
    for words in (("graph",), ("whatif", "--slow", "0=x9"), ("export", "--hta", tmp_path / "x")):
        assert_one_line(command(words[0], folder, *words[1:]), "years: expected at most 2")
    assert command("verify", folder).code == 0


def test_strategies_that_are_not_in_force_cut_nothing(tmp_path):
    folder = every(tmp_path, "parallel/tensor-parallel", "strategy", iteration=10**6)
    answer = command("export", folder, "--html", tmp_path / "x.html")
    assert (answer.code, answer.err) == (0, "")


def _layout_of_three(strategy):
    changed = strategy["bundles"][0]["options"]
    changed["output_layout"], changed["made_layout"] = "shard 2x", "partial"


PASSED = [(kind(), kind) for kind in (ConfigError, NotShown, OSError)]


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("profiles/ddp", lambda one: one.update(ranks=[0, 2]), "a call of rank 1 is one of ranks"),
        ("parallel/tensor-parallel", _layout_of_three, "invalid literal for int() with base 10"),
    ],
    ids=["ddp", "tensor parallel"],
)
def test_strategies_that_contradict_themselves_are_refused_by_their_system(
    tmp_path, kind, change, words
):
    folder = _with_strategies(tmp_path, kind, change)
    assert_one_line(command("verify", folder), "contradicts itself", words)


@pytest.mark.parametrize(
    ("error", "becomes"),
    [(IndexError("of a list"), TraceError), (ZeroDivisionError(), TraceError), *PASSED],
)
def test_what_a_system_does_not_understand_is_an_error_in_the_trace(error, becomes):
    strategies = [Strategy(system="S", name="model", ranks=(0,))]
    with pytest.raises(becomes) as caught, understood(strategies):
        raise error
    assert (becomes is TraceError) == ("S 'model' contradicts itself" in str(caught.value))


def test_a_strategy_has_each_rank_once(tmp_path):
    folder = _with_strategies(tmp_path, "profiles/fsdp2", lambda one: one.update(ranks=[0, 2, 0]))
    assert_one_line(command("verify", folder), "strategy 'MLP' has a rank twice")


def _with_strategies(tmp_path, kind, change):
    """A trace whose strategies were changed."""
    folder = tmp_path / "t"
    shutil.copytree(TRACES / kind, folder)
    for path in folder.glob("rank-*.jsonl"):
        rows = read_rows(path)
        for row in rows:
            if row["row"] == "strategy":
                change(row)
        path.write_text(signed(rows))
    return folder


def test_a_group_of_more_ranks_than_were_recorded(tmp_path):
    folder = every(tmp_path, "inside/stage-1", "group", ranks=[*range(8)])
    assert command("verify", folder).code in (0, 1)


def test_a_bucket_of_a_unit_that_there_is_not(tmp_path):
    segment = {"unit": "nowhere", "start": 0, "stop": 4}
    folder = with_manifest(tmp_path, {"buckets": [{"name": "bucket.0", "segments": [segment]}]})
    assert_one_line(
        command("verify", folder), MANIFEST_NAME, "has unit 'nowhere': not one of units"
    )
