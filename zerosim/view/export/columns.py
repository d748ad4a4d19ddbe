"""A table as CSV or as Parquet.

In CSV what was not recorded is an empty field, in Parquet a null: never 0.
"""

from __future__ import annotations

import csv
import io
from importlib import import_module

from zerosim.base.errors import EnvironmentFault
from zerosim.base.tables import Column, Evidence, Table


def csv_file(table: Table) -> bytes:
    """Its names in the first line, then its rows; a predicted time's name says so."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_name, table.columns))
    writer.writerows(table.rows)
    return text.getvalue().encode()


def _name(column: Column) -> str:
    is_time = column.evidence is Evidence.PREDICTED and column.name.endswith("_ns")
    return f"predicted_{column.name}" if is_time else column.name


def parquet_file(table: Table) -> bytes:
    """Its columns, and in the file's metadata its title and how each column came about.

    Raises:
        EnvironmentFault: pyarrow is not installed.
    """
    try:
        arrow = import_module("pyarrow")
        parquet = import_module("pyarrow.parquet")
    except ImportError:
        raise EnvironmentFault(
            "--parquet needs pyarrow, which is not installed: pip install pyarrow, or give --csv"
        ) from None
    evidence = {column.name: column.evidence for column in table.columns if column.evidence}
    made = arrow.table({name: list(table[name]) for name in table.names})
    made = made.replace_schema_metadata({"title": table.title, **evidence})
    content = io.BytesIO()
    parquet.write_table(made, content)
    return content.getvalue()
