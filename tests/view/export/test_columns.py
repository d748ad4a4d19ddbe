"""Events as CSV and Parquet, read back by the csv module and pyarrow."""

import csv
import io
from importlib.util import find_spec

import pytest

import zerosim
from tests.cli.command import assert_one_line, command
from zerosim.base.tables import Column, Evidence, Table
from zerosim.lessons.recordings import COMMITTED
from zerosim.schema.events import Kind, Phase
from zerosim.view.export.columns import csv_file, parquet_file

FOLDER = COMMITTED / "ring/stage-3"


@pytest.fixture(scope="module")
def table():
    run = zerosim.load(FOLDER)
    return run.events(kind=tuple(Kind), phase=tuple(Phase), iteration=run.iterations)


def test_csv(table):
    rows = list(csv.reader(io.StringIO(csv_file(table).decode())))
    assert tuple(rows[0]) == table.names
    assert rows[1:] == [["" if c is None else str(c) for c in row] for row in table.rows]


def test_what_was_not_recorded_is_an_empty_field_and_a_comma_no_border():
    some = Table("t", (Column("name"), Column("bytes", Evidence.TRACED)), (('a,"b', None),))
    assert list(csv.reader(io.StringIO(csv_file(some).decode()))) == [
        ["name", "bytes"],
        ['a,"b', ""],
    ]


def test_the_command_writes_all_iterations_or_one(tmp_path):
    sizes = []
    for more in ((), ("--iteration", 0)):
        file = tmp_path / f"{len(more)}.csv"
        answer = command("export", FOLDER, "--csv", file, *more)
        assert answer.code == 0
        rows = list(csv.DictReader(io.StringIO(file.read_text())))
        assert f"{len(rows):,} events" in answer.out
        sizes.append({row["iteration"] for row in rows})
    assert sizes == [{"0", "1"}, {"0"}]


@pytest.mark.skipif(find_spec("pyarrow") is not None, reason="pyarrow is installed")
def test_parquet_without_pyarrow_is_one_line(tmp_path):
    answer = command("export", FOLDER, "--parquet", tmp_path / "e.parquet")
    assert_one_line(answer, "pyarrow", "pip install pyarrow")
    assert not list(tmp_path.iterdir())


def test_parquet(table):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow, 50 MB: pip install pyarrow")
    from pyarrow import parquet

    read = parquet.read_table(io.BytesIO(parquet_file(table)))
    assert read.to_pydict() == {name: list(table[name]) for name in table.names}
    assert read.schema.metadata[b"sent_bytes"] == b"traced"
