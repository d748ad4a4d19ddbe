"""FSDP2: each parameter is sharded along dim 0, and padded separately.

Source: Y. Zhao et al., "PyTorch FSDP" (arXiv 2304.11277), section 3.2; on a 2-D mesh (HSDP)
section 3.2.2.
"""

from __future__ import annotations

from zerosim.schema.strategies import Strategy
from zerosim.theory.programs.fully_sharded import Sharding, plan_fully_sharded
from zerosim.theory.programs.options import flag
from zerosim.theory.programs.plan import Plan
from zerosim.theory.programs.steps import StrategyStep


def plan(asked: StrategyStep) -> Plan:
    """The calls of a rank in one step.

    Raises:
        ConfigError: an option or a dtype is not known.
    """
    return plan_fully_sharded(asked, _SHARDING)


def _title(strategy: Strategy, num_shards: int, num_replicas: int) -> str:
    if flag(strategy, "replicates", default=False):
        return "FSDP2's replicate"
    return "HSDP" if num_replicas > 1 and num_shards > 1 else strategy.system


_SHARDING = Sharding(title=_title, gathers_ahead=True)
