"""The parts of a run that a trace covers, and those that it omits on purpose."""

from __future__ import annotations

from collections.abc import Iterator

from zerosim.base.errors import TraceError
from zerosim.base.language import Words
from zerosim.record.store import Trace
from zerosim.record.text import name_ranks
from zerosim.schema.events import WHOLE, Kind
from zerosim.schema.manifest import Source

_SAID = Words.beside(__file__)


def left_out(trace: Trace) -> tuple[str, ...]:
    """The parts of a run that were not recorded, one sentence each: those that a light trace omits,
    and those of a run that is not a real one.
    """
    light = trace.manifest.light
    if light is None:
        return (*_predicted(trace), *_not_imported(trace))
    key = "light.each" if light.every == 1 else "light.some"
    found = [_SAID(key, every=light.every, keep=f"{light.keep:,}")]
    begins = next((rank.begins for rank in trace.ranks if rank.begins is not None), None)
    if begins == WHOLE:
        found.append(_SAID("light.calls"))
    elif begins is not None:
        found.append(_SAID("light.begins", iteration=begins))
    return tuple(found)


def _predicted(trace: Trace) -> Iterator[str]:
    """The quantities of a run that were never measured: its times, if they are predicted."""
    match trace.manifest.source:
        case Source.SIMULATED:
            machine = trace.manifest.machine
            key = "predicted.simulated_for" if machine else "predicted.simulated"
            yield _SAID(key, machine=machine)
        case Source.PREDICTED:
            yield _SAID("predicted.changed")


def _not_imported(trace: Trace) -> Iterator[str]:
    """The information that an imported run lacks."""
    if trace.manifest.source is not Source.IMPORTED:
        return
    waits = (wait for rank in trace.ranks for wait in rank.events.of_kind(Kind.WAIT))
    yield _SAID("imported.lacks" if next(waits, None) is None else "imported.lacks_but_waits")
    if lacks := trace.lacks:
        own = name_ranks(rank.rank for rank in trace.ranks)
        yield _SAID("imported.no_file", ranks=name_ranks(lacks), own=own)
    yield from trace.manifest.notes


def require_times(trace: Trace, what: str) -> None:
    """Refuse a trace in which times only give an order.

    Args:
        what: the rest of a clause about times: the analysis that needs them.

    Raises:
        TraceError: the run was imported, and only its order is known.
    """
    if not trace.manifest.is_timed:
        raise TraceError(
            f"{trace.folder}: its calls have an order, but no times, which {what}: import the "
            "profiler's traces of the same steps as well; zerosim show and verify need none"
        )


def way_to_memory(trace: Trace) -> str:
    """Advice on how to record memory."""
    if trace.manifest.source is Source.IMPORTED:
        return "other recorders omit it; record it with zerosim trace"
    return f"record it again without {'--no-memory' if trace.manifest.light is None else '--light'}"
