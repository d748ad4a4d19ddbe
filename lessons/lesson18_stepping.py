# A lesson of zerosim in percent format: `python lessons/lesson18_stepping.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson18_stepping")

# %% [markdown]
# # Stop it right there
#
# A replay shows what has happened. This lesson stops what is happening: all ranks of a training run
# stop before each event, and go on step by step. A debugger for a single process cannot do that,
# because the other ranks would give up waiting for the one that it has stopped.
#
# The replay shows the run that was held. Below you see what its ranks were told or asked, and what
# they answered. Record it, and it is your own ranks that answer.

# %%
lab.replay("held/stage-3", at="forward compute hidden.0")

# %% [markdown]
# ## What is there now
#
# Two ranks of ZeRO-3 have stopped in their first forward, just before they compute `hidden.0`. Its
# parameters have just been gathered. Each rank also has its own shard, as always: that is what the
# optimizer will update later.
#
# Count what is in the memory of all ranks together at this moment, for this unit: shards and
# gathered parameters.

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
# Now the gate opens for one rank only, and that one is told to go on to backward. It has its own
# data, and a processor of its own. The other rank stays where it is.
#
# In plain data-parallel training it would compute all of its forward. In ZeRO-3 it needs what the
# other one has. How far does it get?

# %%
lab.ask("alone")

# %%
lab.show("session", "held/stage-3", "alone")
lab.reveal("alone")

# %% [markdown]
# ## A breakpoint
#
# Counting steps is tedious. A breakpoint says in words where to stop: here, before a
# reduce-scatter in backward. Then all ranks run at their own pace, and each compares what it is
# about to do with those words.
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
# At this moment each rank has the gradients of its own data. After the reduce-scatter each has its
# own row of one gradient, for the data of all. Whether the library got that right need not be taken
# on faith: the debugger takes what all ranks have now, adds it up by itself, lets them go on, and
# compares.
#
# The optimizer wants the mean over the batch. What does the debugger find?

# %%
lab.ask("sum")

# %%
lab.show("session", "held/stage-3", "sum")
lab.reveal("sum")

# %% [markdown]
# ## A watch
#
# A watch is a breakpoint on what must never happen. One of them compares, as each forward begins,
# what must be the same on all ranks: in plain data-parallel training that is every parameter, and a
# bit that flips on one rank stops all of them.
#
# Our ranks do ZeRO-3. What is there for such a watch to compare?

# %%
lab.ask("watch")

# %%
lab.show("session", "held/stage-3", "watch")
lab.reveal("watch")

# %%
lab.end()
