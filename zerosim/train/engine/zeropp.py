"""ZeRO++: stage 3 with less traffic, above all between nodes.

    qwZ   forward's all-gather carries int8          e Psi becomes Psi and the scales
    hpZ   S neighbours keep all parameters for       backward's all-gather stays among them
          backward
    qgZ   gradients are reduced by an all-to-all     e Psi becomes Psi / 2 and the scales within a
          of int4 within each node and one across    node, Psi / 2P across

Each can be enabled alone. All ranks compute with equal parameters, even with qwZ, where a rank uses
the quantized values of its own row as well. Gathers outside of iterations, for example in an
evaluation, are exact.
Source: G. Wang et al., "ZeRO++: Extremely Efficient Collective Communication for Giant Model
Training" (arXiv 2306.10209), section 3.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from zerosim.base.config.checks import require_divisor
from zerosim.schema.events import Phase, Purpose
from zerosim.schema.memory import Role
from zerosim.trace import labels
from zerosim.trace.holdings import hold, release
from zerosim.train.collectives import Handle, Ring, make_collectives
from zerosim.train.collectives.nodes import counterparts, neighbours, node_size
from zerosim.train.collectives.pairwise import Pairwise
from zerosim.train.collectives.protocol import Carried
from zerosim.train.collectives.quantization import Bits, Error, Quantizer
from zerosim.train.engine.context import Context
from zerosim.train.engine.flat import FlatUnit
from zerosim.train.engine.gathering import Gathering, RowGathering
from zerosim.train.engine.stores import ParameterStore

WEIGHT_ERROR = "weight quantization error"
GRADIENT_ERROR = "gradient quantization error"


class _InTurn:
    """The handle of consecutive collectives and of the work that follows them.

    Work before a collective ends first, so it is omitted here: a stall until then is recorded as
        a wait for the collective.
    """

    def __init__(self, handles: Sequence[Handle]) -> None:
        self._handles = handles

    def wait(self) -> None:
        """Wait for each."""
        for handle in self._handles:
            handle.wait()


class QuantizedGathering(RowGathering):
    """qwZ: each rank quantizes its row, and all dequantize all rows (section 3.1)."""

    def __init__(self, context: Context, store: ParameterStore) -> None:
        """Allocate a buffer for the largest unit; one is enough, as gathers follow each other."""
        super().__init__(context, store)
        config, group = context.config, context.collectives.group
        self._submit = context.executor.submit
        self._ring = Ring(group, context.executor, config.chunk_bytes)
        device = context.units[0].flat.device
        columns = max(flat.unit.columns for flat in context.units)
        self._quantizer = Quantizer(
            Bits.INT8, config.quantization_block, group.size, columns, device
        )
        row_bytes = self._quantizer.packing(columns).row_bytes
        self._packed = torch.empty(group.size * row_bytes, dtype=torch.uint8, device=device)
        hold(self._packed, Role.BUFFERS, "")
        self._error = Error(device)

    def all_gather(self, flat: FlatUnit) -> Handle:
        """Quantize the rank's own row, gather bytes, and dequantize all rows, including its own."""
        position, rows = labels.position(), flat.rows
        if position.phase is Phase.OUTSIDE:  # gathers outside of iterations are exact
            return super().all_gather(flat)
        own, (size, columns) = self._ring.group.rank, rows.shape
        row_bytes = self._quantizer.packing(columns).row_bytes
        packed = self._packed[: size * row_bytes].view(size, row_bytes)
        is_first = position.phase is Phase.FORWARD and position.micro_step == 0
        error = self._error if is_first else None
        mine = slice(own, own + 1)
        self._submit(lambda: self._quantizer.quantize(rows[mine], packed[mine], error))
        gathers = self._ring.all_gather(packed, Carried(Bits.INT8.dtype_name, rows.numel()))
        unpacks = self._submit(lambda: self._quantizer.dequantize(packed, rows))
        return _InTurn((gathers, unpacks))

    def update_is_over(self) -> None:
        """Report the error of the weights: of this rank's own rows, in the first forward."""
        _report(WEIGHT_ERROR, self._error)

    def release(self) -> None:
        """The engine is closed."""
        self._quantizer.release()
        release(self._packed)


class SecondaryGathering(Gathering):
    """hpZ: S ranks keep the parameters gathered in forward, and gather them again in backward
    (3.2).
    """

    def __init__(self, context: Context, primary: Gathering) -> None:
        """Create the groups of neighbours.

        Args:
            primary: gathers in forward.

        Raises:
            ConfigError: S does not divide the number of ranks.
        """
        config, group = context.config, context.collectives.group
        require_divisor("secondary-partition", config.secondary_partition, group.size)
        self._primary = primary
        near = neighbours(group, config.secondary_partition)
        self._collectives = make_collectives(
            config.collectives, near, context.executor, config.chunk_bytes
        )
        self._parts: dict[str, torch.Tensor] = {}

    def start(self, flat: FlatUnit) -> Handle:
        """Gather from the secondary group in backward, if it has the unit; else from all ranks."""
        part = self._parts.get(flat.name)
        if part is None or labels.position().phase is not Phase.BACKWARD:
            return self._primary.start(flat)
        rows = self._rows(flat)
        rows[self._collectives.group.rank].copy_(part)
        with flat.labelled(Purpose.GATHER_PARAMETERS):
            return self._collectives.all_gather(rows)

    def forward_is_over(self, flat: FlatUnit) -> None:
        """Keep this rank's part of the gathered parameters."""
        self._primary.forward_is_over(flat)
        if labels.position().phase is not Phase.FORWARD or flat.name in self._parts:
            return
        part = self._rows(flat)[self._collectives.group.rank].clone()
        hold(part, Role.SECONDARY, flat.name)
        self._parts[flat.name] = part

    def update_is_over(self) -> None:
        """The secondary copy is out of date."""
        self._primary.update_is_over()
        self._parts.clear()

    def release(self) -> None:
        """The engine is closed."""
        self._primary.release()
        for part in self._parts.values():
            release(part)

    def _rows(self, flat: FlatUnit) -> torch.Tensor:
        """The unit as S parts, shape (S, N * columns / S)."""
        size = self._collectives.group.size
        return flat.flat.view(size, flat.flat.numel() // size)


class QuantizedReduction:
    """qgZ: int4 gradients are added in fp32, within each node and then across (section 3.3).

    A gradient is quantized twice, for any number of ranks; a ring would quantize a sum at each hop.
    """

    def __init__(self, context: Context) -> None:
        """Allocate buffers for the largest bucket; one set is enough, as buckets follow each other.

        Raises:
            ConfigError: the nodes differ in their number of ranks.
        """
        config, group = context.config, context.collectives.group
        self._group, self._submit = group, context.executor.submit
        per_node = node_size(group, config.ranks_per_node)
        self._within = Pairwise(neighbours(group, per_node), context.executor)
        self._across = Pairwise(counterparts(group, per_node), context.executor)
        columns = max(
            sum(segment.stop - segment.start for segment in bucket.segments)
            for bucket in context.buckets
        )
        device = context.units[0].flat.device
        self._quantizer = Quantizer(
            Bits.INT4, config.quantization_block, self._across.group.size, columns, device
        )
        most = group.size * self._quantizer.packing(columns).row_bytes
        self._outgoing = torch.empty(most, dtype=torch.uint8, device=device)
        self._incoming = torch.empty(most, dtype=torch.uint8, device=device)
        self._sums = torch.empty(
            self._across.group.size * columns, dtype=torch.float32, device=device
        )
        for buffer in self._buffers():
            hold(buffer, Role.BUFFERS, "")
        self._error = Error(device)

    def reduce(self, matrix: torch.Tensor) -> Handle:
        """Row r of rank r becomes the sum; the other rows are unchanged.

        Args:
            matrix: (N, columns), in the compute dtype.
        """
        columns, num_nodes = matrix.shape[1], self._across.group.size
        sums = self._sums[: num_nodes * columns].view(num_nodes, columns)
        error = self._error if labels.position().micro_step == 0 else None
        handles: list[Handle] = []
        rows = matrix
        if self._within.group.size > 1:
            per_node = self._within.group.size
            parts = [matrix[place::per_node] for place in range(per_node)]
            handles.append(self._exchange(self._within, parts, sums, error))
            rows, error = sums, None
        if num_nodes > 1:
            handles.append(self._exchange(self._across, list(rows.split(1)), sums[:1], error))
        handles.append(self._submit(lambda: _copy(sums[0], matrix[self._group.rank])))
        return _InTurn(handles)

    def update_is_over(self) -> None:
        """Report the error of the gradients at their first quantization.

        It is measured in the first micro-step, on the part that this rank sends to itself.
        """
        _report(GRADIENT_ERROR, self._error)

    def release(self) -> None:
        """The engine is closed."""
        self._quantizer.release()
        for buffer in self._buffers():
            release(buffer)

    def _exchange(
        self,
        pairwise: Pairwise,
        parts: Sequence[torch.Tensor],
        sums: torch.Tensor,
        error: Error | None,
    ) -> Handle:
        """Send part p to the rank at index p; sum the parts received from all of them in fp32."""
        quantizer, size, own = self._quantizer, pairwise.group.size, pairwise.group.rank
        num_rows, columns = sums.shape
        row_bytes = quantizer.packing(columns).row_bytes
        outgoing, incoming = (
            buffer[: size * num_rows * row_bytes].view(size, num_rows, row_bytes)
            for buffer in (self._outgoing, self._incoming)
        )

        def pack() -> None:
            for place, part in enumerate(parts):
                quantizer.quantize(part, outgoing[place], error if place == own else None)

        def add_up() -> None:
            for place in range(size):
                quantizer.dequantize(incoming[place], sums, adds=place > 0)

        self._submit(pack)
        payload = Carried(Bits.INT4.dtype_name, size * num_rows * columns)
        exchanged = pairwise.all_to_all(outgoing.flatten(1), incoming.flatten(1), payload)
        self._submit(add_up)
        return exchanged

    def _buffers(self) -> tuple[torch.Tensor, ...]:
        return self._outgoing, self._incoming, self._sums


def _copy(source: torch.Tensor, target: torch.Tensor) -> None:
    target.copy_(source)


def _report(name: str, error: Error) -> None:
    found = error.take()
    if found is not None:
        labels.metric(name, found)
