"""What all tests share: how Hypothesis draws, and what Ctrl-C does."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

HERE = Path(__file__).parent

# The same examples each time, so that what was green stays green; `make test-long` draws new ones.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("long", deadline=None, print_blob=True, max_examples=1000)
settings.load_profile("default")

# A shell starts what is in the background with Ctrl-C ignored, and so would be what tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

APART = {
    "lessons/test_scripts.py",
    "launch/test_killed.py",
    "cli/test_torchrun.py",
    "plugin/test_ways.py",
}
"""Files whose tests share nothing that is dear to make."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Tests of a file stay together for what they share; those of `APART` fill what is left."""
    for item in items:
        file = item.path.relative_to(HERE).as_posix()
        if file not in APART:
            item.add_marker(pytest.mark.xdist_group(file))


# Two processes that write to one pipe then write whole lines.
os.environ.pop("PYTHONUNBUFFERED", None)
