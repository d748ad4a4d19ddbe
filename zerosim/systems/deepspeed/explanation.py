"""The traffic and memory of DeepSpeed itself with a configuration, predicted without a run.

The plan of DeepSpeed's stages is evaluated for the strategy that a trace would record;
docs/deepspeed.md explains its rules. The keys that make DeepSpeed follow the law are found by
search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from zerosim.base.config import DType
from zerosim.base.errors import ConfigError
from zerosim.base.language import Words, term
from zerosim.base.quantities import PSI, format_bytes, format_decimal, format_exact
from zerosim.schema.memory import MOMENTS, Role
from zerosim.systems.deepspeed.described import (
    Model,
    Modules,
    modules_of,
    strategy_of,
    without_padding,
)
from zerosim.systems.deepspeed.plan import plan_deepspeed
from zerosim.theory.causes import Cause
from zerosim.theory.model_states import ModelStates
from zerosim.theory.programs import Plan, program_states
from zerosim.train.deepspeed.config.batch import batch_sizes
from zerosim.train.deepspeed.config.check import Given, check
from zerosim.train.deepspeed.config.keys import shown
from zerosim.train.deepspeed.config.settings import compute_dtype
from zerosim.train.deepspeed.config.source import read_document
from zerosim.train.deepspeed.config.table_zero import SECTION as ZERO

_SAID = Words.beside(__file__)
_SETTLED = 2
"""The iteration from which on stage 3 repeats itself."""
_AS_THE_LAW: Mapping[str, object] = {
    f"{ZERO}.use_multi_rank_bucket_allreduce": False,
    f"{ZERO}.reduce_scatter": True,
    f"{ZERO}.stage3_use_all_reduce_for_fetch_params": False,
    f"{ZERO}.stage3_param_persistence_threshold": 0,
    f"{ZERO}.stage3_prefetch_bucket_size": 0,
    f"{ZERO}.stage3_max_reuse_distance": 0,
    "communication_data_type": None,
}
"""Changes to try so that DeepSpeed sends exactly as in the law."""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The traffic and memory of a rank in a step of DeepSpeed.

    Attributes:
        given: the configuration, with DeepSpeed's defaults.
        modules: modules of the model, or a placeholder.
        num_micro_steps: g, per step.
        has_model: whether there is a model, so that bytes are known.
    """

    given: Given
    modules: Modules
    num_ranks: int
    num_micro_steps: int
    has_model: bool

    @cached_property
    def plan(self) -> Plan:
        """The calls of a step for parameters and gradients, and why they deviate from the law."""
        return self._plan_of(self.given, self.num_micro_steps)

    @property
    def law(self) -> Fraction:
        """ZeRO's law, in Psi."""
        return self.plan.law.payloads

    @property
    def sends(self) -> Fraction:
        """Payload of a step in Psi, padding included; an all-reduce counts twice."""
        return _sent(self.plan)

    @cached_property
    def to_get_there(self) -> dict[str, object]:
        """The minimal change of keys to follow the law; empty if none is needed, or none helps."""
        wanted = {key: value for key, value in _AS_THE_LAW.items() if self.given[key] != value}
        if not self._is_off({}) or self._is_off(wanted):
            return {}
        for key in list(wanted):
            rest = {name: value for name, value in wanted.items() if name != key}
            if not self._is_off(rest):
                wanted = rest
        return wanted

    @cached_property
    def states(self) -> ModelStates | None:
        """The memory of a rank under Adam; None if no law is known, as for states on the host."""
        strategy = strategy_of(self.given, self.modules, self.num_ranks, self.num_micro_steps)
        master = set() if compute_dtype(self.given) is DType.FP32 else {Role.MASTER}
        return program_states({0: [strategy]}, 0, {*MOMENTS, *master})

    def lines(self) -> Iterator[str]:
        """The traffic, its deviation from the law, the keys to change, and the memory."""
        count = self.num_micro_steps
        yield _SAID(
            "title",
            title=self.plan.title,
            ranks=self.num_ranks,
            steps=_SAID("micro_step" if count == 1 else "micro_steps", n=count),
            size=self._size(),
        )
        yield _SAID(
            "sends",
            sent=self._in_symbols(_sent),
            name=term(self.plan.law_name),
            law=self._in_symbols(lambda plan: plan.law.payloads),
        )
        payload = replace(self.plan.scale, suffix="")  # as the law is written here
        for one in self.plan.merged_causes():
            if digits := payload.in_digits(one.bytes):
                yield _SAID("cause", digits=digits, words=one.words)
        if self.to_get_there:
            keys = ", ".join(f'"{key}": {shown(it)}' for key, it in self.to_get_there.items())
            yield _SAID("set" if self.sends > self.law else "set_more", keys=keys)
        if self.states is None:
            yield _SAID("not_told")
            return
        kept = format_bytes(sum(one.bytes for one in self.states.parts))
        name = "keeps_bytes" if self.has_model else "keeps"
        yield _SAID(name, states=self.states.keeps, bytes=kept)
        if self.states.unknown:
            yield _SAID("unknown", what=self.states.unknown)

    def to_plain(self) -> dict[str, object]:
        """The output of `--json`, with multiples of Psi as numbers."""
        scale = self.plan.scale
        return {
            "stage": self.given[f"{ZERO}.stage"],
            "micro_steps": self.num_micro_steps,
            "ranks": self.num_ranks,
            "parameters": self.plan.num_parameters if self.has_model else None,
            "sends_psi": float(self.sends),
            "law_psi": float(self.law),
            "causes_psi": {
                one.words: float(scale.multiple(one.bytes))
                for one in self.plan.merged_causes()
                if one.bytes
            },
            "to_get_there": self.to_get_there,
            "keeps": None if self.states is None else self.states.keeps,
        }

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _size(self) -> str:
        if not self.has_model:
            return ""
        return _SAID("size", parameters=format_exact(self.plan.num_parameters))

    def _in_symbols(self, of: Callable[[Plan], Fraction]) -> str:
        """`2g + 1 = 9 Psi`: the term in g is the difference that one more micro-step makes."""
        here, g = of(self.plan), self.num_micro_steps
        each = of(self._plan_of(self.given, g + 1)) - here
        rest = here - each * g
        if not each:
            return f"{_number(here)}{PSI}"
        of_g = f"{_number(each).removesuffix('.00') if each != 1 else ''}g"
        sign = "-" if rest < 0 else "+"
        symbols = f"{of_g} {sign} {_number(abs(rest))}" if rest else of_g
        return f"{symbols} = {_number(here)}{PSI}"

    def _is_off(self, changes: Mapping[str, object]) -> bool:
        """Whether anything but padding makes it deviate from the law."""
        given = replace(self.given, values={**self.given.values, **changes})
        plan = self._plan_of(given, self.num_micro_steps)
        return any(one.bytes and one.cause is not Cause.PADDING for one in plan.causes)

    def _plan_of(self, given: Given, num_micro_steps: int) -> Plan:
        strategy = strategy_of(given, self.modules, self.num_ranks, num_micro_steps)
        return plan_deepspeed(lambda _iteration, _micro: strategy, _SETTLED, num_micro_steps)


def explain(config: object, model: Model | None = None, *, ranks: int = 2) -> Explanation:
    """Predict the traffic and memory of DeepSpeed itself with a configuration.

        print(zerosim.deepspeed.explain("ds_config.json", model, ranks=8))

    Args:
        config: a dictionary, the path of a JSON file, or JSON as text.
        model: the model to train. Stage 3 needs one: persistence and prefetching depend on its
            modules. Without one there is no padding and there are no bytes.
        ranks: N; all are data parallel.

    Raises:
        ConfigError: an unknown key or value, or stage 3 without a model.
        UnplannedError: an option has no plan.
    """
    if isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 2:
        raise ConfigError(
            f"ranks is {shown(ranks)}: expected 2 or more, because one rank sends nothing"
        )
    given = check(read_document(config))
    if model is None and given[f"{ZERO}.stage"] == 3:
        raise ConfigError(
            "stage 3 keeps small parameters and prefetches, so its traffic depends "
            "on the model: pass it as well, as in explain(config, model)"
        )
    found = Explanation(
        given=given,
        modules=without_padding(ranks) if model is None else modules_of(model),
        num_ranks=ranks,
        num_micro_steps=batch_sizes(given, ranks).accumulate,
        has_model=model is not None,
    )
    assert found.plan.calls  # an option without a plan raises here
    return found


def _sent(plan: Plan) -> Fraction:
    sent = plan.law.sent_bytes + sum(one.bytes for one in plan.causes)
    return plan.scale.multiple(sent)


def _number(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else format_decimal(value, 2)
