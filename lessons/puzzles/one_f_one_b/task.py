"""A pipeline schedule: 1F1B.

N stages train one step on several micro-batches. Every stage computes each micro-batch forward
and backward; what it computes it sends to the next stage, or the stage before. Choose the order.
A stage that computes all forwards first keeps what all of them will need in backward. In 1F1B it
lets a micro-batch go as soon as it can: after a few forwards to fill the pipeline it computes one
backward and one forward by turns, and at last the backwards that are left.

stage.forward(micro, x) returns what the next stage is to get, stage.backward(micro, gradient) what
the stage before is to get, both of stage.shape; the first stage gives None for x, the last one
None for gradient, they have their own. Rank r is stage r. Use dist.isend, dist.irecv, dist.send
and dist.recv. A plain dist.send may wait until the other side receives.

You pass if the gradients are bit by bit those of one process, no rank sends more than it has to,
the last stage to be done is done after as many turns as a pipeline has to take (a turn is one
forward or one backward; messages take no time), and when it sends or receives rank r keeps what
N - r micro-batches need, its parameters and their gradients, and three messages at most.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from zerosim.puzzles.stage import Stage


def one_f_one_b(stage: Stage, rank: int, ranks: int, micros: int) -> None:
    """Compute every micro-batch forward and backward."""
    raise NotImplementedError
