"""A machine's costs for events that are ordered by their times."""

from __future__ import annotations

import numpy as np

from zerosim.analysis.graph.table import Ints
from zerosim.predict.placement import Tasks
from zerosim.predict.placement.modelled import Modelled


class Lasting(Modelled):
    """A machine on which every event takes at least a nanosecond.

    A reader of the trace could not order two events at the same time.
    """

    def computations(self, tasks: Tasks) -> Ints:
        """As modelled."""
        return np.maximum(super().computations(tasks), 1)

    def collectives(self, tasks: Tasks) -> Ints:
        """As modelled."""
        return np.maximum(super().collectives(tasks), 1)

    def messages(self, tasks: Tasks) -> Ints:
        """As modelled."""
        return np.maximum(super().messages(tasks), 1)

    def copies(self, tasks: Tasks) -> Ints:
        """As modelled."""
        return np.maximum(super().copies(tasks), 1)
