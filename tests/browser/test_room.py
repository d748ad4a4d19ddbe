"""A room in a browser: a lecturer and three students, from its opening to its end."""

from __future__ import annotations

import re
from functools import partial
from unittest import mock

import pytest

from tests.browser.conftest import eventually, heard, serving
from tests.browser.test_access import violations, violations_in_both_themes
from zerosim.dashboards import rooms
from zerosim.dashboards.pages.room import step_of
from zerosim.lessons.course import find_lesson

pytestmark = pytest.mark.browser

MARKUP = "<img src=x onerror='window.hacked=1'>"
STEP = step_of(find_lesson("zero3"), "sent")
SLOT = "document.querySelector('#room-slot')"
IN_NONE = f"{SLOT}?.dataset.place === 'out'"
"""Said once a page knows that it is in no room: before, it may still join one."""


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A server without traces of its own: the lessons bring theirs, each written once.

    Rooms of all tests are open there.
    """
    with (
        mock.patch.object(rooms, "RoomLimits", partial(rooms.RoomLimits, rooms=64)),
        serving(tmp_path_factory.mktemp("empty")) as address,
    ):
        yield address


def open_room(one, fragment: str = "") -> str:
    """Open a room; its code."""
    one.page.goto(f"{one.address}/room{fragment}")
    one.page.locator("#open").click()
    one.wait("document.querySelector('#students-words').textContent")
    return eventually(lambda: one.text("#how .room-code"))


def ask(one, lesson: str = "zero3", question: str = "sent", word: str = "send") -> None:
    """Point the class at a question."""
    one.page.locator("#lesson").select_option(lesson)
    one.wait("!document.querySelector('#question').disabled")
    one.page.locator("#question").select_option(question)
    one.wait(f"document.querySelector('#words').textContent.includes('{word}')")


def join(one, code: str) -> None:
    """Join as a student does: type the code."""
    one.page.goto(f"{one.address}/join")
    one.page.get_by_label("Room code").fill(code.lower())
    one.page.get_by_role("button", name="Join").click()
    one.wait(f"{SLOT}?.dataset.room === '{code}'")


def follow(one, code: str, step: int = STEP) -> None:
    """Go where the class is, once the student's page says that it is at this step."""
    one.wait(f"document.querySelector('.class-at')?.hash.endsWith('step={step}')")
    one.expect(".class-at").to_contain_text("ZeRO-3")
    one.page.locator(".class-at").click()
    one.wait("location.pathname === '/lessons/zero3'")
    one.wait(f"{SLOT}?.dataset.room === '{code}'")


def answer(one, value: str) -> None:
    """Answer, and wait until the page has what the server thinks."""
    form = one.page.locator("form.ask[data-question='sent']")
    form.get_by_role("textbox").fill(value)
    with one.page.expect_response(lambda response: response.url.endswith("/check")):
        form.locator("button.primary").click()
    one.wait("!document.querySelector('form[data-question=sent] button.primary').disabled")


def shows(one, bars: dict[str, str]) -> None:
    """Until the wall shows these bars, in any order, and no others."""
    names_and_counts = """() => [...document.querySelectorAll("#bars li")].map(bar =>
        [".bar-name", ".bar-count"].map(part => bar.querySelector(part).innerText))"""
    wanted = sorted([name, count] for name, count in bars.items())
    eventually(lambda: one.ask(names_and_counts), lambda found: sorted(found) == wanted)


def test_a_class(watch, empty):
    """The third student reads Chinese."""
    lecturer = watch(address=empty, viewport={"width": 1920, "height": 1080})
    code = open_room(lecturer)
    students = [watch(address=empty) for _ in range(3)]
    *read_english, reads_chinese = students
    for one in read_english:
        join(one, code)
    reads_chinese.page.goto(f"{empty}/join?lang=zh")
    reads_chinese.page.locator("input[name=code]").fill(code)
    reads_chinese.page.locator("main button").click()
    reads_chinese.wait(f"{SLOT}?.dataset.room === '{code}'")
    ask(lecturer)
    lecturer.wait("document.querySelector('#students').textContent === '3'")
    lecturer.expect("#hidden").to_be_visible()
    english, chinese = "How much does one rank send", "一个 rank 发送多少"
    answers = zip(students, ("3", "2.25", "3"), (english, english, chinese), strict=True)
    for one, value, said in answers:
        follow(one, code)
        one.expect("form.ask[data-question=sent]").to_contain_text(said)
        answer(one, value)
    answer(students[0], "9/4")
    lecturer.wait("document.querySelector('#answered').textContent === '3 of 3 answered'")
    lecturer.expect("#bars li").to_have_count(0)
    lecturer.page.locator("#reveal").click()
    shows(lecturer, {"2.25 Ψ": "1 → 2", "3 Ψ": "2 → 1"})
    lecturer.expect(".told, .bars .mark").to_have_count(0)
    for one, said in zip(students, ("Noted", "Noted", "已记下"), strict=True):
        one.expect(".said.held").to_contain_text(said)
        one.expect("[data-after~='sent'].covered").not_to_have_count(0)
    lecturer.press("c")
    lecturer.wait("!document.querySelector('#solved').hidden")
    for one, how in zip(students, ("right", "right", "wrong"), strict=True):
        one.wait(f"document.querySelector('form[data-question=sent] .said.{how}')")
    reads_chinese.expect("form[data-question=sent] .said.wrong").to_contain_text(
        "每次集合通信都发送全部载荷"
    )
    lecturer.expect(".bars .told").to_have_text(re.compile("^2.25 Ψ ✓"), use_inner_text=True)
    lecturer.expect("#share-first").to_have_text("33 %")
    lecturer.expect("#share-latest").to_have_text("67 %")
    lecturer.expect("#thoughts").to_contain_text("Each collective sends all of its payload")
    lecturer.press("a")
    lecturer.wait("!document.querySelector('#hidden').hidden")
    lecturer.page.locator("#close").click()
    lecturer.page.locator("#close-now").click()
    lecturer.wait("!document.querySelector('#outside').hidden")
    for one, said in zip(students, ("closed", "closed", "课堂已关闭"), strict=True):
        one.wait(f"!{SLOT}.dataset.room")
        one.expect(".room-said").to_contain_text(said)
    lecturer.wait("sessionStorage.length === 0")


def test_what_is_chosen_stays_until_the_class_is_there(watch, empty):
    lecturer = watch(address=empty)
    open_room(lecturer)
    held = []
    lecturer.page.route("**/show", lambda route: held.append(route))  # noqa: PLW0108 - Playwright asks for its arguments
    lecturer.page.locator("#lesson").select_option("zero3")
    lecturer.page.locator("#question").focus()
    with lecturer.page.expect_response("**/tally*"):
        pass
    with lecturer.page.expect_response("**/tally*"):  # what the one before said is drawn
        pass
    lecturer.expect("#lesson").to_have_value("zero3")
    lecturer.expect("#question option").not_to_have_count(0)
    held[0].continue_()
    lecturer.expect("#words").not_to_be_empty()
    lecturer.expect("#lesson").to_have_value("zero3")


def test_a_room_outlives_a_reload_and_a_student_may_leave(watch, empty):
    lecturer, student = watch(address=empty), watch(address=empty)
    code = open_room(lecturer)
    lecturer.page.reload()
    lecturer.wait(f"document.querySelector('#how .room-code').textContent === '{code}'")
    student.page.goto(f"{empty}/lessons/zero3?room={code}")
    student.wait(f"{SLOT}?.dataset.room === '{code}'")
    student.wait("!location.href.includes('room=')")
    who = student.ask(f"() => {SLOT}.dataset.who")
    student.page.reload()
    student.wait(f"{SLOT}?.dataset.room === '{code}'")
    student.wait(f"{SLOT}.dataset.who === '{who}'")
    student.page.locator(".room-menu summary").click()
    student.page.get_by_role("button", name="Leave").click()
    student.wait(f"{IN_NONE} && !{SLOT}.dataset.room")
    student.page.reload()
    student.wait(f"{IN_NONE} && !{SLOT}.dataset.room")


def test_who_has_left_is_not_in_it_again_when_the_server_answers_late(watch, empty):
    lecturer, student = watch(address=empty), watch(address=empty)
    code = open_room(lecturer)
    student.page.goto(f"{empty}/lessons/zero3?room={code}")
    student.wait(f"{SLOT}?.dataset.room === '{code}'")
    # counts what rooms answered once the page has made of it all that it makes of it
    student.ask("""() => { const {json} = Response.prototype;
        window.taken = 0;
        Response.prototype.json = async function () {
          const answer = await json.call(this);
          setTimeout(() => { window.taken += this.url.includes("/api/rooms/"); });
          return answer; }; }""")
    held = []

    def hold(route) -> None:
        held.append(route)

    student.page.route("**/api/rooms/*", hold)
    student.ask("() => { location.hash = '#step=2' }")  # it asks where the class is
    eventually(lambda: heard(student.page, held))
    student.page.locator(".room-menu summary").click()
    student.page.get_by_role("button", name="Leave").click()
    student.wait(IN_NONE)
    for route in held:
        route.continue_()
    student.wait(f"window.taken === {len(held)}")
    student.wait(f"{IN_NONE} && !{SLOT}.dataset.room")


def test_an_answer_that_is_noted_late_is_judged_all_the_same(watch, empty):
    lecturer, student = watch(address=empty), watch(address=empty)
    code = open_room(lecturer)
    ask(lecturer)
    student.page.goto(f"{empty}/lessons/zero3?room={code}#step={STEP}")
    student.wait(f"{SLOT}?.dataset.room === '{code}'")
    held = []

    def hold(route) -> None:
        held.append((route, route.fetch()))

    student.page.route("**/check", hold, times=1)
    form = student.page.locator("form.ask[data-question='sent']")
    form.get_by_role("textbox").fill("2.25")
    form.get_by_role("button", name="Check").click()
    eventually(lambda: heard(student.page, held))
    lecturer.press("c")
    student.wait(f"{SLOT}.dataset.told.includes('zero3/sent')")
    route, response = held[0]
    assert "held" in response.json()
    route.fulfill(response=response)
    student.wait("document.querySelector('form[data-question=sent] .said.right')")


def test_keys_that_are_pressed_fast_are_done_one_after_the_other(watch, empty):
    lecturer = watch(address=empty)
    open_room(lecturer)
    ask(lecturer)
    shown = []
    lecturer.page.on(
        "request",
        lambda request: request.url.endswith("/show") and shown.append(request.post_data_json),
    )
    lecturer.ask("""() => { for (const key of ["c", "a"])
            document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true})); }""")
    eventually(lambda: len(heard(lecturer.page, shown)) == 2)
    lecturer.expect("#mark").to_have_attribute("aria-pressed", "false")
    assert [(one["reveal"], one["solved"]) for one in shown] == [(True, True), (False, False)]


def test_who_leaves_is_told(watch, empty):
    lecturer, student = watch(address=empty), watch(address=empty)
    code = open_room(lecturer)
    ask(lecturer)
    student.page.goto(f"{empty}/lessons/zero3?room={code}#step={STEP}")
    student.wait(f"{SLOT}?.dataset.room === '{code}'")
    answer(student, "3")
    student.page.reload()
    student.wait("document.querySelector('.said.held')")
    student.expect("#answer-sent").to_have_value("3")
    student.page.locator(".room-menu summary").click()
    student.page.get_by_role("button", name="Leave").click()
    student.wait("document.querySelector('.said.wrong')")
    kept = "JSON.parse(localStorage.getItem('zerosim-lessons'))"
    student.wait(f"{kept}?.zero3?.questions.sent?.wrong === 1")


def test_the_wall_shows_the_choices_and_how_to_join(watch, empty):
    one = watch(address=empty)
    code = open_room(one)
    one.wait("document.querySelector('#qr').naturalWidth > 0")
    eventually(
        lambda: one.page.locator("#qr").bounding_box(),
        lambda size: size and min(size["width"], size["height"]) >= 190,
    )
    one.expect("#qr").to_have_attribute("src", f"/join/{code}/qr")
    ask(one, "model-parallel", "cut", "GELU")
    labels = [option.label for option in find_lesson("model-parallel").questions["cut"].options]
    one.expect("#choices li").to_have_text(labels, use_inner_text=True)
    one.press("a")
    one.expect("#bars li").to_have_count(3)
    one.expect("#choices").to_be_hidden()


def test_a_wrong_code_is_said(watch, empty):
    one = watch(address=empty)
    one.page.goto(f"{empty}/lessons/zero3")
    one.page.locator(".room-menu summary").click()
    for typed, said in ((MARKUP, "six letters"), ("ZZZZZZ", "No such room"), ("", "six letters")):
        one.page.get_by_label("Room code").fill(typed)
        one.page.get_by_role("button", name="Join").click()
        one.expect(".room-said").to_contain_text(said)
        one.expect("img").to_have_count(0)
    one.wait("window.hacked === undefined")


def test_markup_is_text(watch, empty):
    """Whatever a server were to say of answers: the page shows it and never runs it."""
    one = watch(address=empty)
    open_room(one)
    tally = {
        "lesson": "zero3", "question": "sent", "reveal": True, "num_students": 2,
        "num_answered": 2, "left_s": 900, "words": MARKUP, "unit": MARKUP, "explain": MARKUP,
        "solved": False, "choices": [MARKUP],
        "bars": [{"label": MARKUP, "first": 1, "latest": 2, "is_right": True}],
        "thoughts": [{"name": MARKUP, "first": 1, "latest": 0}],
        "right_first": 1, "right_latest": 2,
    }  # fmt: skip
    one.page.route("**/tally?*", lambda route: route.fulfill(json=tally))
    one.expect("#bars li").to_have_count(1)
    tally["reveal"] = False
    one.wait("!document.querySelector('#choices').hidden")
    one.expect("#choices").to_have_text(MARKUP)
    tally |= {"reveal": True, "solved": True}
    one.wait("!document.querySelector('#solved').hidden")
    for place in ("#words", "#explain", "#thoughts", ".bar-name"):
        one.expect(place).to_contain_text(MARKUP)
    one.expect("#room img:not(#qr)").to_have_count(0)
    one.wait("window.hacked === undefined")


@pytest.mark.parametrize(
    ("theme", "size"),
    [
        ("dark", (1280, 720)),
        pytest.param("light", (1920, 1080), marks=pytest.mark.long),
        ("light", (600, 900)),
    ],
)
def test_a_wall_in_every_state(watch, empty, theme, size):
    one = watch(
        address=empty, viewport={"width": size[0], "height": size[1]}, reduced_motion="reduce"
    )

    def look() -> None:
        one.settle()
        assert violations(one.page) == []
        one.wait(f"document.documentElement.scrollWidth <= {size[0]}")

    one.page.goto(f"{empty}/room#theme={theme}")
    one.expect("#outside").to_be_visible()
    look()
    code = open_room(one, f"#theme={theme}")
    look()
    ask(one)
    look()
    for number, value in enumerate(("3", "2.25", "1.5", "1000000", "-4", "2")):
        who = f"student-token-{number:04}"
        sent = {"question": "sent", "answer": value, "room": code, "who": who}
        address = f"{empty}/api/lessons/zero3/check"
        assert one.page.request.post(address, data=sent).ok
    one.page.locator("#mark").click()
    one.expect("#bars li").to_have_count(6)
    look()
    sizes = one.ask(
        "() => [...document.querySelectorAll('#room *')].filter(e => e.checkVisibility())"
        ".map(e => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert min(sizes) >= 20
    one.page.locator("#close").click()
    one.expect("#close-dialog").to_be_visible()
    look()


def test_a_students_place_for_anyone(watch, empty):
    lecturer, student = watch(address=empty), watch(address=empty)
    code = open_room(lecturer)
    ask(lecturer)
    student.page.goto(f"{empty}/join")
    assert violations_in_both_themes(student) == []
    student.page.goto(f"{empty}/lessons/memory?room={code}")
    student.expect(".class-at").to_be_visible()
    assert [one for one in violations_in_both_themes(student) if "room" in one] == []
    student.page.locator(".room-menu summary").click()
    student.expect(".room-menu[open] .room-leave").to_be_visible()
    assert [one for one in violations_in_both_themes(student) if "room" in one] == []
