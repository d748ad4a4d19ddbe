"""The command line: thin commands that call the same functions as the pages do.

`serve` starts a higher layer, the dashboard, and `notebook` calls the lessons; each imports it when
called. These exceptions to the layers are listed in pyproject.toml.
"""

import resource
import sys
from typing import NoReturn

from zerosim.base.errors import EnvironmentFault, cannot_load

__all__ = ["main"]


_LEAST_BYTES = 180_000_000
"""Address space for a command that only reads. With half of it, NumPy's OpenBLAS ends the process,
or retries for minutes."""


def main() -> None:
    """Run a command; `zerosim.cli.app.main`, as far as this machine can load it."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _LEAST_BYTES:
        _refuse(
            f"ulimit -v allows {limit // 1024:,} KiB: expected at least {_LEAST_BYTES // 1024:,} "
            "to read a trace, and some GB to train; try ulimit -v unlimited"
        )
    try:
        from zerosim.cli.app import main as run
    except (ImportError, MemoryError) as error:
        _refuse(cannot_load(error))
    run()


def _refuse(why: str) -> NoReturn:
    sys.stderr.write(f"zerosim: {why}\n")
    sys.exit(EnvironmentFault.exit_code)
