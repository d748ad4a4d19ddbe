# A lesson of zerosim in percent format: `python lessons/lesson20_accumulation.py` runs it, an
# editor opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson20_accumulation")

# %% [markdown]
# # Gradient accumulation
#
# A batch that does not fit into memory is cut into micro-batches. Each has its own forward and
# backward, a micro-step. The gradients are added up, and one update ends the step. The result is
# the same as with the large batch. Nothing needs to be sent before the sum is complete, so it
# seems that any number of micro-steps causes the traffic of only one.
#
# Whether this is true depends on what a rank keeps from one micro-step to the next. Look at the
# last micro-step of a ZeRO-1 step, and at what was sent before it.

# %%
lab.replay("accumulate/stage-1", at="update")

# %% [markdown]
# ## Memory for a sum
#
# Data parallelism and ZeRO-1 keep a whole gradient of every parameter. A rank adds each new
# gradient to the sum that it has, without communication. So the micro-steps before the last one
# send nothing.
#
# Count the payload of a whole step of ZeRO-1, in which a reduce-scatter and an all-gather of all
# parameters are one Ψ each.

# %%
lab.ask("one")

# %%
lab.record("accumulate/stage-0", "accumulate/stage-1", "accumulate/stage-2", "accumulate/stage-3")

# %%
lab.show("micro_steps", "accumulate/stage-0", "accumulate/stage-1")
lab.reveal("one")

# %% [markdown]
# ## Memory for a share
#
# ZeRO-2 frees a gradient as soon as it is reduced. What is left is a rank's own part of the sum. In
# the next micro-step it can add to that part. But it has no memory for the other ranks' parts of
# its new gradient, so it must send them again.
#
# ZeRO-3 keeps no other rank's parameters either. How much does it communicate in a micro-step that
# is not the last one? First recall what its forward and its backward need.

# %%
lab.ask("silent")

# %%
lab.show("micro_steps", "accumulate/stage-2", "accumulate/stage-3")
lab.replay("accumulate/stage-3", at="backward")
lab.reveal("silent")

# %% [markdown]
# ## The price of waiting
#
# ZeRO-2 could wait, too: let it keep whole gradients until the last micro-step. FSDP has a switch
# for that, and DeepSpeed users ask for one. It would then send as little as ZeRO-1.
#
# It would also keep as much as ZeRO-1. The states measured in an earlier lesson show how much more
# that is for each parameter of the model. It does not depend on how many micro-steps there are.

# %%
lab.ask("room")

# %%
lab.show("states", "ring/stage-1", "ring/stage-2")
lab.reveal("room")

# %% [markdown]
# ## Accumulating, and still sending
#
# DistributedDataParallel has memory for whole sums, but still reduces in each backward. It cannot
# know that another backward will follow, unless the program says so: that is what `no_sync()` is
# for. The sum is the same with it and without it.
#
# Both were traced: `lessons/programs/accumulating.py` with `no_sync()` and without. How much does
# a program without `no_sync()` communicate?

# %%
lab.ask("forgotten")

# %%
lab.show("micro_steps", "synced/stage-0", "no-sync/stage-0")
lab.show("laws", "synced/stage-0", "no-sync/stage-0")
lab.reveal("forgotten")

# %% [markdown]
# ## Many micro-steps
#
# Take more and more micro-steps, each with a batch as large as before. Then the average traffic of
# a micro-step matters: whatever is sent once in a step becomes negligible, and whatever is sent in
# every micro-step remains.
#
# Put the stages in order by this average. Without accumulation, two of them send exactly the same.

# %%
lab.ask("mean")
lab.reveal("mean")

# %%
lab.end()
