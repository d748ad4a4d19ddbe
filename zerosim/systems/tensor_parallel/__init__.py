"""Tensor parallel: `torch.distributed.tensor.parallel.parallelize_module`, or sequence parallel."""

from zerosim.systems.registry import Axis, System

NAME = "tensor parallel"
SYSTEM = System(name=NAME, package=__name__, axis=Axis.TENSOR)
