"""Placing a run in time: a pure function of its trace and of the costs."""

from __future__ import annotations

from collections.abc import Callable

from zerosim.analysis.graph import build_graph
from zerosim.predict.placement.costs import Costs, Recorded
from zerosim.predict.placement.durations import durations
from zerosim.predict.placement.network import Network, make_network
from zerosim.predict.placement.retimed import retimed
from zerosim.predict.placement.solve import solve
from zerosim.record import Trace
from zerosim.record.collector import collector_paused


def place(
    trace: Trace,
    costs: Costs | None = None,
    schedule: Callable[[Network], Network] | None = None,
) -> Trace:
    """Give every event of all ranks its time under a cost model.

    The dependencies are those of the trace; `costs` gives the durations. With the recorded
    durations every event keeps its time.

    Args:
        costs: by default the recorded times.
        schedule: changes the dependencies (`placement.schedule`).

    Returns:
        The same events, bytes and memory, at other times.

    Raises:
        TraceError: the events wait for each other in a cycle.
    """
    with collector_paused():
        network = make_network(build_graph(trace))
        network = network if schedule is None else schedule(network)
        found = durations(network, Recorded() if costs is None else costs)
        return retimed(network, found, solve(network, found))
