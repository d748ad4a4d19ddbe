"""The effect of a copy between tiers on the contents of a rank."""

from __future__ import annotations

from collections.abc import Iterator

from zerosim.analysis.frames.holdings import IllegalFrame, Piece
from zerosim.analysis.frames.layout import Band
from zerosim.analysis.frames.ledger import Ledger
from zerosim.analysis.frames.step import Step
from zerosim.base.tiers import Tier
from zerosim.schema.events import Event, Purpose
from zerosim.schema.memory import Role

_STATES = (Purpose.FETCH_STATES, Purpose.STORE_STATES)
_PARAMETERS = (
    Purpose.FETCH_PARAMETERS,
    Purpose.RETURN_PARAMETERS,
    Purpose.STORE_PARAMETERS,
)


class Copying:
    """Copies in progress between the tiers of each rank."""

    def __init__(self, ledger: Ledger) -> None:
        """Apply copies to these holdings."""
        self._ledger = ledger
        self._leaving: dict[tuple[int, int], Piece] = {}

    def begin(self, step: Step) -> None:
        """A copy begins; its source is present, with the current value."""
        for rank, event in step.events.items():
            if event.origin is None or event.target is None:
                continue
            if event.purpose is Purpose.OFFLOAD_GRADIENTS:
                self._require_reduced(rank, event)
            for role in self._roles(event):
                shards = self._shards(rank, event)
                self._require(rank, event, role, shards)
                self._ledger.announce(rank, event.unit, Band(role, event.target), shards)

    def end(self, step: Step) -> None:
        """A copy ends; a tier that the data only passed through is emptied."""
        holdings = self._ledger.holdings
        for rank, event in step.events.items():
            if event.origin is None or event.target is None:
                continue
            for role in self._roles(event):
                shards = self._shards(rank, event)
                self._ledger.arrive(rank, event.unit, Band(role, event.target), shards)
                if event.target is not Tier.DEVICE:
                    holdings.away.put((rank, event.unit, role, event.target), shards)
                else:
                    for shard in shards:
                        holdings.gathered(rank, event.unit, shard)
                self._leave(rank, event, role)
            if event.purpose is Purpose.OFFLOAD_GRADIENTS:
                self._left(rank, event)

    def _roles(self, event: Event) -> tuple[Role, ...]:
        """The copied shards, for the displayed units."""
        if event.unit not in self._ledger.units:
            return ()
        if event.purpose in _STATES:
            return self._ledger.holdings.away.states_there()
        if event.purpose in _PARAMETERS:
            return (Role.PARAMETERS,)
        return (Role.GRADIENTS,) if event.purpose is Purpose.OFFLOAD_GRADIENTS else ()

    def _shards(self, rank: int, event: Event) -> tuple[int, ...]:
        layout = self._ledger.layout
        if event.purpose in (Purpose.FETCH_PARAMETERS, Purpose.STORE_PARAMETERS):
            return tuple(layout.kept(rank, event.unit))
        return (rank,)

    def _require(self, rank: int, event: Event, role: Role, shards: tuple[int, ...]) -> None:
        """The copied shards are present at the source."""
        holdings, unit, origin = self._ledger.holdings, event.unit, event.origin
        if role is Role.GRADIENTS or event.purpose is Purpose.RETURN_PARAMETERS or origin is None:
            return  # the reduction was checked already; updated shards were just written
        if origin is Tier.DEVICE:
            # parts sent by other ranks may have arrived earlier than observed
            coming = holdings.arriving
            here = [s for s in shards if (rank, unit, role, s, origin) not in coming]
            holdings.require_parameters(rank, unit, here, "stores")
            return
        if not holdings.away.has((rank, unit, role, origin), shards):
            is_old = holdings.away.is_old((rank, unit, role, origin), shards)
            state = "holds only a pre-update copy of" if is_old else "does not hold"
            raise IllegalFrame(
                f"rank {rank} is to {event.purpose} of {unit} from the {origin}, where it {state} "
                f"the {role}"
            )

    def _leave(self, rank: int, event: Event, role: Role) -> None:
        """The source keeps them, or was only passed through."""
        holdings, unit, origin = self._ledger.holdings, event.unit, event.origin
        if origin is None or role is Role.GRADIENTS:
            return
        if origin is Tier.DEVICE:
            holdings.free_parameters(rank, unit)
        elif not holdings.away.stays(role, origin):
            holdings.away.drop((rank, unit, role, origin))
        self._ledger.touch(rank, role, unit)

    # ------------------------------------------------------------------ gradients that leave

    def _require_reduced(self, rank: int, event: Event) -> None:
        """The next piece of a unit whose sum is on the device and has not left it."""
        for piece in self._reduced(rank, event.unit):
            self._leaving[rank, event.id] = piece
            return
        raise IllegalFrame(
            f"rank {rank} offloads the gradient of {event.unit}, whose sum over all ranks is "
            "not on its device"
        )

    def _reduced(self, rank: int, unit: str) -> Iterator[Piece]:
        holdings, layout = self._ledger.holdings, self._ledger.layout
        under_way = {piece for (who, _), piece in self._leaving.items() if who == rank}
        for piece in holdings.pieces(unit):
            if piece in under_way or piece in holdings.offloaded.get((rank, unit), set()):
                continue
            if rank in holdings.reduced.get((rank, piece), set()):
                yield piece
                continue
            whole = holdings.gradients.get((rank, piece), {}).get(rank, frozenset())
            if whole >= set(layout.shards):
                yield piece

    def _left(self, rank: int, event: Event) -> None:
        """A piece is on the host: from stage 2 on its place on the device is freed."""
        holdings = self._ledger.holdings
        piece = self._leaving.pop((rank, event.id), None)
        if piece is None:
            return
        holdings.offloaded.setdefault((rank, event.unit), set()).add(piece)
        holdings.reduced.get((rank, piece), set()).discard(rank)
        if self._ledger.layout.num_ranks == 1 and self._ledger.layout.config.stage >= 2:
            holdings.gradients.pop((rank, piece), None)
        self._ledger.touch(rank, Role.GRADIENTS, event.unit)
