"""The lines of a rank's file, each checked, up to its end or truncation.

A file that was not closed ends in zeros, space reserved for further rows. The rows before them were
copied one by one, so a killed rank leaves at most one incomplete row, the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from zerosim.base.errors import TraceError
from zerosim.record.schema import DAMAGE, OtherSchemaError, reason
from zerosim.record.text import one_line
from zerosim.schema.rows import check_line, name_of_whole

_ZERO = b"\0"


class Lines:
    """The rows of a file, in order.

    Attributes:
        number: number of the last line that was read, counted from 1.
        crc: checksum of that line.
        is_cut: whether the file ended within a row.
    """

    def __init__(self, path: Path) -> None:
        self.number = self.crc = 0
        self.is_cut = False
        self._path = path

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """The name and the line of each row.

        Raises:
            OSError: the file cannot be read.
            ValueError: a line is altered, or out of place.
        """
        is_over = False
        with self._path.open("rb", buffering=1 << 20) as file:
            for self.number, line in enumerate(file, 1):
                found, crc = name_of_whole(line, self.crc)
                if found is not None and not is_over:
                    self.crc, is_over = crc, found == "end"
                    yield found, line
                    continue
                if not line.endswith(b"\n"):
                    self.is_cut = bool(line.strip(_ZERO))
                    if is_over and self.is_cut:
                        raise ValueError("bytes after the end row")
                    return
                try:
                    name, self.crc = check_line(line[:-1], self.crc)
                except ValueError:
                    if is_over or not _was_being_written(line, file):
                        raise
                    self.is_cut = True
                    return
                if is_over:
                    raise ValueError(f"a row {name!r} after the end row")
                is_over = name == "end"
                yield name, line

    @contextmanager
    def errors_told(self) -> Iterator[None]:
        """A context in which errors name the file and the line.

        Raises:
            TraceError: the file cannot be read, or was altered.
        """
        try:
            yield
        except OSError as error:
            why = f"{self._path}: cannot be read: {error.strerror or error}: check its permissions"
        except OtherSchemaError as error:
            why = f"{self._path}: {error}"
        except DAMAGE as error:
            why = (
                f"{self._path}, line {self.number}: {reason(error)}: expected the rows as they "
                f"were written: copy the file again from where it was recorded, or record again"
            )
        else:
            return
        raise TraceError(one_line(why)) from None


def _was_being_written(line: bytes, file: BinaryIO) -> bool:
    """Whether a line may be the unfinished row of a killed rank; no byte of a row is zero."""
    return _ZERO in line and not any(rest.strip(_ZERO) for rest in file)
