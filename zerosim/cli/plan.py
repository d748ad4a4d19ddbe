"""`zerosim plan`: which layout would train a model fastest, and what would limit it; predicted."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from zerosim.base.config import STAGES
from zerosim.base.config.shapes import SHAPES
from zerosim.base.errors import ConfigError, EnvironmentFault
from zerosim.base.quantities import format_amount, format_bytes, format_exact
from zerosim.cli.console import make_console, make_table, print_json, print_table
from zerosim.cli.options import AsJson, decimal, integer
from zerosim.predict.plan import (
    FREE,
    Fixed,
    Plan,
    Predicted,
    Prices,
    Question,
    ask,
    make_plan,
    notes_on,
    parse_tokens,
)
from zerosim.predict.plan.scaling import scaled
from zerosim.predict.plan.search import Variant, name_of, words_of
from zerosim.predict.plan.tables import layouts_table, memory_table, times_table, title_of
from zerosim.predict.plan.written import deepspeed_config, simulate_command, torch_calls
from zerosim.theory.saved import Recompute

E = TypeVar("E", bound=StrEnum)
_RECOMPUTES = (Recompute.NONE, Recompute.FULL)


def plan(  # noqa: PLR0913 - as many things can be asked
    *,
    model: Annotated[
        str, typer.Option(help=f"{', '.join(SHAPES)}, or a Hugging Face config.json.")
    ] = "llama-3-8b",
    gpus: Annotated[int, integer("All of them.")] = 64,
    gpu: Annotated[
        str, typer.Option(help="What they are: h100, a machine such as dgx-h100, or a file.")
    ] = "h100",
    tokens_per_batch: Annotated[
        str, typer.Option(help="Tokens of an optimizer step, all GPUs together: 4M, 512k.")
    ] = "4M",
    sequence: Annotated[
        int | None, integer("Tokens of a sequence; the model's own by default.")
    ] = None,
    stage: Annotated[int | None, integer("0, 1, 2 or 3 alone.")] = None,
    tensor_parallel: Annotated[int | None, integer("So many alone.")] = None,
    pipeline_parallel: Annotated[int | None, integer("So many alone.")] = None,
    batch: Annotated[int | None, integer("Sequences of a micro-batch, alone.")] = None,
    recompute: Annotated[str | None, typer.Option(help="none or full alone.")] = None,
    only: Annotated[
        str | None, typer.Option(help=f"{', '.join(Variant)}: built on the stage, alone.")
    ] = None,
    ds_config: Annotated[
        Path | None, typer.Option(help="Predict what this DeepSpeed file says, beside the best.")
    ] = None,
    margin: Annotated[
        float, decimal("Part of a card's memory for what no law counts; an assumption.")
    ] = 0.05,
    top: Annotated[int, integer("Rows of the fastest layouts.")] = 5,
    write: Annotated[
        Path | None,
        typer.Option(help="Write the best as a DeepSpeed file (.json) or PyTorch calls (.py)."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Predict the fastest layout: stage, ZeRO++, offload, tensor x pipeline x data parallel."""
    _require_ranges(stage, tensor_parallel, pipeline_parallel, batch, top)
    if not 0 <= margin < 1:
        raise ConfigError(f"margin is {margin:g}: expected 0 or more, and below 1")
    share = Fraction(margin).limit_denominator(10**6)
    tokens = parse_tokens(tokens_per_batch)
    question = ask(model, gpus, gpu, tokens, sequence=sequence, margin=share)
    fixed = replace(
        FREE,
        stages=STAGES if stage is None else (stage,),
        tensor=tensor_parallel,
        pipeline=pipeline_parallel,
        batch=batch,
        recompute=None if recompute is None else _one_of("recompute", recompute, _RECOMPUTES),
        variant=None if only is None else _one_of("only", only, tuple(Variant)),
    )
    given = None if ds_config is None else _given(question, ds_config)
    found = make_plan(question if given is None else given.question, fixed)
    best = found.best
    if write is not None:
        _write(write, best)
    if as_json:
        print_json(_to_plain(found, given, top))
        return 0
    _print(found, given, top)
    if write is not None:
        make_console().print(f"written to {write}")
    return 0


def _require_ranges(
    stage: int | None, tensor: int | None, pipeline: int | None, batch: int | None, top: int
) -> None:
    if stage is not None and stage not in STAGES:
        raise ConfigError(f"stage is {stage}: expected 0, 1, 2 or 3")
    for name, value in (
        ("tensor-parallel", tensor),
        ("pipeline-parallel", pipeline),
        ("batch", batch),
        ("top", top),
    ):
        if value is not None and value < 1:
            raise ConfigError(f"{name} is {value}: expected 1 or more")


def _one_of(option: str, name: str, known: tuple[E, ...]) -> E:
    found = {one.value: one for one in known}
    if name not in found:
        raise ConfigError(f"{option} is {name!r}: expected one of {', '.join(found)}")
    return found[name]


def _given(question: Question, path: Path) -> Predicted:
    """What a DeepSpeed file says, as its batch size says it.

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


def _write(path: Path, best: Predicted) -> None:
    """The best layout as a file.

    Raises:
        ConfigError: its name says neither, or the framework has no words for the layout.
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
            f"{name_of(best.layout)} cannot be written as {kinds[path.suffix]}: try another of "
            ".json and .py, or --only plain --tensor-parallel 1 --pipeline-parallel 1"
        )
    try:
        path.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise EnvironmentFault(f"{path}: cannot be written: {error.strerror or error}") from None


# ------------------------------------------------------------------- printed


def _print(found: Plan, given: Predicted | None, top: int) -> None:
    console, question, best = make_console(), found.question, found.best
    console.print(Text(f"Predicted: {title_of(best)}", style="bold"))
    console.print(Text(_what(question, found), style="dim"))
    console.print()
    _print_layouts(console, "predicted, the fastest that fit", found.fastest(top))
    _print_layouts(console, "predicted, the fastest of each kind", tuple(found.kinds().values()))
    if given is not None:
        _print_layouts(console, "predicted, as the file says it", (given,))
    _print_best(console, best)
    _print_limits(console, found)
    _print_files(console, found)


def _what(question: Question, found: Plan) -> str:
    fit = len(found.fitting)
    return (
        f"{format_exact(question.sequences)} sequences of {format_exact(question.sequence)} "
        f"tokens; {format_exact(len(found.tried))} layouts tried, {format_exact(fit)} fit into "
        f"{format_bytes(question.memory_bytes)} a GPU with a margin of "
        f"{float(100 * question.margin):g} %"
    )


_COLUMNS = (
    *("layout", "T x P x D", "batch x steps", "peak"),
    *("step, s", "tokens a day", "MFU", "limit"),
)


def _print_layouts(console: Console, title: str, some: tuple[Predicted, ...]) -> None:
    table = make_table(
        *(
            "layout",
            "T x P x D",
            "batch x steps",
            "peak",
            "step, s",
            "tokens a day",
            "MFU",
            "limit",
        ),
        left=3,
        title=title,
    )
    for one in some:
        times = (f"{one.step_s:,.3f}", format_amount(one.tokens_per_day), f"{one.mfu:.1%}")
        values = (*times, one.limit) if one.fits else ("", "", "", "does not fit")
        table.add_row(*words_of(one.layout), format_bytes(one.footprint.bytes), *values)
    print_table(console, table)
    console.print()


def _print_best(console: Console, best: Predicted) -> None:
    parts = memory_table(best)
    table = make_table("part", "bytes", "formula", "source", title=parts.title)
    for part in parts:
        table.add_row(part["part"], format_exact(part["bytes"]), part["formula"], part["source"])
    table.add_row("together", format_exact(best.footprint.bytes), "", "", style="bold")
    print_table(console, table)
    console.print()
    times = times_table([("", best)], "predicted: where the time of one step goes")
    table = make_table("cause", "s", "of the step", title=times.title)
    for row in times:
        table.add_row(row["cause"], f"{row['seconds']:,.4f}", f"{row['seconds'] / best.step_s:.1%}")
    print_table(console, table)
    console.print()


def _print_limits(console: Console, found: Plan) -> None:
    best = found.best
    console.print(f"limited by {best.limit}, predicted")
    larger = found.fastest_too_large
    if larger is not None:
        console.print(
            f"memory: {name_of(larger.layout)} would take {larger.step_s / best.step_s:.1%} of the "
            f"time, predicted, and needs {format_bytes(larger.footprint.bytes)}"
        )
    prices = Prices(found.question.machine)
    points = scaled(prices, found.question, best.layout)
    late = next((point for point in points if not point.hides), None)
    if late is not None and late.hiding_tokens is not None:
        console.print(
            f"predicted: a gather hides behind {late.hiding_tokens:,.0f} tokens of a GPU (C/W); on "
            f"{format_exact(late.gpus)} GPUs and more it has {format_exact(late.tokens_per_gpu)}"
        )
    for note in notes_on(best):
        console.print(f"note: {note}")


def _print_files(console: Console, found: Plan) -> None:
    best = found.best
    keys = deepspeed_config(best.layout)
    if keys is not None:
        console.print()
        console.print("its DeepSpeed configuration (--write ds.json):")
        console.print(Text(json.dumps(keys, indent=2)))
    calls = torch_calls(best.layout)
    if calls is not None:
        console.print()
        console.print("the same with PyTorch (--write layout.py):")
        console.print(Text(calls))
    if best.layout.recompute is Recompute.FULL:
        console.print("the program itself computes its blocks again: torch.utils.checkpoint")
    command, reason = simulate_command(found.question, best.layout)
    console.print(f"next: {command}" if command else f"note: not simulated, because {reason}")


# ------------------------------------------------------------------- JSON


def _to_plain(found: Plan, given: Predicted | None, top: int) -> dict[str, Any]:
    question = found.question
    larger = found.fastest_too_large
    return {
        "evidence": "predicted",
        "model": question.model,
        "machine": question.machine.name,
        "gpus": question.gpus,
        "sequences": question.sequences,
        "sequence": question.sequence,
        "asked_tokens": question.asked_tokens,
        "predicted_memory_bytes": question.memory_bytes,
        "tried": len(found.tried),
        "fitting": len(found.fitting),
        "fastest": [_layout(one) for one in found.fastest(top)],
        "kinds": {kind: _layout(one) for kind, one in found.kinds().items()},
        "given": None if given is None else _layout(given),
        "too_large": None if larger is None else _layout(larger),
        "table": layouts_table(found.fastest(top), title_of(found.best)).to_dict(),
        "deepspeed": deepspeed_config(found.best.layout),
        "torch": torch_calls(found.best.layout),
        "notes": list(notes_on(found.best)),
    }


def _layout(one: Predicted) -> dict[str, Any]:
    layout = one.layout
    command, reason = simulate_command(one.question, layout)
    return {
        "name": name_of(layout),
        "engine": layout.config.to_plain(),
        "tensor": layout.cut.tensor,
        "pipeline": layout.pipeline,
        "data": layout.data,
        "batch": layout.batch,
        "recompute": layout.recompute,
        "predicted_fits": one.fits,
        "predicted_peak": {
            "moment": one.footprint.moment,
            "bytes": one.footprint.bytes,
            "host_bytes": one.footprint.host_bytes,
            "parts": [asdict(part) for part in one.footprint.parts],
        },
        "predicted_step_s": one.step_s,
        "predicted_times_s": {cause.value: ns / 1e9 for cause, ns in one.times.items() if ns},
        "predicted_tokens_per_day": one.tokens_per_day,
        "predicted_mfu": one.mfu,
        "predicted_limit": one.limit,
        "simulate": command or None,
        "not_simulated": reason or None,
    }
