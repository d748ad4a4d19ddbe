# A lesson of zerosim in percent format: `python lessons/lesson27_sharded_init.py` runs it, an
# editor opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson27_sharded_init")

# %% [markdown]
# # A model that was never whole
#
# ZeRO keeps a part of a model on each rank. But a program usually first creates the whole model on
# every rank, and then has it sharded. A model that fits only when it is sharded cannot be created
# in this way.
#
# The program `lessons/programs/set_up.py` sets up the same eight layers in several ways, in fp32
# on four ranks. PyTorch itself records its allocations from the first line of the program.

# %% [markdown]
# ## Whole first
#
# Each rank creates all layers. Then the engine copies one layer after another into flat memory,
# keeps its own part, and frees the original layer. When training begins, a rank has its part and
# nothing else.
#
# How much had PyTorch allocated at the peak, in whole models?

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
# On PyTorch's `meta` device, a tensor has a shape but no storage, so a model on this device takes
# no memory. The engine allocates memory for one module at a time, initializes its parameters with
# `reset_parameters`, and shards them before it continues with the next module.
#
# The shards of the finished layers stay in memory; the current layer exists twice, in its original
# form and as a flat vector. What is the peak now, when the last layer is created?

# %%
lab.ask("late")

# %%
lab.show("set_ups", "made-whole/stage-3", "made-late/stage-3")
lab.reveal("late")

# %% [markdown]
# ## The same model?
#
# Parameters are drawn at random, in sequence, from one generator. Layers that are created on the
# meta device draw no numbers then; they draw them later, one layer after another.
#
# Both runs start with the same seed and train on the same data. Are their first losses the same,
# to the last bit?

# %%
lab.ask("same")
lab.reveal("same")

# %% [markdown]
# ## Each rank draws its part
#
# FSDP2 goes further. `fully_shard` shards a model that is still on the meta device; `to_empty`
# then allocates only a rank's own shards. No rank ever has a whole layer, and nothing is sent. But
# now each rank draws the values of its shards by itself.
#
# All ranks have set the same seed, as is customary. How many different shards of the first layer
# are there, on these CPUs?

# %%
lab.ask("parts")

# %%
lab.record("made-fsdp2/stage-3", "made-fsdp2-late/stage-3")

# %%
lab.reveal("parts")

# %% [markdown]
# ## The traffic of set-up
#
# If each rank creates the whole model, rank zero can broadcast its own parameters, and the seeds
# do not matter. DDP and zerosim's engine do so. FSDP2 relies on the seeds.
#
# Here, DeepSpeed's stage 3 was given a whole model. It broadcasts and shards the model as
# `zero.Init` would, broadcasts all of it once more, and gathers each parameter to attach its
# hooks. A model that is created under `zero.Init` is broadcast only once, parameter by parameter,
# during its creation. How many whole models did DeepSpeed's calls send here before the first step?

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
# Now put the methods in order. Remember what else is in memory: DDP keeps the whole model, and as
# much again for its gradient buckets; and it copies what it broadcasts into one more buffer before
# sending it.

# %%
lab.ask("order")

# %%
lab.show("set_ups")
lab.reveal("order")

# %%
lab.end()
