"""The engine: ZeRO stages 0 to 3 and what was built on them, each readable in one sitting.

    units, flat           what communicates together, and the memory behind it
    stages                the four stages: `gradients` and `parameters`, and when
    hooks, moments        how the moments of an iteration are found in any model
    update, optimizer     the optimizer step
    engine                what a training loop calls

What it does is proved by others.
"""

from zerosim.train.engine.engine import Engine, initialize

__all__ = ["Engine", "initialize"]
