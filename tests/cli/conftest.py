"""What the tests of commands share."""

import pytest

from zerosim.train.launch import launcher


@pytest.fixture
def no_ranks(monkeypatch):
    """No process may be started."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a rank was started")

    monkeypatch.setattr(launcher, "run_ranks", refuse)
