"""The engine: ZeRO stages 0 to 3 and the systems based on them, in short modules.

    units, flat           units of communication, and their memory
    stages                the four stages: policies for `gradients` and `parameters`
    hooks, moments        detection of the moments of an iteration in any model
    update, optimizer     the optimizer step
    engine                the interface of a training loop

Other packages verify its behavior.
"""

from zerosim.train.engine.engine import Engine, initialize

__all__ = ["Engine", "initialize"]
