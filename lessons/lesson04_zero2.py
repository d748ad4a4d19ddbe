# A lesson of zerosim in percent format: `python lessons/lesson04_zero2.py` runs it, an editor opens
# it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson04_zero2")

# %% [markdown]
# # ZeRO-2: free after use
#
# In ZeRO-1 a rank updates its own shard only. For that it needs the summed gradient of its shard.
# But backward produces the gradients of whole units, and ZeRO-1 keeps them whole until the next
# step overwrites them, although the rank no longer needs most of each.
#
# ZeRO-2 changes one thing: once the gradient of a unit has been reduced, it is freed, and the rank
# keeps only its own shard of the sum. Find out when exactly a gradient may be freed, and what that
# saves.

# %%
lab.replay("ring/stage-2", at="backward reduce hop 1")

# %% [markdown]
# ## Does it send less?
#
# Begin with the traffic. Each rank now keeps only a share of the gradients, so you might think
# that it also sends only a share. Go through a step as before: which collectives are there, in
# which phase, and how large is the payload of each? Decide before you run anything.

# %%
lab.ask("compare")

# %%
lab.record("ring/stage-1", "ring/stage-2")

# %%
lab.show("purposes", "ring/stage-1", "ring/stage-2")
lab.reveal("compare")

# %% [markdown]
# ## When a gradient may be freed
#
# Follow the gradient of blocks.3. Once backward has computed it, it travels around the ring while
# backward is already working on blocks.2. As long as it is being sent, it must not be overwritten.
# When the reduce-scatter is over, the rank has what it needs. Mark the first moment at which the
# whole gradient of blocks.3 is no longer in memory.

# %%
lab.ask("freed")

# %%
lab.show("gradients", "ring/stage-2")
lab.replay("ring/stage-2", at="backward compute blocks.1")
lab.reveal("freed")

# %% [markdown]
# ## What is left for the update
#
# When backward is over, all whole gradients are gone. Count again what one rank keeps for each
# parameter of the model at that moment. The parameters are whole; the gradients and the optimizer
# states are partitioned. Do not look up the result of the previous lesson: derive this one
# yourself.

# %%
lab.ask("kept")

# %%
lab.show("states", "ring/stage-1", "ring/stage-2")
lab.replay("ring/stage-2", at="update")
lab.reveal("kept")

# %% [markdown]
# ## The size of a bucket
#
# The gradients that one collective reduces are called a bucket. Here a bucket is one unit. It could
# be smaller, so that a large unit is sent in several parts, or larger, so that several units are
# sent together. How does that change the bytes that a rank sends in a step? Predict it, then record
# a step with small buckets. And how does it change the gradient memory during backward? Vary the
# size and look at the figure of the gradients again.

# %%
lab.ask("buckets")

# %%
lab.record("buckets/stage-2")

# %%
lab.show("ledgers", "ring/stage-2", "buckets/stage-2")
lab.reveal("buckets")

# %%
lab.end()
