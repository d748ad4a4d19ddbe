"""How long tests wait: for all of them, here. Each wait has a condition; these are its ends.

They are met in a fraction on a quiet machine, and long enough beside other programs that want the
processor. A test's own limit is `timeout` in pyproject.toml, and with ranks RANKS_TEST_S; a test
that needs more says why.
"""

QUESTION_S = 30.0
"""One question to a page."""
RANKS_S = 300.0
"""Ranks, a command or a server: below a test's own limit, so that what they said is shown."""
RANKS_TEST_S = 400.0
"""A test with ranks, and what it shares with others: each process of its own imports PyTorch, ten
seconds and more beside others, and the runs that a file shares are those of its first test."""
STACKS_S = 5.0
"""Where one process is; `tests/watch.py`."""
