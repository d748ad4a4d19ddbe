# A lesson of zerosim in percent format: `python lessons/lesson05_zero3.py` runs it, an editor opens
# it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson05_zero3")

# %% [markdown]
# # ZeRO-3: gather when needed
#
# Until now every rank held all the parameters. In ZeRO-3 it holds its own shard of each unit, and
# nothing else. So before a block can compute, an all-gather must collect its shards. As soon as the
# output is computed, the shards of the other ranks are freed again.
#
# Watch one block in the middle of the model. Solid shards belong to the rank, dashed shards are in
# flight, and hatched shards are gathered temporarily. Keep stepping until the block has computed,
# and look at the shards that are left.

# %%
lab.replay("ring/stage-3", at="forward gather blocks.2")

# %% [markdown]
# ## The life of a block
#
# One iteration consists of forward, backward and update. Consider what each of them needs. Forward
# multiplies its input by the weights. Backward needs the same weights to propagate the gradient,
# and produces a gradient for each of them. The update needs the gradient and the optimizer states
# of a parameter, and the rank that keeps its shard has both.
#
# No rank keeps a whole block for later: this is the rule of ZeRO-3. Put the events in the life of
# the block in order before you look, then step through backward and check each of them.

# %%
lab.ask("life")

# %%
lab.replay("ring/stage-3", at="backward gather blocks.2")
lab.reveal("life")

# %% [markdown]
# ## When is it freed?
#
# Sharding the parameters saves nothing if the gathered parameters stay. On the other hand, the
# same block is needed again soon, in backward, and gathering it was not cheap. So when is the
# right moment to free it? Imagine that nothing were freed: what would a rank have in memory by the
# time it computes the last block?
#
# There is one complication: while a block computes, the next one is already being gathered, so that
# no rank stalls. The lesson on overlap measures what this prefetching saves. Mark the first moment
# at which the shards of the other ranks are gone; the answer comes with the memory figure.

# %%
lab.ask("freed")

# %% [markdown]
# ## What does it cost?
#
# You have seen which collectives touch a block in one step. The payload of each is the whole
# block; on a ring, a rank sends all but one of its pieces. The same holds for each unit of the
# model, so you can count for all parameters at once.
#
# Predict the sum, then train. The bars show the bytes requested from PyTorch, phase by
# phase, and the mark shows the paper's law on a ring. Is there a phase in which ZeRO-2 sends
# something and ZeRO-3 does not?

# %%
lab.ask("sent")
lab.ask("after_update")

# %%
lab.record("ring/stage-3")

# %%
lab.show("traffic", "ring/stage-3")
lab.reveal("sent")
lab.reveal("after_update")

# %% [markdown]
# ## How much memory does it save?
#
# Now look at the memory. The run recorded the live tensors whenever a unit began to compute.
# Before you see it: how much of the parameters does a rank still hold at the end of backward,
# counting both its own shards and the parameters that are still gathered?
#
# Then read the figure from top to bottom: time runs downwards. One part changes: the block that is
# computing, and the next one on its way. The other part stays from beginning to end.

# %%
lab.ask("at_update")

# %%
lab.show("gathered", "ring/stage-3")
lab.reveal("freed")
lab.reveal("at_update")

# %% [markdown]
# This is the whole trade-off of ZeRO-3: a rank needs memory for only one share, at the price of
# one more gather. The table compares it with the other stages.

# %%
lab.show("trade")
lab.end()
