"""Bytes of NCCL's sockets for one call, measured on an H100, and two clocks of the same calls."""

from __future__ import annotations

import gzip
import json
from functools import cache
from statistics import median
from typing import Any

from zerosim.lessons.facts.time import NS_A_MS, Time
from zerosim.lessons.facts.traffic import Traffic
from zerosim.lessons.recordings import COMMITTED
from zerosim.schema.events import Kind, Op
from zerosim.theory.messages import Request
from zerosim.theory.nccl import HEADER_BYTES, on_wire

FRAMING = COMMITTED / "host-clock" / "nccl-calls.jsonl.gz"


@cache
def measured_calls() -> tuple[dict[str, Any], ...]:
    """One row a call: operation, payload in bytes, ranks, forced protocol, bytes sent by each rank.

    From the kernel's counters of each rank's TCP connections (torch 2.11.0, NCCL 2.28.9), the
    smaller of two readings.
    """
    with gzip.open(FRAMING, "rt", encoding="utf-8") as file:
        return tuple(json.loads(line) for line in file)


class NcclFacts(Traffic, Time):
    """Facts of NCCL's sockets, and of its clock."""

    def nccl_payloads(self) -> list[int]:
        """Payloads in bytes of the all-reduces that were measured, from the smallest."""
        return [row["payload"] for row in _all_reduces("")]

    def nccl_sent(self, payload: int, protocol: str = "") -> int:
        """Bytes that one of two ranks sent for an all-reduce, counted by the kernel.

        Args:
            payload: bytes, one of the measured sizes.
            protocol: the protocol forced on NCCL; "" for its own choice.
        """
        (row,) = (row for row in _all_reduces(protocol) if row["payload"] == payload)
        found: int = row["sent"][0]
        return found

    def nccl_times(self, payload: int) -> float:
        """The same as a multiple of the payload, which is the traffic in a ring of two."""
        return self.nccl_sent(payload) / payload

    def nccl_protocol(self, payload: int) -> str:
        """The choice of protocol by NCCL's own model for an all-reduce of two ranks."""
        request = Request(
            op=Op.ALL_REDUCE, num_ranks=2, rank=0, num_elements=payload // 4, element_bytes=4
        )
        found = on_wire(request)
        assert found is not None
        return found.protocol.value

    def nccl_headers(self, run: str) -> int:
        """Messages of an iteration, each with its header; for a run with large calls only."""
        return self.framing(run) // HEADER_BYTES

    def header_bytes(self) -> int:
        """Bytes that NCCL's socket transport writes before each message."""
        return HEADER_BYTES

    def largest_call(self, run: str) -> int:
        """The payload in bytes of the largest collective."""
        return max(payload for _, payload in self.call_times(run))

    def took_to_call_ms(self, run: str, payload: int = 0) -> float:
        """Median duration of rank 0's calls of one payload in a trace; 0: the largest."""
        wanted = payload or self.largest_call(run)
        return median(
            took
            for (_, size), all_ in self.call_times(run).items()
            if size == wanted
            for took in all_
        )

    def call_times(self, run: str) -> dict[tuple[str, int], list[float]]:
        """Milliseconds of rank 0's collectives in the last iteration, by operation and payload."""
        found: dict[tuple[str, int], list[float]] = {}
        for event in self._run(run).trace.ranks[0].events:
            here = event.iteration == self._report(run).iteration
            is_call = here and event.kind is Kind.COLLECTIVE
            if is_call and event.end_ns is not None and event.start_ns is not None:
                key = (event.op.value if event.op else "", event.payload_bytes)
                took = (event.end_ns - event.start_ns) / NS_A_MS
                found.setdefault(key, []).append(took)
        return found

    def told_batch(self, run: str) -> int:
        """Sequences of a rank's micro-batch, as configured."""
        batch = self._run(run).trace.manifest.run["batch"]
        assert isinstance(batch, int), run
        return batch

    def gpu_of(self, run: str) -> str:
        """The GPU of a dry run's machine, such as "H100"."""
        return self._run(run).trace.manifest.machine.rpartition("-")[2].upper()

    def busy_share(self, run: str) -> float:
        """The fraction of the ranks' time in which units compute."""
        return self.compute_ms(run) / self.wall_ms(run)


def _all_reduces(protocol: str) -> list[dict[str, Any]]:
    """For two ranks, by payload; one row each."""
    found = {
        row["payload"]: row
        for row in measured_calls()
        if (row["op"], row["ranks"], row["algorithm"], row["protocol"])
        == ("all_reduce", 2, "", protocol)
    }
    return [found[payload] for payload in sorted(found)]
