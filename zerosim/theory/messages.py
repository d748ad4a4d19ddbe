"""The request of a collective, and the bytes that one rank sends and receives.

The two records that all algorithms share.
"""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.base.errors import ConfigError
from zerosim.schema.events import Op

DEFAULT_CHUNK_BYTES = 4 << 20
"""Default of `EngineConfig.chunk_bytes`."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes that one rank exchanges with the others, as payload: without framing.

    Attributes:
        sent_bytes: payload that this rank sends to its peers.
        received_bytes: payload that its peers send to it.
        messages_sent: number of its messages; None if unknown for the backend.
        messages_received: the same for received messages.
    """

    sent_bytes: int = 0
    received_bytes: int = 0
    messages_sent: int | None = 0
    messages_received: int | None = 0

    def __add__(self, other: Cost) -> Cost:
        """The cost of doing one after the other; unknown numbers of messages stay unknown."""
        return Cost(
            self.sent_bytes + other.sent_bytes,
            self.received_bytes + other.received_bytes,
            _add(self.messages_sent, other.messages_sent),
            _add(self.messages_received, other.messages_received),
        )

    def __mul__(self, times: int) -> Cost:
        """The cost of `times` repetitions."""
        return Cost(
            self.sent_bytes * times,
            self.received_bytes * times,
            None if self.messages_sent is None else self.messages_sent * times,
            None if self.messages_received is None else self.messages_received * times,
        )


NOTHING = Cost()
"""The cost of a collective that moves nothing."""


def _add(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A collective as one rank calls it.

    Attributes:
        op: the operation.
        num_ranks: N, the size of the group.
        rank: this rank's index in the group, 0 to N - 1.
        num_elements: elements of the whole buffer, as counted by `Event.payload_bytes`: the output
            of an all-gather or a gather, the input of a reduce-scatter, a scatter or an all-to-all,
            the tensor of the others, the message of a send or receive.
        element_bytes: bytes of one element.
        root: index of the root in the group, for broadcast, reduce, gather, scatter.
        parts, received_parts: as in `Event`: elements of unequal parts; empty if they are equal.
        chunk_bytes: zerosim's ring splits a row into messages of at most this size.

    Raises:
        ConfigError: a number is out of its range.
    """

    op: Op
    num_ranks: int
    rank: int
    num_elements: int
    element_bytes: int
    root: int = 0
    chunk_bytes: int = DEFAULT_CHUNK_BYTES
    parts: tuple[int, ...] = ()
    received_parts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.num_ranks < 1:
            raise ConfigError(f"{self.op} of {self.num_ranks} ranks: expected 1 or more")
        for what, position in (("rank", self.rank), ("root", self.root)):
            if not 0 <= position < self.num_ranks:
                raise ConfigError(
                    f"{what} {position} of {self.op}: expected 0 to {self.num_ranks - 1}"
                )
        for what, number, least in (
            ("number of elements", self.num_elements, 0),
            ("element bytes", self.element_bytes, 1),
            ("chunk bytes", self.chunk_bytes, 1),
        ):
            if number < least:
                raise ConfigError(f"{what} of {self.op} is {number}: expected {least} or more")
        self._check_parts()

    def _check_parts(self) -> None:
        if not self.parts and not self.received_parts:
            return
        if min((*self.parts, *self.received_parts)) < 0 or sum(self.parts) != self.num_elements:
            raise ConfigError(
                f"parts of {self.op} are {self.parts} and {self.received_parts}: expected no "
                f"negative ones, and the first to add up to {self.num_elements}"
            )
        for parts in (self.parts, self.received_parts):
            if self.op is Op.ALL_TO_ALL and len(parts) != self.num_ranks:
                raise ConfigError(
                    f"{self.op} of {len(parts)} parts: expected {self.num_ranks}, one for each rank"
                )

    @property
    def payload_bytes(self) -> int:
        """Size of the whole buffer."""
        return self.num_elements * self.element_bytes

    @property
    def block_bytes(self) -> int:
        """Size of one rank's part of the buffer, if all parts are equal.

        Raises:
            ConfigError: the elements are not divisible by the number of ranks.
        """
        if self.num_elements % self.num_ranks:
            raise ConfigError(
                f"{self.op} of {self.num_elements} elements over {self.num_ranks} ranks: "
                f"expected a multiple of {self.num_ranks}; pad the buffer"
            )
        return self.payload_bytes // self.num_ranks
