"""What all tests share: how Hypothesis draws, and what Ctrl-C does."""

import os
import signal

from hypothesis import settings

# The same examples each time, so that what was green stays green; `make test-long` draws new ones.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("long", deadline=None, print_blob=True, max_examples=1000)
settings.load_profile("default")

# A shell starts what is in the background with Ctrl-C ignored, and so would be what tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Two processes that write to one pipe then write whole lines.
os.environ.pop("PYTHONUNBUFFERED", None)
