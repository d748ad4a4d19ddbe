# A lesson of zerosim in percent format: `python lessons/lesson02_data_parallel.py` runs it, an
# editor opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson02_data_parallel")

# %% [markdown]
# # Data parallelism: same model, different data
#
# The simplest way to train with several ranks is to give each of them the whole model and a
# different part of the text. All ranks compute at the same time, so a step processes more text in
# the same time. But each rank reads only its own part. If every rank updated its parameters by
# itself, there would soon be as many different models as ranks.
#
# So the ranks have to combine their results before they update anything. This lesson covers what
# they communicate, when, and at what cost.

# %%
lab.replay("ring/stage-0", at="forward")

# %% [markdown]
# ## What the ranks must communicate
#
# The ranks start from the same parameters, and they must have the same parameters again after the
# step. Their data differ, so their activations differ, their losses differ, and so does everything
# that backward computes. Which of these must the ranks combine, so that each rank can then perform
# the same update by itself? One is enough: find it.

# %%
lab.ask("travels")

# %%
lab.record("ring/stage-0")

# %%
lab.replay("ring/stage-0", at="backward reduce head hop 1")
lab.reveal("travels")

# %% [markdown]
# ## How much they send
#
# Every rank needs the sum of all gradients, so the collective is an all-reduce. You know what that
# costs on a ring. All gradients together have as many elements as the model: one value for each
# parameter, in the format that the model computes in. We count in Ψ: sending one Ψ means sending
# as many bytes as all parameters have. How much does one rank send in a whole step?

# %%
lab.ask("sent")

# %%
lab.show("traffic", "ring/stage-0")
lab.show("ledgers", "ring/stage-0")
lab.reveal("sent")

# %% [markdown]
# ## When it can begin
#
# Backward computes the gradients unit by unit: first the head, then the blocks, and last the
# embedding. Sending takes time but no arithmetic; computing takes time but no network. Doing one
# after the other wastes time. Mark the first moment by which an all-reduce has been called. Then
# put some units in the order in which their gradients are reduced.

# %%
lab.ask("first")
lab.ask("order")

# %%
lab.replay("ring/stage-0", at="backward compute blocks.3")
lab.reveal("first")
lab.reveal("order")

# %% [markdown]
# ## What data parallelism does not divide
#
# Now there are several ranks, and the work is divided among them: each processes only its part of
# the batch. You know what one process keeps for each parameter. How much does each rank keep here
# when the update of its second step begins? Look into the memory of rank 0, and then, in the
# replay, at that of the others: what do you notice when you compare them?

# %%
lab.ask("kept")

# %%
lab.show("states", "ring/stage-0")
lab.replay("ring/stage-0", at="update")
lab.reveal("kept")

# %%
lab.end()
