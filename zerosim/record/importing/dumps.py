"""Flight Recorder dumps as files: the calls that each rank enqueued, read as plain values.

A dump is a pickle or JSON. A pickle can execute arbitrary code, so only the opcodes of plain values
are read here: a file that names a function or a class is rejected before any lookup. JSON has no
lines of code. Gloo writes no groups, no state and no messages. Sources:
torch/csrc/distributed/c10d/FlightRecorder.hpp, FlightRecorderDetail.hpp (2.3 to 2.13).
"""

from __future__ import annotations

import io
import json
import pickle
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NoReturn

from zerosim.base.errors import TraceError
from zerosim.record.bounds import MOST_RANKS
from zerosim.record.importing.files import read_bytes
from zerosim.record.importing.natives import OPERATIONS
from zerosim.record.importing.values import listed
from zerosim.record.text import as_text, one_line
from zerosim.schema.events import Op

RANK = re.compile(r"(\d+)(?:\.json|\.pkl|\.pickle)?$")
"""The suffix of a dump's name."""
PICKLE = b"\x80"
_MOST_BYTES = 2**29
_MOST_ENTRIES = 2_000_000
_LONGEST = 4096
_FIRST = 16
"""Number of innermost frames between a call and its recording."""
_DEFAULT = "default_pg"
_FRAMEWORK = re.compile(r"/(?:torch|deepspeed|zerosim/trace)/|^<|/contextlib\.py$")
_ON_GLOO = {"reduce_scatter_single", "reduce_scatter_tensor", "reduce_scatter"}
"""Functions of PyTorch that Gloo records as the all-reduce that implements them."""


class _Plain(pickle.Unpickler):
    """Reads a pickle of plain values; nothing that it names is looked up, nothing is called."""

    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module_name}.{global_name}")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError(f"it refers to {pid!r}")


@dataclass(frozen=True, slots=True)
class StackFrame:
    """A line of code in the stack of a call."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedCall:
    """One enqueued call; fields that the dump lacks are None or "".

    Attributes:
        name: the recorder's name, such as `nccl:all_reduce`.
        op: the operation; UNKNOWN if the name is unknown.
        is_message: True for a point-to-point message.
        peer: for a message, the index of the other rank in the group.
        given, gotten: the elements of each input and output tensor.
        dtype: their dtype, as named by the recorder.
        thread: name of the calling thread; "" before PyTorch 2.6.
        frames: stack frames, innermost first.
    """

    number: int
    name: str
    op: Op
    group: str
    is_default: bool
    is_message: bool
    sequence: int | None
    peer: int | None
    given: tuple[int, ...] | None
    gotten: tuple[int, ...] | None
    dtype: str
    created_ns: int
    started_ns: int | None
    completed_ns: int | None
    state: str
    is_retired: bool
    thread: str
    frames: tuple[StackFrame, ...]

    @property
    def source(self) -> str:
        """The innermost line outside of frameworks; "" if there is none."""
        for frame in self.frames:
            if frame.file and frame.line and not _FRAMEWORK.search(frame.file):
                short = "/".join(frame.file.rsplit("/", 2)[-2:])
                return f"{short}:{frame.line} in {frame.function}"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """One rank's dump.

    Attributes:
        groups: the ranks of each process group, by name, if recorded.
    """

    path: Path
    rank: int
    version: str
    backend: str
    groups: dict[str, tuple[int, ...]]
    entries: tuple[DumpedCall, ...]


def is_dump(content: bytes) -> bool:
    """Whether a file is a dump: a pickle, or JSON with the recorder's entries."""
    if content.startswith(PICKLE):
        return True
    return b'"entries"' in content and b'"pg_config"' in content and b'"traceEvents"' not in content


def find_dumps(paths: Sequence[Path]) -> list[Path]:
    """The given dumps, and those in given folders."""
    found: list[Path] = []
    for path in paths:
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        found += [one for one in inside if one.is_file() and RANK.search(one.name)]
    return found


def read_files(paths: Sequence[Path]) -> list[Dump]:
    """Read dumps, one for each rank, in the order of ranks.

    Raises:
        TraceError: a file is not a dump, is hostile or damaged, or its rank has one already.
    """
    files = find_dumps(paths)
    if not files:
        named = ", ".join(map(str, paths))
        raise TraceError(
            f"{named}: no Flight Recorder dump in it: expected one per rank, its name ending in "
            "the rank's number"
        )
    ranks: dict[int, Dump] = {}
    for file in files:
        if not file.is_file():
            raise _wrong(file, "it is not a file")
        if file.stat().st_size > _MOST_BYTES:
            raise _wrong(file, f"it has more than {_MOST_BYTES:,} B")
        dump = read_dump(file, read_bytes(file))
        if dump.rank in ranks:
            raise _wrong(file, f"rank {dump.rank} already has a dump, {ranks[dump.rank].path.name}")
        ranks[dump.rank] = dump
    return [ranks[rank] for rank in sorted(ranks)]


def read_dump(path: Path, content: bytes) -> Dump:
    """Read one rank's dump; the rank is the number that ends the file's name.

    Args:
        path: its name in messages.
        content: the contents of the file.

    Raises:
        TraceError: the file is not a dump, is hostile or damaged, or its name has no rank.
    """
    match = RANK.search(path.name)
    rank = int(match[1][:9]) if match is not None else MOST_RANKS
    if rank >= MOST_RANKS:
        raise _wrong(path, "its name does not end in the number of its rank")
    plain = _plain(path, content)
    names = (_text(one.get("profiling_name")) for one in plain["entries"] if isinstance(one, dict))
    backend = next((name.partition(":")[0] for name in names if ":" in name), "")
    entries = [one for one in plain["entries"] if isinstance(one, dict)]
    return Dump(
        path=path,
        rank=rank,
        version=_text(plain.get("version")),
        backend=backend,
        groups=_groups(plain.get("pg_config")),
        entries=tuple(_entry(one, number) for number, one in enumerate(entries)),
    )


def _wrong(path: Path, why: str) -> TraceError:
    return TraceError(one_line(f"{as_text(str(path))}: {why}: expected a Flight Recorder dump"))


def _plain(path: Path, content: bytes) -> dict[str, Any]:
    """The contents of a file, as plain values."""
    if len(content) > _MOST_BYTES:
        raise _wrong(path, f"it has more than {_MOST_BYTES:,} B")
    try:
        value = (
            json.loads(content)
            if content.lstrip()[:1] == b"{"
            else _Plain(io.BytesIO(content)).load()
        )
    except pickle.UnpicklingError as error:
        raise _wrong(path, f"reading stopped, because {error}") from None
    except (RecursionError, MemoryError, OverflowError):
        raise _wrong(path, "it is nested more deeply, or larger, than any dump") from None
    except Exception as error:  # noqa: BLE001 - damaged bytes make the reader raise anything
        raise _wrong(path, f"it cannot be read ({type(error).__name__})") from None
    if not isinstance(value, dict) or not isinstance(value.get("entries"), list):
        raise _wrong(path, "it has no list of entries")
    if len(value["entries"]) > _MOST_ENTRIES:
        raise _wrong(path, f"it has more than {_MOST_ENTRIES:,} entries")
    return value


def _groups(config: object) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for name, one in config.items() if isinstance(config, dict) else ():
        numbers = listed(one.get("ranks")) if isinstance(one, dict) else None
        members = tuple(dict.fromkeys(n for n in numbers or () if n < MOST_RANKS))
        if members:
            found[_text(name)] = members
    return found


def _text(value: object) -> str:
    return value[:_LONGEST] if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    """A 64-bit number, or a string of one."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        value = int(value)
    return value if isinstance(value, int) and 0 <= value < 2**63 else None


def _entry(values: dict[str, Any], place: int) -> DumpedCall:
    name = _text(values.get("profiling_name"))
    word, _, ends = (name.partition(":")[2] or name).partition(" ")
    found = values.get("frames")
    frames = tuple(
        StackFrame(
            _text(one.get("name")), _text(one.get("filename")), _number(one.get("line")) or 0
        )
        for one in (found if isinstance(found, list) else ())
        if isinstance(one, dict)
    )
    op = OPERATIONS.get(word, Op.UNKNOWN)
    if op is Op.ALL_REDUCE and any(one.function in _ON_GLOO for one in frames[:_FIRST]):
        op = Op.REDUCE_SCATTER
    group, description = _group(values)
    peer = re.fullmatch(r"\d{1,9}(?:->|<-)(\d{1,9})", ends)
    is_message = values.get("is_p2p") is True or op in (Op.SEND, Op.RECEIVE)
    sequence = "p2p_seq_id" if is_message else "collective_seq_id"
    return DumpedCall(
        number=_number(values.get("record_id")) or place,
        name=name,
        op=op,
        group=group,
        is_default=description == _DEFAULT,
        is_message=is_message,
        sequence=_number(values.get(sequence, values.get("seq_id"))),
        peer=None if peer is None else int(peer[1]),
        given=_elements(values.get("input_sizes")),
        gotten=_elements(values.get("output_sizes")),
        dtype=_dtype(values.get("input_dtypes"), values.get("output_dtypes")),
        created_ns=_number(values.get("time_created_ns")) or 0,
        started_ns=_number(values.get("time_discovered_started_ns")) or None,
        completed_ns=_number(values.get("time_discovered_completed_ns")) or None,
        state=_text(values.get("state")),
        is_retired=values.get("retired") is not False,
        thread=_text(values.get("thread_name")),
        frames=frames,
    )


def _group(values: dict[str, Any]) -> tuple[str, str]:
    """Name and description of a call's group; before PyTorch 2.4, a number."""
    given = values.get("process_group")
    both = [_text(one) for one in given] if isinstance(given, list | tuple) else []
    name = both[0] if both else ""
    return name or str(_number(values.get("pg_id")) or 0), both[1] if len(both) > 1 else ""


def _elements(sizes: object) -> tuple[int, ...] | None:
    """The elements of each tensor; None if a size is invalid."""
    if not isinstance(sizes, list):
        return None
    shapes = [listed(list(one)) if isinstance(one, list | tuple) else None for one in sizes]
    counts = [-1 if shape is None else prod(shape) for shape in shapes]
    return tuple(counts) if all(0 <= one < 2**62 for one in counts) else None


def _dtype(given: object, gotten: object) -> str:
    """The dtype of all tensors of a call; "" if they differ or it is missing."""
    said = next((some for some in (given, gotten) if isinstance(some, list) and some), [])
    found = {_text(one) for one in said}
    return found.pop() if len(found) == 1 else ""
