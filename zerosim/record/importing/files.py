"""The given files and their contents, with limits, because their source is not trusted.

An archive is read as a stream and never unpacked to disk, so names in it can do no harm.
"""

from __future__ import annotations

import gzip
import re
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, cast

from zerosim.base.errors import TraceError

_ENDINGS = (".json", ".json.gz")
_ARCHIVES = (".tar", ".tar.gz", ".tgz")
_OTHERS = (".sqlite", ".log", ".jsonl", ".pickle", ".pkl")
"""Files of Nsight Systems, NCCL Inspector and Flight Recorder."""
_OF_RANK = re.compile(r"^[^.]*\d$")
"""Names of Flight Recorder's dumps: a configured prefix and the rank, without a suffix."""
_GZIP = b"\x1f\x8b"
_MOST_BYTES = 2**30
"""Limit of a file, unpacked: a longer one is not a window of a few steps."""
_MOST_TIMES = 200
"""A profiler's JSON expands 13 to 40 times when unpacked; a zip bomb, 1000 times."""
_LITTLE_BYTES = 2**26
"""Any file may unpack to this size."""
_MOST_FILES = 4096
_CHUNK = 1 << 20


def find_files(paths: Sequence[Path]) -> list[Path]:
    """The files to read: those given, and those in given folders.

    Raises:
        TraceError: a file is missing or not a regular file, a folder has none, or there are too
            many.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(one for one in path.iterdir() if _is_meant(one.name))
            if not inside:
                raise TraceError(f"{path}: no {' or '.join(_ENDINGS)} file in it: give the files")
            found += inside
        else:
            found.append(path)
    for file in found:
        if not file.is_file():  # opening a pipe would block forever
            what = (
                "expected a file, found something else"
                if file.exists()
                else "there is no such file"
            )
            raise TraceError(f"{file}: {what}: give PyTorch profiler traces, one file per rank")
    if len(found) > _MOST_FILES:
        raise TraceError(f"{len(found):,} files: expected {_MOST_FILES:,} at most, one per rank")
    return list(dict.fromkeys(found))


def _is_meant(name: str) -> bool:
    return name.endswith((*_ENDINGS, *_ARCHIVES, *_OTHERS)) or _OF_RANK.search(name) is not None


def read_contents(path: Path) -> Iterator[tuple[Path, bytes]]:
    """The unpacked contents of a file; for an archive, of each of its files, named as in a folder.

    Raises:
        TraceError: it cannot be read or unpacked, or is too long.
    """
    if not path.name.endswith(_ARCHIVES):
        yield path, read_bytes(path)
        return
    left = _most_bytes(path)
    num_files = 0
    try:
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                num_files += 1
                if num_files > _MOST_FILES:
                    raise TraceError(f"{path}: expected {_MOST_FILES:,} files in it at most")
                if not member.isfile():  # folders, and links, which may lead out of it
                    continue
                content = archive.extractfile(member)
                assert content is not None, "it is a file"
                inside = path / member.name.lstrip("/")
                found = _bounded(path, content, left)
                left -= len(found)
                yield inside, _unpacked(inside, found)
    except (tarfile.TarError, EOFError, zlib.error, ValueError) as error:
        raise _damaged(path, error) from None
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not num_files:
        raise TraceError(f"{path}: an archive without files: give one with a file for each rank")


def read_bytes(path: Path) -> bytes:
    """The contents of one file, unpacked if compressed.

    Raises:
        TraceError: it cannot be read or unpacked, or is too long.
    """
    try:
        with path.open("rb") as file:
            packed = file.read(2) == _GZIP
        with gzip.open(path, "rb") if packed else path.open("rb") as content:
            return _bounded(path, cast("IO[bytes]", content), _most_bytes(path))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged(path, error) from None
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from None


def _most_bytes(path: Path) -> int:
    return min(_MOST_BYTES, max(_LITTLE_BYTES, _MOST_TIMES * path.stat().st_size))


def _unpacked(path: Path, content: bytes) -> bytes:
    """The contents of a file of an archive, which may be compressed itself."""
    if not content.startswith(_GZIP):
        return content
    most = min(_MOST_BYTES, max(_LITTLE_BYTES, _MOST_TIMES * len(content)))
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    found = unpacker.decompress(content, most)
    if unpacker.unconsumed_tail:
        raise _too_long(path, most)
    return found


def _bounded(path: Path, content: IO[bytes], most: int) -> bytes:
    found = bytearray()
    while part := content.read(_CHUNK):
        found += part
        if len(found) > most:
            raise _too_long(path, most)
    return bytes(found)


def _too_long(path: Path, most: int) -> TraceError:
    return TraceError(f"{path}: more than {most:,} B unpacked: profile fewer steps")


def _damaged(path: Path, error: Exception) -> TraceError:
    return TraceError(f"{path}: damaged: it cannot be unpacked ({error}): copy it again")
