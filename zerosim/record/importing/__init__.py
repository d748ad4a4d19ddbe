"""What others recorded becomes a run: the trace on disk is the seam.

    files           what was given, within bounds
    sources         who wrote it, and what it says of each rank
    kineto          a PyTorch profiler trace as the spans that tell of communication
    execution       a PyTorch execution trace in the same words, and joining: both of one rank
    dumps           Flight Recorder's dumps, read as plain values
    stacks          what the lines of code of a call say, in the words of a profile's annotations
    enqueued        dumps as accounts of ranks; flight as calls that a diagnosis compares
    communicators   what recorders of NCCL itself tell: inspector and nsight
    spans           what lies in what, on a thread
    values          what stands in it, read as what it should be
    natives         what backends call their operations
    calls           the calls of a rank: group and size
    carriers        when their bytes moved
    phase_timeline  where the program was: iterations and phases
    purposes        why a call was made, and for which unit
    rows            a rank as the rows of a trace
    run             all ranks as a folder

What a format does not say is not recorded: never zero, never guessed ([docs/import.md]).
"""

from zerosim.record.importing.run import Imported, import_run

__all__ = ["Imported", "import_run"]
