# A lesson of zerosim in percent format: `python lessons/lesson23_activations.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson23_activations")

# %% [markdown]
# # What forward leaves for backward
#
# ZeRO partitions model states. The rest of a device's memory is often larger: the activations,
# which forward produces and backward needs. They do not depend on Ψ alone. They grow with the
# number of sequences b in a micro-batch, of tokens s in each, of heads a and of layers, and with
# the width h.
#
# There is a law for them, as exact as that of the model states. Look at a process that has
# finished its forward, and at its activations, block by block.

# %%
lab.replay("one/stage-0", at="backward")

# %% [markdown]
# ## One block, part by part
#
# Between two blocks there are b·s·h numbers of two bytes. Inside a block, every operation keeps
# what its backward needs: matrix products, norms and GELU keep their inputs, and dropout keeps a
# mask of one byte for each number.
#
# The table has all parts for a block with dropout that keeps its attention scores. Ours has no
# dropout, and its attention is flash attention, which keeps no scores. Cross out the parts that it
# does not have, and add up the rest.

# %%
lab.show("saved", "one/stage-0")
lab.ask("block")

# %%
lab.record("one/stage-0")

# %%
lab.show("kept", "one/stage-0")
lab.reveal("block")

# %% [markdown]
# ## The square
#
# All of that is proportional to the tokens. Scores are not: there is one for each pair of tokens
# and each head. If they are stored, they are stored three times: after softmax, after dropout, and
# as the dropout mask. With longer sequences, they soon take most of the memory.
#
# So the law has two terms, 34sbh + 5as²b. Take GPT-3 with its long sequences. How many bytes does
# the second term add for each of the b·s·h numbers?

# %%
lab.ask("scores")
lab.reveal("scores")

# %% [markdown]
# ## From sixty to eight
#
# The ZeRO paper estimates twelve times b·s·h numbers in each block, which gives sixty GB for GPT-2
# with one and a half billion parameters. Then it keeps only checkpoints and recomputes the rest:
# about eight GB are left, for a third more computation. Eight is roughly the sixty divided by the
# square root of the number of blocks, which balances the checkpoints against what lies between two
# of them.
#
# Engines usually keep one checkpoint for each block, its input. How much is that?

# %%
lab.ask("checkpoints")
lab.reveal("checkpoints")

# %% [markdown]
# ## From thirty-three to two
#
# For a model of a hundred billion parameters, the checkpoints alone take too much memory.
# Tensor-parallel ranks all keep the same ones, so the paper lets each keep only its own part
# (P_a). It says that this reduces thirty-three GB on each GPU to two.
#
# Check it for the paper's largest runs of this size, which have the blocks given in the question
# and sixteen tensor-parallel ranks. Does the paper count one byte for each number of a checkpoint,
# or two?

# %%
lab.ask("bytes")
lab.reveal("bytes")

# %% [markdown]
# ## What tensor parallelism divides
#
# Two ranks that compute a block together divide its heads and the inner numbers of its MLP. The
# input of the block and the outputs of its norms are whole on each of them.
#
# Here is the same model on two such ranks, with nothing recomputed. What fraction of the block's
# activations does a rank still keep?

# %%
lab.ask("tensor")

# %%
lab.record("kept/stage-1")

# %%
lab.show("kept", "one/stage-0", "kept/stage-1")
lab.reveal("tensor")

# %% [markdown]
# ## All of it together
#
# Sequence parallelism cuts the activations that tensor parallelism leaves whole, along the tokens.
# Selective recomputation recomputes only the scores, which are large but quick to compute. Full
# recomputation keeps the input of each block and nothing else.
#
# For a model of the size of GPT-3 on eight tensor-parallel GPUs: put the variants in order,
# beginning with the one that keeps the least.

# %%
lab.ask("order")

# %%
lab.show("variants")
lab.reveal("order")

# %%
lab.end()
