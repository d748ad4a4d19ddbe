"""A run: its trace, and every table, figure and verdict derived from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from sys import maxsize
from typing import Any, Unpack, overload

from zerosim.analysis import GraphReport, report
from zerosim.analysis.graph import EventGraph, build_graph
from zerosim.analysis.memory import Timeline, timeline
from zerosim.analysis.traffic import TracedCall, traced_calls
from zerosim.base.errors import ConfigError, EnvironmentFault, TraceError
from zerosim.base.language import in_each_language
from zerosim.base.tables import Evidence, Table
from zerosim.base.tiers import Tier
from zerosim.predict.placement.changes import Changes
from zerosim.record import RankTrace, Trace, iterations, require_times
from zerosim.record import load as load_trace
from zerosim.schema.events import WHOLE, Group, Phase
from zerosim.schema.manifest import Source
from zerosim.schema.strategies import Strategy
from zerosim.verify import verify, verify_memory
from zerosim.view.reading import events, law, memory_samples, summary, time, traffic_tables
from zerosim.view.reading.comparison import Comparison
from zerosim.view.reading.moments import Passed, moments_of
from zerosim.view.reading.player import Replay
from zerosim.view.reading.prediction import Prediction, predict
from zerosim.view.reading.quantity import parse_quantity, parse_tolerance
from zerosim.view.reading.selection import Only, Selection, select, units_of
from zerosim.view.reading.verification import LawCheck, MemoryVerification, TrafficVerification
from zerosim.view.replay import replay_document


class Run:
    """One training run, as recorded by its ranks.

    Numbers come as tables. By default they cover the last iteration that all ranks finished, all
    ranks together, and the phases forward, backward and update.
    """

    def __init__(self, trace: Trace) -> None:
        """Wrap a loaded trace; derived results are computed once and cached."""
        self.trace = trace
        self.plot = Plots(self)
        self._verified: Callable[[int | None], TrafficVerification] = in_each_language(
            lambda iteration: TrafficVerification(verify(trace, iteration))
        )
        self._memory_verified: Callable[[int | None], MemoryVerification] = in_each_language(
            lambda iteration: MemoryVerification(verify_memory(trace, iteration))
        )
        self._reported: Callable[[int | None, int | None, int], GraphReport] = in_each_language(
            lambda iteration, rank, top: report(self.graph, iteration, rank=rank, top=top)
        )
        self._replayed: Callable[[int | None], dict[str, Any]] = in_each_language(
            lambda iteration: replay_document(trace, iteration)
        )
        self._lines: Callable[[int, Tier], Timeline] = lru_cache(None)(
            lambda rank, tier: timeline(self._of_rank(rank), tier)
        )
        self._passed: Callable[[int], Sequence[Passed]] = lru_cache(None)(self._moments)

    # properties

    @property
    def folder(self) -> Path:
        """The folder of the trace."""
        return self.trace.folder

    @property
    def source(self) -> Source:
        """The origin of the run: executed, traced, imported, simulated or predicted."""
        manifest = self.trace.manifest
        return manifest.source or (Source.EXECUTED if manifest.config else Source.TRACED)

    @property
    def complete(self) -> bool:
        """True if the trace of every rank is present and was closed properly."""
        return self.trace.complete

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that have a trace."""
        return tuple(rank.rank for rank in self.trace.ranks)

    @property
    def groups(self) -> dict[str, Group]:
        """The process groups by name."""
        return {name: group for rank in self.trace.ranks for name, group in rank.groups.items()}

    @property
    def iterations(self) -> tuple[int, ...]:
        """The iterations that every rank finished."""
        return iterations(self.trace)

    @property
    def units(self) -> tuple[str, ...]:
        """The units, by name, in the order of the model."""
        return units_of(self.trace)

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """How the program partitions its training, as recorded by its first rank."""
        return self.trace.ranks[0].strategies

    @property
    def configuration(self) -> Mapping[str, object]:
        """Options of the engine and of the run, as plain values; empty if not recorded."""
        manifest = self.trace.manifest
        return {**manifest.run, **manifest.config, "ranks": manifest.num_ranks}

    @property
    def losses(self) -> tuple[float, ...]:
        """The loss of each step on the first rank; empty if not recorded."""
        metrics = self.trace.ranks[0].metrics
        return tuple(metric.value for metric in metrics if metric.name == "loss")

    # numbers

    def traffic(self, by: object = (), *, link: object = None, **only: Unpack[Only]) -> Table:
        """The collectives and messages of the ranks, with the bytes sent and received.

        `payload_bytes` counts whole buffers; `volume_bytes` counts an all-reduce twice, as the
        papers do; `sent_bytes` counts the bytes that PyTorch was asked to send: the intercepted
        messages of a ring; for a native call, the bound of a ring algorithm.

        Args:
            by: the columns to group by: "rank", "iteration", "micro_step", "phase", "purpose",
                "op", "unit", "group", "algorithm", "link", or several; one row by default.
            link: only traffic over this link class; one, or several.
            only: rank, iteration, phase, purpose, op, unit: only these; one, or several.

        Raises:
            ConfigError: the run knows no such value.
        """
        chosen = self._select(by, **only)
        title = f"Traffic of {self._words(chosen)}"
        return traffic_tables.traffic(self.calls, chosen, by, link, title)

    def wire(self, by: object = (), **only: Unpack[Only]) -> Table:
        """Bytes between ranks as counted by the kernel, including the backend's framing.

        Args:
            by: "rank", "peer", "iteration", "micro_step", "phase", or several.
            only: rank, iteration, phase: only these.

        Raises:
            ConfigError: the run knows no such value, or the kernel does not tell them apart.
        """
        chosen = self._select(by, **only)
        if chosen.purposes or chosen.ops or chosen.units:
            raise ConfigError(
                "the kernel does not count by purpose, operation or unit: expected "
                "rank=, iteration=, phase="
            )
        return traffic_tables.wire(chosen, by, f"Wire of {self._words(chosen)}")

    def copies(
        self, by: object = ("link", "purpose"), *, link: object = None, **only: Unpack[Only]
    ) -> Table:
        """Copies of each rank between its device, its host memory and its disk.

        Args:
            by: "rank", "iteration", "phase", "purpose", "unit", "link", "origin", "target".
            link: only copies over this link class.
            only: rank, iteration, phase, purpose, unit: only these.
        """
        chosen = self._select(by, **only)
        return traffic_tables.copied(chosen, by, link, f"Copies of {self._words(chosen)}")

    def memory(
        self,
        at: str = memory_samples.PEAK,
        by: object = "role",
        *,
        rank: object = 0,
        iteration: int | None = None,
        tier: Tier | str = Tier.DEVICE,
    ) -> Table:
        """Live tensors of a rank.

        Args:
            at: "peak"; "every sample", which adds the time; or a moment such as "update",
                "backward" or "backward compute blocks.2", at the beginning of that phase or
                computation.
            by: "role", "unit", "rank", or several.
            rank: the first by default; None for all. Several are summed unless grouped by rank.
            iteration: the iteration of the peak or moment; by default the peak over all iterations
                and the moments of the last complete one.
            tier: "device", "host" or "disk".
        """
        chosen = self._select(rank=rank, iteration=iteration)
        recorded = [one.rank for one in chosen.ranks if one.memory_samples]
        lines = [self.timeline(one, tier) for one in recorded]
        ranks = ", ".join(str(one.rank) for one in chosen.ranks)
        of_one = iteration is not None
        title = f"Memory of rank {ranks}, {at}"
        return self._told(memory_samples.memory(chosen, lines, at, by, title, of_one=of_one))

    def time(self, by: object = "cause", *, iteration: int | None = None) -> Table:
        """The time of an iteration, by cause.

        Args:
            by: "cause" for the critical path over all ranks; "rank", "phase" or both for the time
                budget of each rank.
        """
        found = self.graph_report(iteration=iteration)
        return self._told(time.time(found, by, f"Time of {_iteration_words((found.iteration,))}"))

    def events(self, *, kind: object = None, **only: Unpack[Only]) -> Table:
        """Single events, one per row.

        Args:
            kind: "compute", "collective", "transfer", "copy", "wait", "mark"; by default all but
                "transfer", the messages of collectives.
            only: rank, iteration, phase, purpose, op, unit: only these.
        """
        chosen = self._select(**only)
        return self._told(events.events(chosen, kind, f"Events of {self._words(chosen)}"))

    # verdicts

    @overload
    def verify(
        self, against: None = None, *, iteration: int | None = None
    ) -> TrafficVerification: ...

    @overload
    def verify(
        self,
        against: str | int,
        *,
        iteration: int | None = None,
        tolerance: float = 0,
        psi: Any = None,
        ledger: str | None = None,
    ) -> LawCheck: ...

    def verify(
        self,
        against: str | int | None = None,
        *,
        iteration: int | None = None,
        tolerance: float = 0,
        psi: Any = None,
        ledger: str | None = None,
    ) -> TrafficVerification | LawCheck:
        """Compare the traffic with theory, or with a law that you give.

        Args:
            against: a law such as "2Psi", "3Psi (N-1)/N" or "12 MB"; by default the full comparison
                of `zerosim verify`.
            iteration: the iteration to check; by default all complete ones.
            tolerance: relative deviation allowed from `against`: 0.02 allows 2 % more or less.
            psi: number of parameters, if the trace does not have it.
            ledger: "payload", "trace" or "wire"; by default the one that `against` refers to.

        Raises:
            ConfigError: `against` is not a law, or refers to bytes that were not measured.
            TraceError: no iteration is complete.
        """
        if against is None:
            return self._verified(iteration)
        quantity = parse_quantity(against)
        expected = law.Expected(
            quantity=quantity,
            ledger=law.choose_ledger(quantity, ledger),
            tolerance=parse_tolerance(tolerance),
            psi=0 if quantity.is_bytes else law.num_parameters(self.trace, psi),
            element_bytes=None,
        )
        chosen = select(self.trace, iteration=iteration, purpose=law.OF_THE_LAW)
        held = tuple(law.held_against(self.calls, chosen, expected))
        return LawCheck(expected, held, self._verified(iteration).causes)

    def verify_memory(self, *, iteration: int | None = None) -> MemoryVerification:
        """Compare live tensors with the memory laws of ZeRO (arXiv 1910.02054, sections 3 and 5).

        Raises:
            TraceError: the trace has no memory samples.
        """
        return self._memory_verified(iteration)

    def critical_path(self, *, iteration: int | None = None) -> Table:
        """The critical path of an iteration, the longest part first."""
        return self._told(time.critical_path(self.graph_report(iteration=iteration)))

    def what_if(self, changes: Changes, *, iteration: int | None = None) -> tuple[Prediction, Run]:
        """Predict this run under changed conditions.

        Args:
            iteration: the iteration to predict; the last complete one by default.

        Returns:
            The prediction for the iteration, and the run with predicted times.

        Raises:
            ConfigError: the changes have no effect, or there is no such iteration.
            TraceError: the event graph has a cycle, or the run was imported.
        """
        if self.source is Source.IMPORTED:
            raise TraceError(
                f"{self.folder}: an imported run has no computations and waits, so the effect of a "
                "change is unknown: record it with zerosim trace"
            )
        trace, straggler = predict(self.trace, changes)
        run = Run(trace)
        before, after = (one.graph_report(iteration=iteration) for one in (self, run))
        for one in (before, after):
            if one.path is None:
                raise TraceError(
                    f"{self.folder}: its calls wait for each other in a cycle, so it cannot be "
                    "predicted: see zerosim graph"
                )
        prediction = Prediction(changes=changes, before=before, after=after, straggler=straggler)
        return prediction, run

    def compare(self, *others: Run) -> Comparison:
        """This run and one to three others side by side."""
        return Comparison([self.trace, *(other.trace for other in others)])

    def replay(self, at: str = "", *, iteration: int | None = None) -> Replay:
        """The player, which a notebook shows in its cell.

        Args:
            at: the step to show first: "backward gather blocks.2", "update", "end"; the first step
                of the replay by default.
        """
        return Replay.at(self._replayed(iteration), at)

    # intermediate results

    @cached_property
    def calls(self) -> tuple[TracedCall, ...]:
        """Every call, with the bytes that its rank sends for it."""
        return tuple(traced_calls(self.trace))

    @cached_property
    def graph(self) -> EventGraph:
        """The event graph over all ranks."""
        return build_graph(self.trace)

    def graph_report(
        self, *, iteration: int | None = None, rank: int | None = None, top: int = maxsize
    ) -> GraphReport:
        """The full report of `zerosim graph` on an iteration.

        Args:
            rank: also list the events of this rank, each with its slack.
            top: number of steps of the critical path to list; all by default.
        """
        return self._reported(iteration, rank, top)

    def pieces(self, *, iteration: int | None = None) -> Table:
        """The activity of each rank over time, in contiguous pieces."""
        shown = self.graph_report(iteration=iteration).iteration
        title = f"Timeline of {_iteration_words((shown,))}"
        return self._told(time.pieces(self.graph.within(shown), title))

    def timeline(self, rank: int = 0, tier: Tier | str = Tier.DEVICE) -> Timeline:
        """The memory of one rank in one tier at every sample, as arrays.

        Raises:
            ConfigError: there is no such rank or tier.
            TraceError: the rank recorded no memory.
        """
        if tier not in tuple(Tier):
            raise ConfigError(f"tier is {tier!r}: expected one of {', '.join(Tier)}")
        return self._lines(rank, Tier(tier))

    def moments(self, rank: int = 0) -> Sequence[Passed]:
        """The moments of a rank in the last iteration, with its memory at each."""
        return self._passed(rank)

    def _moments(self, rank: int) -> Sequence[Passed]:
        return moments_of(self._of_rank(rank), self.timeline(rank), self._select().iterations[-1])

    def _of_rank(self, rank: int) -> RankTrace:
        return self._select(rank=rank).ranks[0]

    def _select(self, by: object = (), **only: Unpack[Only]) -> Selection:
        """Like `select`, for the last iteration unless rows are grouped by iteration."""
        is_by_iteration = isinstance(by, Iterable) and "iteration" in by
        if only.get("iteration") is None and self.iterations and not is_by_iteration:
            only["iteration"] = self.iterations[-1]
        return select(self.trace, **only)

    def _words(self, chosen: Selection) -> str:
        ranks = "all ranks"
        if len(chosen.ranks) < len(self.trace.ranks):
            ranks = f"rank {', '.join(str(one.rank) for one in chosen.ranks)}"
        phases = "every phase" if set(chosen.phases) == set(Phase) else ", ".join(chosen.phases)
        return f"{ranks}, {_iteration_words(chosen.iterations)}: {phases}"

    def __repr__(self) -> str:
        return summary.as_text_lines(self._summary())

    def _repr_html_(self) -> str:
        return summary.as_html(self._summary())

    def _told(self, table: Table) -> Table:
        """The table, with its times marked as predicted if the run is."""
        if not self.trace.manifest.is_predicted:
            return table
        return table.with_times(Evidence.PREDICTED)

    def _summary(self) -> summary.Summary:
        return summary.summary(self.trace, self.source, lambda: self._verified(None).headline)


class Plots:
    """The figures of a run, as `plotly.graph_objects.Figure`."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def memory(self, rank: int = 0, *, iteration: int | None = None) -> Any:
        """Memory of a rank over an iteration, by role."""
        table = self._run.memory(
            memory_samples.EVERY_SAMPLE, "role", rank=rank, iteration=iteration
        )
        return _plots().memory(table)

    def traffic(self, rank: int = 0, *, iteration: int | None = None) -> Any:
        """Bytes sent by a rank, by phase and purpose: theory, trace and wire."""
        return _plots().traffic(self._run.verify(iteration=iteration).ledger(rank))

    def timeline(self, *, iteration: int | None = None) -> Any:
        """Computation, communication and waiting, one lane per rank."""
        require_times(self._run.trace, "a timeline shows")
        return _plots().timeline(self._run.pieces(iteration=iteration))

    def waterfall(self, *, iteration: int | None = None) -> Any:
        """From the law to the bytes that the first rank sends, cause by cause."""
        return _plots().waterfall(self._run.verify(iteration=iteration).causes)

    def laws(self, rank: int = 0, *, iteration: int | None = None) -> Any:
        """Bytes sent by a rank as a function of the number of ranks, with this run marked."""
        return _plots().laws(self._run.verify(iteration=iteration).laws(rank))


def _plots() -> Any:
    """The module of figures: plotly takes half a second to import and is optional."""
    try:
        from zerosim.view import plots
    except ImportError:
        raise EnvironmentFault(
            "plotly is not installed: pip install 'zerosim[pages]', or use a table"
        ) from None
    return plots


def load(folder: str | Path, *, strict: bool = False) -> Run:
    """Load a run from its trace; does not need torch.

    Args:
        folder: has `manifest.json` and one `rank-N.jsonl` per rank.
        strict: refuse an incomplete trace; otherwise it is read up to its end.

    Raises:
        TraceError: the trace is missing, unreadable, damaged or of another schema; or, if `strict`,
            incomplete.
    """
    return Run(load_trace(folder, strict=strict))


def _iteration_words(chosen: tuple[int, ...]) -> str:
    if chosen == (WHOLE,):
        return "the whole run"
    if len(chosen) == 1:
        return f"iteration {chosen[0]}"
    return f"iterations {', '.join(map(str, chosen))}"
