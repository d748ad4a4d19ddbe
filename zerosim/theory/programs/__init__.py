"""Planned calls and memory of a rank of any program, by the law of each system, with deviations.

    plan           the records: a plan, its deviations from the law, its claims
    zero           zerosim's own engine: the whole ZeRO family
    options        typed access to a strategy's options
    fully_sharded  shared code of systems that shard all parameters
    parts          the local part of parameters that are sharded one by one
    hand_written   the nearest law to the calls of a program without a system
    states         the model states of a rank
    steps          all strategies of a rank together

Each system's own plan and states are in its folder (`zerosim.systems`).

A plan derives from a trace's rows `Strategy` and from no intercepted call.
"""

from zerosim.theory.programs.hand_written import plan_hand_written
from zerosim.theory.programs.parts import BSH
from zerosim.theory.programs.plan import (
    Bubble,
    Plan,
    PlanClaim,
    Scale,
    element_bytes_of,
)
from zerosim.theory.programs.states import program_states
from zerosim.theory.programs.steps import Held, in_force, plan_step
from zerosim.theory.programs.zero import COPIED, ZeroPlan, plan_zero

__all__ = [
    "BSH",
    "COPIED",
    "Bubble",
    "Held",
    "Plan",
    "PlanClaim",
    "Scale",
    "ZeroPlan",
    "element_bytes_of",
    "in_force",
    "plan_hand_written",
    "plan_step",
    "plan_zero",
    "program_states",
]
