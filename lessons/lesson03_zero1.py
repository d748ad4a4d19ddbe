# A lesson of zerosim in percent format: `python lessons/lesson03_zero1.py` runs it, an editor opens
# it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson03_zero1")

# %% [markdown]
# # ZeRO-1: each rank updates a share
#
# In data-parallel training each rank keeps the states of the whole optimizer: an fp32 master copy,
# a momentum and a variance for every parameter. These are the largest part of the model states,
# and all ranks perform the same update with them: each rank repeats the work of every other.
#
# ZeRO-1 has one idea. Cut each unit into as many shards as there are ranks, and let each rank
# update its own shard only. Then it needs the optimizer's states of that shard and of nothing else.
# What has to change in a step for this to work?

# %%
lab.replay("ring/stage-1", at="update compute blocks.2")

# %% [markdown]
# ## The owner of a shard
#
# Call the shards of a unit a, b, c and so on. For each of them there is one rank that updates it:
# its **owner**. To update a shard, the owner needs the sum of its gradients over all ranks; no
# other rank needs that sum. You know the collective that leaves exactly this on each rank. Think
# of where its sums end up, and click.

# %%
lab.ask("owner")

# %%
lab.record("ring/stage-0", "ring/stage-1")

# %%
lab.show("hops", "ring/stage-1", "reduce-scatter")
lab.replay("ring/stage-1", at="backward reduce blocks.2 hop 1")
lab.reveal("owner")

# %% [markdown]
# ## One block through one step
#
# After the update every rank has one new shard of each unit, and old values everywhere else. It
# cannot begin the next forward with these. So something must come after the update that data
# parallelism did not need. Follow blocks.2, and put what happens to it in order.

# %%
lab.ask("order")

# %%
lab.replay("ring/stage-1", at="update gather blocks.2 hop 1")
lab.reveal("order")

# %% [markdown]
# ## What travels, and how much
#
# In place of the all-reduce there are now two collectives: one before the update and one after it.
# What does the second one carry? And is the total more traffic than in data parallel, or less? Do
# not guess: write down the two collectives of which the all-reduce of data parallelism consists,
# and compare them with those of ZeRO-1.

# %%
lab.ask("gathered")
lab.ask("compare")

# %%
lab.show("purposes", "ring/stage-0", "ring/stage-1")
lab.reveal("gathered")
lab.reveal("compare")

# %% [markdown]
# ## What is saved
#
# Parameters and gradients are still whole on every rank: forward and backward need the former, and
# backward produces the latter. The optimizer's states are divided among the ranks. Count the bytes
# that one rank keeps for each parameter of the model. Start from the roles that you know, and
# divide only what ZeRO-1 divides.

# %%
lab.ask("kept")

# %%
lab.show("states", "ring/stage-0", "ring/stage-1")
lab.reveal("kept")

# %%
lab.end()
