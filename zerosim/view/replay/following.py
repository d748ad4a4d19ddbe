"""The next action of a run, in one line: at a moment common to all runs, the difference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zerosim.base.language import term
from zerosim.schema.events import Phase, Purpose
from zerosim.view.replay.moments import ComparedMoment, Document, What, moved_units, say

_STAGES = range(4)
_OF_UNITS = (Purpose.GATHER_PARAMETERS, Purpose.REDUCE_GRADIENTS, Purpose.BROADCAST_STATE)


class Following:
    """Describes the next action of one run."""

    def __init__(self, document: Document) -> None:
        """Read the collectives of the run once."""
        self._document = document
        self._stage: int = document["run"]["stage"]
        self._fields = {"N": document["run"]["num_ranks"]}
        self._units = {unit["name"]: place for place, unit in enumerate(document["units"])}
        self._calls: list[tuple[Mapping[str, Any], tuple[int, ...]]] = list(
            zip(document["collectives"], moved_units(document), strict=True)
        )

    def say(self, moment: ComparedMoment, step: int) -> str:
        """The text of the next action after a moment.

        Args:
            step: the step of the run at that moment.
        """
        if moment.what is What.OVER:
            return say("next", "over")
        if self._document["run"]["num_ranks"] == 1:
            return say("next", "alone")
        if moment.what is What.BEGINS or not moment.unit:
            return self._ahead(moment.phase, step)
        if moment.phase is Phase.BACKWARD:
            return self._in_backward(moment, step)
        if moment.phase is Phase.UPDATE:
            return self._in_update(moment, step)
        return self._in_forward(moment, step)

    def absent(self, moment: ComparedMoment) -> str:
        """Why a run that has ended lacks the moment."""
        if self._document["run"]["num_ranks"] == 1 and moment.what in (What.REDUCED, What.GATHERED):
            return say("next", "alone")
        return self._without_gather() if moment.what is What.GATHERED else say("next", "absent")

    def _in_forward(self, moment: ComparedMoment, step: int) -> str:
        if moment.what is What.COMPUTES:
            return say("next", "freed" if self._is_freed(moment, step) else "stays")
        return self._ahead(moment.phase, step)

    def _is_freed(self, moment: ComparedMoment, step: int) -> bool:
        """Whether a unit's gathered parameters are freed in this phase, from a step on.

        If the contents of ranks are unknown, those gathered in this phase are.
        """
        if not self._document["states"]:
            return self._find(Purpose.GATHER_PARAMETERS, moment, before=step) is not None
        unit = self._units.get(moment.unit)
        return any(
            unit in one["freed"]
            for one in self._document["steps"][step:]
            if (one["phase"], one["micro_step"]) == (moment.phase, moment.micro_step)
        )

    def _in_backward(self, moment: ComparedMoment, step: int) -> str:
        if moment.what is What.COMPUTES and self._is_freed(moment, step):
            return say("next", "freed")
        call = self._find(Purpose.REDUCE_GRADIENTS, moment, from_step=step)
        stage = str(self._stage)
        if call is not None:
            then = say("then", stage, **self._fields) if self._stage in _STAGES else ""
            return self._call(call, step, then=then)
        if self._find(Purpose.REDUCE_GRADIENTS, moment, before=step):
            has_law = self._stage in _STAGES
            return (
                say("next", "reduced", stage, **self._fields)
                if has_law
                else self._ahead(moment.phase, step)
            )
        later = self._find(Purpose.REDUCE_GRADIENTS, moment, from_step=step, any_micro_step=True)
        return say("next", "nothing" if later is None else "later")

    def _in_update(self, moment: ComparedMoment, step: int) -> str:
        if moment.what is What.GATHERED:
            return self._ahead(moment.phase, step)
        call = self._find(Purpose.GATHER_PARAMETERS, moment, from_step=step)
        if call is not None:
            return self._call(call, step, names_unit=True)
        return self._without_gather()

    def _without_gather(self) -> str:
        return say("next", "stepped_own" if self._stage == max(_STAGES) else "stepped_all")

    def _find(
        self,
        purpose: Purpose,
        moment: ComparedMoment,
        *,
        before: int | None = None,
        from_step: int = 0,
        any_micro_step: bool = False,
    ) -> Mapping[str, Any] | None:
        """The first call for a moment's unit in its phase that began before a step, or ends after.

        Args:
            before: only calls that had begun; otherwise those in progress at `from_step`.
        """
        steps = self._document["steps"]
        for call, units in self._calls:
            begun = steps[call["first"]]
            fits = (
                call["purpose"] == purpose
                and call["phase"] == moment.phase
                and self._units.get(moment.unit) in units
            )
            if not any_micro_step and moment.phase is not Phase.UPDATE:
                fits = fits and begun["micro_step"] == moment.micro_step
            if before is not None:
                fits = fits and call["first"] < before
            if fits and (before is not None or steps[call["last"]]["until"] >= from_step):
                return call
        return None

    def _ahead(self, phase: Phase, step: int) -> str:
        """The call of this phase in progress at a step, or the next one."""
        for call, _ in self._calls:
            if call["phase"] == phase and self._document["steps"][call["last"]]["until"] >= step:
                return self._call(call, step, names_unit=True)
        return say("next", "nothing")

    def _call(
        self, call: Mapping[str, Any], step: int, *, then: str = "", names_unit: bool = False
    ) -> str:
        is_now = call["first"] <= step
        if call["purpose"] not in _OF_UNITS and call["purpose"] != Purpose.UNLABELLED:
            return say("next", "scalar_now" if is_now else "scalar", purpose=term(call["purpose"]))
        kind = "now" if is_now else "calls"
        if then:
            kind += "_and"
        elif names_unit and call["unit_name"]:
            kind += "_of"
        return say(
            "next",
            kind,
            op=term(call["op"]),
            unit=call["unit_name"],
            then=then,
            hop=self._hop(call, step) if is_now else "",
        )

    def _hop(self, call: Mapping[str, Any], step: int) -> str:
        """The call's last hop in progress at a step; "" if hops are not shown."""
        hops = [
            one["hop"]
            for one in self._document["steps"][call["first"] : step + 1]
            if one["hop"] >= 0 and self._document["collectives"][one["collective"]] is call
        ]
        return say("next", "hop", hop=hops[-1] + 1, hops=call["num_hops"]) if hops else ""
