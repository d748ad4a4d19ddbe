"""Standard output and standard error of commands.

A closed reader is not a failure: the exit code is still the verdict. A failed write to standard
output, as on a full disk, is one: it is reported once, and further output is dropped. If standard
error cannot be written, there is no place for a message.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any, TextIO

from zerosim.base.errors import EnvironmentFault


class _Written(io.RawIOBase):
    """An output stream that drops everything after the first failed write."""

    def __init__(self, descriptor: int | None, *, tells: bool) -> None:
        """Take over a descriptor.

        Args:
            descriptor: None for one that was closed before the command began.
            tells: whether a failed write is an error.
        """
        self._descriptor = descriptor
        self._tells = tells
        self._is_over = False

    def fileno(self) -> int:
        """The number of the descriptor.

        Raises:
            OSError: it was closed.
        """
        if self._descriptor is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._descriptor

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._descriptor is not None and os.isatty(self._descriptor)

    def writable(self) -> bool:
        """True: the stream is for writing."""
        return True

    def write(self, text: Any, /) -> int:
        """Write bytes; returns the number of bytes written.

        Raises:
            EnvironmentFault: it cannot be written, for the first time.
        """
        if self._is_over:
            return len(text)
        try:
            return os.write(self.fileno(), text)
        except OSError as error:
            self._is_over = True
            if self._tells and not isinstance(error, BrokenPipeError):
                raise EnvironmentFault(
                    f"standard output cannot be written: {error.strerror or error}: expected a "
                    "terminal, a pipe, or a file on a disk with free space"
                ) from None
        return len(text)


def own_streams(errors: str) -> None:
    """Set up standard output and standard error for a command.

    Args:
        errors: name of the handler for characters that the encoding lacks.
    """
    sys.stdout = _own(sys.stdout, errors, tells=True)
    sys.stderr = _own(sys.stderr, errors, tells=False)


def _own(stream: TextIO | None, errors: str, *, tells: bool) -> TextIO:
    if stream is None:
        written = _Written(None, tells=tells)
        return io.TextIOWrapper(io.BufferedWriter(written), "utf-8", errors)
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    if not isinstance(getattr(stream.buffer, "raw", stream.buffer), io.FileIO):
        stream.reconfigure(errors=errors)
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Written(stream.fileno(), tells=tells)),
        stream.encoding,
        errors,
        # an unbuffered stream (python -u) gets no buffer that delays lines
        line_buffering=stream.line_buffering or stream.write_through,
        write_through=stream.write_through,
    )
