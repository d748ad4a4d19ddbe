"""The beats of a replay as JSON values, in words: with the texts of `beats.toml`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from zerosim.analysis.beats import Beat, Sign, cut, operator_of
from zerosim.analysis.frames import Frames, Step
from zerosim.base.config import STAGES
from zerosim.base.language import Words, begun, enumerated, fill, joined, listed, term
from zerosim.base.tiers import Tier
from zerosim.schema.events import STEP_PHASES, Algorithm, Event, Kind, Op, Phase, Purpose
from zerosim.view.replay.plain import Texts
from zerosim.view.replay.step_sentences import Setting, describe, describe_waits, titled
from zerosim.view.replay.step_sentences import texts as words_of_steps
from zerosim.view.replay.subject import Subject
from zerosim.view.replay.turns import kept_meanwhile, said_of_turns, title_of_turns

LONGEST_LABEL = 4
_SHORTENED = 3
_MOST_NAMES = 3
"""With more units than this, a text names one, and the number of the others."""


def beats_of(subject: Subject, frames: Frames | None) -> tuple[Beat, ...]:
    """The beats of an iteration."""
    buckets = {
        bucket.name: tuple(dict.fromkeys(part.unit for part in bucket.segments))
        for bucket in subject.trace.manifest.buckets
    }
    freed = {} if frames is None else frames.freed
    beats = cut(subject.steps.steps, freed, buckets)
    if subject.carried is None:
        return beats
    return tuple(one for beat in beats for one in _by_round(beat, subject.steps.steps))


def _by_round(beat: Beat, steps: Sequence[Step]) -> Iterator[Beat]:
    """One beat per round of messages, because a class refers to rounds by number."""
    begin = beat.first
    rounds = [at for at in range(beat.first, beat.last + 1) if steps[at].hop is not None]
    for at in rounds[:-1]:
        yield replace(beat, first=begin, last=at, main=at)
        begin = at + 1
    yield replace(beat, first=begin, main=rounds[-1] if rounds else beat.main)


def label_of(units: Sequence[str]) -> str:
    """The label of units in a strip: the end of a name, 3 for `blocks.3`; empty for several."""
    if len(units) != 1:
        return ""
    name = units[0].partition(" (")[0].rsplit(".", 1)[-1].rsplit(" ", 1)[-1]
    return name if len(name) <= LONGEST_LABEL else name[:_SHORTENED]


class PlainBeats:
    """Converts beats to JSON values; texts are referred to by number."""

    def __init__(self, subject: Subject, setting: Setting, texts: Texts) -> None:
        """Prepare."""
        self._subject, self._texts = subject, texts
        self._steps = subject.steps.steps
        self._is_predicted = setting.is_predicted
        self._words = BeatWords(setting, tuple(subject.units), subject.steps.num_hops)

    def beat(self, beat: Beat) -> dict[str, Any]:
        """One beat."""
        words, number, about = self._words, self._texts.number, self._subject.about
        steps, carried = self._steps[beat.first : beat.last + 1], self._subject.carried
        main = self._steps[beat.main]
        told = None if carried is None else carried.describe(main, self._words.hops(main))
        return {
            "first": beat.first,
            "last": beat.last,
            "main": beat.main,
            "signs": [sign.value for sign in beat.signs],
            "label": label_of((beat.within,) if beat.within else beat.units),
            "units": list(dict.fromkeys(place for unit in beat.units for place in about(unit))),
            "phase": beat.phase.value,
            "micro_step": beat.micro_step,
            "freed": self._freed(beat),
            "title": number(words.title(beat, self._steps) if told is None else told.title),
            "what": number(words.what(beat, self._steps) if told is None else told.what),
            "meanwhile": number(words.meanwhile(beat)),
            "waiting": number(
                describe_waits(
                    [wait for step in steps for wait in step.waits],
                    is_predicted=self._is_predicted,
                )
            ),
            "within": beat.within,
            "is_prefetch": beat.is_prefetch,
        }

    def _freed(self, beat: Beat) -> list[str]:
        """Other freed units, each name once."""
        others = [label_of((unit,)) for unit in beat.freed if unit not in beat.units]
        return [one for one in dict.fromkeys(others) if one != label_of(beat.units)]


_WORDS = Words.beside(__file__, "beats")


def texts() -> Mapping[str, Any]:
    """All texts of `beats.toml` in the current language."""
    return _WORDS.table


class BeatWords:
    """The texts of beats."""

    def __init__(
        self, setting: Setting, units: tuple[str, ...], num_hops: Mapping[int, int]
    ) -> None:
        """Prepare.

        Args:
            units: all of the run, as far as they are known.
            num_hops: by collective, the number of steps of its hops.
        """
        self._setting, self._all, self._num_hops = setting, units, num_hops

    def title(self, beat: Beat, steps: Sequence[Step]) -> str:
        """A headline."""
        said, main, units = (
            texts()["title"],
            steps[beat.main],
            self._named(beat.units, with_class=True),
        )
        fields = {"phase": words_of_steps()["phase"][beat.phase], "units": units}
        own = [steps[at] for at in range(beat.first, beat.last + 1)]
        if beat.turns:
            return title_of_turns(beat, texts()["turns"])
        if beat.within:
            return self._within("title", beat)
        if which := self._title_of_its_own(beat):
            return fill(said[which], fields | {"number": beat.micro_step + 1})
        if beat.sign is Sign.COPY and len(_ways(own)) > 1:
            return fill(said["copies"], fields | {"places": _places(own)})
        if beat.sign is Sign.AGREE:
            which, things = _agreed(own)
            return fill(said[which], fields | {"things": things})
        title = titled(main, self._setting, units, is_prefetch=beat.is_prefetch)
        if Sign.FREE in beat.signs:
            is_whole = beat.phase is Phase.BACKWARD or self._setting.options.has_owners
            which = "freed_parameters" if is_whole else "freed"
            title = fill(said[which], {"title": title})
        return title

    def _within(self, which: str, beat: Beat) -> str:
        """The text of a beat that processes the units of a module, one after the other."""
        said = texts()["within"]
        is_tiled = all(map(operator_of, beat.units))
        whole = [unit for unit in self._all if unit.startswith(f"{beat.within}.")]
        number, one = len(beat.units), "tile" if is_tiled else "unit"
        several = "its" if number == len(whole) else "some"
        done = [text for sign, text in said[beat.phase].items() if sign in beat.signs]
        fields = {
            "phase": words_of_steps()["phase"][beat.phase],
            "module": beat.within,
            "part": said["part"][one],
            "parts": fill(
                said[several], {"number": number, "all": len(whole), "parts": said["parts"][one]}
            ),
            "done": enumerated(done),
        }
        return fill(said[which], fields)

    def _title_of_its_own(self, beat: Beat) -> str:
        """The title of a beat if it differs from that of its step; "" if not."""
        if beat.is_phase:
            return "micro_step"
        if beat.sign is Sign.UPDATE:
            return "update" if self._setting.stage is not None else "optimizer"
        return ""

    def what(self, beat: Beat, steps: Sequence[Step]) -> str:
        """A sentence or two."""
        if beat.turns:
            return said_of_turns(
                beat, texts()["turns"], is_interleaved=self._setting.is_interleaved
            )
        if beat.is_phase:
            return str(texts()["what"]["micro_step"])
        if beat.within:
            return self._within("what", beat)
        main, own = steps[beat.main], [steps[at] for at in range(beat.first, beat.last + 1)]
        text = texts()["what"]["unmet"] if main.is_unmet else _said_of(beat, own)
        if not isinstance(text, str):
            text = text[self._which(beat, main)]
        event, setting = main.event, self._setting
        found = describe(main, setting, num_hops=self.hops(main))
        return begun(
            fill(
                str(text),
                {
                    "units": self._named(beat.units),
                    "N": setting.num_ranks,
                    "hops": self.hops(main),
                    "group": len(main.groups[0]) if main.groups else setting.num_ranks,
                    "backend": setting.backend,
                    "together": setting.together,
                    "op": "" if event is None or event.op is None else term(event.op),
                    "what": found.what,
                    "why": found.why,
                },
            )
        )

    def _which(self, beat: Beat, main: Step) -> str:
        """The text for gathers, computations, reductions or updates."""
        if beat.sign is Sign.GATHER:
            return _of_gather(main, self._setting)
        if beat.sign is Sign.REDUCE:
            return _of_reduction(main, self._setting)
        if beat.sign is Sign.UPDATE:
            return _of_update(self._setting)
        if beat.sign in (Sign.SEND, Sign.EXCHANGE):
            purpose = None if main.event is None else main.event.purpose
            return purpose if purpose in texts()["what"][beat.sign] and purpose else "other"
        return _of_computation(beat, self._setting)

    def meanwhile(self, beat: Beat) -> str:
        """Concurrent actions; "" if there are none."""
        if beat.turns:
            return kept_meanwhile(
                beat, texts()["turns"], is_interleaved=self._setting.is_interleaved
            )
        said = texts()["meanwhile"]
        left = [unit for unit in beat.freed if unit not in beat.units]
        beside: dict[str, list[str]] = defaultdict(list)
        for doing in beat.meanwhile:
            if doing.sign is Sign.COMPUTE and doing.unit in beat.units:
                continue  # some systems reduce a unit's gradient before they report its computation
            is_freed = doing.sign is Sign.COMPUTE and doing.unit in left
            beside["compute and free" if is_freed else doing.sign].append(doing.unit)
            left = [unit for unit in left if not is_freed or unit != doing.unit]
        found = []
        if beside:
            things = [self._filled(said[what], units) for what, units in beside.items()]
            found.append(fill(said["all"], {"things": listed(things)}))
        if left:
            found.append(self._filled(said["then"], left))
        return joined(found)

    def _named(self, units: Sequence[str], *, with_class: bool = False) -> str:
        said = texts()["units"]
        if not units:
            return str(said["none"])
        if len(units) == 1:
            module = self._setting.modules.get(units[0])
            with_module = {"unit": units[0], "module": module}
            return fill(said["class"], with_module) if module and with_class else units[0]
        if len(units) == len(self._all):
            return str(said["all"])
        which = "two" if len(units) == 2 else "some"
        return fill(said[which], {"first": units[0], "last": units[-1]})

    def _filled(self, text: str, units: Sequence[str]) -> str:
        said, names = texts()["units"], [unit for unit in dict.fromkeys(units) if unit]
        named = listed(names) or str(said["none"])
        if len(names) > _MOST_NAMES:
            which = "all" if len(names) == len(self._all) else "others"
            named = fill(said[which], {"first": names[0], "others": len(names) - 1})
        return fill(text, {"units": named, "is": texts()["verbs"]["is"][len(names) != 1]})

    def hops(self, step: Step) -> int:
        """The collective of a step."""
        return self._num_hops.get(-1 if step.collective is None else step.collective, 0)


def _said_of(beat: Beat, own: Sequence[Step]) -> Any:
    """The texts of an action: one, or several to choose from."""
    said = texts()["what"]
    if beat.sign is Sign.COMPUTE and beat.phase is Phase.BACKWARD:
        return said["gradient"]
    if beat.sign is Sign.COPY:
        return said["copy" if len(_ways(own)) == 1 else "copies"]
    return said[beat.sign]


def _of_gather(main: Step, setting: Setting) -> str:
    event = main.event
    assert event is not None, "what is gathered has been asked for"
    if setting.stage is not None and event.op in _OF_OWNERS:
        return _OF_OWNERS[event.op]
    if setting.options.has_secondary and main.phase is Phase.BACKWARD and main.groups:
        return "secondary"
    if setting.stage in _OF_PHASE.get(main.phase, ()):
        return str(main.phase)
    if event.algorithm is not Algorithm.RING:
        return "native group" if main.groups else "native"
    return "group" if main.groups else "ring" if setting.num_ranks > 2 else "ring_2"


_OF_OWNERS = {Op.SEND: "to_owner", Op.RECEIVE: "to_owner", Op.BROADCAST: "owner"}
_OF_PHASE = {Phase.UPDATE: (1, 2), Phase.BACKWARD: (max(STAGES),)}
"""Stages with a reason of their own for their gathers in a phase."""


def _of_computation(beat: Beat, setting: Setting) -> str:
    if setting.together > 1:
        return "together"
    if setting.num_ranks == 1:
        return "alone"
    if Sign.FREE in beat.signs:
        return "freed"
    if setting.stage is None:
        return "program"
    if setting.stage == max(STAGES) and beat.phase in STEP_PHASES:
        return "freed later"
    return "plain"


def _of_reduction(main: Step, setting: Setting) -> str:
    if setting.options.owners_update:
        return "owner"
    if setting.stage is not None:
        return str(setting.stage)
    op = None if main.event is None else main.event.op
    if main.groups:
        return "group"
    return {Op.ALL_REDUCE: "0", Op.REDUCE_SCATTER: "1"}.get(op, "program") if op else "program"


def _of_update(setting: Setting) -> str:
    if setting.stage is None:
        return "program"
    if setting.num_ranks == 1:
        return "alone"
    if setting.options.offloads_optimizer:
        return "host"
    if setting.options.owners_update:
        return "owner"
    return "1" if setting.stage else "0"


def _events(steps: Sequence[Step], *kinds: Kind) -> list[Event]:
    return [event for step in steps if step.kind in kinds and (event := step.event) is not None]


def _ways(steps: Sequence[Step]) -> set[object]:
    """The purpose and target of a copy: equal copies are one."""
    return {(event.purpose, event.origin, event.target) for event in _events(steps, Kind.COPY)}


def _places(steps: Sequence[Step]) -> str:
    """The tiers of a copy."""
    copied = _events(steps, Kind.COPY)
    ends = {tier for event in copied for tier in (event.origin, event.target)}
    return listed([term(tier) for tier in Tier if tier in ends])


def _agreed(steps: Sequence[Step]) -> tuple[str, str]:
    """The name of the title, and what the ranks agree on."""
    said = texts()["things"]
    calls = _events(steps, Kind.TRANSFER, Kind.COLLECTIVE)
    purposes = dict.fromkeys(event.purpose for event in calls if event.purpose)
    things = [purpose for purpose in purposes if purpose is not Purpose.SYNCHRONIZE]
    which = "agree"
    if len(things) < len(purposes):
        which = "agree_at_barrier" if things else "barrier"
    return which, listed([said.get(thing) or term(thing) for thing in things])
