"""The layouts that `parallelize_module` gave to a module's inputs and outputs.

A style leaves hooks on the module, with its arguments in them: they are read from there, and
nothing is called.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CellType
from typing import Any

import torch
from torch import nn

TENSOR_MODULE = "torch.distributed.tensor"
_MADE = {"column": "shard last", "row": "partial"}
_STYLES = {
    "ColwiseParallel": "column",
    "RowwiseParallel": "row",
    "SequenceParallel": "sequence",
    "PrepareModuleInput": "prepare input",
    "PrepareModuleOutput": "prepare output",
}


@dataclass(frozen=True, slots=True)
class LayoutChange:
    """How a style redistributes an input or output.

    Attributes:
        position: index among the module's inputs or outputs.
        given: the layout before; None if the style does not specify it.
        wanted: the layout after.
        is_tensor: whether the result is a plain tensor.
    """

    position: int
    given: Any
    wanted: Any
    is_tensor: bool


@dataclass(frozen=True, slots=True)
class Style:
    """The effect of `parallelize_module` on one module.

    Attributes:
        name: the module's name, with the index of an input or output other than the first.
        kind: "column", "row", "sequence", "prepare input", "prepare output", or "other".
        mesh: the device mesh of the ranks that share it.
        input, output: redistributions before and after its computation.
    """

    name: str
    kind: str
    mesh: Any
    input: LayoutChange | None
    output: LayoutChange | None

    @property
    def ranks(self) -> tuple[int, ...]:
        """Global ranks that share it."""
        return tuple(self.mesh.mesh.flatten().tolist())

    def made(self, num_dims: int) -> str:
        """The layout of its output."""
        made = _MADE.get(self.kind, "")
        if made or self.output is None:
            return made.replace("last", str(num_dims - 1))
        return words(self.output.given, num_dims)


def whole(tensor: torch.Tensor, placements: Any, mesh: Any) -> tuple[list[int], Any]:
    """A tensor's whole shape, and how it is divided."""
    shape = list(tensor.shape)
    if is_divided(tensor):
        return shape, tensor.placements  # type: ignore[attr-defined]
    for placement in placements or ():
        if placement.is_shard():
            shape[placement.dim] *= mesh.size()
    return shape, placements


def read_styles(name: str, module: nn.Module) -> Iterator[Style]:
    """The styles of a module, read from its hooks."""
    before = [_closure(hook) for hook in module._forward_pre_hooks.values()]
    after = [_closure(hook) for hook in module._forward_hooks.values()]
    for closure in before:
        function, mesh = closure.get("input_fn"), closure.get("device_mesh")
        if function is not None and mesh is not None:
            made = next((one["output_fn"] for one in after if "output_fn" in one), None)
            yield _of_style(name, mesh, function, made)
    for closure in (*before, *after):
        owner: Any = closure.get("self")
        mesh = closure.get("device_mesh")
        style = _STYLES.get(type(owner).__name__, "")
        if mesh is None or not style.startswith("prepare"):
            continue
        side = style.removeprefix("prepare ")
        given, wanted = getattr(owner, f"{side}_layouts"), getattr(owner, f"desired_{side}_layouts")
        for position, pair in enumerate(zip(given or (), wanted or (), strict=True)):
            if None not in pair:
                layouts = LayoutChange(position, pair[:1], pair[1:], owner.use_local_output)
                yield Style(
                    name if position == 0 else f"{name} {side} {position}",
                    style,
                    mesh,
                    input=layouts if side == "input" else None,
                    output=layouts if side == "output" else None,
                )


def _of_style(name: str, mesh: Any, prepares: Any, returns: Any) -> Style:
    """A module with the two functions that a style gave to `distribute_module`."""
    first: tuple[Any, ...] = getattr(prepares, "args", ())
    last: tuple[Any, ...] = getattr(returns, "args", ())
    function = getattr(prepares, "func", prepares)
    style = _STYLES.get(getattr(function, "__qualname__", "").partition(".")[0], "other")
    given, wanted = (first[0], first[-1]) if first else (None, None)
    handed = last[0] if len(last) > 1 else wanted if style == "sequence" else None
    return Style(
        name,
        style,
        mesh,
        input=LayoutChange(0, given, wanted, is_tensor=False),
        output=LayoutChange(
            0, handed if style == "sequence" else None, handed, is_tensor=bool(last and last[-1])
        ),
    )


def _closure(hook: Any) -> dict[str, Any]:
    """The closure variables of a hook."""
    code, cells = getattr(hook, "__code__", None), getattr(hook, "__closure__", None)
    names = () if code is None else code.co_freevars
    pairs = zip(names, cells or (), strict=True)
    return {name: cell.cell_contents for name, cell in pairs if not _is_empty(cell)}


def _is_empty(cell: CellType) -> bool:
    return cell == CellType()


def is_divided(value: Any) -> bool:
    """Whether it is a DTensor."""
    kind = getattr(sys.modules.get(TENSOR_MODULE), "DTensor", None)
    return kind is not None and isinstance(value, kind)


def words(placements: Any, num_dims: int) -> str:
    """The name of a layout in a trace: "replicate", "shard 1", "partial"."""
    words = [
        f"shard {one.dim % num_dims}"
        if one.is_shard()
        else "partial"
        if one.is_partial()
        else "replicate"
        for one in placements or ()
    ]
    return ", ".join(words)
