"""The rows of a rank's file, each checked, up to its end or truncation.

A file that was not closed ends in zeros, space reserved for further rows. The rows before them were
copied one by one, so a killed rank leaves at most one incomplete row, the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from zerosim.base.errors import TraceError
from zerosim.record.schema import DAMAGE, OtherSchemaError, reason
from zerosim.record.shortrows import SHORT, block_at, check_block, count_rows, without_torn
from zerosim.record.text import one_line
from zerosim.schema.rows import check_line, name_of_whole
from zerosim.schema.shortrows import KINDS, SEAL, SIZE, seal_row

_ZERO = b"\0"
_RECORDS = bytes([*KINDS, SEAL])
_CHECKSUM = slice(3, 7)
"""The position of the checksum in a seal."""
_READ_BYTES = 1 << 20


class Lines:
    """The rows of a file, in order.

    Attributes:
        number: number of the last row that was read, counted from 1.
        crc: checksum of the rows up to there.
        num_bytes: size of those rows.
        is_cut: whether the file ended within a row.
        is_over: whether its end row was read.
    """

    def __init__(self, path: Path, content: bytes | None = None) -> None:
        """Read nothing yet.

        Args:
            content: the file's contents, if already read.
        """
        self.number = self.crc = self.num_bytes = 0
        self.is_cut = self.is_over = False
        self._path, self._content = path, content

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """The name and the line of each row; for short rows `SHORT`, and a block of them.

        Raises:
            OSError: the file cannot be read.
            ValueError: a row was altered or moved.
        """
        content = self._content
        with self._path.open("rb") if content is None else BytesIO(content) as file:
            pieces = _pieces(file)
            unconfirmed: list[bytes] = []
            for first, piece in pieces:
                if first in KINDS:
                    unconfirmed.append(piece)
                    continue
                block = b"".join(unconfirmed)
                unconfirmed.clear()
                crc = crc32(block, self.crc) if block else self.crc
                if first == SEAL:
                    name, after = self._sealed(piece, crc), crc32(piece, crc)
                else:
                    name, after = name_of_whole(piece, crc)
                if name is None or self.is_over:
                    yield from self._ended(block, piece + b"".join(rest for _, rest in pieces), crc)
                    return
                if block:
                    yield from self._block(block)
                self.crc = after
                self.num_bytes += len(piece)
                if name is not SHORT:
                    self.number += 1
                    self.is_over = name == "end"
                    yield name, piece
            if unconfirmed:
                block = b"".join(unconfirmed)
                yield from self._ended(block, b"", crc32(block, self.crc))

    def _sealed(self, seal: bytes, crc: int) -> str | None:
        """Check a seal; None if a killed rank left it incomplete."""
        if seal == seal_row(crc):
            return SHORT
        if seal[-1]:
            self.number += 1
            found = int.from_bytes(seal[_CHECKSUM], "little")
            raise ValueError(f"checksum '{found:08x}' of short rows, expected '{crc:08x}'")
        return None

    def _block(self, block: bytes) -> Iterator[tuple[str, bytes]]:
        check_block(block)
        self.number += 1
        yield SHORT, block
        self.number += count_rows(block) - 1
        self.num_bytes += len(block)

    def _ended(self, block: bytes, rest: bytes, crc: int) -> Iterator[tuple[str, bytes]]:
        """The whole rows before an incomplete one.

        Args:
            block: short rows that no checksum confirms.
            rest: the rest of the file.
            crc: the checksum with that block.

        Raises:
            ValueError: the rest is more than an incomplete row and space for others.
        """
        line, newline, more = rest.partition(b"\n")
        self.is_cut = bool(rest.strip(_ZERO))
        # an incomplete row of text contains zeros, and only reserved space follows it
        was_being_written = _ZERO in line and line.isascii() and not more.strip(_ZERO)
        if newline and not was_being_written:
            self.number += count_rows(block) + 1
            name, _ = check_line(line, crc)
            raise ValueError(f"a row {name!r} after the end row")
        if self.is_over and (self.is_cut or block):
            self.number += 1
            raise ValueError("bytes after the end row")
        if self.is_cut and not newline and not _may_be_cut(rest):
            self.number += count_rows(block) + 1
            raise ValueError(f"no row begins with {rest[:4].hex(' ')}")
        whole = without_torn(block)
        self.is_cut |= whole != block
        if whole:
            yield from self._block(whole)
            self.crc = crc32(whole, self.crc)

    @contextmanager
    def errors_told(self) -> Iterator[None]:
        """A context in which errors name the file and the row.

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
                f"{self._path}, row {self.number}: {reason(error)}: expected the rows as they "
                f"were written: copy the file again from where it was recorded, or record again"
            )
        else:
            return
        raise TraceError(one_line(why)) from None


def _may_be_cut(rest: bytes) -> bool:
    """Whether bytes are the beginning of a row, or of a seal that a killed rank began to write."""
    is_record = rest[0] in _RECORDS and (len(rest) < SIZE or not rest[SIZE - 1])
    return is_record or rest.startswith(b"{")


def _pieces(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Lines, seals, and series of other short records, each with its first byte.

    The last piece, with 0, is the rest of the file, which is none of these.
    """
    content, at = b"", 0
    while True:
        first = content[at] if at < len(content) else 0
        if first in KINDS:
            piece = block_at(content, at)
        elif first == SEAL:
            piece = content[at : at + SIZE] if len(content) - at >= SIZE else b""
        else:
            piece = content[at : content.find(b"\n", at) + 1] if first else b""
        if piece:
            at += len(piece)
            yield first, piece
        elif more := file.read(max(_READ_BYTES, len(content) - at)):
            content, at = content[at:] + more, 0
        else:
            break
    if at < len(content):
        yield 0, content[at:]
