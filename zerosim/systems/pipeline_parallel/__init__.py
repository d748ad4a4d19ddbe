"""Pipeline parallel: `torch.distributed.pipelining`, the layers in stages on different ranks."""

from zerosim.systems.registry import Axis, System

NAME = "pipeline parallel"
SYSTEM = System(name=NAME, package=__name__, axis=Axis.PIPELINE)
