# A lesson of zerosim in percent format: `python lessons/lesson16_scale.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson16_scale")

# %% [markdown]
# # Does it scale?
#
# Nobody brings a cluster to class. So these runs are dry: the engine does what it always does, on
# ranks that are not there, with tensors that have a shape and no memory. Order, bytes and groups
# are its own. Times are predicted, from what the machine can compute and send.
#
# The machine is the kind of cluster on which ZeRO was first measured. The model has
# four blocks as wide as those of a large one. Watch a gather beside the computation of
# the unit before it.

# %%
lab.replay("tokens-1024/stage-3", at="forward compute blocks.1")

# %% [markdown]
# ## When a gather hides
#
# ZeRO-3 gathers each unit before it computes. For a parameter that is two bytes over the network,
# and two operations for each token that the device has. More tokens make the computation longer,
# and the gather stays as it was.
#
# So there is a number of tokens from which on the gather is hidden. All devices of a node send at
# the same time, and what arrives goes on within the node, which is faster. Work it out from what a
# device computes and what its node sends.

# %%
lab.ask("threshold")
lab.reveal("threshold")

# %% [markdown]
# ## Few tokens
#
# The first run has far fewer tokens on each device than that, the second nearly as many, the third
# a few times as many. The model, the number of devices and the bytes are the same in all of them.
#
# Say what the critical path of the first run consists of. Then look at all three.

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
# In the second run there are fewer tokens than C over W asks for, and still most of its
# communication is hidden. A formula takes a device at its best, and no device is. If it computes
# more slowly than its data sheet says, then what happens to the number of tokens that hide a
# gather?
#
# Think of the two times that were set equal, and of which of them has changed.

# %%
lab.ask("slower")
lab.reveal("slower")

# %% [markdown]
# ## The same batch on more devices
#
# A batch cannot grow for ever: training suffers. So more devices often mean fewer tokens on each.
# Take four times as many devices for the same batch, from the second run to one more.
# Computing is done by four times as many. What is gathered on each device is what it was.
#
# How many times as fast will a step be?

# %%
lab.ask("spread")

# %%
lab.show("scales", "tokens-1024/stage-3", "spread/stage-3")
lab.reveal("spread")

# %%
lab.end()
