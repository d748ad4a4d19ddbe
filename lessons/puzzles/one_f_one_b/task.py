"""A pipeline schedule: 1F1B.

N stages train one step on several micro-batches. Every stage computes each micro-batch forward
and backward, and sends the result to the next or the previous stage. Choose the order.
A stage that computes all forwards first keeps the activations of all of them for backward. In 1F1B
a stage frees activations as early as possible: after a few forwards to fill the pipeline, it
alternates one backward and one forward, and finally computes the remaining backwards.

stage.forward(micro, x) returns the input of the next stage, stage.backward(micro, gradient) that of
the previous stage, both of stage.shape. Pass None for x on the first stage and None for gradient
on the last one, which have their own. Rank r is stage r. Use dist.isend, dist.irecv, dist.send
and dist.recv. A plain dist.send may wait until the other side receives.

You pass if the gradients are bitwise equal to those of one process, no rank sends more than
necessary, the last stage ends after the minimal number of turns of a pipeline (a turn is one
forward or one backward; messages take no time), and when it sends or receives rank r keeps the
activations of N - r micro-batches, its parameters and their gradients, and three messages at most.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from zerosim.puzzles.stage import Stage


def one_f_one_b(stage: Stage, rank: int, ranks: int, micros: int) -> None:
    """Compute every micro-batch forward and backward."""
    raise NotImplementedError
