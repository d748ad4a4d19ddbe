# A lesson of zerosim in percent format: `python lessons/lesson10_model_parallel.py` runs it, an
# editor opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson10_model_parallel")

# %% [markdown]
# # Tensor and pipeline parallelism
#
# ZeRO divides the model states, and each rank computes the whole model on its own data. There is
# another way: divide the computation. Then the ranks work on the same data, each on a part of the
# model. They send neither parameters nor their gradients, but activations, and in backward the
# gradients of activations.
#
# A model can be cut in two directions. Tensor parallelism cuts each matrix: all ranks work on the
# same layer at the same time. Pipeline parallelism cuts between the layers: each rank has some of
# them and passes its output on. Here both are PyTorch's own implementations, and the programs were
# not changed for tracing. Look at all events of a tensor-parallel step, rank by rank.

# %%
lab.graph("parallel/tensor-parallel")

# %% [markdown]
# ## One block, two cuts
#
# The MLP of a block multiplies its input x by a matrix A, applies GELU, and multiplies by a second
# matrix B. The ranks share this work.
#
# A matrix can be cut by columns: each rank needs all of x, and gets some columns of the product,
# complete. Or it can be cut by rows: each rank needs only some columns of x, and gets a product of
# the full size in which the terms of the other ranks are missing.
#
# GELU comes between A and B. It is elementwise but not linear: GELU of a sum is not the sum of the
# GELUs. How should A be cut?

# %%
lab.show("two_cuts", "parallel/tensor-parallel")
lab.ask("cut")

# %% [markdown]
# ## How often they all-reduce
#
# B is cut so that it fits: the output of GELU on a rank is exactly the input of this rank's piece
# of B. At the end of the MLP each rank has a part of every sum, and the ranks have to add them up.
# Attention is cut in the same way: each rank has whole heads, and the output matrix is cut like B.
#
# Backward goes through all this in reverse. Every rank received the same x, so the gradient of x is
# a sum to which every rank contributes a term. How many all-reduces does one block need, in forward
# and backward combined?

# %%
lab.ask("calls")

# %%
lab.record("parallel/ddp", "parallel/tensor-parallel", "parallel/gpipe", "parallel/1f1b")

# %%
lab.show("block", "parallel/tensor-parallel")
lab.show("all_reduces", "parallel/tensor-parallel")
lab.reveal("cut")
lab.reveal("calls")

# %% [markdown]
# ## More than data parallelism, or less?
#
# Each all-reduce has b·s·h numbers: a vector of the model's width h for each of the s positions of
# b sequences. That makes 4 b s h in each layer. Look for the number of parameters in this law: it
# is not there. Look for the batch in the law of data parallelism: that is not there either.
#
# So which of them sends more? Both runs train with the same sequences in a step. In data
# parallelism each rank has some of them, in tensor parallelism every rank has all. The question
# gives their number and everything else that you need.

# %%
lab.ask("compare")

# %%
lab.show("divided", "parallel/ddp", "parallel/tensor-parallel")
lab.reveal("compare")

# %% [markdown]
# ## A row of stages
#
# Now cut between the layers. Each rank has a stage: one block, plus the embedding on the first rank
# and the head on the last. The batch is cut into micro-batches that go through the stages one after
# another, so that all ranks have something to do.
#
# There are no collectives any more. A stage sends its output to the next one, b·s·h numbers in
# total at each boundary, and in backward its gradient comes back. For the first time, the ranks
# differ: what a rank sends depends on its stage.

# %%
lab.ask("silent")

# %%
lab.show("messages", "parallel/gpipe")
lab.graph("parallel/gpipe")
lab.reveal("silent")

# %% [markdown]
# ## The bubble
#
# A pipeline sends few bytes. What is its price? The last stage has nothing to do until the first
# micro-batch reaches it, and the first stage, when its forwards are done, has nothing to do until a
# gradient comes back. This idle time is called the bubble.
#
# For p stages and m micro-batches, some texts say that it is `(p-1)/m`, and others that it is
# `(p-1)/(m+p-1)`. Both are right, but they are fractions of different totals. Suppose that each
# forward and each backward of a micro-batch takes one slot, draw the slots of all ranks, and
# count.

# %%
lab.ask("bubble")

# %%
lab.show("slots", "parallel/gpipe")
lab.reveal("bubble")

# %% [markdown]
# ## A better order
#
# This was GPipe: all forwards, then all backwards. The other schedule is called `1f1b`, for one
# forward, one backward: as soon as a stage can run the backward of a micro-batch, it does so
# before it begins another forward.
#
# The model, the micro-batches and the stages are the same. What does the other order gain? Consider
# what a stage has to keep between the forward of a micro-batch and its backward, and how many
# micro-batches are in flight at any one time.

# %%
lab.ask("gain")

# %%
lab.graph("parallel/1f1b")
lab.show("slots", "parallel/1f1b")
lab.show("stages", "parallel/gpipe", "parallel/1f1b")
lab.reveal("gain")

# %%
lab.end()
