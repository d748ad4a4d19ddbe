"""The law of each system that divides a training among ranks, and its plan.

    plan           the records: a plan, why it is not its law, what can be claimed of it
    zero           zerosim's own engine: the whole ZeRO family
    options        a strategy's options, read as what they should be
    ddp, zero_redundancy, fsdp, tensor_parallel, pipeline, deepspeed, hand_written
                   a module for each system: its law, its calls, its causes
    fetches        what DeepSpeed's stage 3 keeps and fetches ahead
    states         what a rank keeps of its model states, in all of them
    steps          all strategies of a rank together

A plan is made of a trace's rows `Strategy` and of nothing that was intercepted.
"""

from zerosim.theory.programs.hand_written import plan_hand_written
from zerosim.theory.programs.plan import (
    Bubble,
    Plan,
    PlanClaim,
    Scale,
    element_bytes_of,
)
from zerosim.theory.programs.states import program_states
from zerosim.theory.programs.steps import Held, in_force, plan_step
from zerosim.theory.programs.tensor_parallel import BSH
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
