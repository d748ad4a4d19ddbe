"""The sentences of a replay: the text of `words.toml` for each step, and its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zerosim.analysis.frames import Step, Wait
from zerosim.base import language
from zerosim.base.config import STAGES, EngineConfig
from zerosim.base.language import fill, listed, term
from zerosim.base.tiers import Link, Tier, link_of_copy, link_of_message
from zerosim.record.text import name_ranks
from zerosim.schema.events import STEP_PHASES, Algorithm, Event, Kind, Op, Phase, Purpose
from zerosim.schema.memory import Role

_WORDS = language.Words.beside(__file__)


def texts() -> Mapping[str, Any]:
    """All texts of `words.toml` in the current language."""
    return _WORDS.table


@dataclass(frozen=True, slots=True)
class StepText:
    """The text of one step.

    Attributes:
        title: a headline; what: the event; why: the reason.
    """

    title: str
    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The common properties of a run's sentences.

    Attributes:
        num_ranks: N.
        backend: the backend of native calls, as at the start of a sentence.
        states: bytes of each model state per parameter.
        config: the engine's; None for a program without it.
        ranks_per_node: P; N if all ranks are on one node.
        together: ranks that compute each layer together (tensor parallel).
        is_skipped: the update is skipped, because a gradient overflowed.
        has_update: there is an update in this iteration, its own or a delayed one.
        modules: by unit, the class of its module, if known.
        is_interleaved: ranks have several stages of a pipeline.
        is_predicted: times are predicted.
        reached: the progress of the ranks in an unfinished iteration, in words.
    """

    num_ranks: int
    iteration: int
    backend: str
    states: Mapping[Role, int]
    config: EngineConfig | None = None
    ranks_per_node: int = 0
    together: int = 1
    is_skipped: bool = False
    has_update: bool = True
    modules: Mapping[str, str] = field(default_factory=dict)
    is_interleaved: bool = False
    is_predicted: bool = False
    reached: str = ""

    @property
    def stage(self) -> int | None:
        """The stage of the engine; None for a program without it."""
        return None if self.config is None else self.config.stage

    @property
    def options(self) -> EngineConfig:
        """The engine's configuration: the defaults, if there was no engine."""
        return _DEFAULTS if self.config is None else self.config

    @property
    def optimizer_bytes(self) -> int:
        """K: bytes of optimizer states per parameter."""
        kept = (Role.PARAMETERS, Role.GRADIENTS, Role.SECONDARY)
        return sum(size for role, size in self.states.items() if role not in kept)

    def links(self, step: Step) -> set[Link]:
        """The link of a step's messages."""
        per_node = self.ranks_per_node or self.num_ranks
        return {link_of_message(one.source, one.target, per_node) for one in step.messages}


_DEFAULTS = EngineConfig()
BITS = {"int4": 4, "int8": 8}
"""Bits of an element that is quantized for communication."""
_WITHOUT_A_NAME = ("", "uint8")
"""Dtypes that do not describe the copied data: a file of several tensors is bytes."""
SHORT_NS = 50_000
"""A shorter time is shown in microseconds."""


def describe(step: Step, setting: Setting, *, num_hops: int, is_prefetch: bool = False) -> StepText:
    """The text of a step.

    Args:
        num_hops: of its collective.
        is_prefetch: it gathers a unit during the computation of another one.
    """
    event = step.event
    unit = "" if event is None else event.unit
    fields = {
        "phase": texts()["phase"][step.phase],
        "unit": unit or find("units", "several"),
        "op": "" if event is None or event.op is None else term(event.op),
        "backend": setting.backend,
        "N": setting.num_ranks,
        "hop": (step.hop or 0) + 1,
        "hops": num_hops,
        "iteration": setting.iteration,
        "purpose": "" if event is None or event.purpose is None else term(event.purpose),
        "element_bytes": setting.states.get(Role.GRADIENTS, 0),
        "full_bits": 8 * setting.states.get(Role.GRADIENTS, 0),
        "optimizer_bytes": setting.optimizer_bytes,
        "micro_step": _micro_step(step, setting),
        "parameters_tier": term(setting.options.offload_param.tier),
        "secondary": setting.options.secondary_partition,
        "per_node": setting.ranks_per_node or setting.num_ranks,
        "block": setting.options.quantization_block,
        "target": term(Tier.HOST),
        "together": setting.together,
        "summand": find("summand", "part"),
        "reached": setting.reached,
        "waits": listed(
            [
                fill(find("awaited"), {"rank": one.target, "peer": one.source})
                for one in (step.messages if step.is_unmet else ())
            ]
        ),
    }
    if event is not None:
        fields |= {"wire_dtype": event.dtype, "bits": BITS.get(event.dtype, "")}
        if event.purpose is Purpose.REDUCE_GRADIENTS:
            fields["summand"] = find("summand", "gradient")
    if step.kind is Kind.COPY:
        fields |= _of_copy(step, setting, fields)
    title, what, why = (
        fill(find(*key), fields) for key in _keys(step, setting, num_hops, is_prefetch=is_prefetch)
    )
    if step.kind is Kind.TRANSFER and event is not None and event.dtype in BITS:
        what += fill(find("what", "quantized"), fields)
    if "Ψ" in why:
        why += find("psi")
    return StepText(title, what, why)


def titled(step: Step, setting: Setting, units: str, *, is_prefetch: bool = False) -> str:
    """The title of a step with other units."""
    event = step.event
    fields = {
        "phase": texts()["phase"][step.phase],
        "unit": units,
        "op": "" if event is None or event.op is None else term(event.op),
        "purpose": "" if event is None or event.purpose is None else term(event.purpose),
    }
    return fill(find(*_keys(step, setting, 1, is_prefetch=is_prefetch)[0]), fields)


def find(*path: str) -> str:
    """A text by its path in `words.toml`; by default that of "other" there."""
    here: Any = texts()
    for name in path:
        here = here[name] if name in here else here["other"]
    assert isinstance(here, str), path
    return here


Path = tuple[str, ...]


def _keys(
    step: Step, setting: Setting, num_hops: int, *, is_prefetch: bool = False
) -> tuple[Path, Path, Path]:
    """The paths of a step's title, description and reason."""
    if step.kind is Kind.MARK:
        return _of_mark(step, setting)
    if step.kind is Kind.COMPUTE:
        return _of_computation(step, setting)
    if step.is_unmet:
        which = "circle" if step.is_circle else "unmet"
        return ("title", which), ("what", "unmet"), ("why", which)
    event = step.event
    purpose = Purpose.UNLABELLED if event is None or event.purpose is None else event.purpose
    if step.kind is Kind.COPY:
        return ("title", purpose), ("what", "copy"), _reason_of_copy(step, purpose, setting)
    special = _of_family(step, purpose, setting)
    if special is None:
        is_alone = purpose is Purpose.UNLABELLED and not (event is not None and event.unit)
        which = "prefetch" if is_prefetch else "unlabelled_alone" if is_alone else purpose
        why = ("why", "prefetch") if is_prefetch else _reason(purpose, step, setting)
        return ("title", which), _how(step, num_hops, setting), why
    what = ("what", "to_owner") if special == "to_owner" else _how(step, num_hops, setting)
    return ("title", "prefetch" if is_prefetch else purpose), what, ("why", special)


def _of_mark(step: Step, setting: Setting) -> tuple[Path, Path, Path]:
    if step.phase is Phase.OUTSIDE:
        if not step.is_over:
            return ("title", "stand"), ("what", "stand"), ("why", "stand")
        return ("title", "end"), ("what", "end"), ("why", _end(setting))
    why = f"begin_{step.phase}"
    if step.phase is Phase.FORWARD and setting.stage == 3:
        why += "_owners" if setting.options.has_owners else "_3"
    elif step.phase is Phase.BACKWARD:
        is_last = step.micro_step == setting.options.accumulate - 1
        why += "" if is_last or setting.stage not in (0, 1) else "_adds"
    elif step.phase is Phase.UPDATE:
        why += _of_update(setting)
    elif step.phase is Phase.SETUP:
        why = "computation"
    return ("title", "begin"), ("what", "begin"), ("why", why)


def _of_update(setting: Setting) -> str:
    """The text on the meaning of the update's start."""
    if setting.stage is None or setting.num_ranks == 1:
        return ""
    if setting.options.delayed_update:
        return "_late" if setting.has_update else "_first"
    if setting.is_skipped:
        return "_skipped"
    if setting.options.offloads_optimizer:
        return "_host"
    if setting.options.owners_update:
        return "_owned"
    return "_1" if setting.stage else "_0"


def _end(setting: Setting) -> str:
    """The text on the ranks' contents at the end of an iteration."""
    if setting.stage is None or not (setting.has_update or setting.is_skipped):
        return "end_late" if setting.options.delayed_update else "end"
    if setting.options.delayed_update:
        return "end_late"
    if setting.is_skipped:
        return "end_skipped"
    if setting.options.quantizes or setting.num_ranks == 1:
        return "end"
    if setting.stage == max(STAGES):
        return "end_owners" if setting.options.has_owners else "end_3"
    return "end_0"


def _of_computation(step: Step, setting: Setting) -> tuple[Path, Path, Path]:
    phase = str(step.phase)
    if setting.stage is None or step.phase not in STEP_PHASES:
        return ("title", "computation"), ("what", "computation"), ("why", "computation")
    what = "update_all" if step.phase is Phase.UPDATE and setting.stage == 0 else phase
    why: Path = ("why", phase, str(setting.stage))
    if step.phase is not Phase.UPDATE and setting.together > 1:
        what += "_together"
    if step.phase is Phase.UPDATE and setting.options.offloads_optimizer:
        what = "update_on_host"
        is_on_disk = setting.options.offload_optimizer.tier is Tier.DISK
        why = ("why", "update_from_disk" if is_on_disk else what)
        why = ("why", "update_late") if setting.options.delayed_update else why
    elif step.phase is Phase.FORWARD and setting.options.offload_param.tier is not Tier.DEVICE:
        why = ("why", "forward_owners" if setting.options.has_owners else "forward_away")
    elif step.phase is Phase.UPDATE and setting.options.owners_update and setting.num_ranks > 1:
        what, why = "update_owned", ("why", phase, "owned")
    elif step.phase is Phase.UPDATE and setting.options.has_owners:
        why = ("why", phase, "owners")
    elif setting.num_ranks == 1:
        why = ("why", "alone")
    elif step.phase is Phase.FORWARD and setting.options.has_secondary:
        why = ("why", phase, "secondary")
    return ("title", phase), ("what", what), why


def _of_family(step: Step, purpose: Purpose, setting: Setting) -> str | None:
    """The reason of calls in later systems that replace those of the stages."""
    event = step.event
    if event is None or setting.stage is None:
        return None
    if purpose is Purpose.REDUCE_GRADIENTS:
        exchange = f"exchange_{_span(step, setting)}"
        return {Op.ALL_TO_ALL: exchange, Op.REDUCE: "reduce_owner"}.get(event.op or Op.UNKNOWN)
    if purpose is not Purpose.GATHER_PARAMETERS:
        return None
    if event.op in _OF_OWNERS:
        is_owned = event.op is Op.BROADCAST and setting.options.owners_update
        return "gather_owned" if is_owned else _OF_OWNERS[event.op]
    if event.dtype in BITS:
        return "gather_quantized"
    is_part = bool(step.groups) and setting.options.has_secondary
    return "gather_secondary" if is_part and step.phase is Phase.BACKWARD else None


_OF_OWNERS = {Op.SEND: "to_owner", Op.RECEIVE: "to_owner", Op.BROADCAST: "gather_owner"}


def _span(step: Step, setting: Setting) -> str:
    """The ranks connected by an all-to-all: neighbours, the nodes, or all ranks."""
    links = setting.links(step)
    if len(links) == 1 and step.groups:
        return "within" if Link.NODE in links else "between"
    return "all"


def _how(step: Step, num_hops: int, setting: Setting) -> Path:
    """The text of a hop, or of a collective with unknown hops."""
    event = step.event
    op = None if event is None else event.op
    if step.kind is not Kind.TRANSFER or op is None or event is None:
        return ("what", "send" if op in (Op.SEND, Op.RECEIVE) else "native")
    if event.algorithm is Algorithm.PAIRWISE:
        return ("what", "pairwise", _span(step, setting))
    of_ring = texts()["what"]["ring"].get(op) if event.algorithm is Algorithm.RING else None
    if of_ring is None:
        return ("what", "send")
    hop = step.hop or 0
    adding = num_hops // 2 if op is Op.ALL_REDUCE else num_hops
    if hop >= adding:
        which = "second"
    elif hop == adding - 1:
        which = "last"
    else:
        which = "first" if hop == 0 else "later"
    if which not in of_ring:
        which = "first" if hop == 0 else "later"
    return ("what", "ring", op, which)


def _reason(purpose: Purpose, step: Step, setting: Setting) -> Path:
    why = texts()["why"].get(purpose)
    if isinstance(why, str):
        return ("why", purpose)
    known = {} if why is None else why.get(step.phase, {})
    which = str(setting.stage)
    if setting.stage is None:  # for a program, the call itself has the request
        op = "" if step.event is None or step.event.op is None else step.event.op.value
        which = op if op in known else "program"
    elif setting.options.accumulate > 1 and which in known and "again" in known:
        which = "again"
    if which in known:
        return ("why", purpose, step.phase, which)
    return ("why", "unlabelled" if purpose is Purpose.UNLABELLED else "other")


def _reason_of_copy(step: Step, purpose: Purpose, setting: Setting) -> Path:
    event = step.event
    if purpose is Purpose.FETCH_PARAMETERS and event is not None:
        if event.origin is Tier.DISK:
            return ("why", purpose, "disk")
        return ("why", purpose, "owner" if setting.options.has_owners else "host")
    known = isinstance(texts()["why"].get(purpose), str)
    return ("why", purpose) if known else ("why", "unlabelled")


def _micro_step(step: Step, setting: Setting) -> str:
    if setting.options.accumulate == 1 or step.phase not in (Phase.FORWARD, Phase.BACKWARD):
        return ""
    counts = {"number": step.micro_step + 1, "count": setting.options.accumulate}
    return fill(find("micro_step"), counts)


def _of_copy(step: Step, setting: Setting, fields: Mapping[str, object]) -> dict[str, object]:
    event = step.event
    assert event is not None, "a copy is somebody's"
    everyone = len(step.events) == setting.num_ranks > 1
    one = everyone or len(step.events) == 1
    key = str(event.purpose)
    if setting.options.has_owners and event.purpose in (
        Purpose.FETCH_PARAMETERS,
        Purpose.STORE_PARAMETERS,
    ):
        key = "owner"
    link = None
    if event.origin is not None and event.target is not None:
        link = link_of_copy(event.origin, event.target)
    forms = verbs(is_one=one)
    dtype = {"dtype": event.dtype}
    return {
        "copiers": find("each_rank") if everyone else name_ranks(tuple(step.events)),
        "amount": fill(find("what", "amount", key), {**fields, **forms}),
        "its": forms["its"],
        "link": "" if link is None else find("link", link),
        "origin": "" if event.origin is None else term(event.origin),
        "target": "" if event.target is None else term(event.target),
        "dtype": "" if event.dtype in _WITHOUT_A_NAME else fill(find("dtype"), dtype),
    }


def counted(part: str, what: str, number: int) -> str:
    """A number of things: "1 rank", "4 ranks"."""
    one, several = texts()[part][what]
    return fill(one if number == 1 else several, {"number": number})


def verbs(*, is_one: bool) -> dict[str, str]:
    """Each verb in the singular or the plural."""
    return {verb: forms[0 if is_one else 1] for verb, forms in texts()["verbs"].items()}


def describe_waits(waits: Sequence[Wait], *, is_predicted: bool = False) -> str:
    """The waiting ranks during a step, with cause and duration; "" if there are none.

    Args:
        is_predicted: their times are predicted.
    """
    found: dict[str, dict[int, int]] = {}
    for wait in waits:
        of_rank = found.setdefault(_awaited(wait.awaited), {})
        of_rank[wait.rank] = of_rank.get(wait.rank, 0) + wait.end_ns - wait.start_ns
    said = []
    for what, of_ranks in found.items():
        least, most = min(of_ranks.values()), max(of_ranks.values())
        scale, unit = (1e3, "µs") if most < SHORT_NS else (1e6, "ms")
        times = {"least": f"{least / scale:.1f}", "most": f"{most / scale:.1f} {unit}"}
        is_one = f"{times['least']} {unit}" == times["most"]
        times["predicted"] = find("waiting", "predicted") if is_predicted else ""
        fields = {
            "ranks": name_ranks(tuple(sorted(of_ranks))),
            **verbs(is_one=len(of_ranks) == 1),
            "time": fill(find("waiting", "time" if is_one else "times"), times),
            "awaited": what,
        }
        said.append(fill(find("waiting", "for"), fields))
    together = find("waiting", "then").join(said)
    return fill(find("waiting", "all"), {"waits": together}) if said else ""


def _awaited(event: Event) -> str:
    names = texts()["waiting"]["what"]
    key = str(event.purpose or event.op)
    what = str(names.get(key, names["other" if event.unit else "other_alone"]))
    unit = event.unit or find("units", "several")
    return fill(what, {"unit": unit, "op": term(event.op or Kind.COPY)})
