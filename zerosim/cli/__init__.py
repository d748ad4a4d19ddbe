"""The command line: thin commands that call the same functions as the pages do.

Imports everything below it; torch only inside the commands that need it.
"""

from zerosim.cli.app import main

__all__ = ["main"]
