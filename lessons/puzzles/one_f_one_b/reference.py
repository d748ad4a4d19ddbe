"""A pipeline schedule: 1F1B: a solution."""

from __future__ import annotations

import torch
import torch.distributed as dist

from zerosim.puzzles.stage import Stage


def one_f_one_b(stage: Stage, rank: int, ranks: int, micros: int) -> None:
    """Compute every micro-batch forward and backward."""
    turns = _Turns(stage, rank, ranks)
    warmup = min(ranks - 1 - rank, micros)
    for micro in range(warmup):
        turns.forward(micro)
    for micro in range(warmup, micros):
        turns.forward(micro)
        turns.backward(micro - warmup)
    for micro in range(micros - warmup, micros):
        turns.backward(micro)
    turns.finish()


class _Turns:
    """Receives, computes and sends."""

    def __init__(self, stage: Stage, rank: int, ranks: int) -> None:
        self.stage = stage
        self.before = rank - 1 if rank > 0 else None
        self.next = rank + 1 if rank + 1 < ranks else None
        self.sent: list[dist.Work] = []

    def forward(self, micro: int) -> None:
        self.send(self.stage.forward(micro, self.received(self.before)), self.next)

    def backward(self, micro: int) -> None:
        self.send(self.stage.backward(micro, self.received(self.next)), self.before)

    def received(self, peer: int | None) -> torch.Tensor | None:
        if peer is None:
            return None
        arrived = torch.empty(self.stage.shape)
        dist.recv(arrived, peer)
        return arrived

    def send(self, tensor: torch.Tensor, peer: int | None) -> None:
        if peer is not None:
            work = dist.isend(tensor, peer)
            assert work is not None
            self.sent.append(work)

    def finish(self) -> None:
        for work in self.sent:
            work.wait()
