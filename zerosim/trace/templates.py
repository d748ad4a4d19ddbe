"""Recurring fields are written once: rows refer to them by a number."""

from __future__ import annotations

import itertools
from typing import Any

from zerosim.schema.events import Kind, Phase, Template
from zerosim.trace.rowfile import Rows
from zerosim.trace.sink import Labels

_MOST_REMEMBERED = 8192
"""Limit of templates: a program with ever-changing shapes or peers has a new one for each call."""


class Templates:
    """The written templates, by contents. Thread-safe."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._known: dict[tuple[object, ...], Template] = {}
        self._take_number = itertools.count().__next__

    def find(self, labels: Labels, phase: Phase, kind: Kind, **more: Any) -> Template:
        """The template of events with these labels; a new one is written.

        Args:
            more: further constant fields, by name.

        Raises:
            EnvironmentFault: it cannot be written.
        """
        own = (labels.unit, labels.source, labels.functions, labels.tensors)
        said = (kind, phase, *own, *more, *more.values())
        known = self._known.get(said)
        if known is not None:
            return known
        # two threads may write the same one at once: both are right
        template = Template(
            number=self._take_number(),
            kind=kind,
            phase=phase,
            unit=labels.unit,
            source=labels.source,
            functions=labels.functions,
            tensors=labels.tensors,
            **more,
        )
        self._rows.write("template", template)
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        self._known[said] = template
        return template
