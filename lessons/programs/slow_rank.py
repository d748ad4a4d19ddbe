"""`zerosim run` with one rank that is slow: it sleeps before each linear layer of its forward.

Started by torchrun, with the options of `zerosim run`; it is a program of its own and no part of
the package. Nothing of the trace is made up: the rank really stands there, and the others wait.
"""

# ruff: noqa: INP001 - a program beside the package, which never imports torch

from __future__ import annotations

import os
import time

from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from zerosim.cli import main

SLOW_RANK = 1
PAUSE_S = 0.02


def pause(module: nn.Module, _: object) -> None:
    """Sleep, as a processor does that others use as well."""
    if isinstance(module, nn.Linear):
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    if int(os.environ["RANK"]) == SLOW_RANK:
        register_module_forward_pre_hook(pause)
    main()
