"""`zerosim calibrate`: a machine's constants from recorded runs, checked with others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from zerosim.base.config import STAGES, EngineConfig, RunConfig
from zerosim.base.config.model import model_named
from zerosim.base.config.shapes import shape_of
from zerosim.base.errors import ConfigError, EnvironmentFault
from zerosim.cli.console import make_console, make_table, print_json, print_table
from zerosim.cli.options import AsJson, OptionalModel, decimal, integer, open_run
from zerosim.predict.placement.calibrate import calibrate as fit
from zerosim.predict.placement.calibrate import write_machine
from zerosim.predict.placement.machine import Machine, load_machine
from zerosim.predict.placement.modelled import Modelled, Work
from zerosim.predict.placement.parameters import ByParameters
from zerosim.predict.placement.place import place
from zerosim.predict.plan.profiled import (
    own_constants,
    predicted_ns,
    recorded_layout,
    recorded_step,
    write_own,
)
from zerosim.predict.plan.question import system_of
from zerosim.record.importing import import_run
from zerosim.schema.rows import MANIFEST_NAME
from zerosim.theory.layout import Layout
from zerosim.theory.saved import KeptActivations, Recompute
from zerosim.theory.transformer import LayerCut
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


def calibrate(  # noqa: PLR0913 - an option is an argument
    folders: Annotated[
        list[Path], typer.Argument(help="Traces of runs on this machine, or PyTorch profiles.")
    ],
    *,
    out: Annotated[Path, typer.Option(help="The machine file to write.")] = Path("machine.toml"),
    check: Annotated[
        list[Path] | None,
        typer.Option(help="A run to predict but not to fit; may be repeated."),
    ] = None,
    cores: Annotated[
        float | None, decimal("Ranks per node that compute at full speed; all by default.")
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(
            help="Fit the rates that the runs reach on these GPUs, such as h100, for zerosim plan."
        ),
    ] = None,
    model: OptionalModel = None,
    batch: Annotated[
        int | None, integer("With --gpu: sequences per micro-batch, if no trace records it.")
    ] = None,
    sequence: Annotated[
        int | None, integer("With --gpu: tokens per sequence; the model's own by default.")
    ] = None,
    stage: Annotated[int | None, integer("With --gpu: 0 to 3, if no trace records it.")] = None,
    tensor_parallel: Annotated[int, integer("With --gpu: ranks that compute a block.")] = 1,
    recompute: Annotated[
        Recompute, typer.Option(help="With --gpu: activation checkpointing of the runs.")
    ] = Recompute.NONE,
    as_json: AsJson = False,
) -> int:
    """Fit a machine's constants to recorded runs, and write them to a file with the residuals."""
    given = GivenRun(model, batch, sequence, stage, tensor_parallel, recompute)
    if cores is not None and (cores <= 0 or gpu is not None):
        wanted = "none with --gpu" if cores > 0 else "more than 0"
        raise ConfigError(f"cores is {cores:g}: expected {wanted}")
    if gpu is None and given != GivenRun():
        raise ConfigError(
            "model, batch, sequence, stage, tensor-parallel and recompute describe a "
            "profile for --gpu: expected --gpu, such as --gpu h100"
        )
    with TemporaryDirectory() as unpacked:
        places = [Path(unpacked) / str(number) for number in range(len(folders) + len(check or ()))]
        runs = list(map(_opened, (*folders, *(check or ())), places))
        fitted = runs[: len(folders)]
        source = f"zerosim calibrate {' '.join(map(str, folders))}"
        if gpu is None:
            text = _of_machine(fitted, source, cores)
        else:
            text = _of_program(fitted, source, system_of(gpu, _gpus(fitted)), given)
        try:
            out.write_text(text, encoding="utf-8")
        except OSError as error:
            raise EnvironmentFault(f"{out}: cannot be written: {error.strerror or error}") from None
        machine = load_machine(str(out))
        named = zip((*folders, *(check or ())), runs, strict=True)
        held = [
            IterationFit(
                str(name),
                run in fitted,
                *(_held(run, machine) if gpu is None else _held_by_plan(run, machine, given)),
            )
            for name, run in named
        ]
    if as_json:
        print_json({"machine": asdict(machine), "runs": [asdict(one) for one in held]})
        return 0
    console = make_console()
    console.print(f"wrote {out}:", style="bold")
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    what = "the last iteration" if gpu is None else "a step, as a plan predicts it"
    table = make_table("run", "fitted to it", "recorded, ms", "predicted, ms", "off", title=what)
    for one in held:
        said = "yes" if one.is_fitted else "no"
        times = (f"{ns / 1e6:,.1f}" for ns in (one.recorded_ns, one.predicted_ns))
        table.add_row(one.run, said, *times, f"{100 * one.off:+.0f} %")
    print_table(console, table)
    if gpu is not None:
        typer.echo(f"\nnext: zerosim plan --gpu {out} --model {model or 'MODEL'} --gpus N")
    return 0


def _opened(path: Path, unpacked: Path) -> Run:
    """A trace, or what another recorder wrote, which is imported first."""
    if (path / MANIFEST_NAME).exists() or not path.exists() or any(path.glob(f"*/{MANIFEST_NAME}")):
        return open_run(path)
    for note in import_run([path], unpacked).notes:
        typer.echo(f"note: {note}", err=True)
    return open_run(unpacked)


# ------------------------------------------------------------------- of a machine


def _of_machine(runs: Sequence[Run], source: str, cores: float | None) -> str:
    """The file of a machine, with constants for all events of a simulated run.

    Raises:
        ConfigError: none of the runs sent anything.
    """
    if all(run.trace.manifest.num_ranks == 1 for run in runs):
        raise ConfigError(
            f"{runs[0].folder}: a run of one rank sends nothing, so no link can be fitted: "
            "expected a run of several ranks"
        )
    found = fit([(run.trace, _work(run)) for run in runs])
    return write_machine(found, f"fitted to {source.removeprefix(_COMMAND)}", source, cores)


def _held(run: Run, machine: Machine) -> tuple[int, int]:
    """The last iteration, recorded and predicted, ns."""
    recorded = run.graph_report()
    placed = Run(place(run.trace, Modelled(machine, _work(run))))
    predicted = placed.graph_report(iteration=recorded.iteration)
    times = [report.path.duration_ns for report in (recorded, predicted) if report.path is not None]
    if len(times) < 2 or not times[0]:
        raise ConfigError(f"{run.folder}: its iteration has no critical path to predict")
    return times[0], times[1]


def _work(run: Run) -> Work:
    """The work of its computations: from a dry run of the same training, if possible."""
    from zerosim.predict.simulate.counted import CountedDry
    from zerosim.train.models import context_of  # imports torch

    said, config = run.trace.manifest.run, run.trace.manifest.config
    model, batch = said.get("model"), said.get("batch")
    if not isinstance(model, str) or not isinstance(batch, int):
        raise ConfigError(
            f"{run.folder}: its model and batch are not recorded, so the work of its "
            "computations is unknown: give runs of zerosim run, systems or profiles, "
            "or for a plan --gpu, --model, --batch and --stage"
        )
    if config:
        return CountedDry(RunConfig.from_plain(said), EngineConfig.from_plain(config))
    context = said.get("context_length")
    tokens = context if isinstance(context, int) else context_of(model_named(model))
    return ByParameters(run.trace, batch * tokens)


# ------------------------------------------------------------------- of a program, for a plan


@dataclass(frozen=True, slots=True)
class GivenRun:
    """Properties of the runs given on the command line, if their traces lack them."""

    model: str | None = None
    batch: int | None = None
    sequence: int | None = None
    stage: int | None = None
    tensor: int = 1
    recompute: Recompute = Recompute.NONE

    def layout(self, run: Run) -> Layout:
        """The division of training in a run.

        Raises:
            ConfigError: it is not fully given by the trace and the command.
        """
        said, config = run.trace.manifest.run, run.trace.manifest.config
        model, batch = self.model or said.get("model"), self.batch or said.get("batch")
        missing = [
            *([] if isinstance(model, str) else ["--model"]),
            *([] if isinstance(batch, int) else ["--batch"]),
            *([] if config or self.stage is not None else ["--stage"]),
        ]
        if missing:
            raise ConfigError(
                f"{run.trace.manifest.program or run.folder}: the run does not record "
                f"its model: expected {', '.join(missing)} as well"
            )
        assert isinstance(model, str)
        assert isinstance(batch, int)
        for name, value in (("batch", batch), ("tensor-parallel", self.tensor)):
            if value < 1:
                raise ConfigError(f"{name} is {value}: expected 1 or more")
        if self.stage is not None and self.stage not in STAGES:
            raise ConfigError(f"stage is {self.stage}: expected 0, 1, 2 or 3")
        engine = EngineConfig.from_plain(config) if config else EngineConfig()
        if self.stage is not None:
            engine = replace(engine, stage=self.stage)
        shape = shape_of(model)
        length = self.sequence or said.get("context_length") or shape.context
        assert isinstance(length, int)
        if not 1 <= length <= shape.context:
            raise ConfigError(f"sequence is {length}: expected 1 to the model's {shape.context}")
        cut = LayerCut(self.tensor, sequence=self.tensor > 1)
        undivided = Layout(
            shape=shape,
            config=engine,
            data=1,
            cut=cut,
            batch=batch,
            sequence=length,
            keeping=KeptActivations(self.recompute),
        )
        return recorded_layout(run.trace, undivided)


def _gpus(runs: Sequence[Run]) -> int:
    """The number of GPUs: that of the ranks, although ranks of a test may share one."""
    return max(run.trace.manifest.num_ranks for run in runs)


def _of_program(runs: Sequence[Run], source: str, machine: Machine, given: GivenRun) -> str:
    """The machine file of a program: the efficiency that it reaches on a machine."""
    found = own_constants(machine, [(recorded_step(run.trace), given.layout(run)) for run in runs])
    title = f"{machine.name}, as far as {source.removeprefix(_COMMAND)} reached it"
    return write_own(found, machine.name, title, source)


def _held_by_plan(run: Run, machine: Machine, given: GivenRun) -> tuple[int, int]:
    """A step, recorded and as a plan predicts it, ns."""
    step = recorded_step(run.trace).step_ns
    return round(step), round(predicted_ns(machine, given.layout(run)))


_COMMAND = "zerosim calibrate "
