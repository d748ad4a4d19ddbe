"""One trace in a list: its manifest's description, and whether its files have changed."""

from __future__ import annotations

import hashlib
import mmap
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from zerosim.base.config import STAGE_NAMES
from zerosim.base.errors import TraceError
from zerosim.base.language import term
from zerosim.dashboards.texts import SITE
from zerosim.record.schema import decode_manifest, reason
from zerosim.record.text import one_line
from zerosim.schema.manifest import Manifest
from zerosim.schema.rows import MANIFEST_NAME, last_row, rank_file_name

_LONGEST_TITLE = 90
_TAIL_BYTES = 256
_MOST_ROOM = 1 << 17
"""More than the space that a file being written reserves for further rows."""
_END_ROW = b'{"row":"end"'
_FILES = re.compile(r"manifest\.json|rank-[0-9]+\.jsonl(\.before)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEntry:
    """A trace in a list.

    Attributes:
        name: its name in requests; unique in its library.
        folder: its folder, with links resolved.
        parts: parts of its title; "" represents the number of ranks.
        stage: None for a program without zerosim's engine.
        num_ranks: 0 if it cannot be shown.
        model: identifies the units that it trains; "" if it has none.
        complete: every rank closed its file properly.
        modified_ns: time of its newest file.
        signature: changes whenever a file has changed.
        problem: why it cannot be shown, in one line; "" if it can.
    """

    name: str
    folder: Path
    parts: tuple[str, ...]
    stage: int | None
    complete: bool
    num_ranks: int = 0
    model: str = ""
    modified_ns: int = 0
    signature: str = ""
    problem: str = ""

    @property
    def title(self) -> str:
        """Its description: "gpt-tiny · ZeRO-3 · 4 ranks · bf16"."""
        return _written(self.parts, self.num_ranks)

    @property
    def remark(self) -> str:
        """The suffix of an incomplete trace's title in a list."""
        return "" if self.complete else SITE("runs.still_running_or_cut_short")


def find_entry(folder: Path, name: str, root: Path, known: TraceEntry | None) -> TraceEntry:
    """The current state of a trace.

    Args:
        folder: the trace's, with links resolved.
        name: its name in requests.
        root: the served folder, with links resolved; files outside of it are not read.
        known: its previous state; not read again if its files are unchanged.
    """
    try:
        files = _files(folder, root)
    except OSError as error:
        return _broken(folder, name, f"cannot be read: {error.strerror or error}")
    except TraceError as error:
        return _broken(folder, name, str(error))
    signature = _signature(folder, files)
    if known is not None and (known.signature, known.name) == (signature, name):
        return known
    entry = _read(folder, name)
    newest = max(stat.st_mtime_ns for stat in files.values())
    return replace(entry, signature=signature, modified_ns=newest)


def _files(folder: Path, root: Path) -> dict[str, os.stat_result]:
    """The files of a trace and their state.

    Raises:
        TraceError: one is not a regular file, or a link out of the given folder.
    """
    found = {}
    with os.scandir(folder) as children:
        for child in children:
            if not _FILES.fullmatch(child.name):
                continue
            if not Path(child.path).resolve().is_relative_to(root):
                raise TraceError(f"{child.name} is a link out of the served folders")
            if not child.is_file():
                raise TraceError(f"{child.name} is not a file")
            found[child.name] = child.stat()
    if MANIFEST_NAME not in found:
        raise TraceError(f"{MANIFEST_NAME} is gone")
    return found


def _signature(folder: Path, files: dict[str, os.stat_result]) -> str:
    parts = [
        f"{name}:{stat.st_ino}:{_num_bytes(folder / name, stat)}:{stat.st_mtime_ns}"
        for name, stat in sorted(files.items())
    ]
    return _digest(parts)


def _num_bytes(file: Path, stat: os.stat_result) -> int:
    """Length of a file without the zeros reserved for further rows.

    A rank that writes rows there changes neither the file's size nor its time.
    """
    if stat.st_size % mmap.PAGESIZE:
        return stat.st_size
    try:
        tail = _tail(file, _MOST_ROOM)
    except OSError:
        return stat.st_size
    return stat.st_size - len(tail) + len(tail.rstrip(b"\0"))


def _tail(file: Path, num_bytes: int) -> bytes:
    with file.open("rb") as stream:
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - num_bytes))
        return stream.read()


def _digest(parts: list[str]) -> str:
    text = "\n".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:32] if parts else ""


def _read(folder: Path, name: str) -> TraceEntry:
    try:
        manifest = decode_manifest((folder / MANIFEST_NAME).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        return _broken(folder, name, f"{MANIFEST_NAME} cannot be read: {reason(error)}")
    stage = manifest.config.get("stage")
    return TraceEntry(
        name=name,
        folder=folder,
        parts=_parts_of(manifest),
        stage=stage if type(stage) is int and stage in STAGE_NAMES else None,
        complete=all(_is_closed(folder / rank_file_name(r)) for r in range(manifest.num_ranks)),
        num_ranks=manifest.num_ranks,
        model=_digest([f"{unit.name}:{unit.elements}" for unit in manifest.units]),
    )


def _broken(folder: Path, name: str, problem: str) -> TraceEntry:
    return TraceEntry(
        name=name,
        folder=folder,
        parts=(name,),
        stage=None,
        complete=False,
        problem=one_line(f"{name}: {problem}"),
    )


def _is_closed(file: Path) -> bool:
    """True if a rank wrote its last row; earlier rows are not validated here."""
    try:
        return last_row(_tail(file, _TAIL_BYTES)).startswith(_END_ROW)
    except OSError:
        return False


def title_of(manifest: Manifest) -> str:
    """The description of a trace, in a few words."""
    return _written(_parts_of(manifest), manifest.num_ranks)


def _written(parts: tuple[str, ...], num_ranks: int) -> str:
    key = "runs.of_one_rank" if num_ranks == 1 else "runs.of_ranks"
    ranks = SITE(key, ranks=num_ranks)
    return shorten(" · ".join(term(part) if part else ranks for part in parts))


def _parts_of(manifest: Manifest) -> tuple[str, ...]:
    stage = manifest.config.get("stage")
    if type(stage) is not int or stage not in STAGE_NAMES:
        program = " ".join(manifest.program.split())
        return (program, "") if program else ("",)
    model, dtype = manifest.run.get("model"), manifest.config.get("dtype")
    is_native = manifest.config.get("collectives") == "native"
    known = [one for one in (model,) if isinstance(one, str) and one]
    after = [one for one in (dtype, "native" if is_native else "") if isinstance(one, str) and one]
    return (*known, STAGE_NAMES[stage], "", *after)


def shorten(text: str) -> str:
    """A text on one line, shortened for a list."""
    line = one_line(text)
    return line if len(line) <= _LONGEST_TITLE else f"{line[: _LONGEST_TITLE - 2]} …"
