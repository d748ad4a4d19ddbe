"""`zerosim whatif`: the predicted times of a recorded run under other conditions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from zerosim.base.errors import ConfigError
from zerosim.base.language import term
from zerosim.cli.console import make_console, make_table, print_json, print_table
from zerosim.cli.options import AsJson, TraceFolder, decimal, integer, open_run
from zerosim.predict.placement.changes import Changes
from zerosim.record import write
from zerosim.view.reading import Prediction
from zerosim.view.reading.wording import said


def _factor(text: object) -> float:
    try:
        return float(str(text).removeprefix("x"))
    except ValueError:
        raise typer.BadParameter(f"{text!r}: expected a factor, such as x10 or x0.5") from None


def factor(words: str) -> Any:
    """An option that takes a factor: x10, or 10."""
    return typer.Option(help=words, parser=_factor, metavar="FACTOR")


def whatif(  # noqa: PLR0913 - that many conditions can change
    folder: TraceFolder,
    *,
    bandwidth: Annotated[
        float, factor("Multiply the bandwidth between ranks by this factor.")
    ] = 1.0,
    latency: Annotated[float, factor("Multiply the latency of each message by this factor.")] = 1.0,
    compute: Annotated[float, factor("Multiply the speed of computation by this factor.")] = 1.0,
    batch: Annotated[float, factor("Multiply the sequences per micro-batch by this factor.")] = 1.0,
    bus: Annotated[
        float, factor("Multiply the bandwidth between device and host by this factor.")
    ] = 1.0,
    disk: Annotated[float, factor("Multiply the bandwidth of the disk by this factor.")] = 1.0,
    no_straggler: Annotated[
        bool, typer.Option("--no-straggler", help="Make the slowest rank as fast as the others.")
    ] = False,
    overlap: Annotated[
        bool | None,
        typer.Option(
            "--overlap/--serial", help="Overlap communication wherever possible, or never."
        ),
    ] = None,
    slow: Annotated[
        str, typer.Option(help="Slow ranks down: RANK=FACTOR, separated by commas.")
    ] = "",
    jitter: Annotated[
        float, decimal("Vary computation times: standard deviation of the factor's logarithm.")
    ] = 0.0,
    seed: Annotated[int, integer("Random seed of the jitter.")] = 0,
    iteration: Annotated[
        int | None, integer("Iteration to predict; the last complete one by default.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the predicted run to this folder, for Replay.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Predict the time of a recorded run under other conditions."""
    changes = Changes(
        compute=compute,
        batch=batch,
        bandwidth=bandwidth,
        latency=latency,
        bus=bus,
        disk=disk,
        without_straggler=no_straggler,
        overlap=overlap,
        slow=_slow(slow),
        jitter=jitter,
        seed=seed,
    )
    prediction, run = open_run(folder).what_if(changes, iteration=iteration)
    if out is not None:
        write(run.trace, out)
    if as_json:
        print_json(prediction.to_plain())
        return 0
    console = make_console()
    console.print(Text(prediction.headline))
    console.print()
    print_table(console, _table(prediction))
    if out is not None:
        console.print(said("whatif.wrote", out=out))
    return 0


def _slow(text: str) -> dict[int, float]:
    found = {}
    for part in filter(None, text.split(",")):
        rank, _, by = part.partition("=")
        try:
            found[int(rank)] = float(by.removeprefix("x"))
        except ValueError:
            raise ConfigError(f"slow is {part!r}: expected RANK=FACTOR, such as 1=x3") from None
    return found


def _table(prediction: Prediction) -> Any:
    before, after = prediction.before.path, prediction.after.path
    assert before is not None
    assert after is not None
    is_predicted = prediction.before.is_predicted
    columns = said.each("whatif.columns_predicted" if is_predicted else "whatif.columns")
    table = make_table(*columns, title=said("whatif.path"))
    was, would = before.by_cause(), after.by_cause()
    for cause in dict.fromkeys([*was, *would]):
        table.add_row(term(cause), _ms(was.get(cause, 0)), _ms(would.get(cause, 0)))
    table.add_row(
        said("whatif.total"), _ms(before.duration_ns), _ms(after.duration_ns), style="bold"
    )
    return table


def _ms(ns: int) -> str:
    return f"{ns / 1e6:,.3f}"
