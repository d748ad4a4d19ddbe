# A lesson of zerosim in percent format: `python lessons/lesson13_offload.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson13_offload")

# %% [markdown]
# # ZeRO-Offload
#
# A device has little memory and computes fast. Its host has a lot of memory and computes slowly.
# Most of the model states belong to the optimizer, which does the least computation: a few
# operations for each parameter, once a step. So move the optimizer to the host.
#
# The bus between them is slow, so everything depends on how little has to cross it. In this lesson
# you look for the best place to cut a step in two, check the bytes against the trace, and train a
# model that did not fit.

# %%
lab.replay("offload/stage-2", at="backward copy")

# %% [markdown]
# ## It does not fit
#
# Two ranks train with ZeRO-2 on devices with a small limit. The parameters are whole on each of
# them; the gradients and the optimizer states are partitioned.
#
# The limit is in the question, and so is the number of parameters. Forward and backward succeed,
# because the activations fit. Use the law of ZeRO-2 to add up what a rank has to keep during the
# update. Then subtract the states that move to the host together with the optimizer.

# %%
lab.ask("fits")
lab.ask("stays")

# %%
lab.record("device/stage-2", "full/stage-2", "offload/stage-2", "delayed/stage-2")

# %%
lab.show("tiers", "device/stage-2", "offload/stage-2")
lab.reveal("fits")
lab.reveal("stays")

# %% [markdown]
# ## Where to cut
#
# Draw a step as a flow of data. Parameters go into forward and backward, and gradients come out,
# both in sixteen bits. The update reads gradients, momentum, variance and master weights, and
# writes the last three, all in fp32 except the gradients. At the end, the master weights are
# rounded to give the new parameters.
#
# Forward and backward belong to the device, the update to the host. Each edge that leads from one
# to the other crosses the bus. Consider a proposal: round the new parameters on the device, to save
# the host some work.

# %%
lab.ask("rounding")

# %%
lab.show("cuts")
lab.reveal("rounding")

# %% [markdown]
# ## What really crosses
#
# The best cut moves gradients down and parameters up. Now there are two ranks, and this is ZeRO:
# which gradients does a rank need on its host, and which parameters does it update? Predict how
# many bytes cross the bus of one rank in a step, and then look at each copy in the trace.

# %%
lab.ask("crosses")

# %%
lab.show("copies", "offload/stage-2")
lab.reveal("crosses")

# %% [markdown]
# ## One step late
#
# Adam is slow on a CPU, and the device waits. With the delayed update it does not wait: while the
# host performs the update of one step, the device already computes the next step, with parameters
# to which the latest gradients have not been applied.
#
# Is this still the same training? The first loss is the same in all runs, since nothing was
# updated before it. What is the second loss in the run with the delayed update?

# %%
lab.ask("late")

# %%
lab.show("losses", "device/stage-2", "offload/stage-2", "delayed/stage-2")
lab.reveal("late")

# %%
lab.end()
