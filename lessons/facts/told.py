"""The configuration in `programs/ds_config.json`, and DeepSpeed's traffic with changes of it."""

from __future__ import annotations

import json
from typing import Any

from zerosim.lessons.facts.base import Base
from zerosim.lessons.recordings import HERE
from zerosim.systems.deepspeed.explanation import Explanation, explain

CONFIG = HERE / "programs" / "ds_config.json"


class Told(Base):
    """Facts about a configuration."""

    def ds_config(self, key: str) -> Any:
        """The value of a key in the file: "zero_optimization.stage"."""
        found = _read()
        for part in key.split("."):
            found = found[part]
        return found

    def sends_told(self, key: str = "", value: object = None) -> float:
        """Traffic of a DeepSpeed rank in a step with it, in Psi; with a changed key, if any."""
        return float(self.explanation_of(key, value).sends)

    def law_told(self, key: str = "", value: object = None) -> float:
        """The law of its stage, in Psi."""
        return float(self.explanation_of(key, value).law)

    def explanation_of(self, key: str = "", value: object = None) -> Explanation:
        """DeepSpeed's explanation for the file, before a run."""
        config = _read()
        del config["train_batch_size"]  # it is the product of the others, which may change
        *above, name = key.split(".")
        part = config
        for one in above:
            part = part[one]
        if name:
            part[name] = value
        return explain(config)


def _read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(CONFIG.read_text(encoding="utf-8"))
    return found
