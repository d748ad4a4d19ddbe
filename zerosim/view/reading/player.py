"""A replay in a notebook cell: the page of `zerosim export`, which needs no server."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zerosim.base.tables import written_out
from zerosim.view.export.files import write
from zerosim.view.export.offline import offline_page
from zerosim.view.replay.addresses import read_moment
from zerosim.view.replay.tour import Stop

HEIGHT_PX = 760


@dataclass(frozen=True, slots=True)
class Replay:
    """One iteration, step by step.

    Attributes:
        document: the data of the player.
        step: the current step, from 0.
    """

    document: dict[str, Any] = field(repr=False)
    step: int = 0

    @classmethod
    def at(cls, document: dict[str, Any], words: str) -> Replay:
        """A replay at the step given by a link or by words (`replay.addresses`).

        Raises:
            ConfigError: no step has them.
        """
        return cls(document, read_moment(document, words).step if words else 0)

    @property
    def title(self) -> str:
        """The event of the step, in a sentence."""
        return str(self.document["texts"][self.document["steps"][self.step]["title"]])

    @property
    def tour(self) -> tuple[Stop, ...]:
        """Ten to twelve steps of it, in order, with explanations."""
        return tuple(Stop(**stop) for stop in self.document["tour"])

    @property
    def html(self) -> str:
        """The page, to be opened in any browser."""
        return offline_page(self.document)

    def save(self, file: str | Path) -> Path:
        """Write the page to a file.

        Raises:
            EnvironmentFault: it cannot be written.
        """
        path = Path(file)
        write(path, self.html.encode())
        return path

    def __repr__(self) -> str:
        steps = len(self.document["steps"])
        name = self.document["name"]
        return written_out(f"{name}, step {self.step + 1:,} of {steps:,}: {self.title}")

    def _repr_html_(self) -> str:
        # a page's state is in its address, which requires an address of its own
        page = base64.b64encode(self.html.encode()).decode()
        return (
            f'<iframe title="Replay" width="100%" height="{HEIGHT_PX}" style="border:0" '
            f'src="data:text/html;charset=utf-8;base64,{page}#at={self.step + 1}"></iframe>'
        )
