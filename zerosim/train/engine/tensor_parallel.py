"""Tensor parallelism under the engine: parameters sharded by PyTorch's `parallelize_module`.

T ranks compute each block together (a tensor-parallel group); each is data parallel with those at
the same index in the other groups. The engine partitions its states among the latter, stage by
stage; it partitions the rank's own shard of each tensor-parallel parameter and the whole of the
others.

Calls on each rank, in each micro-step, for a block sharded by Megatron's plan
(`zerosim.train.models.parallel`; b sequences of s positions, width h, e bytes per element of the
compute dtype; T ranks; n = b s h):

    phase      purpose             op          group    elements          payload, bytes   times
    forward    activations         all-reduce  tensor   n                 n e              2
    backward   gather activations  all-gather  tensor   T ceil(n / T)     T ceil(n / T) e  1 (P_a)
    backward   activations         all-reduce  tensor   n                 n e              2 (again)
    backward   activations         all-reduce  tensor   n                 n e              2

The unit of all of them is the block's. The last row is the gradient of the two inputs of
column-parallel matrices. "Again" applies with `checkpoint_activations`, when a block recomputes its
whole forward, including the last sum; without it, these two calls are absent. P_a, with
`partition_activations`, precedes them, once per block. Embedding and head make no calls.
All-reduces
are the backend's own (`Algorithm.GLOO`), called by DTensor; P_a's all-gather follows the engine's
configuration (`collectives`): a ring has T - 1 hops, labelled and counted like all others. A ring
counts an all-reduce twice, so a block with recomputation moves 6 x 2 n e = 12 n e, and P_a's n e
adds 1/12 (Rajbhandari et al. 2020, section 8; section 6.1 calls it less than 10 %).

`checkpoints` describes the copies of checkpoints. The engine's own collectives are the same as
without tensor parallelism, over the data-parallel group, but with smaller units: a block of
12 h^2 + 13 h parameters has 12 h^2 / T + (7 / T + 6) h on a rank; embedding and head are whole.
All collectives of such a run are called one after another on the computing thread, so that each has
the sockets to itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.hooks import RemovableHandle

from zerosim.base.config import DType, EngineConfig
from zerosim.base.errors import ConfigError
from zerosim.schema.events import Purpose
from zerosim.trace import labels
from zerosim.train.collectives import RankGroup
from zerosim.train.engine.flat import FlatUnit
from zerosim.train.engine.hooks import ModuleListener, attach_hooks
from zerosim.train.engine.local import is_dtensor


def tensor_group(model: nn.Module) -> RankGroup:
    """The ranks that compute each block together; a group of one if no parameter is sharded.

    Raises:
        ConfigError: parameters are sharded among different ranks, or along several axes.
    """
    meshes = {one.device_mesh for one in model.parameters() if is_dtensor(one)}
    if not meshes:
        return RankGroup()
    if len(meshes) > 1 or next(iter(meshes)).ndim != 1:
        shapes = ", ".join(sorted(str(tuple(mesh.shape)) for mesh in meshes))
        raise ConfigError(
            f"parameters are DTensors over meshes of shapes {shapes}: expected one mesh with one "
            "axis, that of tensor parallelism; the engine divides the rest itself"
        )
    mesh = next(iter(meshes))
    process_group = mesh.get_group()
    ranks = tuple(dist.get_process_group_ranks(process_group))
    return RankGroup(mesh.get_local_rank(), ranks, process_group)


def require_sound(config: EngineConfig, tensor: RankGroup, data: RankGroup) -> None:
    """Check that the configuration supports tensor-parallel parameters.

    Raises:
        ConfigError: it does not: each rank has only a part of the gradient's norm and of its
            overflows, and the states may be divided only among ranks that have the same shards.
    """
    if tensor.size == 1:
        return
    if config.clip is not None:
        raise ConfigError(
            f"clip is {config.clip} with {tensor.size} tensor parallel ranks, each "
            "of which has only a part of the gradient's norm: leave clip out"
        )
    if config.dtype is DType.FP16:
        raise ConfigError(
            f"dtype is fp16 with {tensor.size} tensor parallel ranks, which do not "
            "exchange their overflows: try bf16 or fp32"
        )
    shared = sorted(set(tensor.ranks) & set(data.ranks))
    if len(shared) > 1:
        raise ConfigError(
            f"ranks {shared} compute blocks together and cannot be data parallel as well: give "
            "group=, the ranks at the same position in their tensor parallel groups"
        )


class TensorLabels(ModuleListener):
    """Labels the collectives of tensor parallelism with their unit."""

    def __init__(self, units: Sequence[FlatUnit]) -> None:
        """Attach hooks to the units' modules; without units there are no labels."""
        self._hooks: list[RemovableHandle] = attach_hooks(units, self)

    @contextmanager
    def labelled(self) -> Iterator[None]:
        """A context in which forward or backward runs."""
        if not self._hooks:
            yield
            return
        with labels.scope():
            self._work_for("")
            yield

    def close(self) -> None:
        """Remove the hooks."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def module_begins(self, units: Sequence[FlatUnit]) -> None:
        """Later calls belong to this module."""
        self._work_for(units[0].name)

    def module_ends(self, units: Sequence[FlatUnit], outputs: Sequence[torch.Tensor]) -> None:  # noqa: ARG002
        """Later calls no longer belong to this module."""
        self._work_for("")

    def output_gradient(self, units: Sequence[FlatUnit]) -> None:
        """Later calls of backward belong to this module."""
        self._work_for(units[0].name)

    def _work_for(self, unit: str) -> None:
        labels.work_for(unit, Purpose.ACTIVATIONS, is_alone=True)
