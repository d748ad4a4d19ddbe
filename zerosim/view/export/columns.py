"""A table as CSV or as Parquet.

In CSV, values that were not recorded are empty fields, in Parquet nulls: never 0.
"""

from __future__ import annotations

import csv
import io
from importlib import import_module

from zerosim.base.errors import EnvironmentFault
from zerosim.base.tables import Column, Evidence, Table


def csv_file(table: Table) -> bytes:
    """A header line, then the rows; the column of a predicted time is named so."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_name, table.columns))
    writer.writerows(table.rows)
    return text.getvalue().encode()


def _name(column: Column) -> str:
    is_time = column.evidence is Evidence.PREDICTED and column.name.endswith("_ns")
    return f"predicted_{column.name}" if is_time else column.name


def parquet_file(table: Table) -> bytes:
    """The columns, and in the file's metadata the title and the evidence of each column.

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
