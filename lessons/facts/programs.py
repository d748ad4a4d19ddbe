"""Structure of programs as recorded: blocks, sharded modules, buckets."""

from __future__ import annotations

import re
from collections.abc import Sequence

from zerosim.base.errors import ConfigError
from zerosim.lessons.facts.base import Base
from zerosim.schema.strategies import Bundle

_BLOCK = re.compile(r"blocks\.\d+")


class Programs(Base):
    """Facts of implementations."""

    def blocks(self, run: str) -> list[str]:
        """The equal units, in forward order: a transformer's layers."""
        units = self._run(run).events(rank=0, phase="forward")["unit"]
        return list(dict.fromkeys(unit for unit in units if _BLOCK.fullmatch(unit)))

    def shape(self, run: str, module: str, end: str = "input") -> list[int]:
        """The input of a sharded module in one forward, whole: b, s, h; or its "output"."""
        found = self._bundle(run, module).options[f"{end}_shape"]
        assert isinstance(found, Sequence), module
        return [int(size) for size in found]

    def cut(self, run: str, module: str) -> str:
        """How tensor parallelism shards a module: "column" or "row"."""
        return str(self._bundle(run, module).options["style"])

    def elements(self, run: str) -> list[int]:
        """The size of each recorded parameter."""
        return [one.elements for bundle in self._last(run) for one in bundle.parameters]

    def persistent(self, run: str) -> int:
        """Number of parameters that DeepSpeed keeps whole in stage 3."""
        return sum(len(_persistent(bundle)) for bundle in self._last(run))

    def kept_whole(self, run: str) -> float:
        """Fraction of the model's parameters that DeepSpeed keeps whole in stage 3."""
        kept = sum(
            one.elements
            for bundle in self._last(run)
            for one in bundle.parameters
            if one.name in _persistent(bundle)
        )
        return kept / self.model_psi(run)

    def share_of(self, run: str, bundle: str) -> float:
        """Fraction of the model's parameters in the unit of a name."""
        elements = sum(one.elements for one in self._bundle(run, bundle).parameters)
        return elements / self.model_psi(run)

    def _last(self, run: str) -> tuple[Bundle, ...]:
        return self._run(run).strategies[-1].bundles

    def _bundle(self, run: str, name: str) -> Bundle:
        for row in reversed(self._run(run).strategies):
            for bundle in row.bundles:
                if bundle.name == name:
                    return bundle
        raise ConfigError(f"{run} says nothing of {name}")


def _persistent(bundle: Bundle) -> Sequence[object]:
    names = bundle.options["persistent"]
    return names if isinstance(names, Sequence) else ()
