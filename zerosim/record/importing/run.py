"""Writes profiles of some or all ranks as a folder that every reading command accepts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from zerosim.base.errors import EnvironmentFault, TraceError
from zerosim.base.version import VERSION
from zerosim.record.importing.rows import RankRows
from zerosim.record.importing.sources import read_sources
from zerosim.schema.events import SCHEMA_VERSION, Op
from zerosim.schema.manifest import Manifest, Source
from zerosim.schema.rows import MANIFEST_NAME, encode_manifest, rank_file_name


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import.

    Attributes:
        ranks: the ranks with a file, ascending.
        num_calls: collectives and messages of all ranks.
        notes: the information that the files lack, one sentence each.
        is_timed: whether the files have times; without them a run can be shown, but not replayed.
    """

    ranks: tuple[int, ...]
    num_ranks: int
    num_calls: int
    notes: tuple[str, ...]
    is_timed: bool


def import_run(paths: Sequence[Path], folder: Path) -> Imported:
    """Convert files of other recorders to a trace.

    Args:
        paths: one file per rank, folders of such files, or archives.
        folder: folder for the trace; created if missing.

    Raises:
        TraceError: a file is damaged, hostile, of a different run, or a second one of a rank.
        EnvironmentFault: the folder contains a trace, or cannot be written.
    """
    _require_free(folder)
    found = sorted(read_sources(paths), key=lambda one: one.rank)
    ranks = [RankRows(profile) for profile in found]
    first = ranks[0].profile
    if not any(rows.calls for rows in ranks):
        raise TraceError(
            f"{first.path}: no call between ranks was recorded: record a few whole steps; a "
            "profile with ProfilerActivity.CPU"
        )
    notes = tuple(_notes(ranks))
    manifest = Manifest(
        schema=SCHEMA_VERSION,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        program=f"imported from {first.path.name}" + (" and others" if len(ranks) > 1 else ""),
        num_ranks=first.num_ranks,
        backend=first.backend,
        device="cuda" if any(profile.is_on_gpu for profile in found) else "cpu",
        versions={"zerosim": VERSION},
        source=Source.IMPORTED,
        notes=notes,
        is_timed=all(profile.is_timed for profile in found),
    )
    nodes = _nodes(ranks)
    files = {
        rank_file_name(rows.profile.rank): rows.encoded(nodes[rows.profile.host]) for rows in ranks
    }
    _write(folder, files | {MANIFEST_NAME: encode_manifest(manifest)})
    own = tuple(profile.rank for profile in found)
    num_calls = sum(len(rows.calls) for rows in ranks)
    return Imported(own, first.num_ranks, num_calls, notes, manifest.is_timed)


def _nodes(ranks: Sequence[RankRows]) -> dict[str, int]:
    """The index of each host; all ranks are on one node if a rank's host is not recorded."""
    hosts = list(dict.fromkeys(rows.profile.host for rows in ranks))
    return {host: 0 if "" in hosts else place for place, host in enumerate(hosts)}


def _notes(ranks: Sequence[RankRows]) -> Iterator[str]:
    profiles = [rows.profile for rows in ranks]
    yield from dict.fromkeys(note for profile in profiles for note in profile.notes)
    if not all(profile.is_timed for profile in profiles):
        yield "calls have an order but no times"
    hidden = Counter(span.name for profile in profiles for span in profile.hidden)
    for name, count in hidden.items():
        yield (
            f"{name} ran {count:,} times: it moves bytes between ranks without recording their "
            "number or its group, so they are in no total"
        )
    calls = [call for rows in ranks for call in rows.calls if call.op is not Op.UNKNOWN]
    if unsized := sum(call.payload_bytes is None for call in calls):
        yield (
            f"the sizes of {unsized:,} of {len(calls):,} calls are not recorded: "
            f"{profiles[0].unsized}"
        )
    if apart := sum(not call.group for call in calls):
        yield (
            f"the group of {apart:,} of {len(calls):,} calls is not recorded: {profiles[0].apart}"
        )
    timed = [
        call
        for rows in ranks
        if rows.profile.is_timed
        for call in rows.calls
        if call.op is not Op.UNKNOWN
    ]
    if untimed := sum(call.carried is None for call in timed):
        yield f"the time of {untimed:,} of {len(calls):,} calls is not recorded"
    used = {id(call.carried) for call in calls}
    if lone := sum(id(one) not in used for profile in profiles for one in profile.kernels):
        belong = f"{lone:,} NCCL kernel{'s belong' if lone > 1 else ' belongs'}"
        yield f"{belong} to no recorded call: the call came before the window, or left no record"


def _require_free(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = next((one.name for one in folder.iterdir() if _is_of_trace(one.name)), None)
    except OSError as error:
        raise EnvironmentFault(
            f"cannot create the folder {folder}: {error.strerror}; give a writable one"
        ) from None
    if taken is not None:
        raise EnvironmentFault(f"{folder} already contains a trace ({taken}); give another --out")


def _is_of_trace(name: str) -> bool:
    return name == MANIFEST_NAME or (name.startswith("rank-") and ".jsonl" in name)


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """Write the files; the manifest is last, and a folder without one is not a trace."""
    for name, content in files.items():
        try:
            (folder / name).write_bytes(content)
        except OSError as error:
            raise EnvironmentFault(
                f"cannot write {folder / name}: {error.strerror}; give a writable folder"
            ) from None
