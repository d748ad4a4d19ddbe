"""The Verify page as Dash components: a pure function of its contents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dash import html
from dash.development.base_component import Component

from zerosim.base.language import term
from zerosim.base.quantities import format_exact_bytes
from zerosim.dashboards.components.parts import (
    aria,
    card,
    cells_of,
    field,
    graph,
    head_of,
    link,
    table_of,
)
from zerosim.dashboards.pages.verify import LawInputs, LedgerLine, Planned, ShownChoice, VerifyView
from zerosim.dashboards.pages.verify_places import PlaceRow
from zerosim.dashboards.texts import SITE, tied
from zerosim.verify import Outcome, Verdict
from zerosim.view import plots

BODY = "page"
PSI, COUNT = "own-psi", "own-n"
_COLUMNS = ("theory", "trace", "wire")
"""The columns, in the order of a row."""


def body(view: VerifyView, title: str) -> list[Component]:
    """Everything below the tabs.

    Args:
        title: of the run.
    """
    return [
        _verdict(view, title),
        html.Div(
            [
                _choices(SITE("verify.iteration"), view.iterations),
                _choices(SITE("verify.rank"), view.ranks),
            ],
            className="choose",
        ),
        html.Div(
            [
                html.Div([_ledgers(view), *_places(view), _claims(view)], className="stack"),
                html.Div([_way(view), *_laws(view), _plan(view)], className="stack"),
            ],
            className="pair",
        ),
    ]


def _mark(outcome: Outcome | None) -> Component:
    said = term(outcome.value) if outcome else SITE("verify.not_checked")
    look, sign = (outcome.look, outcome.sign) if outcome else ("unknown", "\N{EN DASH}")
    return html.Span(sign, className=f"mark {look}", role="img", title=said, **aria(label=said))


def _verdict(view: VerifyView, title: str) -> Component:
    words = html.Div([html.H1(tied(view.headline), id="headline"), html.P(view.remark)])
    return html.Section(
        [_mark(view.report.outcome), words, html.P(title, className="verdict-run")],
        className=f"card verdict {view.mark}",
        **aria(labelledby="headline"),
    )


def _choices(name: str, choices: Sequence[ShownChoice]) -> Component | None:
    if not choices:
        return None
    shown = [link(str(one.value), one.address, is_chosen=one.is_chosen) for one in choices]
    gaps: list[Component] = []
    for place, one in enumerate(choices):
        if place and one.value > choices[place - 1].value + 1:
            gaps.append(html.Span("…"))
        gaps.append(shown[place])
    return html.Nav([html.Span(name), *gaps], className="ranks", **aria(label=name))


def _ledgers(view: VerifyView) -> Component:
    def line(row: LedgerLine) -> Component:
        look = "repeats" if row.repeats else ""
        phase = html.Th(html.Span(term(row.phase)), scope="row", className=look)
        numbers = (row.theory, row.trace, row.wire)
        return html.Tr(cells_of((phase, term(row.purpose), row.calls), numbers), className=row.look)

    totals = [
        html.Td(getattr(view.totals, name), className="number", id=f"total-{name}")
        for name in _COLUMNS
    ]
    psi = [getattr(view.psi_totals, name) for name in _COLUMNS]
    in_psi = html.Th(html.Span(SITE("verify.in_psi"), className="unseen"), scope="row")
    parts = [
        head_of(
            (SITE("verify.phase"), SITE("verify.purpose"), SITE("verify.calls")),
            [term(one) for one in _COLUMNS],
        ),
        html.Tbody([line(row) for row in view.rows]),
        html.Tfoot(
            [
                html.Tr([*cells_of((SITE("verify.total"), "", ""), ()), *totals]),
                html.Tr(cells_of((in_psi, "", ""), psi), className="psi"),
            ]
        ),
    ]
    title = SITE("verify.three_ledgers_bytes_sent_by_rank", rank=view.rank)
    table = table_of(SITE("verify.ledgers_scrolls"), parts, "ledgers")
    return card("ledgers", title, [table, html.P(view.spread, className="small")], view.facts)


def _way(view: VerifyView) -> Component:
    title = SITE("verify.from_the_law_to_the_wire")
    if view.report.law_bytes is None or not view.rows:
        words = SITE("verify.no_law_is_known_for_this")
        return card("way", title, [html.P(words)])
    causes = html.Ul(
        [
            html.Li(
                [
                    html.B(term(cause.cause)),
                    SITE(
                        "verify.cause",
                        bytes=f"{'+ ' if cause.bytes > 0 else ''}{format_exact_bytes(cause.bytes)}",
                        words=cause.words,
                    ),
                ]
            )
            for cause in view.report.causes
        ],
        className="causes",
    )
    return card("way", title, [graph("waterfall", plots.waterfall(view.causes)), causes])


def _laws(view: VerifyView) -> list[Component]:
    if not view.laws:
        return []
    run = [row["curve"] for row in view.laws if row["kind"] == "run"]
    own = next(row["curve"] for row in view.laws if row["kind"] == "own")
    words = SITE("verify.what_a_rank_sends_as_n", own=own)
    said = html.P(SITE("verify.then").join([words, *run]), className="small")
    return [
        card("law", SITE("verify.which_law_is_it"), [said, graph("laws", plots.laws(view.laws))])
    ]


def _claims(view: VerifyView) -> Component:
    def line(claim: Verdict) -> Component:
        outcome, said = claim.outcome, None
        if outcome and outcome is not Outcome.AS_PREDICTED:
            said = html.Span(term(outcome.value), className=f"outcome {outcome.look}")
        formula = html.Span(claim.formula, className="formula")
        words = html.Div([html.B(claim.title), said, formula])
        return html.Li([_mark(outcome), words, html.Span(claim.measured, className="measured")])

    lines = [line(claim) for claim in view.claims]
    if view.no_memory:
        words = html.Div([html.B(SITE("verify.memory")), html.Span(view.no_memory)])
        lines.append(html.Li([_mark(None), words]))
    notes = [html.P(note, className="small") for note in view.notes]
    claims = html.Ul(lines, className="claims")
    return card("claims", SITE("verify.claims_with_this_run_s_numbers"), [claims, *notes])


def _places(view: VerifyView) -> list[Component]:
    places, cards = view.places, []
    if places.copies:
        head = head_of(
            (
                SITE("verify.link"),
                SITE("verify.phase"),
                SITE("verify.copies"),
                SITE("verify.how_often"),
            ),
            (SITE("verify.theory"), SITE("verify.trace"), SITE("verify.kernel_s_counter")),
        )
        framing = (
            SITE("verify.files_are_b_more_than_their", framing=places.framing)
            if places.framing
            else ""
        )
        words = SITE("verify.the_disk_s_counter_is_the", framing=framing)
        table = table_of(
            SITE("verify.copies_scrolls"), [head, _place_rows(places.copies)], "ledgers places"
        )
        title = SITE("verify.copied_between_the_tiers_of_rank", rank=view.rank)
        parts = [table, html.P(words, className="small")]
        cards.append(card("copies", title, parts, SITE("verify.bytes_of_one_step")))
    if places.links:
        head = head_of(
            (
                SITE("verify.link"),
                SITE("verify.phase"),
                SITE("verify.purpose"),
                SITE("verify.calls"),
            ),
            (SITE("verify.theory"), SITE("verify.trace"), SITE("verify.sockets")),
        )
        parts = [
            table_of(
                SITE("verify.links_scrolls"), [head, _place_rows(places.links)], "ledgers places"
            )
        ]
        if places.interfaces:
            parts.append(_interfaces(places.interfaces))
        facts = SITE("verify.nodes_bytes_of_one_step", num_nodes=view.report.num_nodes)
        cards.append(
            card("links", SITE("verify.sent_by_rank_by_link", rank=view.rank), parts, facts)
        )
    return cards


def _place_rows(rows: Iterable[PlaceRow]) -> Component:
    return html.Tbody(
        [
            html.Tr(
                cells_of(
                    (row.where, term(row.phase), row.what, row.calls),
                    (row.theory, row.trace, row.counted),
                ),
                className="sum" if row.is_total else "off" if row.is_off else "",
            )
            for row in rows
        ]
    )


def _interfaces(rows: Iterable[PlaceRow]) -> Component:
    numbers = (
        SITE("verify.sockets_of_ranks"),
        SITE("verify.other_connections"),
        SITE("verify.packet_headers"),
        SITE("verify.counted"),
    )
    lines = [
        html.Tr(
            cells_of((row.where, row.what), (row.theory, row.calls, row.trace, row.counted)),
            className="off" if row.is_off else "",
        )
        for row in rows
    ]
    caption = html.Caption(SITE("verify.network_interfaces_over_the_whole_run"))
    parts = [
        caption,
        head_of((SITE("verify.node"), SITE("verify.interface")), numbers),
        html.Tbody(lines),
    ]
    return table_of(SITE("verify.interfaces_scrolls"), parts, "ledgers places")


def _plan(view: VerifyView) -> Component:
    fields = html.Div(
        [
            field(SITE("verify.psi_parameters"), PSI, "psi", view.question.psi),
            field(SITE("verify.n_ranks"), COUNT, "n", view.question.n),
        ],
        className="plan",
    )
    answer = _planned(view.question, view.planned)
    return card("plan", SITE("verify.the_paper_s_laws_with_your"), [fields, answer, _paper(view)])


def _planned(question: LawInputs, lines: Iterable[Planned]) -> Component:
    if question.problem:
        return html.P(question.problem, className="wrong", role="alert")
    rows = [
        html.Tr(
            [
                html.Th(line.stage, scope="row"),
                html.Td([html.Div(line.memory_law), html.Div(line.memory)]),
                html.Td([html.Div(line.traffic_law), html.Div(line.traffic)]),
            ]
        )
        for line in lines
    ]
    return table_of(
        SITE("verify.laws_scrolls"),
        [
            head_of(
                [SITE(f"verify.{name}") for name in ("stage", "states_of_a_rank", "sent_in_a_step")]
            ),
            html.Tbody(rows),
        ],
    )


def _paper(view: VerifyView) -> Component:
    models = [html.Th(one, scope="colgroup", colSpan=3) for one in ("7.5B", "128B", "1T")]
    stages = [
        html.Th(f"ZeRO-{stage}", scope="col", className="number")
        for _ in models
        for stage in (1, 2, 3)
    ]
    head = html.Thead([html.Tr([html.Th("N", scope="col", rowSpan=2), *models]), html.Tr(stages)])
    rows = html.Tbody([html.Tr(cells_of((count,), cells)) for count, cells in view.paper])
    summary = html.Summary(SITE("verify.the_paper_s_table_1_in"))
    return html.Details([summary, table_of(SITE("verify.table_1_scrolls"), [head, rows])])
