"""The choices on the page Plan: labels above their values, on one grid."""

from __future__ import annotations

from dash import dcc, html
from dash.development.base_component import Component

from zerosim.dashboards.components.parts import aria, field
from zerosim.dashboards.pages.plan import PATH, PlanView
from zerosim.dashboards.pages.plan_choices import OWN, Control, ControlValue
from zerosim.dashboards.pages.planned import Shown
from zerosim.dashboards.texts import SITE

GPUS, TOKENS, OWN_MODEL = "plan-gpus", "plan-tokens", "own-model"
_FIELDS = {"gpus": GPUS, "tokens": TOKENS}


def choices_of(view: PlanView) -> Component:
    """The question, then the choices about the layout, then the layouts to compare it with."""
    rows: list[Component] = []
    for part in ("question", "layout"):
        rows.append(html.H2(SITE(f"plan.choose_{part}"), id=f"choose-{part}"))
        for one in view.controls:
            rows += [_control(one)] if one.part == part else []
            rows += [_own_model(view)] if (part, one.name) == ("question", "model") else []
    if view.shown is not None:
        rows += _beside(view.shown)
    return html.Section(html.Div(rows, className="controls"), className="card choices")


def _control(control: Control) -> Component:
    """A label above its values, and a field beside them where a value may be typed."""
    groups = [
        html.Div(
            [
                *([html.Span(group.label, className="of")] if group.label else []),
                *(_choice(one) for one in group.values),
            ],
            className="ranks",
        )
        for group in control.groups
    ]
    parts: list[Component] = [html.Span(control.label, className="label")]
    parts.append(html.Nav(groups, **aria(label=control.label)))
    if control.given is not None:
        name = _FIELDS[control.name]
        typed = field(SITE("plan.another_number"), name, control.name, control.given)
        parts.append(html.Div(typed, className="plan"))
    look = "control wide-control" if len(control.groups) > 1 else "control"
    return html.Div(parts, className=look)


def _choice(one: ControlValue) -> Component:
    """A value; the chosen one is not a link. `assets/plan.js` follows links without a new page."""
    if one.is_chosen:
        return html.Span(one.words, className="chosen", **aria(current="true"))
    return html.A(one.words, href=one.address)


def _own_model(view: PlanView) -> Component:
    """The user's own model: the configuration is pasted, or, with a script, chosen as a file."""
    kept = [dcc.Input(type="hidden", name=name, value=value) for name, value in view.kept.items()]
    named = SITE("plan.own_label")
    area = html.Textarea(
        id="own-config",
        name=OWN,
        rows=6,
        placeholder=SITE("plan.own_placeholder"),
        **aria(label=named),
    )
    press = html.Button(SITE("plan.own_plan"), type="submit")
    choose = html.Button(SITE("plan.own_choose"), type="button", id="own-choose")
    form = html.Form(
        [*kept, area, html.Div([press, " ", choose], className="row")],
        id=OWN_MODEL,
        action=PATH,
        method="GET",
    )
    return html.Details([html.Summary(named), form], className="control wide-control own")


def _beside(shown: Shown) -> list[Component]:
    """Layouts of each kind to compare this one with."""
    label = SITE("plan.compare_with")
    options = [html.A(name, href=address) for name, address in shown.kinds]
    if shown.compared is not None:
        options.append(html.A(SITE("plan.compare_stop"), href=shown.compared.alone))
    navigation = html.Nav(html.Div(options, className="ranks"), **aria(label=label))
    parts = [html.Span(label, className="label"), navigation]
    return [html.Div(parts, className="control wide-control")]
