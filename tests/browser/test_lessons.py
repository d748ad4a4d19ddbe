"""The Lessons page in a browser: every lesson from its first step to its last, for anyone."""

from __future__ import annotations

import json
import re
from itertools import combinations

import pytest
from playwright.sync_api import Error, expect

from tests.browser.conftest import ask, eventually, serving
from tests.browser.test_access import violations, violations_in_both_themes
from tests.deadlines import RANKS_S
from tests.lessons.committed import facts
from zerosim.dashboards.pages.lessons import words
from zerosim.lessons.course import LabCall, find_lesson
from zerosim.lessons.questions import QuestionKind, options_of, right_answer
from zerosim.lessons.views import view

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def school(tmp_path_factory):
    """A server without a trace of its own: no run is needed to learn."""
    with serving(tmp_path_factory.mktemp("empty")) as address:
        yield address


@pytest.fixture(scope="module")
def names():
    return facts().names()


def visit(watch, school, path: str, **options):
    one = watch(address=school, **options)
    # at first the server works out what a lesson shows
    one.page.goto(school + path, timeout=1000 * RANKS_S)
    one.wait("document.querySelector('#where')?.textContent || document.querySelector('.cards')")
    one.settle()
    return one


def is_watched(lesson) -> bool:
    """Something stands beside its text."""
    return any(True for name in ("replay", "graph") for _ in lesson.calls(name))


def replay_is_there(one) -> bool:
    """The player in the frame shows its first view, or the graph does."""
    known = {"/replay?": "__player", "/graph?": "__graph"}
    frames = [
        (frame, known[page]) for frame in one.page.frames for page in known if page in frame.url
    ]
    try:
        return any(ask(frame, f"() => window.{name} !== undefined") for frame, name in frames)
    except Error:  # the frame is on its way to another page
        return False


def wait_for_replay(one) -> None:
    eventually(lambda: replay_is_there(one))


def wrong_answer(question, names):
    """An answer that is not right."""
    right = right_answer(question, names)
    if question.kind is QuestionKind.NUMBER:
        return str(right * 7 + 1)
    if question.kind is QuestionKind.ORDER:
        return (*right[1:], right[0])
    return next(each.key for each in options_of(question, names) if each.key != right)


def give(one, question, answer) -> None:
    """Answer as a person does, and wait for what is said."""
    form = one.page.locator(f"form[data-question='{question.id}']")
    match question.kind:
        case QuestionKind.NUMBER:
            form.locator("input").fill(str(answer))
        case QuestionKind.ORDER:
            keys = eventually(
                lambda: form.locator("li").evaluate_all("all => all.map(one => one.dataset.key)")
            )
            for place, key in enumerate(answer):
                for at in range(keys.index(key), place, -1):
                    form.locator(f"li[data-key='{key}'] [data-move='-1']").click()
                    keys[at - 1], keys[at] = keys[at], keys[at - 1]
        case QuestionKind.MARK:
            places = eventually(
                lambda: form.locator("option").evaluate_all("all => all.map(one => one.value)")
            )
            slider = form.locator("input")
            slider.focus()
            slider.press("Home")
            for _ in range(places.index(answer)):
                slider.press("ArrowRight")
            label = eventually(
                lambda: form.locator("option").nth(places.index(answer)).text_content()
            )
            expect(form.locator("output")).to_have_text(label)
        case _:
            form.locator(f"input[value='{answer}']").check(force=True)
    selector = f'form[data-question="{question.id}"]'
    before = one.ask("form => document.querySelector(form + ' .feedback').innerHTML", selector)
    form.locator("button.primary").click()
    one.wait(f"document.querySelector({selector!r} + ' .feedback').innerHTML !== {before!r}")
    one.wait(f"!document.querySelector({selector!r} + ' button.primary').disabled")


def said(one, question) -> str:
    return eventually(
        lambda: one.page.locator(f"form[data-question='{question.id}'] .said").get_attribute(
            "class"
        )
    )


QUESTIONS = """() => [...document.querySelectorAll(".step form.ask")]
    .filter(form => form.checkVisibility()).map(form => form.dataset.question)"""
"""What the step that is shown asks."""


# what each lesson says and asks is tested without a browser; here each way to ask and to show
LESSONS = [find_lesson(name) for name in ("zero3", "model-parallel")]
OTHERS = [find_lesson(name) for name in ("memory", "claims", "zeropp")]


def test_each_way_to_ask_is_in_these_lessons():
    asked = {question.kind for lesson in LESSONS for question in lesson.questions.values()}
    assert asked == set(QuestionKind)
    shown = {name for lesson in LESSONS for name in ("replay", "graph") if [*lesson.calls(name)]}
    assert shown == {"replay", "graph"}


@pytest.mark.parametrize(
    "lesson",
    [*LESSONS, *(pytest.param(one, marks=pytest.mark.long) for one in OTHERS)],
    ids=lambda lesson: lesson.id,
)
def test_a_lesson_from_start_to_end(watch, school, names, lesson):
    one = visit(watch, school, f"/lessons/{lesson.id}", reduced_motion="reduce")
    steps = eventually(lambda: one.page.locator(".step").count())
    answered = set()
    for step in range(1, steps + 1):
        one.expect("#where").to_have_text(f"Step {step} of {steps}")
        expect(one.page.locator(".step:visible")).to_have_count(1)
        while True:
            forms = one.ask(QUESTIONS)
            todo = [name for name in forms if name not in answered]
            if not todo:
                break
            question = lesson.questions[todo[0]]
            under = f"[data-after~='{question.id}'].covered"
            covered = one.ask("under => document.querySelectorAll(under).length", under)
            give(one, question, wrong_answer(question, names))
            assert said(one, question) == "said wrong"
            expect(one.page.locator(under)).to_have_count(
                covered
            )  # or the right answer stood there
            give(one, question, right_answer(question, names))
            assert said(one, question) == "said right"
            answered.add(question.id)
            if answered >= set(forms):
                one.wait(f"!document.querySelector('[data-after~={question.id}].covered')")
        expect(one.page.locator(".step:visible .covered")).to_have_count(0)
        if step < steps:
            one.page.locator("#next").click()
            one.settle()
    assert answered == set(lesson.questions)
    expect(one.page.locator(".takeaway")).to_be_visible()
    expect(one.page.locator("#next")).to_be_disabled()
    if is_watched(lesson):
        wait_for_replay(one)
    one.page.goto(f"{school}/lessons")
    one.wait("document.querySelector('.lesson-card.done')")


def test_the_replay_stands_where_the_step_says(watch, school):
    one = visit(watch, school, "/lessons/zero3#step=1")
    wait_for_replay(one)
    frame = next(frame for frame in one.page.frames if "/replay?" in frame.url)
    state = ask(frame, "() => ({...window.__player.state()})")
    step = ask(frame, f"() => window.__player.model.doc.steps[{state['position']}]")
    assert (step["phase"], step["unit_name"], step["op"]) == ("forward", "blocks.2", "all-gather")
    expect(frame.locator(".top")).to_be_hidden()
    expect(frame.locator(".side")).to_be_hidden()
    expect(frame.locator("#play")).to_be_visible()
    frame.locator("[data-action='forward']").click()
    position = "() => window.__player.state().position"
    eventually(lambda: frame.evaluate(position) > state["position"])
    one.page.locator(".watch-button:visible").click()
    eventually(lambda: frame.evaluate(position) == state["position"])
    one.page.locator("#theme").click()
    one.page.locator("#present").click()
    one.expect("html").to_have_attribute("data-theme", "dark")
    looks = "() => [document.documentElement.dataset.theme, document.documentElement.dataset.mode]"
    eventually(lambda: frame.evaluate(looks) == ["dark", "present"])


def test_the_replay_comes_back_however_soon_it_is_asked_to(watch, school):
    one = visit(watch, school, "/lessons/zero3#step=1")
    wait_for_replay(one)
    frame = next(frame for frame in one.page.frames if "/replay?" in frame.url)
    stands = """() => {
        const { position, playing } = window.__player.state();
        return [position, playing];
    }"""
    at, _ = ask(frame, stands)
    for control in ("[data-action='forward']", "#play"):
        # in one turn, before the frame could write where it stands
        ask(
            frame,
            """control => {
                document.querySelector(control).click();
                for (const button of parent.document.querySelectorAll(".watch-button")) {
                    if (button.checkVisibility()) button.click();
                }
            }""",
            control,
        )
        eventually(lambda: frame.evaluate(stands) == [at, False])


def test_the_replay_stays_where_it_is_in_another_theme(watch, school):
    one = visit(watch, school, "/lessons/zero3#step=1")
    wait_for_replay(one)
    frame = next(frame for frame in one.page.frames if "/replay?" in frame.url)
    at = ask(
        frame,
        """() => {
            document.querySelector("[data-action='forward']").click();
            parent.document.querySelector("#theme").click();
            return window.__player.state().position;
        }""",
    )
    theme = eventually(lambda: one.page.locator("html").get_attribute("data-theme"))
    eventually(lambda: frame.evaluate("() => document.documentElement.dataset.theme") == theme)
    one.settle()
    eventually(lambda: frame.evaluate("() => window.__player.state().position") == at)


def ends(box) -> float:
    """Where a box ends below."""
    return box["y"] + box["height"]


def test_the_events_of_a_program_stand_beside_the_text(watch, school):
    one = visit(watch, school, "/lessons/model-parallel#step=1")
    wait_for_replay(one)
    frame = next(frame for frame in one.page.frames if "/graph?" in frame.url)
    expect(frame.locator("#chart")).to_be_visible()
    for hidden in (".top", ".side", ".tables", ".controls", "#title"):
        expect(frame.locator(hidden).first).to_be_hidden()
    eventually(lambda: "critical path" not in frame.locator("#legend").inner_text())
    parts = frame.locator("#chart"), one.page.locator("#replay-card")
    eventually(
        lambda: [part.bounding_box() for part in parts],
        lambda boxes: all(boxes) and ends(boxes[0]) <= ends(boxes[1]),
    )
    one.page.locator("#theme").click()
    one.expect("html").to_have_attribute("data-theme", "dark")
    theme = "() => document.documentElement.dataset.theme"
    eventually(lambda: frame.evaluate(theme) == "dark")
    frame.locator("#chart").focus()
    frame.locator("#chart").press("ArrowRight")
    frame.locator("#chart").press("Enter")  # to Replay, where the graph is a page of its own
    assert "/graph?" in frame.url
    expect(one.page.locator("#replay")).to_have_attribute("title", words()["lesson"]["graph"])
    assert violations(one.page) == []


FIRST_IS_SEEN = """() => {
    const form = document.querySelector(".step:not([hidden]) form.ask");
    const { x, y, width, height } = form.querySelector("button.primary").getBoundingClientRect();
    return form.contains(document.elementFromPoint(x + width / 2, y + height / 2));
}"""


@pytest.mark.parametrize("mode", ["work", "present"])
@pytest.mark.parametrize("lesson", ["zero3", "prove-it"])
def test_the_question_of_a_step_is_seen_first(watch, school, lesson, mode):
    one = visit(watch, school, f"/lessons/{lesson}#mode={mode}")
    for step, each in enumerate(find_lesson(lesson).steps, 1):
        if any(isinstance(block, LabCall) and block.name == "ask" for block in each.blocks):
            one.ask(f"() => {{ location.hash = 'step={step}' }}")
            one.expect("#where").to_have_text(re.compile(f"^Step {step} "))
            for _ in one.sized((1920, 1080), (1024, 768), (1280, 720)):
                assert eventually(lambda: one.ask(FIRST_IS_SEEN))


def test_two_wrong_answers_and_then_show_me(watch, school, names):
    question = find_lesson("zero3").questions["sent"]
    one = visit(watch, school, "/lessons/zero3#step=4")
    give(one, question, "3")
    one.expect(".said-headline").to_contain_text("Each collective sends all")
    expect(one.page.locator(".show-me")).to_have_count(0)
    give(one, question, "30")
    one.page.locator(".show-me").click()
    one.wait("document.querySelector('.said.shown')")
    one.expect(".said.shown").to_contain_text("2.25")
    one.page.reload()
    one.wait("document.querySelector('.said.shown')")
    expect(one.page.locator("#answer-sent")).to_have_value("30")


def test_what_is_no_answer_is_one_line(watch, school):
    one = visit(watch, school, "/lessons/zero3#step=4")
    one.page.locator("#answer-sent").fill("many")
    one.page.locator("form[data-question='sent'] button.primary").click()
    one.wait("document.querySelector('.said.problem')")
    one.expect(".said.problem").to_have_text(words()["unread"]["number"])
    eventually(lambda: one.page.locator("[data-after~='sent'].covered").count() > 0)
    kept = json.loads(one.ask("() => localStorage.getItem('zerosim-lessons')"))
    assert kept["zero3"]["questions"] == {}


def test_questions_of_a_step_stand_together_and_their_cover_says_how_many(watch, school, names):
    lesson = find_lesson("infinity")
    one = visit(watch, school, "/lessons/infinity#step=2")
    said_there = words()["lesson"]
    expect(one.page.locator(".step:visible form.ask")).to_have_count(2)
    one.wait("document.querySelector('.step-figures:not([hidden]) .cover p').textContent")
    cover = ".step-figures:not([hidden]) .cover p"
    one.expect(cover).to_have_text(said_there["covered_other"].format(num=2))
    give(one, lesson.questions["kernel"], right_answer(lesson.questions["kernel"], names))
    one.expect(cover).to_have_text(said_there["covered_one"])
    for answer in ("1", "2"):
        give(one, lesson.questions["disk"], answer)
    one.page.locator(".show-me").click()
    one.wait(f"!document.querySelector({cover!r})")
    expect(one.page.locator(".step-figures:visible table")).to_have_count(1)
    one.page.reload()
    one.wait("document.querySelectorAll('.said').length === 2")
    one.wait(f"!document.querySelector({cover!r})")


def test_the_address_restores_the_step_and_keys_change_it(watch, school):
    one = visit(watch, school, "/lessons/rings#step=3&theme=dark")
    steps = eventually(lambda: one.page.locator(".step").count())
    one.expect("#where").to_have_text(f"Step 3 of {steps}")
    expect(one.page.locator("html")).to_have_attribute("data-theme", "dark")
    for key, step in (("PageDown", 4), ("ArrowRight", 5), ("ArrowLeft", 4), ("PageUp", 3)):
        one.press(key)
        one.expect("#where").to_have_text(f"Step {step} of {steps}")
        one.wait(f"location.hash.includes('step={step}')")
        one.wait("location.hash.includes('theme=dark')")
    one.press("d", "p")
    one.wait("location.hash.includes('mode=present') && location.hash.includes('step=3')")
    one.page.go_back()
    one.wait(f"document.querySelector('#where').textContent === 'Step 4 of {steps}'")
    one.page.goto(f"{school}/lessons/rings#step=2")
    one.wait(f"document.querySelector('#where').textContent === 'Step 2 of {steps}'")
    one.page.locator("form.ask:visible input").first.focus()
    one.press("ArrowRight")
    one.expect("#where").to_have_text(f"Step 2 of {steps}")
    one.press("PageDown")  # as a clicker sends it, whatever was answered just before
    one.expect("#where").to_have_text(f"Step 3 of {steps}")
    one.page.goto(f"{school}/lessons/rings#step=999")
    one.wait(f"document.querySelector('#where').textContent === 'Step {steps} of {steps}'")


def test_progress_is_forgotten_when_asked(watch, school, names):
    question = find_lesson("zero3").questions["sent"]
    one = visit(watch, school, "/lessons/zero3#step=4")
    give(one, question, right_answer(question, names))
    kept = json.loads(one.ask("() => localStorage.getItem('zerosim-lessons')"))
    assert kept["zero3"]["questions"]["sent"]["right"] is True
    one.page.goto(f"{school}/lessons")
    one.wait("document.querySelector('[data-lesson=zero3] .progress-text').textContent")
    one.expect("[data-lesson=zero3] .progress-text").to_have_text("step 4 of 6")
    one.page.locator("#forget").click()
    eventually(lambda: one.page.evaluate("() => localStorage.getItem('zerosim-lessons')") is None)
    expect(one.page.locator("[data-lesson=zero3] .lesson-progress")).to_be_hidden()
    one.page.goto(f"{school}/lessons/zero3")
    one.wait("document.querySelector('#where').textContent === 'Step 1 of 6'")


def test_a_browser_that_keeps_nothing(watch, school, names):
    one = watch(address=school)
    one.page.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('no') } })"
    )
    one.page.goto(f"{school}/lessons/zero3#step=4")
    question = find_lesson("zero3").questions["sent"]
    one.wait("document.querySelector('#where').textContent")
    give(one, question, right_answer(question, names))
    assert said(one, question) == "said right"
    one.page.goto(f"{school}/lessons")
    one.wait("document.querySelector('.cards')")


@pytest.mark.parametrize(
    "path",
    # cards, a list to be put in order, a mark, a number, the end
    ["/lessons", "/lessons/memory#step=3", "/lessons/memory#step=4", "/lessons/zero3#step=4",
         "/lessons/zero3#step=6"],
)  # fmt: skip
def test_axe_finds_nothing(watch, school, names, path):
    one = visit(watch, school, path)
    lesson = find_lesson(path.split("/")[-1].partition("#")[0]) if "#" in path else None
    if lesson is not None:
        for name in one.ask(QUESTIONS):
            question = lesson.questions[name]
            give(one, question, wrong_answer(question, names))
            assert violations(one.page) == []
            give(one, question, right_answer(question, names))
    if lesson is not None and is_watched(lesson):
        wait_for_replay(one)
    assert violations_in_both_themes(one) == []
    one.press("p")
    assert violations(one.page) == []


@pytest.mark.parametrize("mode", ["work", "present"])
def test_a_drawing_is_seen_first_and_has_words(watch, school, mode):
    one = visit(watch, school, f"/lessons/model-parallel#step=2&mode={mode}")
    wait_for_replay(one)
    table = view(facts(), "two_cuts", "parallel/tensor-parallel").table
    figure = one.page.locator(".step-figures:visible figure")
    eventually(
        lambda: (
            figure.locator("tbody tr").all_inner_texts() == ["\t".join(row) for row in table.rows]
        )
    )
    expect(figure.locator("svg")).to_have_attribute("aria-hidden", "true")
    eventually(
        lambda: figure.bounding_box()["y"] < one.page.locator("#replay-card").bounding_box()["y"]
    )
    for width, _ in one.sized((1280, 720), (820, 1180), (1920, 1080)):
        eventually(
            lambda: figure.locator("svg text").evaluate_all(
                "all => all.map(e => parseFloat(getComputedStyle(e).fontSize) * e.getScreenCTM().a)"
            ),
            lambda heights: heights and min(heights) >= 15,
        )
        eventually(lambda: one.page.evaluate("() => document.documentElement.scrollWidth") <= width)
        eventually(
            lambda: figure.locator("svg text").evaluate_all(
                "all => all.map(e => { const b = e.getBoundingClientRect();"
                " return [b.left, b.right, b.top, b.bottom]; })"
            ),
            lambda texts: (
                texts
                and all(
                    right <= x or to_x <= left or bottom <= y + 8 or to_y <= top + 8
                    for (left, right, top, bottom), (x, to_x, y, to_y) in combinations(texts, 2)
                )
            ),
        )
    assert violations_in_both_themes(one) == []
