"""The tiers of a rank's states, and its copies between them.

Tiers are "device", "host" and "disk", links "bus" and "storage"; for rank 0 by default.
"""

from __future__ import annotations

from itertools import combinations

from zerosim.analysis.addresses import address_table
from zerosim.base.config import DType
from zerosim.base.tables import Table
from zerosim.base.tiers import Link, Tier
from zerosim.lessons.facts.base import Base
from zerosim.schema.events import Phase, Purpose
from zerosim.schema.memory import AddressMap, Role
from zerosim.theory import law
from zerosim.verify.configured import workload_of
from zerosim.verify.memory_report import AddressFigures
from zerosim.verify.report import LedgerRow

_HALF, _FULL = DType.BF16.element_bytes, DType.FP32.element_bytes
_EDGES = (
    ("parameters", "compute", _HALF),
    ("compute", "gradients", _HALF),
    ("gradients", "update", _HALF),
    ("moments", "update", 2 * _FULL),
    ("update", "moments", 2 * _FULL),
    ("master", "update", _FULL),
    ("update", "master", _FULL),
    ("master", "rounding", _FULL),
    ("rounding", "parameters", _HALF),
)
"""A mixed-precision step as a data flow: from, to, bytes per parameter (Ren et al., arXiv
2101.06840, section 3.2)."""
_MOVABLE = ("parameters", "gradients", "update", "moments", "master", "rounding")


class Tiers(Base):
    """Facts of tiers."""

    def copied(self, run: str, link: str, purpose: str = "", phase: str = "", rank: int = 0) -> int:
        """Bytes that a rank copies over a link in a step, as traced."""
        return sum(self._copied(run, link, purpose, phase, rank)["payload_bytes"])

    def num_copies(self, run: str, link: str, purpose: str = "", phase: str = "") -> int:
        """Number of copies of the first rank over a link."""
        return sum(self._copied(run, link, purpose, phase, 0)["copies"])

    def kernel_copied(self, run: str, link: str, rank: int = 0) -> int:
        """The same as the kernel counted it."""
        return self._copied(run, link, "", "", rank).total("kernel_bytes") or 0

    def beside_content(self, run: str, rank: int = 0) -> int:
        """Overhead of files besides their contents, over all reads and writes."""
        rows = self._report(run).copies
        return sum(row.sent[rank].framing or 0 for row in rows if row.link is Link.STORAGE)

    def unexplained_on_disk(self, run: str) -> int:
        """The unexplained part of the kernel's count, on the rank with the largest."""
        return self._report(run).unexplained_disk or 0

    def copy_law(self, run: str, link: str) -> float:
        """The law: bytes per parameter over a link in a step; a rank copies its 1/N."""
        step = workload_of(self._run(run).trace, self._report(run).iteration)
        assert step is not None, run
        return float(law(step, link=Link(link)).payloads * self.element_bytes(run))

    def of_each(self, num_bytes: float, run: str) -> float:
        """A rank's copies or states, in bytes per parameter of its part: times N/Psi."""
        return num_bytes * self.num_ranks(run) / self.psi(run)

    def copies(self, run: str) -> tuple[LedgerRow, ...]:
        """Each reason for copies, with its ledgers."""
        return self._report(run).copies

    def fetched(self, run: str, unit: str, rank: int = 0, target: str = Tier.DEVICE) -> int:
        """Copies of one unit's parameters to a rank's device in one forward."""
        table = self._run(run).copies(
            ("unit", "target"), rank=rank, phase="forward", purpose=Purpose.FETCH_PARAMETERS
        )
        return sum(
            row["payload_bytes"] for row in table if (row["unit"], row["target"]) == (unit, target)
        )

    def most_fetched(self, run: str, unit: str) -> int:
        """The same of the rank that brings the most: the others wait for it."""
        return max(self.fetched(run, unit, rank) for rank in range(self.num_ranks(run)))

    def cut_bytes(self, *on_host: str) -> int:
        """Theory: bytes per parameter between device and host if these are on the host."""
        host = set(on_host)
        return sum(size for a, b, size in _EDGES if (a in host) is not (b in host))

    def cheapest_cut(self) -> list[str]:
        """Theory: the contents of the host in the cheapest partition with the update there."""
        ways = [
            {"update", *some}
            for count in range(len(_MOVABLE))
            for some in combinations([each for each in _MOVABLE if each != "update"], count)
        ]
        least = min(self.cut_bytes(*way) for way in ways)
        most = max((way for way in ways if self.cut_bytes(*way) == least), key=len)
        return [each for each in _MOVABLE if each in most]

    def second_cheapest(self) -> int:
        """Theory: bytes per parameter in the cheapest partition that cuts an fp32 edge."""
        return min(
            self.cut_bytes(*some)
            for count in range(1, len(_MOVABLE) + 1)
            for some in combinations(_MOVABLE, count)
            if any(size >= _FULL and (a in some) is not (b in some) for a, b, size in _EDGES)
        )

    def kept_in(self, run: str, tier: str, role: str = "", rank: int = 0) -> int:
        """Model states of a rank in one tier at the start of the update, measured."""
        found = self._memory(run)
        rows = found.rows
        if tier != Tier.DEVICE:
            rows = tuple(row for one in found.tiers if one.tier == tier for row in one.rows)
        return sum(row.measured_bytes[rank] for row in rows if role in ("", row.role))

    def tier_law(self, run: str, tier: str) -> str:
        """The law of a tier's model states in words, such as "14Ψ/N"."""
        found = self._memory(run)
        if tier == Tier.DEVICE:
            return found.law
        return next((one.law for one in found.tiers if one.tier == tier), "0")

    def checkpoints(self, run: str, tier: str = "device", rank: int = 0) -> int:
        """The most of activation checkpoints that a rank has in a tier."""
        return self.peak_of(run, Role.CHECKPOINTS, tier, rank)

    def saved(self, run: str, rank: int = 0) -> tuple[int, int, int]:
        """Activations, and checkpoints on the device and on the host, when backward begins."""
        device, host = (self._run(run).timeline(rank, tier) for tier in (Tier.DEVICE, Tier.HOST))
        begins = next(
            each.number
            for each in device.samples
            if (event := device.event_of(each.number)) and event.phase is Phase.BACKWARD
        )
        roles = device.roles_at(begins)
        checkpoints = host.roles_at(begins)[Role.CHECKPOINTS]
        return roles[Role.ACTIVATIONS], roles[Role.CHECKPOINTS], checkpoints

    def peak_of(self, run: str, role: str, tier: str = "device", rank: int = 0) -> int:
        """The most that a rank ever has of one role in a tier."""
        line = self._run(run).timeline(rank, tier)
        return max(line.roles_at(sample.number)[Role(role)] for sample in line.samples)

    def largest_unit(self, run: str) -> int:
        """Bytes of the parameters of the largest unit."""
        units = self._run(run).trace.manifest.units
        return max(unit.padded_elements for unit in units) * self.element_bytes(run)

    def scattered(self, run: str, rank: int = 0) -> AddressMap:
        """The address map with the most fragmented free memory of `pieces`."""
        return address_table(self._run(run).trace.ranks[rank])[-1].scattered

    def limit(self, run: str) -> int:
        """The device's limit."""
        return self.pieces(run).limit_bytes

    def pieces(self, run: str, rank: int = 0) -> AddressFigures:
        """The fill level and fragmentation of a device with a limit in the last iteration."""
        found = [one for one in self._memory(run).addresses if one.rank == rank]
        return found[-1]

    def fragmentation(self, run: str, rank: int = 0) -> float:
        """The share of the free bytes that lies outside the largest free piece, at its worst."""
        return float(self.pieces(run, rank).fragmentation)

    def free(self, run: str, rank: int = 0) -> int:
        """Free bytes at that moment."""
        return self.pieces(run, rank).free_bytes

    def largest_free(self, run: str, rank: int = 0) -> int:
        """The largest piece of it."""
        return self.pieces(run, rank).largest_free_bytes

    def failure(self, run: str, rank: int = 0) -> str:
        """Why a rank could not go on; "" if it could."""
        found = self._run(run).trace.ranks[rank].failure
        return "" if found is None else found.message

    def first_clause(self, message: str) -> str:
        """The part of a message before its first semicolon."""
        return message.partition(";")[0]

    def losses(self, run: str) -> dict[int, float]:
        """The loss of each iteration, as rank 0 reported it."""
        metrics = self._run(run).trace.ranks[0].metrics
        return {one.iteration: one.value for one in metrics if one.name == "loss"}

    def loss(self, run: str, iteration: int) -> float:
        """The loss of one iteration."""
        return self.losses(run)[iteration]

    def first_iteration(self, run: str) -> int:
        """The first iteration of a run: not 0 if it resumes."""
        return min(self.losses(run))

    def _copied(self, run: str, link: str, purpose: str, phase: str, rank: int) -> Table:
        return self._run(run).copies(
            rank=rank, link=link, purpose=purpose or None, phase=phase or None
        )
