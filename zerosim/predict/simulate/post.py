"""What ranks tell each other that is known: one process is all of them, one after another.

A message is kept for whoever will ask for it. Who asks for one that was not sent yet has to begin
anew when its sender has come so far (`NotSentYet`). In a collective of all of a group each says
what this rank says, but in a broadcast, of which the root's word is kept likewise.
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
"""What they make of equal values is that value."""

Values = list[float]
_Key = tuple[str, int, int, int]


class NotSentYet(BaseException):
    """A rank waits for what another one, `sender`, has not said yet.

    No error of the program's, which it could catch.
    """

    def __init__(self, sender: int) -> None:
        super().__init__(f"rank {sender} has not come so far")
        self.sender = sender


class Letters:
    """What the ranks of a run have told each other so far, all of them."""

    def __init__(self) -> None:
        self.sent: dict[_Key, list[Values | None]] = {}


class Post:
    """What one rank sends and receives, in its order."""

    def __init__(self, letters: Letters, known: Known, rank: int, *, is_alone: bool) -> None:
        """Begin with nothing sent.

        Args:
            is_alone: no other rank is done: this one stands for all.
        """
        self._letters = letters.sent
        self._known = known
        self._rank = rank
        self._is_alone = is_alone
        self._count: Counter[tuple[str, int, int]] = Counter()

    def carry(self, name: str, args: tuple[Any, ...]) -> None:
        """Fill what an operator is to fill, as far as it is known."""
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
        """A message, or what the root of a broadcast says."""
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
        """What is the same everywhere is its own mean and maximum."""
        asked = dist.ReduceOp.RedOpType(how._get_method("op")())
        for tensor in filter(self._known.has, tensors):
            if asked == dist.ReduceOp.SUM:
                tensor.mul_(dist.ProcessGroup.unbox(group).size())
            elif asked not in _OF_EQUALS:
                self._known.lose(tensor)

    def _fill(self, filled: list[torch.Tensor], given: list[torch.Tensor]) -> None:
        """Each tensor to fill gets what this rank gave, over and over."""
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
