"""The next event of a paused thread: sent by the rank, read by the debugger."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from zerosim.schema.events import Kind, Op, Phase, Purpose

DEBUG_VARIABLE = "ZEROSIM_DEBUG"
"""The environment variable with the path of the debugger's socket."""
FORWARD = 'kind == "mark" and phase == "forward"'
"""The condition that is true when an iteration or one of its micro-steps begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """The next event of a paused thread.

    Attributes: as in `zerosim.schema.events.Event`, except for
        kind: a mark is the beginning of a phase.
        ranks: global ranks that take part in a collective; else empty.
        hop: for a transfer, the next hop of its ring.
        place: number of equal events that this rank has passed in this iteration.
    """

    kind: Kind
    iteration: int
    micro_step: int
    phase: Phase
    unit: str = ""
    purpose: Purpose | None = None
    op: Op | None = None
    group: str = ""
    ranks: tuple[int, ...] = ()
    peer: int | None = None
    sequence: int | None = None
    hop: int | None = None
    payload_bytes: int = 0
    source: str = ""
    place: int = 0

    def to_plain(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def read_stand(plain: dict[str, Any]) -> Stand:
    """The inverse of `Stand.to_plain`."""
    purpose, op = plain["purpose"], plain["op"]
    return Stand(
        **plain
        | {
            "kind": Kind(plain["kind"]),
            "phase": Phase(plain["phase"]),
            "purpose": None if purpose is None else Purpose(purpose),
            "op": None if op is None else Op(op),
            "ranks": tuple(plain["ranks"]),
        }
    )
