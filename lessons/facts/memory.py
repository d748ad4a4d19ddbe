"""Memory of a rank: model states by law and measured, peaks, and the memory at moments.

For rank 0 by default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from zerosim.base.config import DType, EngineConfig
from zerosim.base.errors import ConfigError
from zerosim.base.language import after_another, term
from zerosim.lessons.facts.base import Base
from zerosim.lessons.recordings import name_in
from zerosim.schema.events import Event, Kind, Phase
from zerosim.schema.memory import Role
from zerosim.theory import bytes_a_parameter, stage_states
from zerosim.view.reading.moments import Passed
from zerosim.view.replay.places import place

_BEFORE_END = (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)


class MemoryFacts(Base):
    """Facts of memory."""

    # laws, states and peaks

    def bytes_a_parameter(self, dtype: str = "bf16", role: str = "") -> int:
        """By theory, with Adam: of one role, or of all."""
        return sum(
            each.bytes
            for each in bytes_a_parameter(EngineConfig(dtype=DType(dtype)))
            if role in ("", each.role)
        )

    def states(self, stage: int, num_ranks: int, psi: float = 1, dtype: str = "bf16") -> float:
        """Model states of a rank by the paper's law."""
        return float(stage_states(stage, num_ranks, 1, DType(dtype)).law_bytes()) * psi

    def role_states(self, stage: int, num_ranks: int, role: str) -> float:
        """Bytes of one role in it, per parameter of the model."""
        laws = stage_states(stage, num_ranks, num_ranks).role_laws()  # N elements divide by N
        return sum(float(one.bytes) for one in laws if one.role == role) / num_ranks

    def states_law(self, stage: int) -> str:
        """The law in words, such as "4Ψ + 12Ψ/N"."""
        return stage_states(stage, 2, 2).law()

    def law_held(self, run: str) -> float:
        """Model states of a rank by the paper's law, for this stage and these ranks."""
        law = self._memory(run).law_bytes
        assert law is not None, run
        return float(law)

    def memory_law(self, run: str) -> str:
        """The paper's law of a run's model states in words, such as "4Ψ + 12Ψ/N"."""
        return self._memory(run).law

    def held(self, run: str, role: str = "", rank: int = 0) -> int:
        """Model states of a rank at the start of the update, measured."""
        return sum(
            row.measured_bytes[rank] for row in self._memory(run).rows if role in ("", row.role)
        )

    def peak(self, run: str, rank: int = 0, role: str = "") -> int:
        """The peak of a rank, or of one role on it.

        Raises:
            ConfigError: memory was not recorded.
        """
        table = self._run(run).memory(rank=rank)
        if table.notes:
            raise ConfigError(f"{run}: {table.notes[0]}")
        return sum(row["bytes"] for row in table if role in ("", row["role"]))

    def most_held(self, run: str) -> float:
        """The median of all ranks' peaks, as some observe frees late."""
        return median(self.peak(run, rank) for rank in range(self.num_ranks(run)))

    def fullest_first(self, *runs: str) -> list[str]:
        """Runs by name: the one with the largest peaks first."""
        return [name_in(run) for run in sorted(runs, key=self.most_held, reverse=True)]

    # moments: the start of a phase, or of a unit's computation

    def moments(self, run: str, *phases: str) -> list[tuple[str, str]]:
        """The options to mark: the start of each phase, and of each unit's computation in `phases`.

        Returns:
            Each moment's place and how it is called, in the program's order.
        """
        return [(each.at, each.label) for each in self._chosen(run, phases)]

    def label_of(self, run: str, at: str) -> str:
        """The name of a moment."""
        return dict(self.moments(run, *_BEFORE_END))[at]

    def held_at(self, run: str, at: str, role: str = "", unit: str = "", rank: int = 0) -> int:
        """Memory of a rank at the start of a moment: of all roles and units, or of one."""
        return self._at(run, at, rank).bytes(role, unit)

    def fullest(self, run: str, *phases: str, rank: int = 0) -> str:
        """The moment of a rank's peak."""
        return max(self._chosen(run, phases, rank), key=lambda each: each.bytes()).at

    def most(self, run: str, role: str = "", *phases: str, unit: str = "", rank: int = 0) -> int:
        """The most that a rank holds at any moment."""
        return max(each.bytes(role, unit) for each in self._chosen(run, phases, rank))

    def whole_gradients(self, run: str, at: str, rank: int = 0) -> int:
        """Gradients of whole units that a rank holds when a moment begins."""
        num_ranks, found = self.num_ranks(run), self._at(run, at, rank)
        total = 0
        for unit in self._run(run).trace.manifest.units:
            whole = unit.padded_elements * self.element_bytes(run)
            size = found.bytes(Role.GRADIENTS, unit.name)
            # more than a shard is present, and the shard may exist already beside it
            total += min(size, whole) if size > whole // num_ranks else 0
        return total

    def gone_by(self, run: str, role: str, unit: str) -> str:
        """The first moment at which the ranks have less for a unit than their maximum.

        Memory is sampled where that is cheap, so a rank may observe a free a moment late; memory
        freed on one rank is freed on all, as they run the same program.
        """
        places = [each.at for each in self._passed(run, 0)]
        found = [len(places) - 1]
        for rank in range(self.num_ranks(run)):
            sizes = [each.bytes(role, unit) for each in self._passed(run, rank)]
            whole = sizes.index(max(sizes))
            found += [at for at in range(whole, len(sizes)) if sizes[at] < sizes[whole]][:1]
        return places[min(found)]

    def by_birth(self, run: str, *roles: str, rank: int = 0) -> list[str]:
        """Roles in the order in which a rank first has bytes for them at a phase border."""
        borders = self._chosen(run, (), rank)

        def birth(role: str) -> int:
            return next(at for at, each in enumerate(borders) if each.bytes(role))

        return sorted(roles, key=birth)

    def units_at_once(self, run: str, rank: int = 0) -> int:
        """Maximum number of units gathered, or in flight, at the start of a computation."""
        return max(
            len({unit for role, unit in passed.held if role is Role.GATHERED})
            for passed in self._passed(run, rank)
        )

    def called_by(self, run: str, purpose: str, *phases: str, rank: int = 0) -> str:
        """The first moment by which a collective of a purpose has been called."""
        called = min(event.issue_ns for event in self._calls(run, purpose, rank))
        chosen = self._chosen(run, phases, rank)
        return next(each.at for each in chosen if each.time_ns > called)

    def calls_in_order(self, run: str, purpose: str, *units: str, rank: int = 0) -> list[str]:
        """The units of a rank's collectives for a purpose, in order; all, or some."""
        calls = self._calls(run, purpose, rank)
        return [event.unit for event in calls if not units or event.unit in units]

    def in_words(self, names: Sequence[str]) -> str:
        """Names in order, as a sentence has them."""
        return after_another([term(name) for name in names])

    def in_order(self, run: str, places: Mapping[str, str]) -> list[str]:
        """Keys in the order in which a run reaches their positions."""
        document = self._document(run)
        return sorted(places, key=lambda key: place(document, places[key]))

    def _passed(self, run: str, rank: int) -> Sequence[Passed]:
        return self._run(run).moments(rank)

    def _at(self, run: str, at: str, rank: int) -> Passed:
        return next(each for each in self._passed(run, rank) if each.at == at)

    def _chosen(self, run: str, phases: Sequence[str], rank: int = 0) -> list[Passed]:
        """The beginnings of phases, and in some of them those of computations."""
        return [each for each in self._passed(run, rank) if not each.unit or each.phase in phases]

    def _calls(self, run: str, purpose: str, rank: int) -> list[Event]:
        last = self._run(run).iterations[-1]
        return [
            event
            for event in self._run(run).trace.ranks[rank].events
            if event.iteration == last
            and event.kind is Kind.COLLECTIVE
            and event.purpose == purpose
        ]
