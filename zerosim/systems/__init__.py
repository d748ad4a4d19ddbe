"""One training step, by everybody else who can do it: PyTorch's systems, and DeepSpeed.

All train the same model from the same weights on the same data with the same optimizer, so that
what they send, hold and learn can be set side by side (`zerosim profiles`). Each is a program as
its users write it: nothing here is labelled for the trace.

    catalogue        who can be asked, and who of them is here
    data_parallel    DDP; DDP with ZeroRedundancyOptimizer
    sharded          FSDP2, FSDP1, HSDP
    tensor           tensor parallel, Megatron's way of cutting a block
    pipeline         GPipe and 1F1B over the model's blocks
    deepspeed        DeepSpeed's stages, where it is installed
"""

from zerosim.systems.catalogue import make_step, unavailable
from zerosim.systems.common import Step

__all__ = ["Step", "make_step", "unavailable"]
