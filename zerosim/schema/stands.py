"""What a held thread stands before: said by the rank, read by whoever holds it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from zerosim.schema.events import Kind, Op, Phase, Purpose

DEBUG_VARIABLE = "ZEROSIM_DEBUG"
"""The variable that names the socket of whoever holds the ranks."""
FORWARD = 'kind == "mark" and phase == "forward"'
"""The condition that holds as an iteration begins, or a micro-step of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """What a thread stands before.

    Attributes: as in `zerosim.schema.events.Event`, but for
        kind: a mark is the beginning of a phase.
        ranks: global ranks that take part in a collective; of anything else empty.
        hop: of a transfer: the round of its ring that comes next.
        place: how many like it this rank has met in this iteration before.
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
