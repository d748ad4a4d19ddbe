# A lesson of zerosim in percent format: `python lessons/lesson27_sharded_init.py` runs it, an
# editor opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson27_sharded_init")

# %% [markdown]
# # A model that was never whole
#
# ZeRO keeps a part of a model on each rank. But a program usually makes the model first, all of it,
# on every rank, and hands it over to be divided. A model that fits only when it is divided cannot
# be made in this way.
#
# The program `lessons/programs/set_up.py` sets the same eight layers up in several ways, in fp32 on
# four ranks. PyTorch itself records what it allocates, from the first line of the program on.

# %% [markdown]
# ## Whole first
#
# Each rank makes all layers. Then the engine moves one layer after another into its flat memory,
# keeps its own part, and frees the layer as it was made. When training begins a rank has its part
# and nothing else.
#
# How much had PyTorch allocated at the peak? Count in whole models.

# %%
lab.ask("whole")

# %%
lab.record("made-whole/stage-3", "made-late/stage-3")

# %%
lab.show("set_ups", "made-whole/stage-3")
lab.reveal("whole")

# %% [markdown]
# ## Shapes without memory
#
# On PyTorch's device `meta` a tensor has a shape and no memory. A model on this device takes no
# memory. The engine gives memory to one module at a time, lets it draw its parameters with
# `reset_parameters`, and divides them before it continues with the next.
#
# Parts of layers that are done stay; the current layer exists as it was made, and once more as a
# flat vector. What is the peak now, when the last layer is made?

# %%
lab.ask("late")

# %%
lab.show("set_ups", "made-whole/stage-3", "made-late/stage-3")
lab.reveal("late")

# %% [markdown]
# ## The same model?
#
# Parameters are drawn at random, and the numbers of a generator come one after another. Made on the
# meta device the layers draw nothing; they draw later, one by one.
#
# Both runs began with the same seed and train on the same data. Compare their first losses, to the
# last bit.

# %%
lab.ask("same")
lab.reveal("same")

# %% [markdown]
# ## Each rank draws its part
#
# FSDP2 goes further. `fully_shard` divides a model that is still on the meta device; `to_empty`
# then allocates only a rank's own parts. No rank ever has a whole layer, and nothing is sent. But
# each rank now draws its parts by itself.
#
# All ranks have set the same seed, as one does. How many different parts of the first layer are
# there, on these CPUs?

# %%
lab.ask("parts")

# %%
lab.record("made-fsdp2/stage-3", "made-fsdp2-late/stage-3")

# %%
lab.reveal("parts")

# %% [markdown]
# ## What set-up sends
#
# If a model is made whole on each rank, rank zero can broadcast its own parameters, and seeds do
# not matter. DDP and zerosim's engine do so. FSDP2 relies on the seeds.
#
# DeepSpeed's third stage was given a whole model here. It divides it as `zero.Init` would, with a
# broadcast, broadcasts all of it once more, and gathers each parameter to attach its hooks. A model
# that is made inside of `zero.Init` is broadcast once, parameter by parameter, as each is made. How
# much did its calls carry here before the first step, in whole models?

# %%
lab.ask("sent")

# %%
lab.record("made-ddp/stage-0")

# %%
lab.show("set_up_calls", "deepspeed/deepspeed-3", "made-ddp/stage-0", "made-late/stage-3")
lab.reveal("sent")

# %% [markdown]
# ## All of them
#
# Now put the ways in order. Remember what else is in memory: DDP keeps the whole model, and as much
# again for its buckets of gradients; and what it broadcasts is copied into one more buffer before
# it is sent.

# %%
lab.ask("order")

# %%
lab.show("set_ups")
lab.reveal("order")

# %%
lab.end()
