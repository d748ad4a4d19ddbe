"""Runs that were recorded on an H100 (`tests/data/nccl-h100`), for machines that have none."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path
from typing import Any

_DATA = Path(__file__).parent / "data" / "nccl-h100"


def recorded_on_gpu(name: str, folder: Path) -> Path:
    """Unpack a trace into a new folder of this name, below `folder`."""
    place = folder / name
    with tarfile.open(_DATA / f"{name}.tar.gz") as packed:
        packed.extractall(place, filter="data")
    return place


def framing_rows() -> list[dict[str, Any]]:
    """What NCCL's sockets sent for one call each."""
    with gzip.open(_DATA / "framing.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
