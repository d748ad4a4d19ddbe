"""What DeepSpeed is told in `programs/ds_config.json`, and what it would send if told otherwise."""

from __future__ import annotations

import json
from typing import Any

from zerosim.lessons.facts.base import Base
from zerosim.lessons.recordings import HERE
from zerosim.systems.deepspeed.explanation import Explanation, explain

CONFIG = HERE / "programs" / "ds_config.json"


class Told(Base):
    """Facts of a configuration."""

    def ds_config(self, key: str) -> Any:
        """What the file says of a key: "zero_optimization.stage"."""
        found = _read()
        for part in key.split("."):
            found = found[part]
        return found

    def sends_told(self, key: str = "", value: object = None) -> float:
        """What a rank of DeepSpeed sends in a step with it, in Psi; with a key changed, if any."""
        return float(self.explanation_of(key, value).sends)

    def law_told(self, key: str = "", value: object = None) -> float:
        """What the law of its stage says, in Psi."""
        return float(self.explanation_of(key, value).law)

    def explanation_of(self, key: str = "", value: object = None) -> Explanation:
        """What is known of DeepSpeed with the file, before anything runs."""
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
