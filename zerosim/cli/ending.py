"""The message of a command whose ranks failed."""

from __future__ import annotations

import threading
from pathlib import Path

from zerosim.base.errors import TraceError
from zerosim.verify.diagnosis import Diagnosis, diagnose_folder

_MOST_S = 4.0
"""A longer trace is diagnosed by `zerosim diagnose` alone."""


def diagnosis_of(folder: Path) -> Diagnosis | None:
    """The culprit; None if it is not found within a few seconds, or if there is no trace."""
    found: list[Diagnosis] = []

    def look() -> None:
        try:
            found.append(diagnose_folder(folder))
        except TraceError:
            return

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(_MOST_S)
    return found[0] if found else None


def lines_about(folder: Path) -> list[str]:
    """One or two lines about a failed run; none if nothing is known."""
    found = diagnosis_of(folder)
    if found is None or not found.findings:
        return []
    first = found.findings[0]
    return [found.headline, *([f"try: {first.advice}"] if first.advice else [])]
