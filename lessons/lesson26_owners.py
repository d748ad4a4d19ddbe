# A lesson of zerosim in percent format: `python lessons/lesson26_owners.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson26_owners")

# %% [markdown]
# # The ZeRO-3 of the paper
#
# Every system that is called ZeRO-3 today shards each tensor: a rank keeps a part of it, and the
# parts are gathered. The paper describes it differently. Each parameter belongs to one rank. The
# owner broadcasts it just before it is needed, in forward and again in backward. The gradients are
# reduced to the owner, the only rank that updates the parameter.
#
# Our engine can do both. Here the ranks take turns as owners of the units. Watch the broadcast of
# one unit.

# %%
lab.replay("owned/stage-3", at="forward compute blocks.2")

# %% [markdown]
# ## One rank sends, the others forward
#
# A broadcast goes along a chain: the owner sends the unit to the next rank, which forwards it, and
# so on; the last rank of the chain only receives it. In an all-gather of the same unit, cut into
# parts, each rank sends every part but one.
#
# For one broadcast, how many times the size of the unit do all ranks send in total?

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
# is a chain that ends at the owner and adds along the way. The paper counts three times Ψ, and so
# does the law of the sharded form.
#
# That is what the ranks send on average. Does each of them send that much?

# %%
lab.ask("each")

# %%
lab.show("sent_by_rank", "cut/stage-3", "owned/stage-3")
lab.reveal("each")

# %% [markdown]
# ## A tree instead of a chain
#
# A chain is not the only way. A library's broadcast is often a tree: each rank that has the unit
# sends it to a rank that does not. That takes fewer rounds. But then the owner sends more than any
# other rank, and in a model with one large unit that is always the same rank.
#
# With a tree and as many ranks as in our run, how many times does an owner send its unit?

# %%
lab.ask("tree")

# %%
lab.show("tree", "owned/stage-3")
lab.reveal("tree")

# %% [markdown]
# ## How much each rank holds
#
# The law of memory is the same, too: all ranks together keep each state once. But an owner keeps
# whole units, and the units are distributed evenly only if every rank gets the same number of
# units of the same size. Our model has an embedding, five blocks and a head, which are assigned to
# the ranks in this order.
#
# One rank has more blocks than the others. How many times as large are its model states as those of
# a rank with sharding?

# %%
lab.ask("most")

# %%
lab.show("by_rank", "cut/stage-3", "owned/stage-3")
lab.reveal("most")

# %% [markdown]
# ## How long it takes
#
# The bytes are the same, but they are not sent at the same time. In a ring every link carries a
# part in every hop. In a chain, one link carries the whole unit, and only then the next one,
# unless the unit is sent in small pieces that follow each other.
#
# Suppose that the unit is sent in one piece, over equally fast links. How many times as long as
# the all-gather does the broadcast take?

# %%
lab.ask("time")
lab.reveal("time")

# %% [markdown]
# ## Why today's systems shard
#
# PyTorch shards each tensor along its first dimension, DeepSpeed shards it as one vector, and both
# gather. Neither sends a byte less than the paper's own form, and in neither does a rank keep a
# whole parameter.
#
# There is another difference, which no ledger of bytes shows. A ring adds each part of a unit in a
# different order; a chain adds the whole unit in one order, which ends at its owner. So
# floating-point sums differ in their last bits: the losses of the two runs agree at first, and
# later only approximately. What is gained by sharding each tensor?

# %%
lab.ask("why")
lab.reveal("why")

# %%
lab.end()
