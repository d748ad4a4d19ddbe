"""What finds out where a program is, why it communicates, and how it divides its training.

    with the position   phases enter labels
    with the unit       blocks open and close computations
    with the purpose    each collective that has none is explained before it is written down
    with the systems    what changed since the last look is written as rows `Strategy`

An engine that speaks for itself needs none of it: the guide then says nothing.
Imports torch, zerosim's L0 and trace.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import nn

from zerosim.events import Op, Phase, Purpose
from zerosim.strategies import Bundle, Strategy, System
from zerosim.trace import labels
from zerosim.trace.dispatch import Call
from zerosim.trace.program.ddp import DataParallel
from zerosim.trace.program.deepspeed import DeepSpeed
from zerosim.trace.program.fsdp2 import FullyShard
from zerosim.trace.program.phases import Phases, speaks_for_itself
from zerosim.trace.program.rules import GENERAL, Found, Rules
from zerosim.trace.program.system import Observed, parameters_of, ranks_of
from zerosim.trace.program.units import Units, unwrapped
from zerosim.trace.program.zero_redundancy import RedundancyOptimizer
from zerosim.trace.sink import Labels, Position

_OF_PARAMETERS = (Purpose.GATHER_PARAMETERS, Purpose.REDUCE_GRADIENTS)


class Recorder(Protocol):
    """Who writes down what the guide finds."""

    def explain_with(self, guide: Guide | None) -> None:
        """Ask this guide about each collective that nobody has labelled."""
        ...

    def strategy(self, strategy: Strategy) -> None:
        """The program divides its training in this way from now on."""
        ...


class Guide:
    """Labels a program that says nothing of itself, from `install` to `remove`.

    Implements `phases.Observer`.
    """

    def __init__(self, recorder: Recorder) -> None:
        """Look at nothing yet; `install` begins."""
        self._recorder = recorder
        self._units = Units()
        self._phases = Phases(self)
        self._data_parallel = DataParallel()
        self._systems: tuple[Observed, ...] = (
            self._data_parallel,
            FullyShard(),
            RedundancyOptimizer(self._units),
            DeepSpeed(),
        )
        rules = [rule for system in self._systems for rule in system.rules]
        self._rules = Rules([*rules, *GENERAL])
        self._settings: dict[int, Hashable] = {}
        self._written: dict[tuple[System, str], Strategy] = {}
        self._members: dict[str, tuple[str, ...]] = {}
        self._rebuilt: Position | None = None
        self._met_optimizers: set[int] = set()
        self._root: nn.Module | None = None

    def install(self) -> None:
        """Begin to look."""
        self._phases.install()
        self._recorder.explain_with(self)

    def remove(self) -> None:
        """Stop looking; nothing of the program was changed."""
        self._look_at_new_buckets()
        self._recorder.explain_with(None)
        self._phases.remove()

    # what the program does

    def forward_begins(self, root: nn.Module) -> None:
        """An outermost module computes."""
        if speaks_for_itself():
            return
        self._look_at_new_buckets()
        if self._units.meet(root):
            self._root = root
            for system in self._systems:
                system.meet(root)
        self._look()

    def module_begins(self, module: nn.Module) -> None:
        """A module computes."""
        if not self._phases.in_backward and not speaks_for_itself():
            self._units.begin(module)

    def module_ends(self, module: nn.Module, output: Any) -> None:
        """It has computed."""
        if not self._phases.in_backward and not speaks_for_itself():
            self._units.end(module, output)

    def backward_begins(self) -> None:
        """Autograd begins."""
        self._data_parallel.backward_begins()
        self._look()

    def backward_ends(self) -> None:
        """Autograd is done."""
        self._units.backward_ends()

    def optimizer_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer begins its step."""
        if id(optimizer) not in self._met_optimizers:
            self._met_optimizers.add(id(optimizer))
            for system in self._systems:
                system.meet(optimizer)
            self._look()

    # what it asks for

    def explain(self, call: Call, current: Labels) -> Labels:
        """Add what can be found out about a collective to its labels."""
        if call.op is Op.BARRIER:
            return replace(current, purpose=Purpose.SYNCHRONIZE)
        found = self._rules.find()
        if found is not None:
            return self._explained(call, current, found)
        bucket = self._data_parallel.bucket(call)
        if bucket is not None:
            unit, names = bucket
            return replace(
                current,
                purpose=Purpose.REDUCE_GRADIENTS,
                unit=current.unit or unit,
                tensors=names,
            )
        return self._by_tensors(call, current)

    def _explained(self, call: Call, current: Labels, found: Found) -> Labels:
        if found.phase is Phase.UPDATE:
            self._phases.update_begins()
            current = replace(current, position=labels.position())
        elif found.phase is not None and current.position is not None:
            current = replace(current, position=replace(current.position, phase=found.phase))
        if found.purpose is Purpose.METADATA and self._is_rebuilding(current):
            self._rebuilt = labels.position()
        unit = current.unit or found.unit or self._units.current
        names = self._members.get(unit, ()) if found.purpose in _OF_PARAMETERS else ()
        if not names and found.purpose in _OF_PARAMETERS:
            names = self._units.names_of(call.tensors)
        return replace(current, purpose=found.purpose, unit=unit, tensors=names)

    def _by_tensors(self, call: Call, current: Labels) -> Labels:
        """What a program calls by itself on its parameters and gradients."""
        names = self._units.names_of_gradients(call.tensors)
        if names:
            self._say_hand_written(call)
            return replace(current, purpose=Purpose.REDUCE_GRADIENTS, tensors=names)
        names = self._units.names_of(call.tensors)
        if names:
            return replace(current, purpose=Purpose.GATHER_PARAMETERS, tensors=names)
        return replace(current, unit=current.unit or self._units.current)

    def _say_hand_written(self, call: Call) -> None:
        if self._root is not None:
            model = unwrapped(self._root)
            bundle = Bundle(name="model", parameters=parameters_of(model.named_parameters()))
            self._write(
                Strategy(
                    system=System.HAND_WRITTEN,
                    name=type(model).__name__,
                    ranks=ranks_of(call.group),
                    bundles=(bundle,),
                )
            )

    # what divides it

    def _look(self) -> None:
        """Write down each system that is not as it was."""
        if speaks_for_itself():
            return
        for number, system in enumerate(self._systems):
            settings = system.settings()
            if self._settings.get(number) != settings:
                self._settings[number] = settings
                for strategy in system.describe():
                    self._write(strategy)

    def _write(self, strategy: Strategy, position: Position | None = None) -> None:
        key = (strategy.system, strategy.name)
        if self._written.get(key) == strategy:
            return
        self._written[key] = strategy
        for bundle in strategy.bundles:
            self._members[bundle.name] = tuple(one.name for one in bundle.parameters)
        here = position or labels.position()
        self._recorder.strategy(
            replace(strategy, iteration=max(0, here.iteration), micro_step=here.micro_step)
        )

    def _is_rebuilding(self, current: Labels) -> bool:
        position = current.position
        return position is not None and position.phase is Phase.FORWARD

    def _look_at_new_buckets(self) -> None:
        """DDP made its buckets anew in an earlier forward: they hold from there."""
        if self._rebuilt is not None:
            position, self._rebuilt = self._rebuilt, None
            self._data_parallel.buckets_changed()
            for strategy in self._data_parallel.describe():
                self._write(strategy, position)
