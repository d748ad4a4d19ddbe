"""What the tests of commands share."""

import pytest

from zerosim.launch.agent import PatientAgent


@pytest.fixture
def no_ranks(monkeypatch):
    """No process may be started."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a rank was started")

    monkeypatch.setattr(PatientAgent, "run", refuse)
