"""The command line: thin commands that call the same functions as the pages do.

`serve` starts what lies above, the dashboard, and imports it when it is called: the one exception
to the layers, named in pyproject.toml.
"""

from zerosim.cli.app import main

__all__ = ["main"]
