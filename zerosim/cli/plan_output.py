"""The output of `zerosim plan`: tables for people, JSON for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from zerosim.base.quantities import format_amount, format_bytes, format_exact
from zerosim.cli.console import make_console, make_table, print_table
from zerosim.predict.plan import LayoutSearch, PlanQuestion, PredictedLayout, notes_on
from zerosim.predict.plan.layout_names import name_of, words_of
from zerosim.predict.plan.notes import basis_of
from zerosim.predict.plan.strong_scaling import scaled
from zerosim.predict.plan.tables import layouts_table, memory_table, times_table, title_of
from zerosim.predict.plan.training import (
    Training,
    largest_batch,
    largest_model,
    largest_sequence,
    lines_of,
)
from zerosim.predict.plan.written import deepspeed_config, simulate_command, torch_calls
from zerosim.theory.saved import Recompute


def print_plan(found: LayoutSearch, given: PredictedLayout | None, top: int) -> None:
    """The fastest layouts, and all predictions for the best one."""
    console, question, best = make_console(), found.question, found.best
    console.print(Text(f"Predicted: {title_of(best)}", style="bold"))
    console.print(Text(_what(question, found), style="dim"))
    console.print()
    _print_layouts(console, "predicted, the fastest that fit", found.fastest(top))
    if beyond := found.beyond(top):
        _print_layouts(console, "predicted to be faster, but outside the measured range", beyond)
    _print_layouts(console, "predicted, the fastest of each kind", tuple(found.kinds().values()))
    if given is not None:
        _print_layouts(console, "predicted, as configured in the file", (given,))
    _print_best(console, best)
    _print_limits(console, found)
    _print_files(console, found)


def _what(question: PlanQuestion, found: LayoutSearch) -> str:
    fit = len(found.fitting)
    return (
        f"{format_exact(question.sequences)} sequences of {format_exact(question.sequence)} "
        f"tokens; {format_exact(len(found.tried))} layouts tried, {format_exact(fit)} fit in "
        f"{format_bytes(question.memory_bytes)} per GPU with a margin of "
        f"{float(100 * question.margin):g} %"
    )


_COLUMNS = (
    *("layout", "T x P x D", "batch x steps", "peak"),
    *("step, s", "tokens a day", "MFU", "limit"),
)


def _print_layouts(console: Console, title: str, some: tuple[PredictedLayout, ...]) -> None:
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
        table.add_row(*words_of(one.layout), format_bytes(one.peak_bytes), *values)
    print_table(console, table)
    console.print()


def _print_best(console: Console, best: PredictedLayout) -> None:
    parts = memory_table(best)
    table = make_table("part", "bytes", "formula", "source", title=parts.title)
    for part in parts:
        table.add_row(part["part"], format_exact(part["bytes"]), part["formula"], part["source"])
    table.add_row("total", format_exact(best.peak_bytes), "", "", style="bold")
    print_table(console, table)
    console.print()
    times = times_table([("", best)], "predicted: where the time of one step goes")
    table = make_table("cause", "s", "of the step", title=times.title)
    for row in times:
        table.add_row(row["cause"], f"{row['seconds']:,.4f}", f"{row['seconds'] / best.step_s:.1%}")
    print_table(console, table)
    console.print()


def print_training(training: Training) -> None:
    """The duration of a whole training run, and the part lost to failures."""
    console = make_console()
    title = f"predicted: training with {format_amount(training.tokens)} tokens"
    table = make_table("what", "value", "formula", title=title)
    for row in lines_of(training):
        table.add_row(*row)
    console.print()
    print_table(console, table)


def training_to_plain(training: Training | None) -> dict[str, Any] | None:
    """The same as JSON values."""
    if training is None:
        return None
    gpus, failures = training.gpus, training.failures
    return {
        "tokens": training.tokens,
        "gpus": gpus,
        "predicted_days": training.days,
        "predicted_gpu_hours": training.gpu_hours,
        "predicted_cost": training.cost,
        "predicted_goodput": training.goodput,
        "mtbf_s": failures.mtbf_s(gpus),
        "young_s": failures.young_s(gpus),
        "daly_s": failures.daly_s(gpus),
    }


def _print_limits(console: Console, found: LayoutSearch) -> None:
    best = found.best
    console.print(basis_of(best))
    console.print(f"limited by {best.limit}, predicted")
    larger = found.fastest_too_large
    if larger is not None:
        console.print(
            f"memory: {name_of(larger.layout)} would take {larger.step_s / best.step_s:.1%} of the "
            f"time, predicted, and needs {format_bytes(larger.peak_bytes)}"
        )
    points = scaled(best.beliefs, found.question, best.layout)
    late = next((point for point in points if not point.hides), None)
    if late is not None and late.hiding_tokens is not None:
        console.print(
            f"predicted: computing {late.hiding_tokens:,.0f} tokens hides a gather (C/W); on "
            f"{format_exact(late.gpus)} GPUs, a GPU computes {format_exact(late.tokens_per_gpu)}"
        )
    model = largest_model(best)
    console.print(
        "predicted to fit in this layout: "
        f"a micro-batch of {format_exact(largest_batch(best))}, or "
        f"sequences of {format_exact(largest_sequence(best))} tokens, or "
        f"{model.layers} layers ({format_amount(model.num_parameters)} parameters)"
    )
    for note in notes_on(best):
        console.print(f"note: {note}")


def _print_files(console: Console, found: LayoutSearch) -> None:
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
        console.print("activation checkpointing is up to the program: torch.utils.checkpoint")
    command, reason = simulate_command(found.question, best.layout)
    console.print(f"next: {command}" if command else f"note: not simulated, because {reason}")


# ------------------------------------------------------------------- JSON


def plan_to_plain(found: LayoutSearch, given: PredictedLayout | None, top: int) -> dict[str, Any]:
    """A whole plan as JSON values."""
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
        "beyond": [_layout(one) for one in found.beyond(top)],
        "kinds": {kind: _layout(one) for kind, one in found.kinds().items()},
        "given": None if given is None else _layout(given),
        "too_large": None if larger is None else _layout(larger),
        "table": layouts_table(found.fastest(top), title_of(found.best)).to_dict(),
        "deepspeed": deepspeed_config(found.best.layout),
        "torch": torch_calls(found.best.layout),
        "notes": list(notes_on(found.best)),
    }


_OF_PART = ("name", "bytes", "formula", "source", "role")


def _layout(one: PredictedLayout) -> dict[str, Any]:
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
            "bytes": one.peak_bytes,
            "host_bytes": one.footprint.host_bytes,
            "parts": [
                {name: getattr(part, name) for name in _OF_PART} for part in one.footprint.parts
            ],
        },
        "predicted_step_s": one.step_s,
        "predicted_bound_s": one.bound_s,
        "software": None if one.software is None else one.software.name,
        "record": None
        if one.software is None or one.software.record is None
        else asdict(one.software.record),
        "predicted_times_s": {cause.value: ns / 1e9 for cause, ns in one.times.items() if ns},
        "predicted_tokens_per_day": one.tokens_per_day,
        "predicted_mfu": one.mfu,
        "predicted_limit": one.limit,
        "simulate": command or None,
        "not_simulated": reason or None,
    }
