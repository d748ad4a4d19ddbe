"""Tensor parallel: `torch.distributed.tensor.parallel.parallelize_module`, or sequence parallel.

Options of its `Strategy`:

    optimizer           its class, "AdamW fused" if it is
    partial_gradients   parameters with gradients that are partial sums when it begins: each
                        operation that reads one completes the sum
    whole_gradients     sharded parameters with whole gradients
    undivided, undivided_frozen   elements of all other parameters, by dtype
    undivided_states              of the trainable ones, by dtype and names of their states
    states                        of the divided ones, by names of their states

and of its bundles, one for each style of a module:

    style               "column", "row", "sequence", "prepare input", "prepare output" or "other"
    input_shape, input_dtype, input_layout, wanted_layout   properties of an input; the style
                                                            converts the layout
    input_is_tensor     False for a DTensor; wanted_is_tensor; input_has_gradient
    output_shape, dtype, made_layout, output_layout, output_is_tensor   of what goes out
    forwards            in one micro-step; recomputed: number of recomputations in its backward

Shapes are whole; a layout is "replicate", "shard 1" or "partial".
"""

from zerosim.systems.registry import Axis, System

NAME = "tensor parallel"
SYSTEM = System(name=NAME, package=__name__, axis=Axis.TENSOR)
