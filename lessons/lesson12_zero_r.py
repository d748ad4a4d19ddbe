# A lesson of zerosim in percent format: `python lessons/lesson12_zero_r.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson12_zero_r")

# %% [markdown]
# # ZeRO-R: what the stages leave over
#
# The three stages, ZeRO-DP in the paper, divide model states: parameters, gradients, what the
# optimizer keeps. Then you start a real run, and the device is still full. What is in it now is
# called residual: activations that backward will need, buffers for what is sent, and gaps between
# all these that are too small for anything.
#
# The first paper has a part for each, and calls them together ZeRO-R. You go through them in this
# lesson, on two ranks that compute each layer together. Look at all events of a step of theirs,
# rank by rank: in backward there is something that tensor parallel alone does not have.

# %%
lab.graph("divided/stage-1")

# %% [markdown]
# ## Keep it, or compute it again
#
# Backward needs what forward had in its hands: inputs of matrices, of GELU, of attention. With
# activation checkpointing a block keeps its input alone. When backward comes to the block, its
# forward is computed once more, and everything else is there again for as long as this one block
# takes.
#
# The input of a block is b·s·h numbers: b sequences of s positions, each with a vector of width h.
# Forward is over. How much is kept for the blocks?

# %%
lab.ask("checkpoints")

# %% [markdown]
# ## The same on every rank
#
# Tensor parallel divides the matrices. But what goes into a block is what comes out of an
# all-reduce: the same numbers on all ranks that compute it together. Each of them keeps the same
# checkpoints.
#
# ZeRO-R calls that a waste: let each rank keep its own part of each checkpoint, and gather the
# parts just before the block is computed again. This is P_a, the partitioning of activations. What
# does it save, and what does it send? In a block with checkpoints the ranks meet in forward, once
# more when it is computed again, and in backward; you know how often from tensor parallel. Add up
# what one rank sends for these all-reduces, and compare it with the new gather.

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
# ## Out of the device altogether
#
# Nobody needs a checkpoint between the forward of its block and its backward. For a model with many
# layers that is a long time. So the part that a rank keeps may as well wait in the memory of the
# host, which is larger and cheaper: P_a+cpu. It goes over the bus between device and host, and
# comes back when backward is about to need it.
#
# How much does that put on the bus of one rank in a step?

# %%
lab.ask("bus")

# %%
lab.show("checkpoints", "divided/stage-1", "divided-cpu/stage-1")
lab.show("sums", "divided/stage-1", "divided-cpu/stage-1")
lab.reveal("bus")

# %% [markdown]
# ## Gaps
#
# Checkpoints and gradients live long, everything else in forward and backward comes and goes. If
# all of them take the next free address, short lives leave holes between long ones. Memory is then
# free, and not of use: a tensor needs one piece.
#
# This run has a device with a limit, and each tensor an address in it. Think of the moment at which
# free memory lies in the smallest pieces.

# %%
lab.ask("room")

# %%
lab.record("scattered/stage-2")

# %%
lab.show("addresses", "scattered/stage-2")
lab.show("pieces", "scattered/stage-2")
lab.reveal("room")

# %% [markdown]
# ## What order costs
#
# In the last run long-lived tensors go to memory of their own, set aside at the beginning (M_D),
# and gradients are reduced through buffers that are as large as a bucket, however large the model
# is (C_B). Short lives no longer leave holes between long ones.
#
# But what is set aside is set aside all the time, for the most that will ever be needed of it. So
# order has a price, and whether it pays depends on what the holes would have cost. Does it here?

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
