"""The short rows of a trace file: the rows that a rank writes thousands of times a second.

From schema 3 on, the begin and the close of an event and a change of memory are written as records
of 28 bytes between the lines of text (`zerosim.schema.rows`), little-endian:

    kind u8, micro-step u16, four fields u32, a time or a size u64, a mark u8 (never 0)

    BEGIN    template, id, iteration + 1, sequence + 1 (0 for none)      time of issue
    CLOSE    id, start - issue, 0, 0                                     time of the end
    MEMORY   event + 1 (0 for none), number, iteration + 1, see below    time
    CHANGE   number of a place, 0, 0, 0                                  bytes
    SEAL     checksum, 0, 0, 0                                           0

Times are in ns. The last field of MEMORY holds, from its low bits on, the phase (8 bits), the
moment (8 bits) and the number of CHANGE records that follow it (16 bits). A place is a role, a unit
and a tier, named by an earlier row `place` of text. A row whose values do not fit, or that has
further fields, is a line of text with the same name, as in schemas 1 and 2.

Records are part of the chain of checksums: that of a line covers the short rows before it, and a
SEAL contains the checksum so far after about 64 short rows without a line. So a killed rank leaves
few rows that no checksum confirms. A record that a killed rank left incomplete has no mark.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from zerosim.schema.events import Phase
from zerosim.schema.memory import Moment

RECORD = struct.Struct("<BHIIIIQB")
SIZE = RECORD.size
BEGIN, CLOSE, MEMORY, CHANGE, SEAL = range(1, 6)
KINDS = bytes((BEGIN, CLOSE, MEMORY, CHANGE))
"""The kinds of records between two checksums."""
SEALED_AFTER = 64
"""Short rows after which a SEAL follows, or a few more."""
MARK = 0x80

PHASES = tuple(Phase)
MOMENTS = tuple(Moment)
_PHASE_NUMBERS = {phase: number for number, phase in enumerate(PHASES)}
_MOMENT_NUMBERS = {moment: number << 8 for number, moment in enumerate(MOMENTS)}

_pack = RECORD.pack


def begin_row(
    template: int, number: int, iteration: int, micro_step: int, sequence: int | None, issue_ns: int
) -> bytes:
    """The begin of an event.

    Raises:
        struct.error: a value does not fit.
    """
    after = 0 if sequence is None else sequence + 1
    return _pack(BEGIN, micro_step, template, number, iteration + 1, after, issue_ns, MARK)


def close_row(number: int, since_issue_ns: int, end_ns: int) -> bytes:
    """The end of an event without further fields.

    Args:
        since_issue_ns: the time of its start, from its issue on.

    Raises:
        struct.error: a value does not fit.
    """
    return _pack(CLOSE, 0, number, since_issue_ns, 0, 0, end_ns, MARK)


def memory_row(
    number: int,
    event: int | None,
    moment: Moment,
    at: tuple[int, int, Phase],
    time_ns: int,
    changes: Sequence[tuple[int, int]],
) -> bytes:
    """A change of memory.

    Args:
        at: iteration, micro-step and phase.
        changes: numbers of places, with their bytes.

    Raises:
        struct.error: a value does not fit.
    """
    iteration, micro_step, phase = at
    what = len(changes) << 16 | _MOMENT_NUMBERS[moment] | _PHASE_NUMBERS[phase]
    after = 0 if event is None else event + 1
    row = _pack(MEMORY, micro_step, after, number, iteration + 1, what, time_ns, MARK)
    for place, num_bytes in changes:
        row += _pack(CHANGE, 0, place, 0, 0, 0, num_bytes, MARK)
    return row


def seal_row(crc: int) -> bytes:
    """The checksum of everything before it."""
    return _pack(SEAL, 0, crc, 0, 0, 0, 0, MARK)
