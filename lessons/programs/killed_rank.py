"""`zerosim run` with one rank that is killed in the middle of its second iteration.

Started by torchrun, with the options of `zerosim run`; it is a program of its own and no part of
the package. The kernel ends the rank at once (SIGKILL): nothing is written, nothing is closed.
"""

# ruff: noqa: INP001 - a program beside the package, which never imports torch

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from zerosim.cli import main

KILLED_RANK = 1
LAYERS = 7
"""Linear layers computed before it, of four in a forward."""


def kill_after(layers: int) -> None:
    """End this process when one more layer is about to be computed, and all ranks have committed
    the state after the first iteration: a slow disk may still be writing it.
    """
    begun, disk = 0, Path(sys.argv[sys.argv.index("--nvme-path") + 1])

    def count(module: nn.Module, _: object) -> None:
        nonlocal begun
        begun += isinstance(module, nn.Linear)
        if begun > layers:
            # each rank's second: its first is the state that it begins with
            while len(list(disk.glob("rank-*/commit-*.json"))) < 2 * int(os.environ["WORLD_SIZE"]):
                time.sleep(0.02)
            os.kill(os.getpid(), signal.SIGKILL)

    register_module_forward_pre_hook(count)


if __name__ == "__main__":
    if int(os.environ["RANK"]) == KILLED_RANK:
        kill_after(LAYERS)
    main()
