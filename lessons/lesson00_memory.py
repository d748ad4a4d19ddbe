# A lesson of zerosim in percent format: `python lessons/lesson00_memory.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson00_memory")

# %% [markdown]
# # One process and its 16 bytes per parameter
#
# Before you distribute training over several machines, look at what it needs in one process. This
# process trains a small language model: it reads text, computes a loss, and adjusts its parameters
# a little. The number of parameters is called Ψ, and nearly everything in this course is measured
# in Ψ.
#
# The model computes in bf16, a number format of two bytes. How much memory does the process need
# for each parameter? You will predict first; then you will run it and look into its memory.

# %%
lab.replay("one/stage-0", at="forward")

# %% [markdown]
# ## What one parameter costs
#
# Take a single parameter. Forward multiplies by it, and backward computes its gradient. Then Adam,
# the optimizer, updates it. For the update, Adam keeps a momentum, a variance, and a copy of the
# parameter in fp32, because in bf16 a small change would be rounded away.
#
# Do not count activations yet: they depend on the batch, and they come and go. Count only what
# belongs to the parameter itself: its **model states**.

# %%
lab.ask("bytes_each")

# %%
lab.record("one/stage-0")

# %%
lab.show("roles", "one/stage-0")
lab.reveal("bytes_each")

# %% [markdown]
# ## When each part is allocated
#
# A process does not allocate everything at the beginning. A process that has just loaded its model
# holds much less than one that has taken its first step; that is why a training run may last a few
# seconds before it fails with "out of memory". You see the very first step here. Put the parts of
# its memory in the order in which they appear.

# %%
lab.ask("birth")

# %%
lab.replay("one/stage-0", at="backward")
lab.reveal("birth")

# %% [markdown]
# ## The peak
#
# Activations pile up during forward, because backward will need them. Backward uses them up and
# produces gradients. The update allocates the optimizer states. So memory rises in three waves.
# Mark the moment at which this process holds the most memory. Think of the sizes that you have just
# seen, and of the parts that are in memory at the same time.

# %%
lab.ask("fullest")

# %%
lab.show("moments", "one/stage-0")
lab.replay("one/stage-0", at="end")
lab.reveal("fullest")

# %% [markdown]
# ## A model of realistic size
#
# Our model is tiny, so that it trains while you watch. The law holds for any size: model states are
# proportional to Ψ. Take the model that the authors of ZeRO use as their example, with seven and a
# half billion parameters, and count what one process would have to hold. A large GPU has about
# eighty GB. Does the model fit?

# %%
lab.ask("large")
lab.reveal("large")

# %%
lab.end()
