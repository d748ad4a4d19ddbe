"""Infers a program's position, the purpose of its communication, and its partitioning.

    position   phases enter labels
    unit       blocks open and close computations
    purpose    each collective without one is explained before it is written
    systems    changes since the last check are written as rows `Strategy`

An engine with labels of its own needs none of this: the labeler is then silent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from zerosim.schema.events import EVALUATION, Op, Phase, Purpose
from zerosim.schema.memory import Role
from zerosim.trace import labels
from zerosim.trace.autolabel import modules
from zerosim.trace.autolabel.by_hand import REDUCTIONS, ByHand
from zerosim.trace.autolabel.contents import contents
from zerosim.trace.autolabel.discovery import Discovery
from zerosim.trace.autolabel.entries import Entries
from zerosim.trace.autolabel.fail_safe import fail_safe
from zerosim.trace.autolabel.observer import (
    Answers,
    CarriedMessage,
    Observer,
    Reduction,
    Shard,
    observers,
)
from zerosim.trace.autolabel.phases import Phases
from zerosim.trace.autolabel.rules import GENERAL, RuleTable, StackLabel, in_autograd
from zerosim.trace.autolabel.strategies import Strategies
from zerosim.trace.autolabel.units import Units
from zerosim.trace.gate import gate
from zerosim.trace.holdings import holdings
from zerosim.trace.looking import Content
from zerosim.trace.operators import OperatorCall
from zerosim.trace.recorder import Recorder
from zerosim.trace.sink import Labels, Position
from zerosim.trace.threads import is_computing

_OF_PARAMETERS = (Purpose.GATHER_PARAMETERS, Purpose.REDUCE_GRADIENTS)
_MOST_NAMED = 3
_MESSAGES = (Op.SEND, Op.RECEIVE)


class AutoLabeler:
    """Labels a program without labels of its own, from `install` to `remove`.

    Implements `labeler.Labeler` and `phases.PhaseObserver`.

    Attributes:
        trouble: why it has stopped labelling; "" if it has not.
    """

    def __init__(self, recorder: Recorder, *, memory: bool) -> None:
        """Observe nothing yet; `install` begins.

        Args:
            memory: also infer the roles of memory.
        """
        self.trouble = ""
        self._recorder = recorder
        self._units = Units()
        self._systems = observers(self._units)
        self._answers = Answers(self._systems)
        self._discovery = Discovery(holdings, self._shards, self._kept) if memory else None
        self._phases = Phases(self)
        self._entries = Entries(self._phases)
        rules = [rule for system in self._systems for rule in system.rules]
        self._rules = RuleTable([*rules, *GENERAL])
        self._strategies = Strategies(self._systems, recorder.strategy, self._units)
        self._update: int | None = None
        self._reduced_ns: int | None = None
        self._evaluates_ns: int | None = None
        self._has_gone_back = False
        self._is_first_step = False
        self._agreed: tuple[Position, list[Observer]] | None = None
        self._is_seed_said = False
        self._by_hand = ByHand(self._units, self._strategies, self._phases)

    def install(self) -> None:
        """Begin to observe the program."""
        if self._discovery is not None:
            self._discovery.install()
        self._phases.install()
        self._entries.install()
        for system in self._systems:
            system.install()
        self._recorder.label_with(self)

    def remove(self) -> None:
        """Stop observing; nothing in the program was changed."""
        self._look_at_new_buckets()
        self._settle_the_rest()
        self._recorder.label_with(None)
        for system in self._systems:
            system.remove()
        self._phases.remove()
        self._entries.remove()
        if self._discovery is not None:
            self._discovery.remove()

    @fail_safe
    def _settle_the_rest(self) -> None:
        """A micro-step that began without a backward counts as complete."""
        if dist.is_initialized():  # without groups nothing is divided any more
            self._settle()

    def contents(self) -> list[Content]:
        """The tensors of the program; empty for an engine, which declares its own."""
        if labels.is_described():
            return []
        named = [*self._units.roots(), *self._units.modules()]  # the rest belongs to a root
        return list(contents(named, self._units.optimizers.all(), self._shards))

    def _shards(self, module: nn.Module) -> Iterator[Shard]:
        for system in self._systems:
            yield from system.shards(module)

    def _kept(self, *, wholly: bool) -> Iterator[Content]:
        for kept in self._answers.kept:
            yield from kept(wholly=wholly)

    # the program's activity

    @fail_safe
    def forward_begins(self, root: nn.Module) -> None:
        """An outermost module computes."""
        self._look_at_new_buckets()
        self._say_what_is_told()
        if self._units.meet(root):
            modules.reconsider()
            self._by_hand.meet(root)
            for system in self._systems:
                system.meet(root)
        self._units.is_piped = any(system.is_piped for system in self._systems)
        self._begin()
        is_first = self._units.forward_begins(root)
        for begins in self._answers.forward_begins:
            begins(root, is_first=is_first)
        for hooks in self._answers.hooks:
            for code, rule in hooks():
                self._rules.know(code, rule)
        self._strategies.look()

    def _say_what_is_told(self) -> None:
        if not self._is_seed_said:
            self._is_seed_said = True
            self._recorder.setting("seed", float(torch.initial_seed()))
        sizes = [one.shape[0] for one in modules.given() if one.dim()]
        if sizes:
            self._recorder.setting("batch size", float(sizes[0]))

    @fail_safe
    def forward_ends(self, root: nn.Module, output: Any) -> None:
        """An outermost module has computed."""
        self._units.forward_ends(root, output)

    @fail_safe
    def evaluation_begins(self, root: nn.Module) -> None:
        """A model computes without gradients, between two steps."""
        self._units.evaluated.add(root)
        self._evaluates_ns = self._recorder.now_ns()

    @fail_safe
    def evaluation_ends(self) -> None:
        """The model has computed: report the duration until now."""
        begin_ns, self._evaluates_ns = self._evaluates_ns, None
        iteration = labels.position().iteration
        if begin_ns is not None and iteration >= 0:
            seconds = (self._recorder.now_ns() - begin_ns) / 1e9
            self._recorder.metric(iteration, EVALUATION, seconds)

    # the schedule of micro-batches

    def is_preparing(self) -> bool:
        """Whether modules compute only to determine shapes for communication."""
        return any(asked() for asked in self._answers.is_preparing)

    def is_evaluating(self) -> bool:
        """Whether the current micro-batch has no backward."""
        return any(asked() for asked in self._answers.is_evaluating)

    def micro_batch(self, phase: Phase) -> int | None:
        """The micro-batch of the current forward or backward; None if there is none."""
        found = (asked(phase) for asked in self._answers.micro_batch)
        return next((number for number in found if number is not None), None)

    @fail_safe
    def module_begins(self, module: nn.Module) -> bool:
        """A module computes."""
        if gate.is_closed and (unit := self._units.name_of(module)):
            self._stand_late(module, unit)
        return self._units.begin(module)

    def _stand_late(self, module: nn.Module, unit: str) -> None:
        """Pause a rank before the computation of a module, not before the gather for it.

        A system's hook comes first, so this one runs after the gather; it exists for this call
        only. A compiler would see the hook: a compiled module pauses before the call.
        """
        within = any(system.gathers_within(module, unit) for system in self._systems)
        if within and module._compiled_call_impl is None:
            gate.gathers_first(unit)

            def begins(*_: Any) -> None:
                handle.remove()
                gate.stop_computing()

            handle = module.register_forward_pre_hook(begins)

    @fail_safe
    def module_ends(self, module: nn.Module, output: Any, error: BaseException | None) -> None:
        """It has computed."""
        self._units.end(module, output, error)

    @fail_safe
    def module_recomputes(self, module: nn.Module) -> None:
        """A module computes again, in backward."""
        self._units.recompute(module)

    @fail_safe
    def backward_begins(self, roots: tuple[torch.Tensor, ...]) -> None:
        """Autograd begins."""
        self._begin()
        for begins in self._answers.backward_begins:
            begins()
        self._units.names.backward_begins(roots)
        self._strategies.look()

    @fail_safe
    def backward_ends(self, *, adds: bool) -> None:
        """Autograd is done."""
        self._units.backward_ends()
        for is_over in self._answers.backward_over if adds else ():
            is_over(self._units.gone_back)
        self._has_gone_back |= adds
        self._units.backward_over(adds=adds)
        if self._reduced_ns is not None:
            self._recorder.stalled(self._reduced_ns)
            self._reduced_ns = None
        self._settle()

    @fail_safe
    def optimizer_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer begins its step."""
        self._look_at_new_buckets()  # saved tensors of a forward are freed, so there is room
        rates = [group.get("lr") for group in optimizer.param_groups]
        if rates and isinstance(rates[0], int | float):
            self._recorder.setting("learning rate", float(rates[0]))
        if self._units.optimizers.meet(optimizer):
            for system in self._systems:
                system.meet(optimizer)
                if self._is_first_step:
                    system.update_begins()
            self._strategies.look()

    @fail_safe
    def update_begins(self) -> None:
        """The outermost step of an optimizer begins."""
        if self._has_gone_back:
            self._units.see_models(self._strategies.labels())
            for begins in self._answers.update_begins:
                begins()
        self._is_first_step, self._has_gone_back = self._has_gone_back, False
        self._settle()
        self._update = labels.begin_compute("optimizer")

    @fail_safe
    def update_ends(self) -> None:
        """It has ended."""
        self._is_first_step = False
        update, self._update = self._update, None
        labels.end(update)

    @fail_safe
    def gradients_cleared(self, parameters: Iterable[torch.Tensor]) -> bool:
        """Whether this clears all gradients of the micro-step."""
        return self._units.are_gradients_of_all(parameters)

    def _begin(self) -> None:
        """The program computes: check whether a micro-step begins, and which parameters are
        gathered.
        """
        if self._units.is_at(labels.position()):
            for begins in self._answers.micro_step_begins:
                begins()

    def _settle(self) -> None:
        """The number of computations of each model is known: record it if it changed."""
        self._units.settle()
        for settle in self._answers.settle:
            settle()
        self._strategies.look()

    # its calls and its memory

    def find_gradients(self, *, wholly: bool) -> None:
        """Register the current gradients."""
        if self._discovery is not None and (wholly or not self._units.follows_at_once):
            self._discovery.find_gradients(wholly=wholly)

    def name_of(self, role: Role, storage: torch.Tensor) -> str:
        """The parameters in a storage, or those of its gradients; "" if unknown."""
        names = self._units.names
        found = names.of_gradients if role is Role.GRADIENTS else names.of_parameters
        return ", ".join(found([storage])[:_MOST_NAMED])

    def explain(self, call: OperatorCall, current: Labels) -> Labels:
        """Add inferred labels of a collective."""
        return self._explain(call, current) or current

    @fail_safe
    def _explain(self, call: OperatorCall, current: Labels) -> Labels:
        self._reduced_ns = None
        if self._phases.engine_has_stepped():
            current = current._replace(position=labels.position())
        if call.op is Op.BARRIER:
            return current._replace(purpose=Purpose.SYNCHRONIZE)
        if not is_computing():
            return self._explain_elsewhere(current)
        if call.op in _MESSAGES and (message := self._message(call)) is not None:
            position = self._phases.place_of_message(message.phase, message.micro_batch)
            return current._replace(
                position=position,
                purpose=message.purpose,
                unit=current.unit or message.unit,
            )
        found = self._rules.find()
        if found is not None:
            return self._explained(call, current, found)
        reduction = self._reduction(call)
        if reduction is not None:
            # after its last call a reducer in C++ waits for all of them
            self._reduced_ns = current.issue_ns
            unit = current.unit or reduction.unit
            return current.explained(reduction.purpose, unit, reduction.tensors)
        return self._by_hand.explain(call, current)

    def _message(self, call: OperatorCall) -> CarriedMessage | None:
        return next(filter(None, (told(call.tensors) for told in self._answers.message)), None)

    def _reduction(self, call: OperatorCall) -> Reduction | None:
        if call.op not in REDUCTIONS or not in_autograd():
            return None
        return next(filter(None, (told(call) for told in self._answers.reduction)), None)

    def _explain_elsewhere(self, current: Labels) -> Labels:
        """A call of a thread that does not compute: only its stack is inspected."""
        found = self._rules.find()
        if found is None:
            return current
        position = current.position
        if found.phase is not None and position is not None:
            position = replace(position, phase=found.phase)
        unit = current.unit or found.unit
        return current._replace(position=position, purpose=found.purpose, unit=unit)

    def _explained(self, call: OperatorCall, current: Labels, found: StackLabel) -> Labels:
        # while something computes nothing is fetched for the next forward
        if found.purpose is Purpose.GATHER_PARAMETERS and not self._phases.is_busy:
            current = self._in_next_forward(current)
        if found.phase is Phase.UPDATE:
            self._phases.update_begins()
            current = current._replace(position=labels.position())
        elif found.phase is not None and current.position is not None:
            current = current._replace(position=replace(current.position, phase=found.phase))
        if found.purpose is Purpose.METADATA and self._is_rebuilding(current):
            self._agreed = (labels.position(), [one for one in self._systems if one.agrees_anew()])
        if found.purpose is Purpose.ACTIVATIONS:
            phase = None if current.position is None else current.position.phase
            purposes = (one.purpose_of_activations(phase, call) for one in self._systems)
            found = replace(found, purpose=next(filter(None, purposes), found.purpose))
        elif found.purpose is Purpose.AVERAGE_PARAMETERS and self._phases.is_after_step():
            current = current._replace(position=replace(labels.position(), phase=Phase.UPDATE))
        unit = current.unit or found.unit or self._units.current
        names: tuple[str, ...] = ()
        if found.purpose in _OF_PARAMETERS:
            known = self._strategies.parameters_of(unit)
            names = known or self._units.names.of_parameters(call.tensors)
        return current.explained(found.purpose, unit, names)

    def _in_next_forward(self, current: Labels) -> Labels:
        """The program's own gather for the next forward belongs to that forward."""
        asked = [system for system in self._systems if system.is_asked_ahead()]
        if not asked:
            return current
        if self._phases.forward_is_prepared():
            self._begin()
            for system in asked:
                system.forward_is_prepared()
        return current._replace(position=labels.position())

    def _is_rebuilding(self, current: Labels) -> bool:
        position = current.position
        return position is not None and position.phase is Phase.FORWARD

    @fail_safe
    def _look_at_new_buckets(self) -> None:
        """A system rebuilt its buckets in an earlier forward: they are valid from there."""
        if self._agreed is None:
            return
        (position, systems), self._agreed = self._agreed, None
        for system in systems:
            system.look_anew()
            for strategy in system.describe():
                self._strategies.write(strategy, position)
