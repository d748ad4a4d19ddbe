# A lesson of zerosim in percent format: `python lessons/lesson17_what_if.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson17_what_if")

# %% [markdown]
# # What if?
#
# A faster network, a faster processor, a colleague who mends the slow machine: which of them would
# make a step shorter, and by how much? Nobody has to buy them first. A recorded run says what
# waited for what, and how long each thing took. So it can be timed again with one thing changed.
#
# The run is the one with the slow rank, which sleeps in its forward. What follows is predicted;
# only the first time in each row is measured.

# %%
lab.replay("slow/stage-3", at="forward compute hidden.1")

# %% [markdown]
# ## A faster network
#
# The other rank waits in nearly every collective, and all collectives look slow in its timeline. It
# is tempting to blame the network. Suppose it carried ten times as many bytes in a second.
#
# The graph keeps its order: a collective still begins when its last rank has come. Only the bytes
# move faster then. Say which part of its time the step would take.

# %%
lab.ask("network")
lab.reveal("network")

# %% [markdown]
# ## Without the slow rank
#
# Now let the slow rank take as long for each computation as the other one does, and change nothing
# else. Its sleep was on the critical path, so all of it is saved, until something else is on the
# path.
#
# Which part of its time would the step take then? Compare with what you have just seen.

# %%
lab.ask("straggler")
lab.reveal("straggler")

# %% [markdown]
# ## Hidden communication
#
# The next run waits for each of its collectives. It could compute meanwhile: a unit may be gathered
# while the one before it computes, and a gradient be reduced while the next one is made.
#
# What if it did? How long a wait is says how much there is to gain at the most; what can be
# computed meanwhile says how much of that there is.

# %%
lab.replay("serial/stage-3", at="forward compute blocks.1")
lab.ask("overlap")
lab.show("changes", "slow/stage-3", "serial/stage-3")
lab.reveal("overlap")

# %% [markdown]
# ## How far to trust it
#
# What a change does to the rest is not in a recording. Two ranks on one machine share its
# processors: if one computes while the other communicates, both become slower. A graph that is
# timed again knows nothing of that, and promises too much.
#
# The same training was recorded with overlap, too. Both runs are measured. Which of the two was
# shorter, what was promised or what happened, can differ from machine to machine; so look here.

# %%
lab.ask("trust")
lab.reveal("trust")

# %%
lab.end()
