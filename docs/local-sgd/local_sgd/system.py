"""What zerosim is told of local SGD. Neither this module nor what it imports needs torch."""

from zerosim.systems.registry import Axis, System

NAME = "local SGD"
SYSTEM = System(
    name=NAME,
    package="local_sgd",
    axis=Axis.DATA,
    has_whole_model=True,
    ends_with_its_model=True,
    remembers=True,  # not every step averages
)
