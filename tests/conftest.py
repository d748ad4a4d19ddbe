"""What all tests share: how Hypothesis draws."""

import os

from hypothesis import settings

IN_CI = bool(os.environ.get("CI"))

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True, max_examples=40)
settings.load_profile("ci" if IN_CI else "local")


def pytest_collection_modifyitems(config, items):
    """CI has 20 minutes: it leaves out what shows again, longer, what other tests show."""
    if not IN_CI:
        return
    repeated = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=repeated)
    items[:] = [item for item in items if item not in repeated]
