"""How an export reaches the disk. Imports the standard library and zerosim's L0."""

from __future__ import annotations

from pathlib import Path

from zerosim.errors import EnvironmentFault


def write(path: Path, content: bytes) -> None:
    """Write a file; what it held is replaced.

    Raises:
        EnvironmentFault: it cannot be written.
    """
    try:
        path.write_bytes(content)
    except OSError as error:
        raise EnvironmentFault(
            f"cannot write {path}: {error.strerror or error}: give a file in a folder that is "
            "there and can be written to"
        ) from None
