"""How an export is written to disk."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

from zerosim.base.errors import EnvironmentFault


def write(path: Path, content: bytes) -> None:
    """Write a file; the previous contents are replaced only when everything is written.

    Raises:
        EnvironmentFault: it cannot be written; the previous contents are then unchanged.
    """
    try:
        if path.exists() and not path.is_file():  # a terminal or a pipe cannot be replaced
            path.write_bytes(content)
        else:
            _replace(path.resolve(), content)
    except OSError as error:
        raise EnvironmentFault(
            f"cannot write {path}: {error.strerror or error}: give a file in an "
            "existing, writable folder"
        ) from None


def _replace(path: Path, content: bytes) -> None:
    beside = path.with_name(f".zerosim-{secrets.token_hex(8)}")
    try:
        with beside.open("xb") as file:
            file.write(content)
        if path.exists():
            shutil.copymode(path, beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
