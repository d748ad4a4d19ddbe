# A lesson of zerosim in percent format: `python lessons/lesson03_zero1.py` runs it, an editor opens
# it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson03_zero1")

# %% [markdown]
# # ZeRO-1: each rank updates a share
#
# In data-parallel training, each rank keeps all optimizer states: an fp32 master copy, a momentum
# and a variance for every parameter. These are the largest part of the model states, and all ranks
# perform the same update with them: each rank repeats the work of every other rank.
#
# The idea of ZeRO-1 is simple. Cut each unit into as many shards as there are ranks, and let each
# rank update only its own shard. Then it needs the optimizer states of that shard and no others.
# What has to change in a step for this to work?

# %%
lab.replay("ring/stage-1", at="update compute blocks.2")

# %% [markdown]
# ## The owner of a shard
#
# Call the shards of a unit a, b, c and so on. Each of them is updated by one rank, its **owner**.
# To update a shard, the owner needs the sum of its gradients over all ranks; no other rank needs
# that sum. You know the collective that leaves exactly one such sum on each rank. Recall where each
# sum ends up, and click.

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
# After the update every rank has one new shard of each unit, and old values everywhere else. The
# next forward cannot begin with these. So something must follow the update that data parallelism
# did not need. Follow blocks.2, and put what happens to it in order.

# %%
lab.ask("order")

# %%
lab.replay("ring/stage-1", at="update gather blocks.2 hop 1")
lab.reveal("order")

# %% [markdown]
# ## What is sent, and how much
#
# In place of the all-reduce there are now two collectives: one before the update and one after it.
# What does the second one send? And is the total traffic more than with data parallelism, or less?
# Do not guess: write down the two collectives that make up the all-reduce of data parallelism, and
# compare them with those of ZeRO-1.

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
# backward produces the latter. Only the optimizer states are partitioned among the ranks. Count
# the bytes that one rank keeps for each parameter of the model. Start from the roles that you
# know, and divide only what ZeRO-1 divides.

# %%
lab.ask("kept")

# %%
lab.show("states", "ring/stage-0", "ring/stage-1")
lab.reveal("kept")

# %%
lab.end()
