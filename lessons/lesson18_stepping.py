# A lesson of zerosim in percent format: `python lessons/lesson18_stepping.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson18_stepping")

# %% [markdown]
# # Stop it right there
#
# A replay shows what has happened. This lesson stops what is happening: all ranks of a training
# stand before each event, and go on step by step. A debugger of one process cannot do that, because
# the other ranks give up waiting for it.
#
# The replay shows the run that was held. Below you see what was said to its ranks, and what they
# answered. Record it, and it is your own ranks that are asked.

# %%
lab.replay("held/stage-3", at="forward compute hidden.0")

# %% [markdown]
# ## What is there now
#
# Two ranks of ZeRO-3 stand before they compute `hidden.0`, in their first forward. Its parameters
# have just been gathered. Each rank also has its own shard, as ever: the optimizer changes that one
# later.
#
# Count what lies in the memory of all ranks together at this moment, for this unit: shards and
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
# Now the gate opens for one rank only, and that one is told to go to the backward. It has its own
# data, and a processor of its own. The other rank stays where it is.
#
# In data parallel training it would compute all of its forward. In ZeRO-3 it needs what the other
# one has. How far does it come?

# %%
lab.ask("alone")

# %%
lab.show("session", "held/stage-3", "alone")
lab.reveal("alone")

# %% [markdown]
# ## A breakpoint
#
# Nobody wants to count steps. A breakpoint says in words where to stop: here before a
# reduce-scatter in backward. Then all ranks run at their own pace, and each compares what it is
# about to do with that.
#
# Each unit's gradients are reduced as soon as its backward is done. Before which of them do they
# stop first?

# %%
lab.ask("first")

# %%
lab.show("session", "held/stage-3", "stops")
lab.reveal("first")

# %% [markdown]
# ## Is the sum right?
#
# At this moment each rank has the gradients of its own data. After the reduce-scatter each has its
# row of one gradient, for the data of all. Whether the library did that can be asked, and needs no
# faith: the debugger takes what all ranks have now, adds it up by itself, lets them go on, and
# compares.
#
# The optimizer wants the mean over the batch. What does it find?

# %%
lab.ask("sum")

# %%
lab.show("session", "held/stage-3", "sum")
lab.reveal("sum")

# %% [markdown]
# ## A watch
#
# A watch is a breakpoint on what must never happen. One of them compares, as each forward begins,
# what all ranks must have alike: in data parallel training that is every parameter, and a bit that
# flips on one rank stops all of them.
#
# Our ranks do ZeRO-3. What is there for such a watch to compare?

# %%
lab.ask("watch")

# %%
lab.show("session", "held/stage-3", "watch")
lab.reveal("watch")

# %%
lab.end()
