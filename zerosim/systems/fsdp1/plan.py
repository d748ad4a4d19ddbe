"""FSDP1: each wrapped module is one flat parameter, padded to a multiple of the ranks.

Source: Y. Zhao et al., "PyTorch FSDP" (arXiv 2304.11277), section 3.2.
"""

from __future__ import annotations

from zerosim.schema.strategies import Strategy
from zerosim.theory.programs.fully_sharded import Sharding, plan_fully_sharded
from zerosim.theory.programs.plan import Plan
from zerosim.theory.programs.steps import StrategyStep


def plan(asked: StrategyStep) -> Plan:
    """The calls of a rank in one step.

    Raises:
        ConfigError: an option or a dtype is not known.
    """
    return plan_fully_sharded(asked, _SHARDING)


def _title(strategy: Strategy, *_: int) -> str:
    return strategy.system


_SHARDING = Sharding(title=_title, is_flat=True)
