"""A real Chromium in front of a real server with real traces."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar
from unittest import mock

import pytest
from playwright.sync_api import Error, expect

from tests.deadlines import QUESTION_S, RANKS_S
from zerosim.dashboards import server as dashboard
from zerosim.lessons.recordings import COMMITTED
from zerosim.view.export.browser import launched

expect.set_options(timeout=1000 * QUESTION_S)


@pytest.fixture(scope="session")
def browser():
    with launched() as started:
        yield started


@pytest.fixture(scope="session")
def traces(tmp_path_factory):
    """All stages on 4 ranks, two iterations: the runs that the lessons look at.

    A test of the lessons holds these against new runs.
    """
    folder = tmp_path_factory.mktemp("traces")
    return shutil.copytree(COMMITTED / "ring", folder, dirs_exist_ok=True)


@contextmanager
def serving(*folders: Path, perfetto: str = "") -> Iterator[str]:
    """The dashboard of some folders; its address without a slash at the end.

    It answers from this process, which has imported all that it needs, and makes nothing before it
    is asked for.
    """
    server = dashboard.Server(folders, "127.0.0.1", 0, perfetto=perfetto)
    thread = threading.Thread(target=server.run, name="zerosim-pages")
    with mock.patch.object(dashboard, "warm"):
        thread.start()
        try:
            yield server.url
        finally:
            server.close()
            thread.join(RANKS_S)
            assert not thread.is_alive()


@pytest.fixture(scope="session")
def server(traces):
    with serving(traces) as address:
        yield address


@pytest.fixture
def serve():
    """Starts servers, which end after the pages that they serve."""
    with ExitStack() as stack:
        yield lambda folder: stack.enter_context(serving(folder))


READY = "document.documentElement.dataset.ready !== undefined"
"""What the player sets when a page is ready; where another end is waited for as well."""
MORE = "try { localStorage.setItem('zerosim-more', '1') } catch {}"
NAVIGATES = ("Execution context was destroyed", "navigating and changing the content")
"""What Playwright says if a page is asked while it is left."""


Answer = TypeVar("Answer")


def eventually(
    ask: Callable[[], Answer],
    holds: Callable[[Answer], object] = bool,
    *,
    deadline_s: float = QUESTION_S,
) -> Answer:
    """Ask again until the answer holds, and return it.

    For what Playwright's `expect` cannot say of a locator.

    Args:
        ask: one question, such as `lambda: one.page.locator("li").all_inner_texts()`.
        holds: says whether an answer is the one that is waited for.

    Raises:
        AssertionError: no answer held within `deadline_s`; with the last one.
    """
    end = time.monotonic() + deadline_s
    while not holds(answer := ask()):
        assert time.monotonic() < end, f"not within {deadline_s} s; the last answer was {answer!r}"
        time.sleep(0.02)
    return answer


def ask(page, function: str, arg=None):
    """What a function of a page or frame returns; its promise is given up after QUESTION_S."""
    bounded = f"""(arg) => Promise.race([
        (async () => ({function})(arg))(),
        new Promise((_, fail) => setTimeout(
            () => fail(new Error("no answer within {QUESTION_S} s")), {1000 * QUESTION_S})),
    ])"""
    return page.evaluate(bounded, arg)


def heard(page, calls: list) -> list:
    """What a handler of the page's requests has kept: it is called while the page is asked."""
    page.title()
    return calls


def evaluate(page, function: str):
    """As `ask`; if the page gives way to another, None."""
    try:
        return ask(page, function)
    except Error as error:
        if any(words in error.message for words in NAVIGATES):
            page.wait_for_load_state()
            return None
        raise


class Watched:
    """A page whose console, errors and requests are kept."""

    def __init__(self, page, address: str) -> None:
        self.page, self.address = page, address
        page.set_default_timeout(1000 * QUESTION_S)
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        self.origins: set[str] = set()
        self.is_plain = True
        page.on("framenavigated", lambda frame: self._went(frame.url))
        page.on("console", lambda message: self._heard(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self._asked(request.url))
        page.on("requestfailed", lambda request: self._failed(request.url, request.failure))

    def _heard(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(f"{kind}: {text}")

    def _failed(self, url: str, why: str | None) -> None:
        if why != "net::ERR_ABORTED":  # what a page was asking for when it was left
            self.complaints.append(f"failed: {url}: {why}")

    def _went(self, url: str) -> None:
        if url == "about:blank":
            return
        scheme, _, rest = url.partition("://")
        self.origins.add(f"{scheme}://{rest.partition('/')[0]}")
        self.is_plain &= scheme == "http"  # a file has no origin of its own

    def _asked(self, url: str) -> None:
        if not url.startswith((self.address, "data:", "blob:", "file:")):
            self.foreign.append(url)

    def open(self, path: str) -> None:
        """Go there and wait until the replay is on the screen."""
        self.page.goto(self.address + path)
        self.ready()
        self.settle()

    def ready(self, language: str = "", *, deadline_s: float = QUESTION_S) -> None:
        """Until the page says that it is there, in a language if one is named."""
        where = f"[lang={language}]" if language else ""
        self.expect(f"html{where}[data-ready]").to_have_count(1, timeout=1000 * deadline_s)

    def expect(self, selector: str):
        """Playwright's assertions on what a selector finds, which wait until they hold."""
        return expect(self.page.locator(selector))

    def ask(self, function: str, arg=None):
        """What a function of the page returns, of what is there by now."""
        return ask(self.page, function, arg)

    def wait(self, condition: str, *, deadline_s: float = QUESTION_S) -> None:
        """Until a condition holds; asked from outside, since the page may not evaluate text."""
        try:
            eventually(
                lambda: evaluate(
                    self.page, f"() => document.body !== null && Boolean({condition})"
                ),
                deadline_s=deadline_s,
            )
        except AssertionError as error:
            raise AssertionError(f"{condition}: {error}") from None

    def has(self, **state: object) -> None:
        """Until the player's state is this, as far as it is named."""
        eventually(self.state, lambda now: {name: now[name] for name in state} == state)

    def settle(self) -> None:
        """Wait until what was done is drawn."""
        evaluate(
            self.page,
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))",
        )

    def sized(self, *sizes: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """The same page in windows of several sizes."""
        for width, height in sizes:
            self.page.set_viewport_size({"width": width, "height": height})
            self.wait(f"innerWidth === {width} && innerHeight === {height}")
            self.settle()  # observers of sizes are told before the first frame
            yield width, height

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
        self.settle()

    def state(self):
        """The player's; of the next page if this one gives way to it."""
        return eventually(
            lambda: evaluate(self.page, "() => window.__player && {...window.__player.state()}")
        )

    def document(self):
        return self.ask("() => window.__player.model.doc")

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()


class Contexts:
    """Contexts of one browser, used again: a new one costs as much as the page that it shows.

    What a page kept is forgotten before the next test, and each page of a test has its own context.
    """

    def __init__(self, browser) -> None:
        self._browser = browser
        self._free: dict[str, list] = {}

    def take(self, options: dict):
        """One with these options, in which there is nothing."""
        free = self._free.setdefault(repr(sorted(options.items())), [])
        return free.pop() if free else self._browser.new_context(**options)

    def give_back(self, options: dict, one: Watched) -> None:
        """Close the page, and with it the context if it is not as it was."""
        context = one.page.context
        if one.is_plain and len(context.pages) == 1 and not one.page.is_closed():
            session = context.new_cdp_session(one.page)
            for origin in one.origins:
                session.send(
                    "Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"}
                )
            one.page.close()
            self._free[repr(sorted(options.items()))].append(context)
        else:
            context.close()


@pytest.fixture(scope="session")
def contexts(browser):
    return Contexts(browser)


@pytest.fixture
def watch(contexts, request, serve):
    """Opens pages; none of them may complain or ask anywhere else."""
    opened: list[tuple[dict, Watched]] = []

    def open_page(*, address: str | None = None, more: bool = True, **options) -> Watched:
        options = {"viewport": {"width": 1280, "height": 720}} | options
        page = contexts.take(options).new_page()
        if more:  # all that a replay has beside its picture
            page.add_init_script(MORE)
        opened.append((options, Watched(page, address or request.getfixturevalue("server"))))
        return opened[-1][1]

    yield open_page
    for options, one in opened:
        complaints, foreign = one.complaints, one.foreign
        contexts.give_back(options, one)
        assert complaints == []
        assert foreign == []
