"""Known values exchanged by ranks: one process plays all of them, one after another.

A message is kept for its receiver. A receiver whose message was not sent yet starts over once its
sender has sent it (`NotSentYet`). In a collective, each rank of a group contributes the same as
this rank, except in a broadcast, where the root's value is kept like a message.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
import torch.distributed as dist

from zerosim.predict.simulate.known import Known, tensors_of
from zerosim.schema.c10d import OPERATORS
from zerosim.schema.events import Op

_OF_EQUALS = (dist.ReduceOp.AVG, dist.ReduceOp.MIN, dist.ReduceOp.MAX)
"""Reductions that map equal values to that value."""

Values = list[float]
_Key = tuple[str, int, int, int]


class NotSentYet(BaseException):
    """A rank waits for a value that another one, `sender`, has not sent yet.

    It is no subclass of Exception, so `except Exception` does not catch it.
    """

    def __init__(self, sender: int) -> None:
        super().__init__(f"rank {sender} has not reached this point")
        self.sender = sender


class Letters:
    """The values that the ranks of a run have sent so far."""

    def __init__(self) -> None:
        self.sent: dict[_Key, list[Values | None]] = {}


class Post:
    """The sends and receives of one rank, in order."""

    def __init__(self, letters: Letters, known: Known, rank: int, *, is_alone: bool) -> None:
        """Begin with nothing sent.

        Args:
            is_alone: no other rank runs: this one represents all.
        """
        self._letters = letters.sent
        self._known = known
        self._rank = rank
        self._is_alone = is_alone
        self._count: Counter[tuple[str, int, int]] = Counter()

    def carry(self, name: str, args: tuple[Any, ...]) -> None:
        """Fill the outputs of an operator, as far as they are known."""
        operator = OPERATORS.get(f"c10d::{name}")
        if operator is None or operator.op is Op.BARRIER:
            return
        if operator.op in (Op.SEND, Op.RECEIVE, Op.BROADCAST):
            self._deliver(operator.op, list(tensors_of(args[0])), args, operator.peer)
            return
        if operator.op in (Op.ALL_REDUCE, Op.REDUCE):
            self._reduce(list(tensors_of(args[0])), args[1], args[2])
            return
        filled, given = list(tensors_of(args[0])), list(tensors_of(args[1]))
        if filled and given:
            self._fill(filled, given)

    def _deliver(
        self, op: Op, tensors: list[torch.Tensor], args: tuple[Any, ...], peer: int | None
    ) -> None:
        """A message, or the value of the root of a broadcast."""
        group = dist.ProcessGroup.unbox(args[1])
        ranks = dist.get_process_group_ranks(group)
        other = ranks[args[peer]] if peer is not None else -1
        sender = self._rank if op is Op.SEND else other
        receiver = {Op.SEND: other, Op.RECEIVE: self._rank}.get(op, -1)
        line = (group.group_name, sender, receiver)
        key = (*line, self._count[line])
        self._count[line] += 1
        if sender == self._rank:
            self._letters[key] = [
                one.reshape(-1).tolist() if self._known.has(one) else None for one in tensors
            ]
        elif any(map(self._known.has, tensors)):
            if key not in self._letters:
                if self._is_alone and op is Op.BROADCAST:
                    return
                raise NotSentYet(sender)
            for tensor, said in zip(tensors, self._letters[key], strict=True):
                self._receive(tensor, said)

    def _receive(self, tensor: torch.Tensor, said: Values | None) -> None:
        if said is None:
            self._known.lose(tensor)
        elif self._known.has(tensor):
            tensor.view(-1).copy_(torch.tensor(said, dtype=tensor.dtype))

    def _reduce(self, tensors: list[torch.Tensor], group: Any, how: Any) -> None:
        """Equal values are their own mean and maximum."""
        asked = dist.ReduceOp.RedOpType(how._get_method("op")())
        for tensor in filter(self._known.has, tensors):
            if asked == dist.ReduceOp.SUM:
                tensor.mul_(dist.ProcessGroup.unbox(group).size())
            elif asked not in _OF_EQUALS:
                self._known.lose(tensor)

    def _fill(self, filled: list[torch.Tensor], given: list[torch.Tensor]) -> None:
        """Each output tensor gets this rank's input, repeated."""
        known = all(map(self._known.has, given))
        source = torch.cat([one.reshape(-1) for one in given]) if known else None
        for tensor in filled:
            if not self._known.has(tensor):
                continue
            if source is None or not source.numel():
                self._known.lose(tensor)
                continue
            times = -(-tensor.numel() // source.numel())
            tensor.view(-1).copy_(source.repeat(times)[: tensor.numel()])
