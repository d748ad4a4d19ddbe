"""Imports profiles of other recorders as a run, with the trace on disk as the interface.

    files           the given files, within bounds
    sources         detection of the recorder; one account per rank
    kineto          a PyTorch profiler trace as spans related to communication
    execution       a PyTorch execution trace in the same form; joining: both of one rank
    dumps           Flight Recorder's dumps, read as plain values
    stacks          stack frames of a call, translated to annotations of a profile
    enqueued        dumps as accounts of ranks; flight: as calls for a diagnosis
    communicators   recorders of NCCL itself: inspector and nsight
    spans           nesting of spans on a thread
    values          typed access to values of a file
    natives         the backends' names of operations
    calls           the calls of a rank: group and size
    carriers        the times of their data movement
    phase_timeline  the position of the program: iterations and phases
    purposes        purpose and unit of each call
    rows            a rank as the rows of a trace
    run             all ranks as a folder

Information that a format lacks is not recorded: never zero, never guessed ([docs/import.md]).
"""

from zerosim.record.importing.run import Imported, import_run

__all__ = ["Imported", "import_run"]
