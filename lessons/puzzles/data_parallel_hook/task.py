"""Data parallel with a hook.

A model is trained on N ranks, each with its own batch. Attach hooks so that
after a plain loss.backward() every parameter's .grad is the average over all ranks. Ranks begin
with the same parameters. You may not change the training loop: it calls attach(model, ranks) once,
then backward and optimizer.step() in every iteration.

You pass if the parameters are bitwise equal to those of one process with all batches, and no rank
sends more during backward than an all-reduce of all gradients needs.
"""

from __future__ import annotations

import torch
import torch.distributed as dist


def attach(model: torch.nn.Module, ranks: int) -> None:
    """Average every gradient over all ranks as soon as backward has computed it."""
    raise NotImplementedError
