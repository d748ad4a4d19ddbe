"""The components of labels, and the interface of a recorder for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from zerosim.base.tiers import Tier
from zerosim.schema.events import Algorithm, Op, Phase, Purpose
from zerosim.schema.manifest import BucketLayout, UnitLayout


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a process in the training run."""

    iteration: int = -1
    micro_step: int = 0
    phase: Phase = Phase.OUTSIDE


class Labels(NamedTuple):
    """The labels of one thread's work at one moment.

    Created for every call: a tuple takes a third of the time of a frozen dataclass.

    Attributes:
        position: None on a thread that follows the process.
        functions: functions between `source` and the work, as in `Event`.
        issue_ns: time of issue, if the work was issued earlier on another thread.
        is_alone: a native collective has the sockets to itself from call to end.
    """

    position: Position | None = None
    unit: str = ""
    purpose: Purpose = Purpose.UNLABELLED
    tensors: tuple[str, ...] = ()
    source: str = ""
    functions: tuple[str, ...] = ()
    issue_ns: int | None = None
    is_alone: bool = False

    def placed(self, position: Position) -> Labels:
        """The same work at this position, unless it already has one."""
        return self if self.position is not None else Labels(position, *self[1:])

    def explained(self, purpose: Purpose, unit: str, tensors: tuple[str, ...]) -> Labels:
        """The same work with inferred labels."""
        return Labels(self.position, unit, purpose, tensors, *self[4:])


@dataclass(frozen=True, slots=True)
class CollectiveRequest:
    """The request of one of our own collectives.

    Attributes:
        group: the name of the process group.
        peers: global ranks that this rank exchanges messages with.
    """

    op: Op
    algorithm: Algorithm
    group: str
    peers: tuple[int, ...]
    dtype: str
    elements: int
    payload_bytes: int


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """A copy between two tiers of this rank.

    Attributes:
        payload_bytes: copied bytes, without padding and checksums of a file.
    """

    origin: Tier
    target: Tier
    dtype: str
    elements: int
    payload_bytes: int


@dataclass(frozen=True, slots=True)
class Description:
    """An engine's description of itself for the manifest.

    Attributes:
        config: the engine's configuration as plain values.
    """

    config: dict[str, object] = field(default_factory=dict)
    units: tuple[UnitLayout, ...] = ()
    buckets: tuple[BucketLayout, ...] = ()


class Sink(Protocol):
    """The interface of a recorder for labels."""

    def described(self, description: Description) -> None:
        """An engine declared itself."""
        ...

    def now_ns(self) -> int:
        """The time on the recorder's clock."""
        ...

    def entered(self, position: Position) -> None:
        """The process entered a phase."""
        ...

    def open_compute(self, labels: Labels, position: Position) -> int | None:
        """A computation begins here; returns the event's id, None if it is not recorded."""
        ...

    def close_compute(self, event: int, error: str) -> None:
        """It ended; `error` as for `close`."""
        ...

    def recomputed(self, event: int) -> None:
        """Within this computation, a backward, the activations of its unit were recomputed."""
        ...

    def open_collective(self, labels: Labels, request: CollectiveRequest) -> int | None:
        """A collective of our own begins; returns the same as `open_compute`."""
        ...

    def posts(self, hop: int, way: int) -> None:
        """This thread is about to post the messages of a round of its collective.

        Args:
            way: 1 if it only sends, -1 if it only receives, 0 if it does both.
        """
        ...

    def checks(self, event: int, buffer: Any, *, is_over: bool) -> None:
        """This tensor is the buffer of a collective of our own, which begins or has ended."""
        ...

    def setting(self, name: str, value: float) -> None:
        """An option of this rank, which should be equal on all."""
        ...

    def open_copy(self, labels: Labels, request: CopyRequest) -> int | None:
        """A copy between two tiers begins; returns the same as `open_compute`."""
        ...

    def close(self, event: int, error: str, counted_bytes: int | None = None) -> None:
        """A collective of our own, or a copy, ended.

        Args:
            error: "" if it succeeded.
            counted_bytes: for a copy from or to a disk, the kernel's count for this thread.
        """
        ...

    def comes_to_wait(self) -> int:
        """A thread is about to wait for a collective or a copy; returns the time."""
        ...

    def waited(self, labels: Labels, collective: int, since_ns: int) -> None:
        """A thread waited until now for a collective or a copy."""
        ...

    def begin_exclusive(self) -> None:
        """From now on this thread's native collectives have the sockets for themselves."""
        ...

    def end_exclusive(self, error: str) -> None:
        """The collectives seen since `begin_exclusive` have ended."""
        ...

    def finish_transfer(self, transfer: int) -> None:
        """The message ended."""
        ...

    def metric(self, iteration: int, name: str, value: float) -> None:
        """The program reports a number."""
        ...
