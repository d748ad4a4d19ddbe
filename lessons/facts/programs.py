"""What others than zerosim's engine do in a step: a row of `zerosim profiles`, and its law.

Runs of one setting train one model: where a program knows of a part of it only, the setting's run
of DDP says how many parameters there are, Psi. Bytes are the mean of all ranks unless one is given.
Imports the standard library, `facts.memory` and zerosim's L0 and verify.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from statistics import median

from zerosim.config import DType, Implementation
from zerosim.errors import ConfigError
from zerosim.events import Event, Kind, Op, Phase
from zerosim.lessons.facts.memory import Memory
from zerosim.lessons.recordings import Recordings, committed, name_in
from zerosim.strategies import Bundle
from zerosim.verify import SystemLaw
from zerosim.verify.profile import PASSES, Profile, profile

_BLOCK = re.compile(r"blocks\.\d+")


class Programs(Memory):
    """Facts of implementations."""

    def __init__(self, recordings: Recordings) -> None:
        super().__init__(recordings)
        self._profile: Callable[[str], Profile] = lru_cache(None)(
            lambda run: profile(recordings.trace(run), name_in(run), self.model_psi(run))
        )

    def model_psi(self, run: str) -> int:
        """Number of parameters of the model that all runs of a setting train."""
        found = self.psi(run)
        if found:
            return found
        whole = f"{run.partition('/')[0]}/{Implementation.DDP}"
        if whole in committed():  # tensor and pipeline parallel know of their own part only
            return self.psi(whole)
        return max(row.num_parameters for row in self._recordings.trace(run).ranks[0].strategies)

    def asked(self, run: str) -> float:
        """What a rank hands over in a step, in Psi; an all-reduce counts twice."""
        return float(self._profile(run).payloads)

    def ring(self, run: str) -> int:
        """What a rank of a ring would send for it."""
        return self._profile(run).ring_bytes

    def counted(self, run: str) -> int:
        """What the kernel sent for a rank.

        Raises:
            ConfigError: it was not measured.
        """
        found = self._profile(run).wire_bytes
        if found is None:
            raise ConfigError(f"{run}: what the kernel sent was not measured")
        return found

    def most_held(self, run: str) -> float:
        """The most that a rank held: of all ranks the median, as some see late what is freed."""
        return median(self.peak(run, rank) for rank in range(self.num_ranks(run)))

    def fullest_first(self, *runs: str) -> list[str]:
        """Runs by name: the one whose ranks held the most comes first."""
        return [name_in(run) for run in sorted(runs, key=self.most_held, reverse=True)]

    def collectives(self, run: str) -> dict[str, int]:
        """The first rank's calls by operation."""
        return {str(op): number for op, number in self._profile(run).num_collectives.items()}

    def in_model(self, num_bytes: float, run: str) -> float:
        """Bytes as a multiple of the model's parameters, which all of these keep in fp32."""
        return num_bytes / (self.model_psi(run) * DType.FP32.element_bytes)

    def has_law(self, run: str) -> bool:
        """Whether theory knows what a program should send."""
        return bool(self._report(run).systems)

    def law_name(self, run: str) -> str:
        """Whose law a run is held against: "ZeRO-3"."""
        return self._system(run).law_name

    def law_payloads(self, run: str) -> float:
        """The law itself, in its own unit."""
        return float(self._system(run).payloads)

    def why(self, run: str) -> list[tuple[str, float, str]]:
        """From the law to what is sent: each cause, its bytes, and its words."""
        return [(one.cause, float(one.bytes), one.words) for one in self._system(run).causes]

    def passed(self, run: str, rank: int = 0, phase: str = "", purpose: str = "") -> int:
        """Payload that a rank hands over, an all-reduce twice; of a phase, a purpose, or all."""
        return sum(
            PASSES.get(event.op, 1) * event.payload_bytes
            for event in self._moved(run, rank)
            if event.op is not None
            and phase in ("", event.phase)
            and purpose in ("", event.purpose)
        )

    def sent_to(self, run: str, rank: int, other: int) -> int:
        """The messages of a rank to another, of their own and not part of any collective."""
        return sum(
            event.payload_bytes
            for event in self._moved(run, rank)
            if event.op is Op.SEND and event.peers == (other,)
        )

    def num_calls(self, run: str, op: str, unit: str = "", phase: str = "", rank: int = 0) -> int:
        """How often a rank calls an operation, of one unit and phase or of all."""
        return len(self._calls(run, rank, op, unit, phase))

    def called_bytes(
        self, run: str, op: str, unit: str = "", phase: str = "", rank: int = 0
    ) -> int:
        """The payload of such calls."""
        return sum(event.payload_bytes for event in self._calls(run, rank, op, unit, phase))

    def blocks(self, run: str) -> list[str]:
        """The units that are alike, in forward order: a transformer's layers."""
        last = self._report(run).iteration
        units = [
            event.unit
            for event in sorted(self._recordings.trace(run).ranks[0].events, key=lambda one: one.id)
            if event.iteration == last and event.phase is Phase.FORWARD
        ]
        return list(dict.fromkeys(unit for unit in units if _BLOCK.fullmatch(unit)))

    def shape(self, run: str, module: str) -> list[int]:
        """What a divided module is given in one forward, whole: b, s, h."""
        found = self._bundle(run, module).options["input_shape"]
        assert isinstance(found, Sequence), module
        return [int(size) for size in found]

    def cut(self, run: str, module: str) -> str:
        """How tensor parallel divides a module: "column" or "row"."""
        return str(self._bundle(run, module).options["style"])

    def elements(self, run: str) -> list[int]:
        """The size of each parameter that a program tells of."""
        bundles = self._recordings.trace(run).ranks[0].strategies[-1].bundles
        return [one.elements for bundle in bundles for one in bundle.parameters]

    def persistent(self, run: str) -> int:
        """How many of them DeepSpeed keeps whole in stage 3."""
        bundles = self._recordings.trace(run).ranks[0].strategies[-1].bundles
        kept = [bundle.options["persistent"] for bundle in bundles]
        return sum(len(names) for names in kept if isinstance(names, Sequence))

    def kept_whole(self, run: str) -> float:
        """Which part of the model's parameters DeepSpeed keeps whole in stage 3."""
        kept = 0
        for bundle in self._recordings.trace(run).ranks[0].strategies[-1].bundles:
            names = bundle.options["persistent"]
            assert isinstance(names, Sequence), bundle.name
            kept += sum(one.elements for one in bundle.parameters if one.name in names)
        return kept / self.model_psi(run)

    def share_of(self, run: str, bundle: str) -> float:
        """Which part of the model's parameters communicates together under a name."""
        elements = sum(one.elements for one in self._bundle(run, bundle).parameters)
        return elements / self.model_psi(run)

    def _system(self, run: str) -> SystemLaw:
        if not self.has_law(run):
            raise ConfigError(f"{run}: no law of it is known")
        return self._report(run).systems[0]

    def _calls(self, run: str, rank: int, op: str, unit: str, phase: str) -> list[Event]:
        return [
            event
            for event in self._moved(run, rank)
            if event.op is Op(op)
            and phase in ("", event.phase)
            and (not unit or event.unit == unit or event.unit.startswith(f"{unit}."))
        ]

    def _moved(self, run: str, rank: int) -> list[Event]:
        last = self._report(run).iteration
        return [
            event
            for event in self._recordings.trace(run).ranks[rank].events
            if event.iteration == last and event.kind is Kind.COLLECTIVE
        ]

    def _bundle(self, run: str, name: str) -> Bundle:
        for row in reversed(self._recordings.trace(run).ranks[0].strategies):
            for bundle in row.bundles:
                if bundle.name == name:
                    return bundle
        raise ConfigError(f"{run} says nothing of {name}")
