"""Runs that were recorded on an H100, for machines that have none.

Those that lessons show are with the lessons' traces, the others in `tests/data/nccl-h100`.
"""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

from zerosim.lessons.recordings import COMMITTED

_DATA = Path(__file__).parent / "data" / "nccl-h100"
_OF_LESSONS = COMMITTED / "host-clock"


def recorded_on_gpu(name: str, folder: Path) -> Path:
    """Put a trace into a new folder of this name, below `folder`."""
    place = folder / name
    if (_OF_LESSONS / name).is_dir():
        shutil.copytree(_OF_LESSONS / name, place)
        return place
    with tarfile.open(_DATA / f"{name}.tar.gz") as packed:
        # Debian 12's Python, 3.11.2, knows no filters; a later one wants to be told
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(place)  # noqa: S202 - an archive of ours
    return place
