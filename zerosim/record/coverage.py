"""What of a run a trace covers, and what it leaves out on purpose.

Imports `zerosim.events` and the loaded `Trace`.
"""

from __future__ import annotations

from collections.abc import Iterator

from zerosim.errors import TraceError
from zerosim.events import WHOLE
from zerosim.manifest import Source
from zerosim.record.store import Trace
from zerosim.record.text import name_ranks


def left_out(trace: Trace) -> tuple[str, ...]:
    """What of a run was not recorded, a sentence each: what a light trace leaves out, what others
    than the run itself made.
    """
    light = trace.manifest.light
    if light is None:
        return (*_predicted(trace), *_not_imported(trace))
    which = "each iteration" if light.every == 1 else f"one iteration in {light.every}"
    kept = f"at least the last {light.keep:,} of these are kept"
    without = "memory, computations and waits were not recorded"
    found = [f"a light trace: {which} was recorded, and {kept}; {without}"]
    begins = next((rank.begins for rank in trace.ranks if rank.begins is not None), None)
    if begins == WHOLE:
        found.append("its beginning is gone: what is told of are the last collectives")
    elif begins is not None:
        found.append(f"its beginning is gone: what is told of begins with iteration {begins}")
    return tuple(found)


def _predicted(trace: Trace) -> Iterator[str]:
    """What of a run was never measured: its times, if it was not run at these."""
    match trace.manifest.source:
        case Source.SIMULATED:
            machine = f" for {trace.manifest.machine}" if trace.manifest.machine else ""
            yield f"a simulated run: all its times are predicted{machine}, nothing was sent"
        case Source.PREDICTED:
            yield "a predicted run: all its times are predicted, the rest is as recorded"


def _not_imported(trace: Trace) -> Iterator[str]:
    """What an imported run leaves out."""
    if trace.manifest.source is not Source.IMPORTED:
        return
    yield "an imported run: memory, waits and the wire are not recorded"
    if lacks := trace.lacks:
        own = name_ranks(rank.rank for rank in trace.ranks)
        yield f"of {name_ranks(lacks)} there was no file: what is told is of {own}"
    yield from trace.manifest.notes


def require_times(trace: Trace, what: str) -> None:
    """Let no order be taken for times.

    Args:
        what: needs them, in words.

    Raises:
        TraceError: an imported run has an order alone.
    """
    if not trace.manifest.is_timed:
        raise TraceError(
            f"{trace.folder}: its calls have an order and no times, which {what}: import the "
            "profiler's traces of the same steps as well; zerosim show and verify need none"
        )


def way_to_memory(trace: Trace) -> str:
    """How memory would be recorded."""
    if trace.manifest.source is Source.IMPORTED:
        return "other recorders leave it out, zerosim trace does not"
    return f"record it again without {'--no-memory' if trace.manifest.light is None else '--light'}"
