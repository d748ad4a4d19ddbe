"""Recurring fields are written once: rows refer to them by a number."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from zerosim.base.tiers import Tier
from zerosim.schema.events import Algorithm, Kind, Op, Phase, Purpose, Template
from zerosim.trace.rowfile import Rows
from zerosim.trace.sink import Labels

_MOST_REMEMBERED = 8192
"""Limit of templates: a program with ever-changing shapes or peers has a new one for each call."""


class Shared(NamedTuple):
    """What a collective or a copy moves, and from where to where: as in `Template`."""

    purpose: Purpose
    op: Op | None = None
    operator: str = ""
    algorithm: Algorithm | None = None
    group: str = ""
    peers: tuple[int, ...] = ()
    dtype: str = ""
    elements: int = 0
    payload_bytes: int = 0
    parts: tuple[int, ...] = ()
    received_parts: tuple[int, ...] = ()
    origin: Tier | None = None
    target: Tier | None = None


class Templates:
    """The written templates, by contents. Thread-safe."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._known: dict[tuple[object, ...], Template] = {}
        self._take_number = itertools.count().__next__

    def find(
        self, labels: Labels, phase: Phase, kind: Kind, shared: Shared | None = None
    ) -> Template:
        """The template of events with these labels; a new one is written.

        Args:
            shared: None for a computation or a wait.

        Raises:
            EnvironmentFault: it cannot be written.
        """
        _, unit, _, tensors, source, functions, *_ = labels
        said = (kind, phase, unit, source, functions, tensors, shared)
        known = self._known.get(said)
        if known is not None:
            return known
        # two threads may write the same one at once: both are valid
        template = Template(
            number=self._take_number(),
            kind=kind,
            phase=phase,
            unit=unit,
            source=source,
            functions=functions,
            tensors=tensors,
            **({} if shared is None else shared._asdict()),
        )
        self._rows.write("template", template)
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        self._known[said] = template
        return template
