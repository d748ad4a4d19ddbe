"""The short rows of a trace file: the rows that a rank writes thousands of times a second.

From schema 3 on, events and changes of memory are written as records of 28 bytes between the lines
of text (`zerosim.schema.rows`), little-endian:

    kind u8, a small number u16, four fields u32, a time or a size u64, a mark u8 (never 0)

    BEGIN     micro-step  template, id, iteration + 1, sequence + 1          time of issue
    CLOSE     0           id, start - issue, 0, 0                            time of the end
    HAPPENED  micro-step  template, id, iteration + 1, parent + 1            time of issue
      MORE    0           start - issue, 0, 0, 0                             time of the end
    TRANSFER  hop + 1     id, parent, 2 peer (+ 1 for a receive), shard + 1  time of its start
      MORE    0           elements, low and high part of the bytes, 1        time of the end
    MEMORY    micro-step  event + 1, number, iteration + 1, see below        time
      MORE    0           number of a place, 0, 0, 0                         bytes
    SEAL      0           checksum, 0, 0, 0                                  0

Fields with "+ 1" are 0 for none. Times are in ns. The last field of a TRANSFER's second record is 0
if its end was never observed. The last field of MEMORY contains, starting from the low bits, the
phase (8 bits), the moment (8 bits) and the number of MORE records that follow it (16 bits). A place
is a role, a unit and a tier, defined by an earlier text row named `place`. A row whose values do
not fit, or that has further fields, is a line of text with the same name, as in schemas 1 and 2.

Records are part of the chain of checksums: that of a line covers the short rows before it, and a
SEAL contains the checksum so far after about 64 short rows without a line. So a killed rank leaves
few rows that no checksum confirms. A record that it left incomplete has no mark.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from zerosim.schema.events import Op, Phase
from zerosim.schema.memory import Moment

RECORD = struct.Struct("<BHIIIIQB")
SIZE = RECORD.size
BEGIN, CLOSE, HAPPENED, TRANSFER, MEMORY, MORE, SEAL = range(1, 8)
KINDS = bytes(range(BEGIN, SEAL))
"""The kinds of records between two checksums."""
SEALED_AFTER = 64
"""A SEAL follows after this many short rows, or a few more."""
MARK = 0x80

PHASES = tuple(Phase)
MOMENTS = tuple(Moment)
_PHASE_NUMBERS = {phase: number for number, phase in enumerate(PHASES)}
_MOMENT_NUMBERS = {moment: number << 8 for number, moment in enumerate(MOMENTS)}

_pack = RECORD.pack


def begin_row(
    template: int, number: int, iteration: int, micro_step: int, sequence: int | None, issue_ns: int
) -> bytes:
    """The beginning of an event.

    Raises:
        struct.error: a value does not fit.
    """
    after = 0 if sequence is None else sequence + 1
    return _pack(BEGIN, micro_step, template, number, iteration + 1, after, issue_ns, MARK)


def close_row(number: int, since_issue_ns: int, end_ns: int) -> bytes:
    """The end of an event without further fields.

    Args:
        since_issue_ns: the time from its issue to its start.

    Raises:
        struct.error: a value does not fit.
    """
    return _pack(CLOSE, 0, number, since_issue_ns, 0, 0, end_ns, MARK)


def happened_row(
    template: int, number: int, parent: int, at: tuple[int, int], since_ns: int, until_ns: int
) -> bytes:
    """A complete event, with the times of its issue, start and end.

    Args:
        at: iteration and micro-step.

    Raises:
        struct.error: a value does not fit.
    """
    iteration, micro_step = at
    row = _pack(
        *(HAPPENED, micro_step, template, number, iteration + 1, parent + 1, since_ns, MARK)
    )
    return row + _pack(MORE, 0, 0, 0, 0, 0, until_ns, MARK)


def transfer_row(
    ids: tuple[int, int],
    op: Op,
    peer: int,
    sizes: tuple[int, int],
    times_ns: tuple[int, int | None],
    carries: tuple[int | None, int | None],
) -> bytes:
    """A message of a collective.

    Args:
        ids: its own id, and that of the collective.
        sizes: elements and bytes.
        times_ns: start and end.
        carries: hop and shard.

    Raises:
        struct.error: a value does not fit.
    """
    (number, parent), (elements, num_bytes) = ids, sizes
    start_ns, end_ns = times_ns
    towards = 2 * peer + (op is Op.RECEIVE)
    hop, shard = [0 if one is None else one + 1 for one in carries]
    row = _pack(TRANSFER, hop, number, parent, towards, shard, start_ns, MARK)
    low, high = num_bytes & 0xFFFFFFFF, num_bytes >> 32
    has_ended = end_ns is not None
    return row + _pack(MORE, 0, elements, low, high, has_ended, end_ns or 0, MARK)


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
        row += _pack(MORE, 0, place, 0, 0, 0, num_bytes, MARK)
    return row


def seal_row(crc: int) -> bytes:
    """The checksum of everything before it."""
    return _pack(SEAL, 0, crc, 0, 0, 0, 0, MARK)
