"""The recorder of a file: detected from its contents, never from its name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from zerosim.base.errors import TraceError
from zerosim.record.importing.dumps import Dump, is_dump, read_dump
from zerosim.record.importing.enqueued import enqueued
from zerosim.record.importing.execution import Execution, read_execution
from zerosim.record.importing.files import find_files, read_contents
from zerosim.record.importing.inspector import MARK, InspectedLine, inspected, read_lines
from zerosim.record.importing.joining import joined
from zerosim.record.importing.kineto import KinetoProfile, read_profile
from zerosim.record.importing.nsight import SQLITE, read_nsight


def read_sources(paths: Sequence[Path]) -> list[KinetoProfile]:
    """The accounts of ranks in files, one per rank.

    Args:
        paths: files, folders of them, or archives.

    Raises:
        TraceError: a file is damaged, hostile, or of an unknown recorder.
    """
    profiles: list[KinetoProfile] = []
    executions: list[Execution] = []
    lines: list[InspectedLine] = []
    dumps: list[Dump] = []
    for file in find_files(paths):
        for name, content in read_contents(file):
            if is_dump(content):
                dumps.append(read_dump(name, content))
            elif content.startswith(SQLITE):
                profiles += read_nsight(name, content)
            elif _is_inspected(content):
                lines += read_lines(name, content)
            elif _is_execution(content):
                executions.append(read_execution(name, content))
            else:
                profiles.append(read_profile(name, content))
    if dumps:
        profiles += enqueued(dumps)
    if lines:
        profiles += inspected(lines)
    _require_fitting(profiles)
    found = joined(profiles, executions)
    _require_fitting(found)
    return found


def _is_inspected(content: bytes) -> bool:
    first = content.lstrip()[:4096].partition(b"\n")[0]
    return MARK in first and b'"header"' in first


def _is_execution(content: bytes) -> bool:
    """Whether it has nodes and no events; quotes within strings are escaped."""
    return b'"traceEvents"' not in content and b'"nodes"' in content


def _require_fitting(profiles: Iterable[KinetoProfile]) -> None:
    """Require one account per rank, all of one run.

    Raises:
        TraceError: two are of one rank or of different runs.
    """
    found: dict[int, KinetoProfile] = {}
    for profile in profiles:
        first = next(iter(found.values()), profile)
        if profile.num_ranks != first.num_ranks:
            raise TraceError(
                f"{profile.path}: of a run of {profile.num_ranks} ranks, and {first.path} of one "
                f"of {first.num_ranks}: give files of one run"
            )
        other = found.setdefault(profile.rank, profile)
        if other is not profile:
            raise TraceError(
                f"{profile.path}: this is rank {profile.rank}, and so is {other.path}: give one "
                "file of each rank, of the same steps"
            )
