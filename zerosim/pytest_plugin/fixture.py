"""The fixture of a test: asserts about its last recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zerosim.base.errors import ConfigError, TraceError
from zerosim.base.quantities import first_of
from zerosim.pytest_plugin.collectives import check_collectives, parse_counts
from zerosim.pytest_plugin.failure import where
from zerosim.pytest_plugin.peak_memory import check_peak, parse_role
from zerosim.pytest_plugin.recordings import Recordings, plain
from zerosim.pytest_plugin.traffic import check_traffic, require_clear
from zerosim.view.reading import Run
from zerosim.view.reading.law import OF_THE_LAW, Expected, LedgerName, choose_ledger, num_parameters
from zerosim.view.reading.quantity import parse_quantity, parse_tolerance
from zerosim.view.reading.selection import select


class ZerosimTrace(Recordings):
    """The fixture `zerosim_trace`: records as in `Recordings`, and asserts."""

    @plain
    def assert_traffic(  # noqa: PLR0913 - each restricts the comparison
        self,
        expected: str | int,
        *,
        tolerance: float = 0,
        rank: int | None = None,
        iteration: int | None = None,
        phase: str | Sequence[str] | None = None,
        purpose: str | Sequence[str] | None = None,
        ledger: str | None = None,
        psi: Any = None,
        element_bytes: int | None = None,
    ) -> None:
        """Assert the traffic of a rank in an iteration.

        Args:
            expected: "2Psi" is payload; "2Psi (N-1)/N" and bytes are requested bytes of a rank.
            tolerance: relative: 0.02 allows 2 % more or less.
            rank: the rank to check; every one by default.
            iteration: the iteration to check; every one by default.
            phase: the phases that count: forward, backward and update by default.
            purpose: the purposes that count: by default parameters, gradients, and unknown ones.
            ledger: "payload", "trace" or "wire"; by default the one that `expected` refers to.
            psi: a model or its number of parameters, if the trace does not have it.
            element_bytes: size of an element of Psi, if traffic has several sizes or is quantized.

        Raises:
            AssertionError: the traffic differs; with the three ledgers and the path of the trace.
        """
        __tracebackhide__ = True
        quantity = parse_quantity(expected)
        chosen = choose_ledger(quantity, ledger)
        if chosen is LedgerName.WIRE and purpose is not None:
            raise ConfigError(
                "the kernel does not count by purpose: expected ledger='trace', or phase="
            )
        if element_bytes is not None and (
            isinstance(element_bytes, bool)
            or not isinstance(element_bytes, int)
            or element_bytes < 1
        ):
            raise ConfigError(f"element_bytes is {element_bytes!r}: expected 1 or more")
        run = self._proven()
        counted = OF_THE_LAW if purpose is None else purpose
        selection = select(run.trace, rank=rank, iteration=iteration, phase=phase, purpose=counted)
        if phase is None and purpose is None:
            require_clear(selection)
        spec = Expected(
            quantity=quantity,
            ledger=chosen,
            tolerance=parse_tolerance(tolerance),
            psi=0 if quantity.is_bytes else num_parameters(run.trace, psi),
            element_bytes=element_bytes,
        )
        _require(run, check_traffic(run, selection, spec))

    @plain
    def assert_collectives(
        self,
        expected: Mapping[Any, int],
        *,
        rank: int | None = None,
        iteration: int | None = None,
        phase: str | Sequence[str] | None = None,
        purpose: str | Sequence[str] | None = None,
    ) -> None:
        """Assert that a rank makes these calls and no others in an iteration.

        Args:
            expected: number of calls, by operation, purpose, phase, or several of them.
            rank: the rank to check; every one by default.
            iteration: the iteration to check; every one by default.
            phase: the phases that count: forward, backward and update by default.
            purpose: the purposes that count; every one by default.

        Raises:
            AssertionError: the calls differ; the message lists the excess with source lines.
        """
        __tracebackhide__ = True
        counts = parse_counts(expected)
        run = self._proven()
        selection = select(run.trace, rank=rank, iteration=iteration, phase=phase, purpose=purpose)
        _require(run, check_collectives(run, selection, counts))

    @plain
    def assert_peak_memory(
        self,
        at_most: str | int,
        *,
        role: str | None = None,
        rank: int | None = None,
        iteration: int | None = None,
        phase: str | Sequence[str] | None = None,
        psi: Any = None,
    ) -> None:
        """Assert that a rank never keeps more than this.

        Args:
            at_most: bytes, "12 MB", or bytes per parameter: "16Psi", "4Psi + 12Psi/N".
            role: "parameters", "gradients", "activations" and so on, or "model states"; all
                together by default.
            rank: the rank to check; every one by default.
            iteration: the iteration to check; every one by default.
            phase: the phases that count: forward, backward and update by default.
            psi: a model or its number of parameters, if the trace does not have it.

        Raises:
            AssertionError: it is exceeded; the message lists the memory at the peak.
        """
        __tracebackhide__ = True
        limit, roles = parse_quantity(at_most), parse_role(role)
        run = self._proven()
        selection = select(run.trace, rank=rank, iteration=iteration, phase=phase)
        size = 0 if limit.is_bytes else num_parameters(run.trace, psi)
        _require(run, check_peak(selection, limit, roles, size))

    def _proven(self) -> Run:
        """The last recording, if it is complete.

        Raises:
            TraceError: the trace ends early, and nothing is proved by a part.
        """
        run = self.recorded
        warnings = run.trace.warnings
        if warnings:
            raise TraceError(
                f"{run.folder} is incomplete: {first_of(warnings)}: an incomplete trace proves "
                "nothing; zerosim show prints it"
            )
        return run


def _require(run: Run, problem: str) -> None:
    __tracebackhide__ = True
    if problem:
        raise AssertionError("\n".join([problem, *where(run.folder)]))
