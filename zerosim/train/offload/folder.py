"""A rank's folder on a disk: its owner, and the abilities of its file system."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from zerosim.base.errors import EnvironmentFault


def take(folder: Path) -> int:
    """Create a rank's folder, and lock it for this process.

    Returns:
        A descriptor, which keeps the lock until it is closed or the process ends.

    Raises:
        EnvironmentFault: it cannot be written, or another process uses it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise EnvironmentFault(
            f"cannot keep files in {folder}: {error.strerror}; give a writable folder"
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise EnvironmentFault(
            f"{folder} is used by another process: end it, or give another folder"
        ) from None
    return lock


def supports_direct(folder: Path) -> bool:
    """Whether the file system supports direct I/O, which bypasses the page cache."""
    path = folder / "direct.probe"
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT | os.O_CLOEXEC, 0o644))
    except OSError:
        return False
    finally:
        path.unlink(missing_ok=True)
    return True
