"""`zerosim calibrate`: a machine's constants from recorded runs, checked with others."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from zerosim.base.config import EngineConfig, RunConfig
from zerosim.base.config.model import model_named
from zerosim.base.errors import ConfigError, EnvironmentFault
from zerosim.cli.console import make_console, make_table, print_json, print_table
from zerosim.cli.options import AsJson, decimal, open_run
from zerosim.predict.placement.calibrate import calibrate as fit
from zerosim.predict.placement.calibrate import write_machine
from zerosim.predict.placement.machine import Machine, load_machine
from zerosim.predict.placement.modelled import Modelled, Work
from zerosim.predict.placement.parameters import ByParameters
from zerosim.predict.placement.place import place
from zerosim.view.reading import Run


@dataclass(frozen=True, slots=True)
class IterationFit:
    """One recorded iteration of a run, and its prediction with the constants.

    Attributes:
        is_fitted: whether the constants were fitted to this run.
    """

    run: str
    is_fitted: bool
    recorded_ns: int
    predicted_ns: int

    @property
    def off(self) -> float:
        """The relative error of the prediction."""
        return self.predicted_ns / self.recorded_ns - 1


def calibrate(
    folders: Annotated[list[Path], typer.Argument(help="Traces of runs on this machine.")],
    *,
    out: Annotated[Path, typer.Option(help="The machine file to write.")] = Path("machine.toml"),
    check: Annotated[
        list[Path] | None, typer.Option(help="A run to predict but not to fit; may be repeated.")
    ] = None,
    cores: Annotated[
        float | None, decimal("Ranks of a node that compute at full speed; all by default.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Fit a machine's constants to recorded runs; write them to a file with the residuals."""
    if cores is not None and cores <= 0:
        raise ConfigError(f"cores is {cores:g}: expected more than 0")
    fitted = [open_run(folder) for folder in folders]
    others = [open_run(folder) for folder in check or ()]
    found = fit([(run.trace, _work(run)) for run in fitted])
    names = " ".join(map(str, folders))
    text = write_machine(found, f"fitted to {names}", f"zerosim calibrate {names}", cores)
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise EnvironmentFault(f"{out}: cannot be written: {error.strerror or error}") from None
    machine = load_machine(str(out))
    held = [_held(run, machine, is_fitted=run in fitted) for run in (*fitted, *others)]
    if as_json:
        print_json({"machine": asdict(machine), "runs": [asdict(one) for one in held]})
        return 0
    console = make_console()
    console.print(f"wrote {out}:", style="bold")
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    table = make_table(
        "run", "fitted to it", "recorded, ms", "predicted, ms", "off", title="the last iteration"
    )
    for one in held:
        said = "yes" if one.is_fitted else "no"
        times = (f"{ns / 1e6:,.1f}" for ns in (one.recorded_ns, one.predicted_ns))
        table.add_row(one.run, said, *times, f"{100 * one.off:+.0f} %")
    print_table(console, table)
    return 0


def _held(run: Run, machine: Machine, *, is_fitted: bool) -> IterationFit:
    recorded = run.graph_report()
    placed = Run(place(run.trace, Modelled(machine, _work(run))))
    predicted = placed.graph_report(iteration=recorded.iteration)
    times = [report.path.duration_ns for report in (recorded, predicted) if report.path is not None]
    if len(times) < 2 or not times[0]:
        raise ConfigError(f"{run.folder}: its iteration has no critical path to predict")
    return IterationFit(str(run.folder), is_fitted, *times)


def _work(run: Run) -> Work:
    """The work of its computations: from a dry run of the same, if possible."""
    from zerosim.predict.simulate.counted import CountedDry
    from zerosim.train.models import context_of  # brings torch

    said, config = run.trace.manifest.run, run.trace.manifest.config
    model, batch = said.get("model"), said.get("batch")
    if not isinstance(model, str) or not isinstance(batch, int):
        raise ConfigError(
            f"{run.folder}: it does not say which model and batch it trained, so nobody knows what "
            "its computations had to do: give runs of zerosim run, systems or profiles"
        )
    if config:
        return CountedDry(RunConfig.from_plain(said), EngineConfig.from_plain(config))
    context = said.get("context_length")
    tokens = context if isinstance(context, int) else context_of(model_named(model))
    return ByParameters(run.trace, batch * tokens)
