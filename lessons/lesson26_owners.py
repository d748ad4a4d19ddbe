# A lesson of zerosim in percent format: `python lessons/lesson26_owners.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson26_owners")

# %% [markdown]
# # The ZeRO-3 of the paper
#
# Every system that is called ZeRO-3 today cuts each tensor: a rank keeps a part of it, and the
# parts are gathered. The paper describes it differently. Each parameter belongs to one rank. The
# owner broadcasts it when it is about to compute, in forward and again in backward, and the
# gradients are reduced to the owner, which alone updates it.
#
# Our engine can do both. Here units have their owners in turn. Watch one of them leave its owner.

# %%
lab.replay("owned/stage-3", at="forward compute blocks.2")

# %% [markdown]
# ## One sends, the others pass on
#
# A broadcast goes along a chain: the owner sends the unit to the next rank, which sends it on, and
# the last one of the chain keeps it. An all-gather of the same unit, cut into parts, lets each rank
# send each part but one.
#
# Count what all ranks send together, in units, for one broadcast.

# %%
lab.ask("together")

# %%
lab.record("cut/stage-3", "owned/stage-3")

# %%
lab.show("hops", "owned/stage-3", "broadcast")
lab.reveal("together")

# %% [markdown]
# ## Three times Ψ, but on which rank?
#
# So a step moves as much as before: a broadcast in forward, one in backward, and a reduction, which
# is a chain that ends at the owner and adds on its way. The paper counts three times Ψ, and so does
# the law of the other form.
#
# That is what the ranks send on average. Does each of them send that much?

# %%
lab.ask("each")

# %%
lab.show("sent_by_rank", "cut/stage-3", "owned/stage-3")
lab.reveal("each")

# %% [markdown]
# ## Or by a tree
#
# A chain is not the only way. The broadcast of a library is often a tree: each rank that has the
# unit sends it to a rank that does not. That takes fewer rounds. But then it is the owner that
# sends most of all, and in a model with one large unit that is always the same rank.
#
# With the ranks of our run and a tree: how many times does an owner send its unit?

# %%
lab.ask("tree")

# %%
lab.show("tree", "owned/stage-3")
lab.reveal("tree")

# %% [markdown]
# ## How much each rank holds
#
# The law of memory is the same, too: all ranks together keep each state once. But an owner keeps
# whole units, and units cannot be dealt out evenly unless there are as many for each rank, all of
# one size. Our model has an embedding, five blocks and a head, dealt out in this order.
#
# One rank has more blocks than the others. How many times the model states of a rank in a sharded
# model does it hold?

# %%
lab.ask("most")

# %%
lab.show("by_rank", "cut/stage-3", "owned/stage-3")
lab.reveal("most")

# %% [markdown]
# ## How long it takes
#
# The bytes are the same, but they are not sent at the same time. In a ring every link carries a
# part in every hop. In a chain one link carries the whole unit, then the next one does, unless the
# unit is sent in small pieces that follow each other.
#
# Suppose that the unit is sent in one piece, over links that are all alike. How many times as long
# as the all-gather does the broadcast take?

# %%
lab.ask("time")
lab.reveal("time")

# %% [markdown]
# ## Why no system has owners
#
# PyTorch cuts each tensor along its first dimension, DeepSpeed cuts it as one vector, and both
# gather. Neither sends a byte less than the paper's own form, and in both no rank keeps a whole
# parameter.
#
# There is another difference, which no ledger of bytes shows. A ring adds each part in an order of
# its own; a chain adds all of a unit in the order that ends at its owner. Sums of floating point
# numbers then differ in their last bits: the losses of the two runs agree at first, and later not
# quite. What does cutting gain?

# %%
lab.ask("why")
lab.reveal("why")

# %%
lab.end()
