"""The messages of our own collectives, from posting to their end.

Messages are the most frequent events of a step, so each is kept as plain values until its end.
"""

from __future__ import annotations

import struct
import threading

from zerosim.schema.events import Op, Transfer
from zerosim.schema.shortrows import transfer_row
from zerosim.trace.labels import Hop
from zerosim.trace.operators import OperatorCall
from zerosim.trace.rowfile import Rows

_Posted = tuple[int, Op, int, tuple[int, int], int, tuple[int | None, int | None]]
"""Parent, operation, peer, elements and bytes, time of the start, hop and shard."""


class PostedMessages:
    """Messages that were posted and have not ended."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._posted: dict[int, _Posted] = {}
        self._lock = threading.Lock()

    def post(
        self, number: int, parent: int, call: OperatorCall, peer: int, hop: Hop | None, now_ns: int
    ) -> None:
        """A message was issued."""
        op, index, shard = call.op, None, None
        if hop is not None:
            index = hop.index
            shard = hop.sends if op is Op.SEND else hop.receives
            hop.transfers[op] = number
        sizes = (call.elements, call.payload_bytes)
        with self._lock:
            self._posted[number] = (parent, op, peer, sizes, now_ns, (index, shard))

    def finish(self, number: int, now_ns: int) -> None:
        """A message ended."""
        with self._lock:
            posted = self._posted.pop(number, None)
        if posted is not None:
            self._write(number, posted, now_ns)

    def flush(self) -> None:
        """Record messages that were never seen to end."""
        with self._lock:
            left, self._posted = self._posted, {}
        for number, posted in left.items():
            self._write(number, posted, None)

    def _write(self, number: int, posted: _Posted, end_ns: int | None) -> None:
        parent, op, peer, sizes, start_ns, carries = posted
        try:
            row = transfer_row((number, parent), op, peer, sizes, (start_ns, end_ns), carries)
        except struct.error:
            (elements, num_bytes), (hop, shard) = sizes, carries
            record = Transfer(
                id=number,
                parent=parent,
                op=op,
                peer=peer,
                elements=elements,
                payload_bytes=num_bytes,
                start_ns=start_ns,
                end_ns=end_ns,
                hop=hop,
                shard=shard,
            )
            self._rows.write("transfer", record)
        else:
            self._rows.append(row)
