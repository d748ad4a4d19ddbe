"""The dependencies of the pages: the extra `pages`, which no other command needs."""

from __future__ import annotations

from importlib.util import find_spec

from zerosim.base.errors import EnvironmentFault

_MODULES = {
    "dash": "dash",
    "plotly": "plotly",
    "waitress": "waitress",
    "markdown_it": "markdown-it-py",
}
"""Import names, and the package of each."""


def require_pages() -> str:
    """Check that pages can be served, and return the server module.

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
