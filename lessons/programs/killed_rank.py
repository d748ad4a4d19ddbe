"""`zerosim run` with one rank that is killed in the middle of its second iteration.

Started by torchrun, with the options of `zerosim run`; it is a program of its own and no part of
the package. The kernel ends the rank at once (SIGKILL): nothing is written, nothing is closed.
"""

# ruff: noqa: INP001 - a program beside the package, which never imports torch

from __future__ import annotations

import os
import signal

from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from zerosim.cli import main

KILLED_RANK = 1
LAYERS = 7
"""Linear layers computed before it, of four in a forward: the other ranks are as far by then."""


def kill_after(layers: int) -> None:
    """End this process when one more layer is about to be computed."""
    begun = 0

    def count(module: nn.Module, _: object) -> None:
        nonlocal begun
        begun += isinstance(module, nn.Linear)
        if begun > layers:
            os.kill(os.getpid(), signal.SIGKILL)

    register_module_forward_pre_hook(count)


if __name__ == "__main__":
    if int(os.environ["RANK"]) == KILLED_RANK:
        kill_after(LAYERS)
    main()
