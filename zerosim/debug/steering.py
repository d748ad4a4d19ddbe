"""One page controls and several watch: a page's access to a controller, besides its terminal."""

from __future__ import annotations

import secrets
import threading
import time
from typing import Any

from zerosim.base.errors import ConfigError, InputError, ZerosimError
from zerosim.debug.commands import Commands
from zerosim.debug.controller import Controller
from zerosim.debug.outcomes import StepEnd, Why
from zerosim.debug.replies import Reply
from zerosim.debug.stop_lines import lines_of

_KEY_BYTES = 24
_LONGEST = 2_000
"""Maximum length of a command."""
_AWAY_S = 15.0
"""A page that sends no request for this long loses control."""


class NotAllowedError(InputError):
    """The key is wrong, or another page has control."""


class Steering:
    """The view of watching pages, and the actions of the controlling page.

    Attributes:
        key: the key that permits watching.
    """

    def __init__(self, controller: Controller) -> None:
        self.key = secrets.token_urlsafe(_KEY_BYTES)
        self._controller = controller
        self._commands = Commands(controller, {"pause": self._pause, "detach": self._detach})
        self._steers: tuple[str, float] = ("", 0.0)
        self._lock = threading.Lock()
        self._version = 0
        self._lines = lines_of(controller, StepEnd(Why.REACHED))
        self._over = False
        controller.listen(self._stopped)

    def state(self, key: str, who: str) -> dict[str, Any]:
        """The contents of a page.

        Raises:
            NotAllowedError: the key is wrong.
        """
        self._require_key(key)
        steers, _ = self._steers
        if steers == who:
            self._steers = who, time.monotonic()
        history = self._controller.history
        return {
            "version": self._version,
            "lines": self._lines,
            "goes": self._controller.is_going,
            "over": self._over or not self._controller.is_attached,
            "steers": steers == who,
            "others_steer": self._is_taken(who),
            "ranks": list(self._controller.here),
            "elsewhere": [one.rank for one in self._controller.links if one.is_elsewhere],
            "stops": self._commands.stops(),
            "iteration": history.iteration,
            "beat": len(history.beats()) if history.has_begun else 0,
        }

    def act(self, key: str, who: str, what: str) -> Reply:
        """Run a command; a step continues in the background, with an empty reply.

        A watching page may only query.

        Raises:
            NotAllowedError: the key is wrong, or another page has control.
            ConfigError: there is no such command, or the ranks are running and cannot be queried.
        """
        self._require_key(key)
        if len(what) > _LONGEST:
            raise ConfigError(
                f"the command has {len(what):,} characters: expected {_LONGEST:,} at most"
            )
        asks = self._commands.only_asks(what)
        if not asks:
            self._steer(who)
        elif self._controller.is_going:
            raise ConfigError("the ranks are running: wait for them, or pause them")
        if not self._commands.moves(what):
            return self._commands.do(what)
        threading.Thread(
            target=self._go, args=(what,), name="zerosim-steering", daemon=True
        ).start()
        return Reply()

    def _steer(self, who: str) -> None:
        with self._lock:
            if self._is_taken(who):
                raise NotAllowedError(
                    "another page controls the run: this one only watches until it closes"
                )
            self._steers = who, time.monotonic()

    def _pause(self, _: str) -> Reply:
        self._controller.pause()
        return Reply()

    def _detach(self, _: str) -> Reply:
        self._controller.detach()
        self._over = True
        return Reply()

    def _go(self, what: str) -> None:
        try:
            said = [line for line in self._commands.do(what).lines() if line not in self._lines]
        except ZerosimError as error:
            said = [str(error)]
        if said:  # more often than at each stop
            self._lines = [*said, *self._lines]
            self._version += 1

    def _stopped(self, outcome: StepEnd) -> None:
        self._lines = lines_of(self._controller, outcome)
        self._over = self._over or outcome.is_last
        self._version += 1

    def _require_key(self, key: str) -> None:
        if not secrets.compare_digest(key.encode(errors="replace"), self.key.encode()):
            raise NotAllowedError("the key in the address is wrong: open the printed address")

    def _is_taken(self, who: str) -> bool:
        steers, since = self._steers
        return steers not in ("", who) and time.monotonic() - since < _AWAY_S
