"""`zerosim graph`: the causes of every moment of an iteration, over all ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zerosim.base.errors import ConfigError
from zerosim.cli.console import make_console, print_json
from zerosim.cli.options import AsJson, TraceFolder, integer, open_run
from zerosim.cli.timings import print_timings


def graph(
    folder: TraceFolder,
    *,
    iteration: Annotated[
        int | None, integer("Iteration to analyse; the last complete one by default.")
    ] = None,
    rank: Annotated[
        int | None, integer("List this rank's events as well, each with its slack.")
    ] = None,
    top: Annotated[int, integer("Number of critical-path steps to list.")] = 10,
    graphml: Annotated[
        Path | None, typer.Option(help="Write the iteration's graph to this GraphML file.")
    ] = None,
    nodelink: Annotated[
        Path | None, typer.Option(help="Write the iteration's graph to this node-link JSON file.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Show where an iteration's time goes on all ranks; exit 1 if the events do not match."""
    if top < 0:
        raise ConfigError(f"top is {top}: expected 0 or more")
    run = open_run(folder)
    answer = run.graph_report(iteration=iteration, rank=rank, top=top)
    written = []
    if graphml is not None or nodelink is not None:
        from zerosim.view.export.graphs import annotated, write_graphml, write_nodelink

        exported = annotated(run.graph.within(answer.iteration))
        counts = f"{exported.number_of_nodes():,} nodes, {exported.number_of_edges():,} edges"
        for path, write in ((graphml, write_graphml), (nodelink, write_nodelink)):
            if path is not None:
                write(exported, path)
                written.append(f"wrote {path}: {counts}")
    if as_json:
        print_json(answer.to_plain())
    else:
        console = make_console()
        print_timings(console, answer)
        for line in written:
            console.print(line)
    return 0 if answer.holds else 1
