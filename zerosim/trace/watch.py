"""Detects a hanging rank and records the stack of its program, once per standstill.

A separate thread checks periodically; it touches no tensor, and costs a rank that writes rows
nothing.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from zerosim.schema.events import Standstill
from zerosim.trace import threads
from zerosim.trace.gate import gate
from zerosim.trace.recorder import Recorder
from zerosim.trace.source import program_lines

_QUIET_S = 2.0
"""A rank that writes no row for this long is hanging, or in a long computation."""
_LOOK_S = 0.5
_MOST_LINES = 8


@contextmanager
def watching(recorder: Recorder) -> Iterator[None]:
    """Watch this process from a separate thread until the block exits."""
    over = threading.Event()
    thread = threading.Thread(
        target=_watch, args=(recorder, over), name="zerosim-watch", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=_LOOK_S)


def _watch(recorder: Recorder, over: threading.Event) -> None:
    written, since_ns, is_said = -1, 0, False
    while not over.wait(_LOOK_S):
        now_ns = recorder.now_ns()
        if recorder.num_bytes != written:
            written, since_ns, is_said = recorder.num_bytes, now_ns, False
        elif not is_said and now_ns - since_ns >= _QUIET_S * 1e9:
            # a paused rank waits for a person
            call = None if gate.is_closed else recorder.first_call()
            found = Standstill(since_ns=since_ns, time_ns=now_ns, stack=_stack(), call=call)
            recorder.stands_still(found)
            written, is_said = recorder.num_bytes, True


def _stack() -> tuple[str, ...]:
    frame = sys._current_frames().get(threads.computing())
    return () if frame is None else tuple(program_lines(frame))[:_MOST_LINES]
