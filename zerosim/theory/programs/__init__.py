"""What a rank of any program is to call and keep, by the law of each system, and why not that.

    plan           the records: a plan, why it is not its law, what can be claimed of it
    zero           zerosim's own engine: the whole ZeRO family
    options        a strategy's options, read as what they should be
    fully_sharded  what systems share that shard all parameters
    parts          what is left of parameters where single ones are divided
    hand_written   which law the calls of a program come nearest to that no system makes
    states         what a rank keeps of its model states
    steps          all strategies of a rank together

Each system's own plan and states are in its folder (`zerosim.systems`).

A plan is made of a trace's rows `Strategy` and of nothing that was intercepted.
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
