"""What recurs in each step is said once: rows refer to it by a number."""

from __future__ import annotations

import itertools
from typing import Any

from zerosim.schema.events import Kind, Phase, Template
from zerosim.trace.rowfile import Rows
from zerosim.trace.sink import Labels

_MOST_REMEMBERED = 8192
"""A program whose shapes or peers change all the time has another one for each of its calls."""


class Templates:
    """The templates that were written, by what they say. Safe to use from several threads."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._known: dict[tuple[object, ...], Template] = {}
        self._take_number = itertools.count().__next__

    def find(self, labels: Labels, phase: Phase, kind: Kind, **more: Any) -> Template:
        """The template of events of which these labels say this; a new one is written.

        Args:
            more: what else there is to say, by the names of its fields.

        Raises:
            EnvironmentFault: it cannot be written.
        """
        own = (labels.unit, labels.source, labels.functions, labels.tensors)
        said = (kind, phase, *own, *more, *more.values())
        known = self._known.get(said)
        if known is not None:
            return known
        # two threads may say the same at once: both are right
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
