"""The choices on the page Plan, and their representation in an address.

An address contains the whole question, so that a link shows the same everywhere. This includes a
user's own model: the address contains its Hugging Face config.json, reduced to the keys that
determine its sizes. A machine is one of those included in zerosim: no address names a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from urllib.parse import urlencode

from zerosim.base.config import STAGE_NAMES, STAGES
from zerosim.base.config.huggingface import FILE, essential, values_of
from zerosim.base.config.shapes import SHAPES
from zerosim.base.errors import ConfigError
from zerosim.base.language import term
from zerosim.base.quantities import format_exact
from zerosim.dashboards.texts import SITE
from zerosim.predict.placement import known_machines
from zerosim.predict.placement.machine import load_machine
from zerosim.predict.plan.layouts import Fixed, Variant
from zerosim.theory.saved import Recompute

PATH = "/plan"
FREE = "any"
LONGEST = 48
"""Letters of a value in an address."""
LONGEST_CONFIG = 16_384
"""Letters of a configuration in an address."""
USUAL = {
    "model": "llama-3-8b",
    "machine": "dgx-h100",
    "gpus": "64",
    "tokens": "4M",
    "sequence": FREE,
}
OWN, BESIDE = "config", "beside"
"""Names in an address: of a configuration, and of the layout that the other is compared with."""
_GPUS = ("8", "16", "64", "256", "512", "1024", "4096")
_TOKENS = ("512k", "1M", "4M", "16M")
_SEQUENCES = ("2048", "4096", "8192", "32768")
_GENERATIONS = ("blackwell", "hopper", "ampere", "volta")
"""The newest first."""
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
CHOICES: dict[str, Mapping[str, str]] = {
    "stage": {str(stage): STAGE_NAMES[stage] for stage in STAGES},
    "options": {variant.value: words for variant, words in _VARIANTS.items()},
    "recompute": {one.value: words for one, words in _RECOMPUTES.items()},
    "batch": {str(2**power): str(2**power) for power in range(5)},
    "tensor": {str(2**power): str(2**power) for power in range(4)},
    "pipeline": {str(2**power): str(2**power) for power in range(6)},
}
"""The choices about a layout, in the order of its code (`code_of`)."""
_NUMBERS = ("batch", "tensor", "pipeline")


@dataclass(frozen=True, slots=True)
class ControlValue:
    """One value of a control, and its address."""

    words: str
    address: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """Values that belong together, with or without a heading."""

    label: str
    values: tuple[ControlValue, ...]


@dataclass(frozen=True, slots=True)
class Control:
    """A choice on the page.

    Attributes:
        part: its part of the page's choices: the question, or the layout.
        given: the value in the address if a value can be typed; None if not.
    """

    name: str
    label: str
    part: str
    groups: tuple[ControlGroup, ...]
    given: str | None = None

    @property
    def options(self) -> tuple[ControlValue, ...]:
        """All values."""
        return tuple(one for group in self.groups for one in group.values)


@dataclass(frozen=True, slots=True)
class PlanAddress:
    """The question of an address, as written in it.

    Attributes:
        question: model, machine, GPUs, tokens, and the tokens of a sequence.
        chosen: the choices about the layout; `FREE` for those left open.
        own: a configuration, reduced to the keys about the model; "" if there is none.
        beside: the code of a layout for comparison; "" if there is none.
    """

    question: Mapping[str, str]
    chosen: Mapping[str, str]
    own: str = ""
    beside: str = ""

    def address(self, **changed: str) -> str:
        """The page's address with some values changed; a model's name replaces the user's own."""
        values = {**self.question, **self.chosen, OWN: self.own, BESIDE: self.beside, **changed}
        if "model" in changed:
            values[OWN] = ""
        if values[OWN]:
            del values["model"]
        kept = {name: value for name, value in values.items() if value not in (FREE, "")}
        return f"{PATH}?{urlencode(kept)}"


def asked_at(query: Mapping[str, str]) -> PlanAddress:
    """The question of an address; other parameters and values that are too long are omitted.

    Raises:
        ConfigError: its configuration is invalid. The other values are not checked.
    """
    text = str(query.get(OWN, ""))
    return PlanAddress(
        {name: str(query.get(name, usual))[:LONGEST] for name, usual in USUAL.items()},
        {name: str(query.get(name, FREE))[:LONGEST] for name in CHOICES},
        _own(text) if text.strip() else "",
        str(query.get(BESIDE, ""))[:LONGEST],
    )


def without_own(query: Mapping[str, str]) -> PlanAddress:
    """The question of an address with a built-in model instead of its configuration."""
    return asked_at({name: value for name, value in query.items() if name != OWN})


@lru_cache(maxsize=64)
def _own(text: str) -> str:
    if len(text) > LONGEST_CONFIG:
        raise ConfigError(
            SITE("plan.config_too_long", letters=format_exact(len(text)), most=LONGEST_CONFIG)
        )
    kept = essential(values_of(text, FILE), FILE)
    return json.dumps(kept, separators=(",", ":"), sort_keys=True)


def fixed_of(chosen: Mapping[str, str]) -> Fixed:
    """The choices that the address fixes.

    Raises:
        ConfigError: a value does not exist.
    """
    for name, value in chosen.items():
        known = CHOICES[name]
        if value != FREE and value not in known and name not in _NUMBERS:
            raise ConfigError(
                SITE(
                    "plan.is_expected_one_of", name=name, value=repr(value), known=", ".join(known)
                )
            )

    def number(name: str) -> int | None:
        if chosen[name] == FREE:
            return None
        value = number_of(name, chosen[name])
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


def number_of(name: str, text: str) -> int:
    """A whole number.

    Raises:
        ConfigError: it is none.
    """
    if not text.isascii() or not text.isdecimal():
        raise ConfigError(SITE("plan.is_expected_a_whole_number", name=name, text=repr(text)))
    return int(text)


def code_of(chosen: Mapping[str, str]) -> str:
    """A layout in one value of an address: "3.plain.full.2.8.1"."""
    return ".".join(chosen[name] for name in CHOICES)


def chosen_by(code: str) -> dict[str, str]:
    """The inverse of `code_of`.

    Raises:
        ConfigError: it is none.
    """
    values = code.split(".")
    if len(values) != len(CHOICES):
        raise ConfigError(SITE("plan.no_code", code=repr(code)))
    return dict(zip(CHOICES, values, strict=True))


def controls(asked: PlanAddress) -> tuple[Control, ...]:
    """All choices: about the question, then about the layout."""
    return (*_of_question(asked), *_of_layout(asked))


def _of_question(asked: PlanAddress) -> Iterator[Control]:
    def values(name: str, known: Mapping[str, str]) -> tuple[ControlValue, ...]:
        now = "" if name == "model" and asked.own else asked.question[name]
        return tuple(
            ControlValue(words, asked.address(**{name: value}), value == now)
            for value, words in known.items()
        )

    models = [
        ControlGroup("", values("model", {name: name for name in names}))
        for names in _families().values()
    ]
    if asked.own:
        own = ControlValue(FILE, asked.address(), is_chosen=True)
        models.append(ControlGroup("", (own,)))
    machines = tuple(
        ControlGroup(label, values("machine", {name: name for name in names}))
        for label, names in _machines().items()
    )
    gpus = {count: format_exact(int(count)) for count in _GPUS}
    tokens = {count: count for count in _TOKENS}
    question = "question"
    for name, groups in (("model", tuple(models)), ("machine", machines)):
        yield Control(name, SITE(f"plan.label_{name}"), question, groups)
    lengths = {FREE: SITE("plan.own_sequence")}
    lengths |= {length: format_exact(int(length)) for length in _SEQUENCES}
    only = (ControlGroup("", values("sequence", lengths)),)
    yield Control("sequence", SITE("plan.label_sequence"), question, only)
    for name, known in (("gpus", gpus), ("tokens", tokens)):
        only = (ControlGroup("", values(name, known)),)
        yield Control(name, SITE(f"plan.label_{name}"), question, only, asked.question[name])


def _of_layout(asked: PlanAddress) -> Iterator[Control]:
    for name, known in CHOICES.items():
        values = tuple(
            ControlValue(_said(words), asked.address(**{name: value}), value == asked.chosen[name])
            for value, words in {FREE: FREE, **known}.items()
        )
        label = SITE(f"plan.label_{name}")
        yield Control(name, label, "layout", (ControlGroup("", values),))


def _said(words: str) -> str:
    """The displayed name of an option; our own words have a key."""
    if words == FREE:
        return SITE("plan.any")
    return SITE(words) if words.startswith("plan.") else term(words)


def _families() -> Mapping[str, list[str]]:
    """The models, those of a family together."""
    found: dict[str, list[str]] = {}
    for name in SHAPES:
        found.setdefault(name.value.split("-")[0], []).append(name.value)
    return found


@cache
def _machines() -> Mapping[str, tuple[str, ...]]:
    """All machines by their GPU, of the newest generation first.

    For each GPU, plain machines first, then those with constants of a measured software.
    """
    found: dict[tuple[int, str], list[str]] = {}
    for name in known_machines():
        machine = load_machine(name)
        order = _GENERATIONS.index(machine.generation)
        label = f"{_gpu(name).upper()} ({machine.generation.capitalize()})"
        found.setdefault((order, label), []).append(name)
    return {
        label: tuple(sorted(names, key=lambda one: (bool(load_machine(one).software), one)))
        for (_, label), names in sorted(found.items())
    }


def _gpu(name: str) -> str:
    """The accelerator of a machine, which may be another machine's."""
    accelerator = load_machine(name).accelerator
    return _gpu(accelerator) if accelerator else name
