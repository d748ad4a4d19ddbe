"""Pages of the server as standalone files: those that `zerosim export --html` writes beside a
replay.

The server is called without a port, and `export.offline` inlines all resources of a page.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlencode

from zerosim.base.errors import ConfigError, TraceError
from zerosim.base.language import spoken
from zerosim.dashboards.app import make_app
from zerosim.dashboards.classroom import lesson_shelf
from zerosim.dashboards.documents import Documents
from zerosim.dashboards.languages import ASKED
from zerosim.dashboards.library import Library
from zerosim.dashboards.page import ALONE
from zerosim.dashboards.pages import compare, lessons, verify
from zerosim.lessons.course import course
from zerosim.view.export.offline import bundle


class StandalonePages:
    """Makes files of pages about some traces."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Prepare the pages for these folders; each is a trace.

        Raises:
            ConfigError: there is no such folder.
            TraceError: one is not a trace that can be shown.
        """
        library = self._library = Library(folders, shelf=lesson_shelf())
        entries = {entry.folder.resolve(): entry for entry in library.own()}
        self.app = make_app(library, Documents())
        self._client = self.app.test_client(use_cookies=False)
        self._names = []
        for folder in folders:
            entry = entries.get(folder.resolve())
            problem = "it is not a trace" if entry is None else entry.problem
            if entry is None or problem:
                raise TraceError(f"{folder} cannot be shown: {problem}")
            self._names.append(entry.name)

    def compare(self) -> str:
        """The traces under one cursor.

        Raises:
            TraceError: they cannot be compared.
        """
        return self._page(f"{compare.PATH}?{compare.query_of(self._names)}")

    def verify(self, iteration: int | None) -> str:
        """The three ledgers of the first trace; the last complete iteration by default.

        Raises:
            ZerosimError: it cannot be verified.
        """
        asked = {"trace": self._names[0]}
        if iteration is not None:
            asked["iteration"] = str(iteration)
        return self._page(f"{verify.PATH}?{urlencode(asked)}")

    def lesson(self, number: int, *, as_slides: bool = False) -> str:
        """A lesson with its replays, its figures and its answers.

        Args:
            as_slides: one idea per slide, with speaker notes.

        Raises:
            ConfigError: there is no lesson of this number.
        """
        found = [one for one in course() if one.number == number]
        if not found:
            known = f"0 to {max(one.number for one in course())}"
            raise ConfigError(f"lesson is {number}: expected one of {known}")
        asked = f"?page={lessons.SLIDES}" if as_slides else ""
        return self._page(lessons.address_of(found[0]) + asked)

    def title_of(self, name: str) -> str:
        """The subject of a run, by its name in requests."""
        return self._library.find(name).title

    def _page(self, address: str) -> str:
        return bundle(self.get(address), self.get)

    def get(self, address: str) -> str:
        """The server's response for a page that becomes a file, or for a part of one.

        It is in the current language.

        Raises:
            TraceError: it has none.
        """
        asked = {ALONE: "1", "HTTP_COOKIE": f"{ASKED}={spoken()}"}
        with self._client.get(address, environ_overrides=asked) as answer:
            found = answer.get_data(as_text=True)
            if answer.status_code != HTTPStatus.OK:
                said = answer.get_json(silent=True)
                raise TraceError(str(said["error"]) if said else found.splitlines()[0])
        return found
