"""A rank that torchrun's agent started, in a group whose calls wait no longer than a given time.

    torchrun ... agent.py SECONDS FUNCTION FOLDER [OPTIONS]

It calls a function of `programs`, and leaves what that returned in the folder.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

from tests.debug import programs


def main(seconds: str, function: str, folder: str, options: str = "[]") -> None:
    """Train as one rank of several."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=float(seconds)))
    found = getattr(programs, function)(folder, *json.loads(options))
    Path(folder, f"result-{dist.get_rank()}").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
