"""Plan: the cost of training at scale. Everything on the page is predicted.

Its address is the question (`plan_choices`), which is answered here by the same functions as
`zerosim plan`; `planned` selects the displayed results, and `components.plan` converts them to Dash
components.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from zerosim.base.config.huggingface import FILE, architecture, values_of
from zerosim.base.config.shapes import built_in
from zerosim.base.errors import ConfigError
from zerosim.base.language import Language, spoken
from zerosim.dashboards.pages.plan_choices import (
    FREE,
    LONGEST,
    PATH,
    USUAL,
    Control,
    PlanAddress,
    asked_at,
    chosen_by,
    controls,
    fixed_of,
    number_of,
    without_own,
)
from zerosim.dashboards.pages.planned import Shown, shown_of
from zerosim.dashboards.texts import SITE
from zerosim.predict.placement import known_machines
from zerosim.predict.plan import LayoutSearch, ask, make_plan, parse_tokens
from zerosim.predict.plan.layouts import Fixed
from zerosim.predict.plan.search import narrowed, require_possible
from zerosim.theory.saved import Recompute

__all__ = ["PATH", "SCRIPT", "TITLE", "USUAL", "PlanView", "command_at", "typed", "view"]

TITLE = "pages.plan"
SCRIPT = "plan.js"
"""The assets that the page needs besides Dash."""
LARGEST_TOKENS = 10**10
_SEARCHED = Fixed(buckets=(None,), needed=True)
"""Each bucket is one unit: other sizes make a difference too small to be visible on the page."""


@dataclass(frozen=True, slots=True)
class PlanView:
    """The page: its controls, and the plan or why there is none.

    Attributes:
        kept: the other parameters of a form that requests another model, by name.
    """

    controls: tuple[Control, ...]
    problem: str
    shown: Shown | None
    kept: Mapping[str, str]


def view(query: Mapping[str, str]) -> PlanView:
    """The contents of the page at an address."""
    asked = without_own(query)
    try:
        asked = asked_at(query)
        fixed = fixed_of(asked.chosen)
        plan = _plan(_question(asked), fixed.recompute, spoken())
        require_possible(plan.question, fixed)
        found = narrowed(plan, fixed)
        beside = _beside(asked, plan) if asked.beside else None
        shown = shown_of(found, asked, beside, plan)
    except ConfigError as error:
        return PlanView(controls(asked), str(error), None, _kept(asked))
    return PlanView(controls(asked), "", shown, _kept(asked))


def _kept(asked: PlanAddress) -> Mapping[str, str]:
    question = asked.question.items()
    return {name: value for name, value in question if name != "model" and value != FREE}


@dataclass(frozen=True, slots=True)
class AskedPlan:
    """The question of an address.

    Attributes:
        sequence: tokens of a sequence; None for the model's own number.
        own: a configuration in place of the model's name; "" if there is none.
    """

    model: str
    gpus: int
    machine: str
    tokens: int
    sequence: int | None
    own: str


def _question(asked: PlanAddress) -> AskedPlan:
    question = asked.question
    if question["machine"] not in known_machines():
        raise ConfigError(
            SITE(
                "plan.there_is_no_machine_expected_one",
                machine=repr(question["machine"]),
                known_machines=", ".join(known_machines()),
            )
        )
    if not asked.own:
        built_in(question["model"])
    tokens = parse_tokens(question["tokens"])
    if tokens > LARGEST_TOKENS:
        raise ConfigError(
            SITE(
                "plan.tokens_a_step_are_expected_at",
                tokens=f"{tokens:,}",
                LARGEST_TOKENS=f"{LARGEST_TOKENS:,}",
            )
        )
    model = FILE if asked.own else question["model"]
    length = question["sequence"]
    sequence = None if length == FREE else number_of("sequence", length)
    gpus = number_of("gpus", question["gpus"])
    return AskedPlan(model, gpus, question["machine"], tokens, sequence, asked.own)


@lru_cache(maxsize=16)
def _plan(asked: AskedPlan, recompute: Recompute | None, _: Language) -> LayoutSearch:
    """A search over all layouts, from which other choices select; cached by language."""
    shape = architecture(values_of(asked.own)) if asked.own else None
    of_it = (asked.model, asked.gpus, asked.machine, asked.tokens)
    question = ask(*of_it, shape=shape, sequence=asked.sequence)
    return make_plan(question, replace(_SEARCHED, recompute=recompute))


def _beside(asked: PlanAddress, plan: LayoutSearch) -> LayoutSearch:
    """The layout that the other one is compared with, of the same question."""
    fixed = fixed_of(chosen_by(asked.beside))
    require_possible(plan.question, fixed)
    try:
        return narrowed(plan, fixed)
    except ConfigError:  # a plan omits layouts with unneeded recomputation
        return narrowed(_plan(_question(asked), fixed.recompute, spoken()), fixed)


def command_at(query: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """The words of the command that simulates the layout at an address, without `zerosim`.

    Returns:
        The words, and the configuration that they call `FILE`; "" if they name a model.

    Raises:
        ConfigError: the address has no plan, no command simulates the layout, or the simulation is
            too large for a server.
    """
    found = view(query)
    if found.shown is None:
        raise ConfigError(found.problem)
    if problem := found.shown.no_command or found.shown.too_large:
        raise ConfigError(SITE("plan.it_is_not_simulated_here", why=problem))
    return tuple(found.shown.command.split()[1:]), asked_at(query).own


def typed(query: Mapping[str, str], gpus: str, tokens: str) -> str:
    """The address for the typed values."""
    try:
        asked = asked_at(query)
    except ConfigError:
        asked = without_own(query)
    return asked.address(gpus=gpus[:LONGEST], tokens=tokens[:LONGEST])
