# A lesson of zerosim in percent format: `python lessons/lesson12_zero_r.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson12_zero_r")

# %% [markdown]
# # ZeRO-R: what the stages leave
#
# The three stages, ZeRO-DP in the paper, divide model states: parameters, gradients and optimizer
# states. Then you start a real run, and the device is still full. The rest is taken up by residual
# states: activations that backward will need, communication buffers, and gaps in memory that are
# too small to use.
#
# The ZeRO paper has a remedy for each of these, and calls the remedies ZeRO-R. This lesson goes
# through them on two ranks that compute each layer together. Look at all events of one of their
# steps, rank by rank: backward contains something that plain tensor parallelism does not have.

# %%
lab.graph("divided/stage-1")

# %% [markdown]
# ## Keep or recompute
#
# Backward needs the inputs of forward's operations: matrix products, GELU, attention. With
# activation checkpointing, a block keeps only its input. When backward reaches the block, its
# forward is computed once more, and its other activations exist again only until this block is
# done.
#
# The input of a block is b·s·h numbers: b sequences of s positions, each with a vector of width h.
# Forward has finished. How much is kept for the blocks?

# %%
lab.ask("checkpoints")

# %% [markdown]
# ## The same on every rank
#
# Tensor parallelism divides the matrices. But the input of a block is the output of an all-reduce:
# the same numbers on all ranks that compute it together. Each of them keeps the same checkpoints.
#
# ZeRO-R removes this redundancy: each rank keeps its own part of each checkpoint, and the ranks
# gather the parts just before the block is recomputed. This is P_a, the partitioning of
# activations. What does P_a save, and what does it send? In a checkpointed block, the ranks
# all-reduce in forward, again in the recomputation, and in backward; you know from tensor
# parallelism how often. Add up what one rank sends for these all-reduces, and compare it with the
# new gather.

# %%
lab.ask("price")

# %%
lab.record("kept/stage-1", "sums/stage-1", "divided/stage-1", "divided-cpu/stage-1")

# %%
lab.show("checkpoints", "kept/stage-1", "sums/stage-1", "divided/stage-1")
lab.show("sums", "kept/stage-1", "sums/stage-1", "divided/stage-1")
lab.reveal("checkpoints")
lab.reveal("price")

# %% [markdown]
# ## Off the device altogether
#
# No computation needs a checkpoint between the forward of its block and its backward. For a model
# with many layers that is a long time. So the part that a rank keeps can move to host memory,
# which is larger and cheaper: P_a+cpu. It goes over the bus between device and host, and comes
# back when backward is about to need it.
#
# How many bytes does this add to the bus traffic of one rank in a step?

# %%
lab.ask("bus")

# %%
lab.show("checkpoints", "divided/stage-1", "divided-cpu/stage-1")
lab.show("sums", "divided/stage-1", "divided-cpu/stage-1")
lab.reveal("bus")

# %% [markdown]
# ## Gaps
#
# Checkpoints and gradients live long; everything else in forward and backward comes and goes. If
# all tensors are allocated at the next free address, short-lived ones leave holes between
# long-lived ones. This memory is free but unusable, because a tensor needs one contiguous piece.
#
# In this run the device has a limit, and each tensor has an address in it. Consider the moment at
# which free memory is most fragmented.

# %%
lab.ask("room")

# %%
lab.record("scattered/stage-2")

# %%
lab.show("addresses", "scattered/stage-2")
lab.show("pieces", "scattered/stage-2")
lab.reveal("room")

# %% [markdown]
# ## The price of contiguous memory
#
# In the last run, long-lived tensors have a separate region, which is reserved at the beginning
# (M_D), and gradients are reduced through buffers that are as large as a bucket, however large the
# model is (C_B). Short-lived tensors then no longer leave holes between long-lived ones.
#
# But this region is reserved all the time, at the size that is needed at the peak. So contiguous
# memory has a price, and it pays off only if the holes would have cost more. Does it pay off here?

# %%
lab.ask("pays")
lab.ask("buffers")

# %%
lab.record("contiguous/stage-2")

# %%
lab.show("addresses", "scattered/stage-2", "contiguous/stage-2")
lab.show("pieces", "scattered/stage-2", "contiguous/stage-2")
lab.reveal("pays")
lab.reveal("buffers")

# %%
lab.end()
