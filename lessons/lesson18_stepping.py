# A lesson of zerosim in percent format: `python lessons/lesson18_stepping.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson18_stepping")

# %% [markdown]
# # Stop it right there
#
# A replay shows what has happened. This lesson stops a run while it is happening: all ranks stop
# before each event, and you step through the events. A debugger for a single process cannot do
# that, because the other ranks would time out while they wait for the stopped one.
#
# The replay shows the stopped run. Below you see the commands of the debugger and the answers of
# the ranks. If you record the run yourself, the answers come from your own ranks.

# %%
lab.replay("held/stage-3", at="forward compute hidden.0")

# %% [markdown]
# ## What is in memory now
#
# Two ranks of ZeRO-3 have stopped in their first forward, just before they compute `hidden.0`. Its
# parameters have just been gathered. Each rank also has its own shard, as always, which the
# optimizer will update later.
#
# Count what is in the memory of all ranks at this moment, for this unit: shards and gathered
# parameters.

# %%
lab.ask("copies")

# %%
lab.record("held/stage-3")

# %%
lab.show("session", "held/stage-3", "stand")
lab.reveal("copies")

# %% [markdown]
# ## One rank alone
#
# Now the debugger lets only one rank continue, to the beginning of backward. It has its own data
# and its own processor. The other rank stays where it is.
#
# In plain data-parallel training it would compute all of its forward. In ZeRO-3, it needs the
# shards of the other rank. How far does it get?

# %%
lab.ask("alone")

# %%
lab.show("session", "held/stage-3", "alone")
lab.reveal("alone")

# %% [markdown]
# ## A breakpoint
#
# Counting steps is tedious. A breakpoint describes where to stop: here, before a reduce-scatter in
# backward. Then all ranks run at their own pace, and each compares its next event with this
# description.
#
# Each unit's gradients are reduced as soon as its backward is done. Before which unit's reduction
# do the ranks stop first?

# %%
lab.ask("first")

# %%
lab.show("session", "held/stage-3", "stops")
lab.reveal("first")

# %% [markdown]
# ## Is the sum right?
#
# At this moment each rank has the gradients of its own data. After the reduce-scatter, each has
# its own shard of the gradient summed over the data of all ranks. You need not trust the library:
# the debugger itself adds up the current gradients of all ranks, lets the ranks continue, and
# compares.
#
# The optimizer needs the mean over the batch. What does the debugger find?

# %%
lab.ask("sum")

# %%
lab.show("session", "held/stage-3", "sum")
lab.reveal("sum")

# %% [markdown]
# ## A watch
#
# A watch is a breakpoint on a condition that must never occur. One watch compares, at the beginning
# of each forward, the data that must be the same on all ranks. In plain data-parallel training,
# that is every parameter, so a single flipped bit on one rank stops all of them.
#
# Our ranks run ZeRO-3. What can such a watch compare there?

# %%
lab.ask("watch")

# %%
lab.show("session", "held/stage-3", "watch")
lab.reveal("watch")

# %%
lab.end()
