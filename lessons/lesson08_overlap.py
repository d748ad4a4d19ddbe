# A lesson of zerosim in percent format: `python lessons/lesson08_overlap.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson08_overlap")

# %% [markdown]
# # Overlap, prefetch and the critical path
#
# Bytes are not time. A program can send many bytes and lose no time if it computes meanwhile. It
# can also send few bytes and stall for a long time. So far you have counted bytes, which are the
# same in every run. From here on you read clocks, and these differ from run to run.
#
# There are three ways to reduce stalls: communicate less often, communicate while computing, and
# begin earlier than needed. You will try each of them. One kind of stall remains that none of them
# prevents. Watch gathering and computing go on side by side.

# %%
lab.replay("overlap/stage-3", at="forward compute blocks.1")

# %% [markdown]
# ## Less often: accumulation
#
# A step may consist of several micro-steps, each a forward and a backward on a small batch; their
# gradients are added up, and there is one update at the end. It seems that several batches now need
# the communication of only one step.
#
# That depends on what a rank can keep between two micro-steps. A sum needs memory. Which stage has
# memory for a whole gradient, and which for only a share? And which has to gather the parameters
# anew each time? Count the payload of ZeRO-2.

# %%
lab.ask("accumulate")

# %%
lab.show("traffic", "accumulate/stage-2", "accumulate/stage-3")
lab.reveal("accumulate")

# %% [markdown]
# ## Earlier: prefetching
#
# In ZeRO-3 a block cannot compute before it is gathered. If its gather begins only when it is the
# block's turn, every rank stalls for the whole gather. But the order of the blocks is known after
# the first iteration. So the next gather can begin while the current block computes.
#
# But a unit that is gathered earlier takes memory for longer. `--prefetch` sets how many units are
# gathered ahead of the one that computes, and you can vary it. Predict how much is gathered at the
# peak; the runs of the next step will show it.

# %%
lab.ask("ahead")

# %% [markdown]
# ## At the same time: overlap
#
# Now compare two runs: one communicates in a separate thread while the program computes, and the
# other, with `--no-overlap`, waits for each collective. Everything else is the same, and so are the
# losses, to the last bit.
#
# Predict the bytes, and the time for which the ranks are stalled. Then compare. Communication
# during which the program is stalled is called exposed; the rest is hidden. Look at the time of the
# whole step last: is it shorter by as much as was hidden?

# %%
lab.ask("bytes")
lab.ask("exposed")

# %%
lab.record("overlap/stage-3", "serial/stage-3")

# %%
lab.show("overlap", "overlap/stage-3", "serial/stage-3")
lab.reveal("ahead")
lab.reveal("bytes")
lab.reveal("exposed")

# %% [markdown]
# ## The rank that waits
#
# Here is the stall that overlap cannot hide. In this run one rank is slow: before each layer of its
# forward it sleeps for a moment, as if other programs were using its processor as well. The run is
# real and was recorded beforehand, with `torchrun` and `lessons/programs/slow_rank.py`.
#
# The figure shows how long each rank computes, including the sleep. It does not show waiting yet.
# The ranks meet in every collective, and none of them can leave before all have arrived. So click
# the rank that waits.

# %%
lab.show("compute", "slow/stage-3")
lab.ask("waits")

# %%
lab.show("budget", "slow/stage-3")
lab.reveal("waits")

# %% [markdown]
# ## The critical path
#
# What should you make faster, then? Start at the end of the step and go back to the last event
# that it waited for, then to the last event that this one waited for, and so on to the beginning.
# This chain is the critical path: only time saved on it makes the step shorter. Everything off it
# has slack.
#
# While a rank waits for another, it is not on the path; the other one is. Scheduling is different:
# one thread has finished, and the next has not yet started. Compare the causes: in which of the
# three runs would a faster network help, and in which would it not?

# %%
lab.show("path", "overlap/stage-3", "serial/stage-3", "slow/stage-3")

# %% [markdown]
# A faster network shortens only the part that is labelled communication. In the slow run, look at
# the computations of the slow rank; the other ranks have slack.

# %%
lab.end()
