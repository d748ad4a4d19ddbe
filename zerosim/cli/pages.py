"""What the pages are served with: the extra `pages`, which every other command does without."""

from __future__ import annotations

from importlib.util import find_spec

from zerosim.base.errors import EnvironmentFault

_MODULES = {
    "dash": "dash",
    "plotly": "plotly",
    "waitress": "waitress",
    "markdown_it": "markdown-it-py",
}
"""By which each is imported, and the package that it comes with."""


def require_pages() -> str:
    """See that pages can be served, and say with what.

    Raises:
        EnvironmentFault: something is not installed.
    """
    missing = [package for module, package in _MODULES.items() if find_spec(module) is None]
    if missing:
        raise EnvironmentFault(
            f"zerosim serve needs {', '.join(missing)}, not installed here; try "
            "pip install 'zerosim[pages]'"
        )
    return f"zerosim serve can: {', '.join(_MODULES.values())} are installed"
