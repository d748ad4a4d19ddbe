"""The command line: thin commands that call the same functions as the pages do.

`serve` starts what lies above, the dashboard, and `notebook` asks the lessons for one; each imports
it when it is called. These exceptions to the layers are named in pyproject.toml.
"""

from zerosim.cli.app import main

__all__ = ["main"]
