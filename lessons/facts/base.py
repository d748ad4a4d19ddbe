"""What all facts rest on: each run's reports, each worked out once.

Imports the standard library, `lessons.recordings` and zerosim's readers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from zerosim.analysis import GraphReport, report
from zerosim.config import STAGE_NAMES
from zerosim.graph import build_graph
from zerosim.lessons.recordings import Recordings, is_profiled, name_in, title_of
from zerosim.replay import replay_document
from zerosim.verify import MemoryReport, Report, verify, verify_memory


class Base:
    """The reports of some recordings, and what a run is."""

    def __init__(self, recordings: Recordings) -> None:
        self._recordings = recordings
        # each is worked out once a run
        self._report: Callable[[str], Report] = lru_cache(None)(
            lambda run: verify(recordings.trace(run))
        )
        self._memory: Callable[[str], MemoryReport] = lru_cache(None)(
            lambda run: verify_memory(recordings.trace(run))
        )
        self._graph: Callable[[str], GraphReport] = lru_cache(None)(
            lambda run: report(build_graph(recordings.trace(run)))
        )
        self._document: Callable[[str], dict[str, Any]] = lru_cache(None)(
            lambda run: replay_document(recordings.trace(run), name=run)
        )

    def title(self, run: str) -> str:
        """Its stage by name, such as "ZeRO-2"; who trains, if that is not zerosim's engine."""
        if is_profiled(run):
            return name_in(run)
        if own := title_of(run):
            return own
        stage = self._report(run).stage
        assert stage is not None, run
        return STAGE_NAMES[stage]

    def num_ranks(self, run: str) -> int:
        """N."""
        return self._report(run).num_ranks

    def psi(self, run: str) -> int:
        """Number of parameters."""
        return self._report(run).num_parameters

    def element_bytes(self, run: str) -> int:
        """Bytes of a parameter as it is computed with."""
        return self._report(run).element_bytes
