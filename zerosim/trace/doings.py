"""The threads of a paused process: their CPU time and stacks."""

from __future__ import annotations

import threading
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MOST_FRAMES = 24
_PYTHONS_OWN = {"threading.py", "contextlib.py", "torch"}
_OWN = str(Path(__file__).parent)
MACHINERY = (
    _OWN,
    *(str(Path(__file__).parents[1] / "train" / one) for one in ("engine", "collectives")),
)
"""Code that is not the program's own."""


@dataclass(frozen=True, slots=True)
class ThreadsComputed:
    """CPU time of this process's threads except the calling one, and whether all of them wait."""

    nanoseconds: int
    is_waiting: bool


def computed() -> ThreadsComputed:
    """Their CPU time so far, if the kernel reports it."""
    own, nanoseconds, is_waiting = threading.get_native_id(), 0, True
    for task in Path("/proc/self/task").iterdir():
        if int(task.name) == own:
            continue
        with suppress(OSError, IndexError, ValueError):  # it has just ended
            nanoseconds += int((task / "schedstat").read_text().split()[0])
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            is_waiting &= state not in "RD"
    return ThreadsComputed(nanoseconds, is_waiting)


def stack_of(frame: Any, without: tuple[str, ...] = (_OWN,)) -> list[str]:
    """The frames of a thread, innermost first, without those of the tracer.

    Args:
        without: further folders whose files are excluded.
    """
    summary = traceback.StackSummary.extract(traceback.walk_stack(frame), lookup_lines=False)
    found = []
    for one in summary:  # innermost first
        path = Path(one.filename)
        if not one.filename.startswith(without) and not _PYTHONS_OWN & {path.name, *path.parts}:
            found.append(f"{path.parent.name}/{path.name}:{one.lineno} in {one.name}")
    return found[:_MOST_FRAMES]
