"""The commands of the debugger's user: typed at a terminal, or sent by a page.

step, over, into, out, phase, iteration, only RANK STEP, continue      steps
break, delete, watch                                                   breakpoints
where, stack, tensors, look, print, check                              queries
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from zerosim.base.errors import ConfigError
from zerosim.debug.controller import Controller
from zerosim.debug.goals import Goal
from zerosim.debug.outcomes import StepEnd, of_ranks
from zerosim.debug.replies import Reply, table_across, table_of_tensors
from zerosim.debug.stop_lines import lines_of, of_stand
from zerosim.schema.memory import Role

STEPS: Mapping[str, Goal] = {"step": Goal.OVER} | {goal.value: goal for goal in Goal}
"""The commands by their typed word."""
_FIRST = {"s": "step", "i": "into", "o": "over", "c": "continue", "w": "where", "p": "phase"}
"""The meaning of a letter with which several words begin."""
_FIELD = re.compile(r"(phase|unit|op|purpose|kind|rank|iteration|micro_step|hop)=(\S+)")
_NUMBER = re.compile(r"(bytes|iteration|rank|hop|micro_step)([<>]=?)([\d.e+]+)")
_LIMIT = re.compile(r"(memory|slow)\s*>\s*(\d+(?:\.\d*)?(?:e\+?\d+)?)")
_QUESTIONS = frozenset({"where", "stack", "tensors", "look", "print", "check"})
_REPLICAS, _SLOW = "replicas", "slow"
_CHECK_SUM = "sum"


class Commands:
    """Runs a command, and returns its output.

    Attributes:
        names: all commands.
    """

    def __init__(
        self, controller: Controller, more: Mapping[str, Callable[[str], Reply]] | None = None
    ) -> None:
        """Create the commands.

        Args:
            more: further commands of the reader, by name; each takes its argument text.
        """
        self._controller = controller
        self._does: dict[str, Callable[[str], Reply]] = {
            **{name: partial(self._step, name) for name in STEPS},
            "only": self._only,
            "continue": self._continue,
            "break": self._break,
            "delete": self._delete,
            "watch": self._watch,
            "where": self._where,
            "stack": self._stack,
            "tensors": self._tensors,
            "look": self._look,
            "print": self._print,
            "check": self._check,
            **(more or {}),
        }
        self.names = tuple(self._does)

    def named(self, word: str) -> str:
        """The command with this name or this beginning.

        Raises:
            ConfigError: there is none, or several.
        """
        if word in self._does:
            return word
        if word in _FIRST:
            return _FIRST[word]
        found = [name for name in self.names if word and name.startswith(word)]
        if len(found) == 1:
            return found[0]
        raise ConfigError(
            f"command is {word[:40]!r}: expected one of {', '.join(found or self.names)}"
        )

    def do(self, line: str) -> Reply:
        """Run a command; one that steps returns when the ranks are paused again.

        Raises:
            ConfigError: there is no such command, or its arguments are wrong.
        """
        name, _, rest = line.strip().partition(" ")
        return self._does[self.named(name)](rest.strip())

    def moves(self, line: str) -> bool:
        """Whether the command lets ranks continue."""
        name, _, rest = line.strip().partition(" ")
        command = self.named(name)
        is_step = command in STEPS or command in ("only", "continue")
        return is_step or (command == "check" and rest.strip() == _CHECK_SUM)

    def only_asks(self, line: str) -> bool:
        """Whether the command changes nothing."""
        return self.named(line.strip().partition(" ")[0]) in _QUESTIONS and not self.moves(line)

    def stops(self) -> dict[str, str]:
        """The breakpoints: their descriptions, by their names for `delete`."""
        found = {str(one.number): one.text for one in self._controller.breakpoints.values()}
        if self._controller.watches_replicas:
            found[_REPLICAS] = "replicas differ as a forward begins"
        if self._controller.longest_s is not None:
            found[_SLOW] = f"a collective takes longer than {self._controller.longest_s:g} s"
        return found

    # steps

    def _step(self, name: str, rest: str) -> Reply:
        if rest:
            raise ConfigError(f"{name} is {rest!r}: expected no argument")
        return self._stopped(self._controller.step(STEPS[name]))

    def _only(self, rest: str) -> Reply:
        rank, _, name = rest.partition(" ")
        goal = STEPS.get(self.named(name or "step"))
        if not rank.isdecimal() or goal is None:
            raise ConfigError(f"only is {rest!r}: expected a rank and a step, as in only 0 into")
        return self._stopped(self._controller.step(goal, int(rank)))

    def _continue(self, rest: str) -> Reply:
        if rest:
            raise ConfigError(f"continue is {rest!r}: expected no argument")
        return self._stopped(self._controller.run())

    def _stopped(self, outcome: StepEnd) -> Reply:
        return Reply(lines_of(self._controller, outcome))

    # breakpoints for running ranks

    def _break(self, rest: str) -> Reply:
        if rest:
            return self._add(condition_of(rest))
        return Reply([f"  {name}: {text}" for name, text in self.stops().items()] or ["  none"])

    def _add(self, text: str) -> Reply:
        ranks = self._controller.here
        if ranks:  # check that a rank can parse it
            self._controller.ask("read", ranks[:1], text=text)
        made = self._controller.add_breakpoint(text)
        return Reply([f"  {made.number}: {made.text}"])

    def _delete(self, rest: str) -> Reply:
        if rest not in self.stops():
            known = ", ".join(self.stops()) or "there is none"
            raise ConfigError(f"delete is {rest!r}: expected a breakpoint ({known})")
        if rest == _REPLICAS:
            self._controller.watches_replicas = False
        elif rest == _SLOW:
            self._controller.longest_s = None
        else:
            del self._controller.breakpoints[int(rest)]
        return Reply()

    def _watch(self, rest: str) -> Reply:
        limit = _LIMIT.fullmatch(rest)
        if rest == "nonfinite":
            return self._add("nonfinite()")
        if rest == _REPLICAS:
            self._controller.watches_replicas = True
            return Reply(["  replicas are compared as each forward begins"])
        if limit is None:
            raise ConfigError(
                f"watch is {rest!r}: expected nonfinite, replicas, memory>BYTES or slow>SECONDS"
            )
        if limit[1] == "memory":
            return self._add(f"memory() > {limit[2]}")
        self._controller.longest_s = float(limit[2])
        return Reply([f"  a collective that takes longer than {self._controller.longest_s:g} s"])

    # looking

    def _where(self, _: str) -> Reply:
        answers = self._controller.ask("where")
        standing = self._controller.standing()
        said = []
        for rank, answer in answers.items():
            own = [one for one in standing if one.rank == rank]
            said += [f"rank {rank} before {of_stand(one.stand)}" for one in own]
            if not own:
                said.append(self._controller.why_waiting(rank))
            for thread in answer["threads"]:
                if thread["line"] and (thread["stands"] is not None or not own):
                    said.append(f"       {thread['line']} ({thread['name']})")
            for call in answer["in_flight"]:
                what = " of ".join(filter(None, [call["op"] or call["kind"], call["unit"]]))
                said.append(f"       under way: {what}, {call['purpose']}")
        return Reply(said)

    def _stack(self, rest: str) -> Reply:
        rank = self._rank(rest)
        said = []
        for thread in self._controller.ask("where", (rank,))[rank]["threads"]:
            said += [f"{thread['name']}", *(f"  {frame}" for frame in thread["stack"])]
        return Reply(said)

    def _tensors(self, rest: str) -> Reply:
        rank = self._rank(rest or "0")
        answers = self._controller.ask("tensors", (rank,))
        return Reply(table=table_of_tensors(answers[rank]["tensors"]))

    def _look(self, rest: str) -> Reply:
        role, unit = _role_and_unit(rest)
        answers = self._controller.ask("tensors", role=role.value, unit=unit)
        found = [(rank, row) for rank, answer in answers.items() for row in answer["tensors"]]
        if not found:
            raise ConfigError(f"look is {rest!r}: no rank holds {role} of {unit or 'no unit'} now")
        return Reply(table=table_across(found))

    def _print(self, rest: str) -> Reply:
        answers = self._controller.ask("evaluate", text=rest)
        return Reply([f"  rank {rank}: {answer['value']}" for rank, answer in answers.items()])

    def _check(self, rest: str) -> Reply:
        if rest == _CHECK_SUM:
            found = self._controller.check_sum()
            what = "mean" if found.is_mean else "sum"
            verdict = (
                f"  gradients of {found.unit}, {found.elements:,} elements a rank: the {what} of "
                f"the ranks' gradients, within {found.largest:.2g} (largest {found.greatest:.2g})"
            )
            return Reply([verdict])
        if rest:
            raise ConfigError(f"check is {rest!r}: expected no argument, or sum")
        compared = self._controller.compare_replicas()
        if not compared:
            nothing = "no rank holds a full replica: there is nothing to compare"
            return Reply([f"  {nothing}"])
        said = []
        for one in compared:
            verdict = f"{of_ranks(one.differ)} differ" if one.differ else "equal on all ranks"
            said.append(f"  {one.role} of {one.unit or 'the model'}: {verdict}")
        return Reply(said)

    def _rank(self, rest: str) -> int:
        if not rest.isdecimal() or int(rest) not in self._controller.here:
            here = ", ".join(map(str, self._controller.here))
            raise ConfigError(f"rank is {rest!r}: expected one of {here}")
        return int(rest)


def _role_and_unit(rest: str) -> tuple[Role, str]:
    for role in sorted(Role, key=lambda role: -len(role.value)):
        if rest == role.value or rest.startswith(f"{role.value} "):
            return role, rest[len(role.value) :].strip()
    short = [role for role in Role if rest and role.value.startswith(rest.split(maxsplit=1)[0])]
    if len(short) == 1:
        return short[0], rest.partition(" ")[2].strip()
    raise ConfigError(
        f"look is {rest!r}: expected a role ({', '.join(Role)}) and a unit, "
        "as listed by the command tensors"
    )


def condition_of(text: str) -> str:
    """A typed breakpoint as an expression: fields with = and <, then `if` and an expression."""
    fields, _, expression = text.partition("if ") if " if " in f" {text}" else (text, "", "")
    parts = []
    for word in fields.split():
        if number := _NUMBER.fullmatch(word):
            parts.append(f"{number[1]} {number[2]} {number[3]}")
        elif field := _FIELD.fullmatch(word):
            value = field[2] if field[2].isdecimal() else f'"{field[2]}"'
            parts.append(f"{field[1]} == {value}")
        else:
            return text  # an expression as it is
    if expression:
        parts.append(f"({expression})" if parts else expression)
    return " and ".join(parts)
