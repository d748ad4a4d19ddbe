"""Plan: what would it cost at scale? All that is shown is predicted.

Its address is the question, which is read here and answered by the same functions as `zerosim
plan`; `planned` says what is shown of the answer, `components.plan` makes Dash components of it. A
machine is one that comes with zerosim: no address names a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from urllib.parse import urlencode

from zerosim.base.config import STAGE_NAMES, STAGES
from zerosim.base.config.shapes import SHAPES, built_in
from zerosim.base.errors import ConfigError
from zerosim.base.language import Language, spoken, term
from zerosim.base.quantities import format_exact
from zerosim.dashboards.pages.planned import Shown, shown_of
from zerosim.dashboards.texts import SITE
from zerosim.predict.placement import known_machines
from zerosim.predict.plan import LayoutSearch, ask, make_plan, parse_tokens
from zerosim.predict.plan.search import Fixed, Variant, narrowed, require_possible
from zerosim.theory.saved import Recompute

PATH = "/plan"
TITLE = "pages.plan"
SCRIPT = "plan.js"
"""Of the assets, what the page needs beside Dash."""
FREE = "any"
LONGEST = 24
"""Letters of a value in an address."""
LARGEST_TOKENS = 10**10
_MODELS = tuple(name.value for name in SHAPES)
_GPUS = ("8", "16", "64", "256", "512", "1024", "4096")
_TOKENS = ("512k", "1M", "4M", "16M")
_SEARCHED = Fixed(buckets=(None,), needed=True)
"""A bucket is a unit: other sizes change a step by less than a reader of the page sees."""
USUAL = {"model": "llama-3-8b", "machine": "dgx-h100", "gpus": "64", "tokens": "4M"}


@dataclass(frozen=True, slots=True)
class ControlValue:
    """One value of a control, and where the page shows it."""

    words: str
    address: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Control:
    """What can be chosen.

    Attributes:
        given: what the address says where a value may be typed; None where it may not.
    """

    name: str
    label: str
    options: tuple[ControlValue, ...]
    given: str | None = None


@dataclass(frozen=True, slots=True)
class PlanView:
    """The page: its controls, and the plan or why there is none."""

    controls: tuple[Control, ...]
    problem: str
    shown: Shown | None


def view(query: Mapping[str, str]) -> PlanView:
    """What the page shows at an address; what it says beside its own words is left out."""
    asked = {name: str(query.get(name, usual))[:LONGEST] for name, usual in USUAL.items()}
    chosen = {name: str(query.get(name, FREE))[:LONGEST] for name in _CHOICES}
    here = {**asked, **{name: value for name, value in chosen.items() if value != FREE}}
    try:
        fixed = _fixed(chosen)
        plan = _plan(*_question(asked), fixed.recompute, spoken())
        require_possible(plan.question, fixed)
        found = narrowed(plan, fixed)
    except ConfigError as error:
        return PlanView(_controls(here, asked, chosen), str(error), None)
    return PlanView(_controls(here, asked, chosen), "", shown_of(found, partial(_address, here)))


def _question(asked: Mapping[str, str]) -> tuple[str, int, str, int]:
    """Model, GPUs, machine and tokens of an address."""
    if asked["machine"] not in known_machines():
        raise ConfigError(
            SITE(
                "plan.there_is_no_machine_expected_one",
                machine=repr(asked["machine"]),
                known_machines=", ".join(known_machines()),
            )
        )
    built_in(asked["model"])
    tokens = parse_tokens(asked["tokens"])
    if tokens > LARGEST_TOKENS:
        raise ConfigError(
            SITE(
                "plan.tokens_a_step_are_expected_at",
                tokens=f"{tokens:,}",
                LARGEST_TOKENS=f"{LARGEST_TOKENS:,}",
            )
        )
    return asked["model"], _number("gpus", asked["gpus"]), asked["machine"], tokens


def _number(name: str, text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise ConfigError(SITE("plan.is_expected_a_whole_number", name=name, text=repr(text)))
    return int(text)


_VARIANTS = {
    Variant.PLAIN: "plan.plain",
    Variant.PLUS: "plan.plus",
    Variant.OFFLOAD: "plan.offload",
    Variant.INFINITY: "plan.infinity",
    Variant.HSDP: "plan.hsdp",
}
_RECOMPUTES = {
    Recompute.NONE: "plan.recompute_none",
    Recompute.OPERATORS: "plan.recompute_operators",
    Recompute.FULL: "plan.recompute_full",
}
_CHOICES: dict[str, Mapping[str, str]] = {
    "stage": {str(stage): STAGE_NAMES[stage] for stage in STAGES},
    "options": {variant.value: words for variant, words in _VARIANTS.items()},
    "recompute": {one.value: words for one, words in _RECOMPUTES.items()},
    "batch": {str(2**power): str(2**power) for power in range(5)},
    "tensor": {str(2**power): str(2**power) for power in range(4)},
    "pipeline": {str(2**power): str(2**power) for power in range(6)},
}


def _said(words: str) -> str:
    """What an option is called: words of ours have a key."""
    if words == FREE:
        return SITE("plan.any")
    return SITE(words) if words.startswith("plan.") else term(words)


def _fixed(chosen: Mapping[str, str]) -> Fixed:
    for name, value in chosen.items():
        known = _CHOICES[name]
        if value != FREE and value not in known and name not in ("batch", "tensor", "pipeline"):
            raise ConfigError(
                SITE(
                    "plan.is_expected_one_of", name=name, value=repr(value), known=", ".join(known)
                )
            )

    def number(name: str) -> int | None:
        if chosen[name] == FREE:
            return None
        value = _number(name, chosen[name])
        if value < 1:
            raise ConfigError(SITE("plan.is_expected_1_or_more", name=name, value=value))
        return value

    free = {name for name, value in chosen.items() if value == FREE}
    return Fixed(
        stages=STAGES if "stage" in free else (int(chosen["stage"]),),
        tensor=number("tensor"),
        pipeline=number("pipeline"),
        batch=number("batch"),
        recompute=None if "recompute" in free else Recompute(chosen["recompute"]),
        variant=None if "options" in free else Variant(chosen["options"]),
    )


@lru_cache(maxsize=16)
def _plan(
    model: str, gpus: int, machine: str, tokens: int, recompute: Recompute | None, _: Language
) -> LayoutSearch:
    """All that is tried, from which other choices take some; its words are in a language."""
    question = ask(model, gpus, machine, tokens)
    return make_plan(question, replace(_SEARCHED, recompute=recompute))


def _address(here: Mapping[str, str], **changed: str) -> str:
    values = {name: value for name, value in {**here, **changed}.items() if value != FREE}
    return f"{PATH}?{urlencode(values)}"


def _controls(
    here: Mapping[str, str], asked: Mapping[str, str], chosen: Mapping[str, str]
) -> tuple[Control, ...]:
    known: dict[str, Mapping[str, str]] = {
        "model": {name: name for name in _MODELS},
        "machine": {name: name for name in known_machines()},
        "gpus": {count: format_exact(int(count)) for count in _GPUS},
        "tokens": {count: count for count in _TOKENS},
        **{name: {FREE: FREE, **values} for name, values in _CHOICES.items()},
    }
    values = {**asked, **chosen}
    return tuple(
        Control(
            name,
            SITE(f"plan.label_{name}"),
            tuple(
                ControlValue(_said(words), _address(here, **{name: value}), value == values[name])
                for value, words in options.items()
            ),
            values[name] if name in ("gpus", "tokens") else None,
        )
        for name, options in known.items()
    )


def command_at(query: Mapping[str, str]) -> tuple[str, ...]:
    """The words of the command that simulates the layout at an address, without `zerosim`.

    Raises:
        ConfigError: there is no plan, no such command, or it is too large for a server.
    """
    found = view(query)
    if found.shown is None:
        raise ConfigError(found.problem)
    if problem := found.shown.no_command or found.shown.too_large:
        raise ConfigError(SITE("plan.it_is_not_simulated_here", why=problem))
    return tuple(found.shown.command.split()[1:])


def typed(query: Mapping[str, str], gpus: str, tokens: str) -> str:
    """The address that asks for what was typed."""
    here = {name: value for name, value in query.items() if name in {*USUAL, *_CHOICES}}
    return _address({**USUAL, **here}, gpus=gpus[:LONGEST], tokens=tokens[:LONGEST])
