# A lesson of zerosim in percent format: `python lessons/lesson17_what_if.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson17_what_if")

# %% [markdown]
# # What if?
#
# A faster network, a faster processor, a colleague who repairs the slow machine: which of them
# would make a step shorter, and by how much? You can answer this without new hardware. A recorded
# run shows which event waited for which, and how long each took. So its times can be recomputed
# after one change.
#
# The run is the one with the slow rank, which sleeps during forward. Every time in the figure below
# is predicted, except the first one in each row, which is measured.

# %%
lab.replay("slow/stage-3", at="forward compute hidden.1")

# %% [markdown]
# ## A faster network
#
# The other rank waits in nearly every collective, and in its timeline all collectives look slow.
# You might blame the network. Suppose the network carried ten times as many bytes in a second.
#
# The order of events does not change: a collective still begins only when its last rank has
# arrived. The only difference is that the bytes then move faster. What fraction of its present time
# would the step take?

# %%
lab.ask("network")
lab.reveal("network")

# %% [markdown]
# ## Without the slow rank
#
# Now suppose that the slow rank computes as fast as the other one, and that nothing else changes.
# Its sleep was on the critical path, so all of that time is saved, unless something else moves
# onto the path first.
#
# How long would the step take then? Compare with what you have just seen.

# %%
lab.ask("straggler")
lab.reveal("straggler")

# %% [markdown]
# ## Hidden communication
#
# The next run waits for each of its collectives to finish. It could compute meanwhile: a unit can
# be gathered while the one before it computes, and a gradient can be reduced while the next one is
# computed.
#
# What if it did so? The time spent waiting is roughly the upper limit of the gain. How much of it
# is really saved depends on how much can be computed meanwhile.

# %%
lab.replay("serial/stage-3", at="forward compute blocks.1")
lab.ask("overlap")
lab.show("changes", "slow/stage-3", "serial/stage-3")
lab.reveal("overlap")

# %% [markdown]
# ## How far to trust it
#
# A recording does not show how a change affects everything else. Two ranks on one machine share its
# processors: if one computes while the other communicates, both become slower. The prediction
# ignores this effect and may promise too much.
#
# The same training was also recorded with overlap, so its measured time is known. Whether the
# predicted time or the measured one is shorter can differ from machine to machine; see which was
# shorter on this one.

# %%
lab.ask("trust")
lab.reveal("trust")

# %%
lab.end()
