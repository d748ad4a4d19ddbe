"""The basis of all facts: each recording as a run that was loaded once, and its description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zerosim.base.config import STAGE_NAMES, Implementation
from zerosim.base.language import Words, term
from zerosim.lessons.recordings import (
    HERE,
    LessonRecordings,
    committed,
    is_profiled,
    name_in,
    title_of,
)
from zerosim.verify import MemoryReport, Report

_WORDS = Words(HERE / "words.toml")


class Base:
    """The description of a run, and its reports."""

    def __init__(self, recordings: LessonRecordings) -> None:
        self._run = recordings.run

    def _report(self, run: str) -> Report:
        return self._run(run).verify().report

    def _memory(self, run: str) -> MemoryReport:
        found = self._run(run).verify_memory().report
        assert isinstance(found, MemoryReport), run
        return found

    def _document(self, run: str) -> Mapping[str, Any]:
        return self._run(run).replay().document

    def title(self, run: str) -> str:
        """Its stage by name, such as "ZeRO-2"; or the implementation, if not zerosim's engine."""
        if is_profiled(run):
            return name_in(run)
        if own := title_of(run):
            return own
        stage = self._report(run).stage
        assert stage is not None, run
        return term(STAGE_NAMES[stage])

    def ranks(self, run: str) -> list[tuple[str, str]]:
        """The options to click: each rank."""
        return [(str(rank), _WORDS("facts.rank", rank=rank)) for rank in self._run(run).ranks]

    def num_ranks(self, run: str) -> int:
        """N."""
        return self._report(run).num_ranks

    def num_nodes(self, run: str) -> int:
        """K."""
        return self._report(run).num_nodes

    def micro_steps(self, run: str) -> int:
        """g: forwards and backwards of one step."""
        return self._report(run).accumulate

    def psi(self, run: str) -> int:
        """Number of parameters."""
        return self._report(run).num_parameters

    def model_psi(self, run: str) -> int:
        """Number of parameters of the model common to all runs of a setting.

        If a program only knows a part of it, the setting's DDP run has the number.
        """
        found = self.psi(run)
        if found:
            return found
        whole = f"{run.partition('/')[0]}/{Implementation.DDP}"
        if whole in committed():  # tensor and pipeline parallel know of their own part only
            return self.psi(whole)
        return max(row.num_parameters for row in self._run(run).strategies)

    def units(self, run: str) -> list[str]:
        """All units by name."""
        return list(self._run(run).units)

    def dtype(self, run: str) -> str:
        """The dtype in which a run computes, such as "bf16"."""
        return self._report(run).dtype

    def element_bytes(self, run: str) -> int:
        """Bytes of a parameter in the compute dtype."""
        return self._report(run).element_bytes

    def config(self, run: str, name: str) -> float:
        """A number of a run's configuration, such as "learning_rate"."""
        value = self._run(run).configuration[name]
        assert isinstance(value, int | float), name
        return float(value)
