"""`zerosim plan`: which layout would train a model fastest, and what would limit it; predicted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from fractions import Fraction
from functools import wraps
from math import inf
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import typer

from zerosim.base.config import STAGES
from zerosim.base.errors import ConfigError, EnvironmentFault
from zerosim.base.language import Language, speaking
from zerosim.cli.console import make_console, print_json
from zerosim.cli.options import AsJson, Model, decimal, integer
from zerosim.cli.plan_output import (
    plan_to_plain,
    print_plan,
    print_training,
    training_to_plain,
)
from zerosim.predict.plan import (
    FREE,
    Fixed,
    PlanQuestion,
    PredictedLayout,
    ask,
    make_plan,
    parse_tokens,
)
from zerosim.predict.plan.layout_names import name_of
from zerosim.predict.plan.layouts import Variant
from zerosim.predict.plan.training import (
    CHECKPOINT_S,
    GPU_MTBF_HOURS,
    RESTART_S,
    Failures,
    Training,
    plan_for_days,
)
from zerosim.predict.plan.written import deepspeed_config, torch_calls
from zerosim.theory.saved import Recompute

C = TypeVar("C", bound=Callable[..., int])
E = TypeVar("E", bound=StrEnum)
_RECOMPUTES = (Recompute.NONE, Recompute.OPERATORS, Recompute.FULL)


def in_english(command: C) -> C:
    """Make a command print in English only, because its output contains names of its data."""

    @wraps(command)
    def said(*args: Any, **options: Any) -> int:
        with speaking(Language.ENGLISH):
            return command(*args, **options)

    return cast("C", said)


@in_english
def plan(  # noqa: PLR0913 - it has that many options
    *,
    model: Model = "llama-3-8b",
    gpus: Annotated[int, integer("Number of GPUs.")] = 64,
    gpu: Annotated[
        str, typer.Option(help="Type of GPU: h100, a machine such as dgx-h100, or a file.")
    ] = "h100",
    tokens_per_batch: Annotated[
        str, typer.Option(help="Tokens per optimizer step over all GPUs: 4M, 512k.")
    ] = "4M",
    sequence: Annotated[
        int | None, integer("Tokens per sequence; the model's own by default.")
    ] = None,
    stage: Annotated[int | None, integer("Only stage 0, 1, 2 or 3.")] = None,
    tensor_parallel: Annotated[int | None, integer("Only this number of ranks.")] = None,
    pipeline_parallel: Annotated[int | None, integer("Only this number of ranks.")] = None,
    batch: Annotated[int | None, integer("Only this micro-batch, in sequences.")] = None,
    recompute: Annotated[
        str | None, typer.Option(help=f"Only this recomputation: {', '.join(_RECOMPUTES)}.")
    ] = None,
    only: Annotated[
        str | None, typer.Option(help=f"Only this variant of the stage: {', '.join(Variant)}.")
    ] = None,
    context_parallel: Annotated[int, integer("Ranks that share each sequence.")] = 1,
    expert_parallel: Annotated[int | None, integer("Only this expert-parallel size.")] = None,
    chunks: Annotated[
        int | None, integer("Only this number of chunks per stage (interleaved schedule).")
    ] = None,
    float8: Annotated[
        bool, typer.Option("--float8", help="Compute matrix products of the blocks in 8 bits.")
    ] = False,
    ideal: Annotated[
        bool,
        typer.Option("--ideal", help="Assume data-sheet rates instead of measured software."),
    ] = False,
    tokens: Annotated[
        str | None,
        typer.Option(
            help=(
                "Tokens of the whole run, such as 15T, to predict its time, GPU-hours and failures."
            )
        ),
    ] = None,
    days: Annotated[
        float | None,
        decimal("With --tokens: find how many GPUs finish in this many days."),
    ] = None,
    price: Annotated[float | None, decimal("With --tokens: price of a GPU-hour.")] = None,
    gpu_mtbf: Annotated[
        float, decimal("With --tokens: mean hours between failures of one GPU.")
    ] = GPU_MTBF_HOURS,
    checkpoint_time: Annotated[
        float, decimal("With --tokens: seconds to write a checkpoint; an assumption.")
    ] = CHECKPOINT_S,
    restart_time: Annotated[
        float, decimal("With --tokens: seconds to restart after a failure; an assumption.")
    ] = RESTART_S,
    ds_config: Annotated[
        Path | None,
        typer.Option(
            help="Predict this DeepSpeed configuration, and compare it with the best layout."
        ),
    ] = None,
    margin: Annotated[
        float,
        decimal(
            "Share of GPU memory to leave free for allocations that no law covers; an assumption."
        ),
    ] = 0.05,
    top: Annotated[int, integer("Number of layouts to list.")] = 5,
    write: Annotated[
        Path | None,
        typer.Option(
            help="Write the best layout as a DeepSpeed file (.json) or PyTorch calls (.py)."
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Predict the fastest layout: stage, ZeRO++, offload, tensor x pipeline x data parallel."""
    _require_ranges(
        stage,
        tensor_parallel=tensor_parallel,
        pipeline_parallel=pipeline_parallel,
        context_parallel=context_parallel,
        expert_parallel=expert_parallel,
        chunks=chunks,
        batch=batch,
        top=top,
    )
    if not 0 <= margin < 1:
        raise ConfigError(f"margin is {margin:g}: expected 0 or more, and below 1")
    share = Fraction(margin).limit_denominator(10**6)
    per_batch = parse_tokens(tokens_per_batch)

    def asked(count: int) -> PlanQuestion:
        return ask(model, count, gpu, per_batch, sequence=sequence, margin=share, is_ideal=ideal)

    failures = _failures(gpu_mtbf, checkpoint_time, restart_time)
    whole = _whole(tokens, days, price)
    question = asked(gpus)
    fixed = replace(
        FREE,
        stages=STAGES if stage is None else (stage,),
        tensor=tensor_parallel,
        pipeline=pipeline_parallel,
        batch=batch,
        recompute=None if recompute is None else _one_of("recompute", recompute, _RECOMPUTES),
        variant=None if only is None else _one_of("only", only, tuple(Variant)),
        context=context_parallel,
        experts=expert_parallel,
        chunks=chunks,
        float8=float8,
    )
    given = None if ds_config is None else _given(question, ds_config)
    if whole is not None and days is not None:
        found = plan_for_days(asked, whole, days, failures, fixed)
    else:
        found = make_plan(question if given is None else given.question, fixed)
    best = found.best
    training = None if whole is None else Training(best, whole, failures, price)
    if write is not None:
        _write(write, best)
    if as_json:
        print_json({**plan_to_plain(found, given, top), "training": training_to_plain(training)})
        return 0
    print_plan(found, given, top)
    if training is not None:
        print_training(training)
    if write is not None:
        make_console().print(f"written to {write}")
    return 0


def _require_ranges(stage: int | None, **sizes: int | None) -> None:
    if stage is not None and stage not in STAGES:
        raise ConfigError(f"stage is {stage}: expected 0, 1, 2 or 3")
    for name, value in sizes.items():
        if value is not None and value < 1:
            raise ConfigError(f"{name.replace('_', '-')} is {value}: expected 1 or more")


def _failures(gpu_mtbf: float, checkpoint_time: float, restart_time: float) -> Failures:
    for name, value in (
        ("gpu-mtbf", gpu_mtbf),
        ("checkpoint-time", checkpoint_time),
        ("restart-time", restart_time),
    ):
        if not 0 < value < inf:
            raise ConfigError(f"{name} is {value:g}: expected a number above 0")
    return Failures(gpu_mtbf_hours=gpu_mtbf, checkpoint_s=checkpoint_time, restart_s=restart_time)


def _whole(tokens: str | None, days: float | None, price: float | None) -> int | None:
    """Tokens of the whole training run."""
    for name, value in (("days", days), ("price", price)):
        if value is not None and not 0 < value < inf:
            raise ConfigError(f"{name} is {value:g}: expected a number above 0")
        if value is not None and tokens is None:
            raise ConfigError(f"{name} is {value:g}: it needs --tokens of the whole training run")
    return None if tokens is None else parse_tokens(tokens, "tokens")


def _one_of(option: str, name: str, known: tuple[E, ...]) -> E:
    found = {one.value: one for one in known}
    if name not in found:
        raise ConfigError(f"{option} is {name!r}: expected one of {', '.join(found)}")
    return found[name]


def _given(question: PlanQuestion, path: Path) -> PredictedLayout:
    """The layout of a DeepSpeed file, predicted with the file's batch size.

    Raises:
        ConfigError: the file is refused, or its batch is not one of all GPUs.
    """
    from zerosim.train.deepspeed.config import read_settings

    settings = read_settings(path, question.gpus)
    config, sizes = settings.engine, settings.sizes
    own = replace(question, sequences=sizes.train, asked_tokens=sizes.train * question.sequence)
    fixed = Fixed(
        stages=(config.stage,),
        tensor=1,
        pipeline=1,
        batch=sizes.micro,
        recompute=Recompute.FULL if config.checkpoint_activations else None,
        config=config,
    )
    return make_plan(own, fixed).tried[0]


def _write(path: Path, best: PredictedLayout) -> None:
    """The best layout as a file.

    Raises:
        ConfigError: its name implies no format, or the framework cannot express the layout.
    """
    kinds = {".json": "DeepSpeed's configuration", ".py": "PyTorch's own calls"}
    if path.suffix not in kinds:
        raise ConfigError(f"write is {path}: expected a name that ends in .json or .py")
    text: str | None
    if path.suffix == ".json":
        found = deepspeed_config(best.layout)
        text = None if found is None else json.dumps(found, indent=2)
    else:
        text = torch_calls(best.layout)
    if text is None:
        raise ConfigError(
            f"{name_of(best.layout)} cannot be written as {kinds[path.suffix]}: try the other of "
            ".json and .py, or --only plain --tensor-parallel 1 --pipeline-parallel 1"
        )
    try:
        path.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise EnvironmentFault(f"{path}: cannot be written: {error.strerror or error}") from None
