"""What all tests share: how Hypothesis draws."""

import os
from collections import defaultdict

from hypothesis import settings

IN_CI = bool(os.environ.get("CI"))

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True, max_examples=40)
settings.load_profile("ci" if IN_CI else "local")


MANY = 6
"""Cases of one test of which CI runs each second one."""


def pytest_collection_modifyitems(config, items):
    """CI has 20 minutes: it leaves out what shows again, longer, what other tests show.

    That is what is marked slow, and of a test with many cases, or several in a browser, each second
    case. `make test` leaves out nothing.
    """
    if not IN_CI:
        return
    repeated = [item for item in items if item.get_closest_marker("slow")]
    cases = defaultdict(list)
    for item in items:
        cases[item.path, getattr(item, "originalname", item.name)].append(item)
    for those in cases.values():
        if len(those) > (1 if those[0].get_closest_marker("browser") else MANY):
            repeated += those[1::2]
    left_out = set(repeated)
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]
