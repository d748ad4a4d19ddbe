"""The messages of our own collectives, from posting to their end.

Messages are the most frequent events of a step, so each is kept as plain values until its end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from zerosim.schema.events import Op, Transfer
from zerosim.trace.labels import Hop
from zerosim.trace.operators import OperatorCall


class PostedMessages:
    """Messages that were posted and have not ended."""

    def __init__(self, write: Callable[[str, object], None]) -> None:
        self._write = write
        self._posted: dict[int, Transfer] = {}
        self._lock = threading.Lock()

    def post(
        self, number: int, parent: int, call: OperatorCall, peer: int, hop: Hop | None, now_ns: int
    ) -> None:
        """A message was issued."""
        shard = None
        if hop is not None:
            shard = hop.sends if call.op is Op.SEND else hop.receives
            hop.transfers[call.op] = number
        transfer = Transfer(
            id=number,
            parent=parent,
            op=call.op,
            peer=peer,
            elements=call.elements,
            payload_bytes=call.payload_bytes,
            start_ns=now_ns,
            hop=None if hop is None else hop.index,
            shard=shard,
        )
        with self._lock:
            self._posted[number] = transfer

    def finish(self, number: int, now_ns: int) -> None:
        """A message ended."""
        with self._lock:
            transfer = self._posted.pop(number, None)
        if transfer is not None:
            # no other reference exists, and a copy of its fields would cost as much as the rest
            object.__setattr__(transfer, "end_ns", now_ns)
            self._write("transfer", transfer)

    def flush(self) -> None:
        """Record messages whose end was never seen."""
        with self._lock:
            left, self._posted = list(self._posted.values()), {}
        for transfer in left:
            self._write("transfer", transfer)
