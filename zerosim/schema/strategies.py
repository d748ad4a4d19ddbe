"""How a program partitions its training among ranks: one row of a trace per strategy.

It is a label, like units and purposes: measured traffic is intercepted and never derived from it.
Theory derives the expected traffic from it, and `zerosim.verify` compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field

HAND_WRITTEN = "hand-written"
"""The system of a program that itself calls collectives on its parameters and gradients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One whole parameter, as defined in the model.

    Attributes:
        name: from the model's root, "blocks.0.attention.query.weight".
        shape: shape of the whole parameter, before any system divides it.
        dtype: PyTorch's name of the dtype in which it is kept.
        trainable: whether it receives a gradient.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    trainable: bool = True

    @property
    def elements(self) -> int:
        """Number of elements; 1 for a scalar."""
        count = 1
        for size in self.shape:
            count *= size
        return count


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A unit of communication: a bucket, a wrapped module, a pipeline stage, a layer.

    Attributes:
        name: its name in the field `unit` of events.
        parameters: the parameters, in the order in which the system keeps them.
        options: the system's options for this bundle, as plain values; the keys of each system
            are listed in its folder of `zerosim.systems`.
    """

    name: str
    parameters: tuple[Parameter, ...] = ()
    options: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """One way in which a program divides its training, as seen when it was first used or changed.

    Attributes:
        system: name of the system; `zerosim.systems` contains the known ones.
        name: name of the module or optimizer, which distinguishes it from others of its system.
        ranks: global ranks that it spans; for a mesh of two dimensions, those of this rank's row.
        iteration: the first iteration in which it is in force.
        micro_step: the first such micro-step of that iteration.
        bundles: the units of communication, in forward order if there is one.
        options: as plain values; the keys of each system are listed in its folder.
    """

    system: str
    name: str
    ranks: tuple[int, ...]
    iteration: int = 0
    micro_step: int = 0
    bundles: tuple[Bundle, ...] = ()
    options: dict[str, object] = field(default_factory=dict)

    @property
    def num_parameters(self) -> int:
        """Parameters of all bundles; a shared one counts once."""
        sizes = {one.name: one.elements for bundle in self.bundles for one in bundle.parameters}
        return sum(sizes.values())
