# A lesson of zerosim in percent format: `python lessons/lesson16_scale.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson16_scale")

# %% [markdown]
# # Does it scale?
#
# A classroom has no cluster. So these are dry runs: the engine runs as usual, but on simulated
# ranks, with tensors that have a shape but no memory. The order, the bytes and the groups come from
# the engine. The times are predicted from the speed of the devices and of the network.
#
# The machine is a cluster like the one on which ZeRO was first measured. The model has four
# blocks, as wide as those of a large model. Watch a gather overlap with the computation of the
# previous unit.

# %%
lab.replay("tokens-1024/stage-3", at="forward compute blocks.1")

# %% [markdown]
# ## When a gather hides
#
# ZeRO-3 gathers each unit before it computes. For each parameter, gathering moves two bytes over
# the network, and computing takes two operations for each token on the device. More tokens make
# the computation longer, but not the gather.
#
# So above a certain number of tokens, the gather is hidden. All devices of a node send at the same
# time, and received parts are passed on within the node, which is faster. Compute this number from
# the operations of a device and the bytes that its node sends in a second.

# %%
lab.ask("threshold")
lab.reveal("threshold")

# %% [markdown]
# ## Few tokens
#
# The first run has far fewer tokens on each device than that, the second nearly as many, the third
# a few times as many. The model, the number of devices and the bytes are the same in all three.
#
# What does the critical path of the first run mostly consist of? Answer, then look at all three.

# %%
lab.ask("few")

# %%
lab.record("tokens-256/stage-3", "tokens-1024/stage-3", "tokens-4096/stage-3")

# %%
lab.show("scales", "tokens-256/stage-3", "tokens-1024/stage-3", "tokens-4096/stage-3")
lab.reveal("few")

# %% [markdown]
# ## Sooner than the formula says
#
# The second run has fewer tokens than C over W requires, and still most of its communication is
# hidden. The formula assumes a device at its peak rate, which no device ever reaches. If it
# computes more slowly than its data sheet says, what happens to the number of tokens that hide a
# gather?
#
# Consider the two times that the formula equates. Which of them has changed?

# %%
lab.ask("slower")
lab.reveal("slower")

# %% [markdown]
# ## The same batch on more devices
#
# A batch cannot grow without limit, because convergence suffers. So more devices often mean fewer
# tokens on each. One more run takes the batch of the second and spreads it over four times as many
# devices. Four times as many devices share the computation, but each device gathers as much as
# before.
#
# How many times as fast will a step be?

# %%
lab.ask("spread")

# %%
lab.show("scales", "tokens-1024/stage-3", "spread/stage-3")
lab.reveal("spread")

# %%
lab.end()
