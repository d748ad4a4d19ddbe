# A lesson of zerosim in percent format: `python lessons/lesson08_overlap.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson08_overlap")

# %% [markdown]
# # Overlap, prefetch and the critical path
#
# Bytes are not time. A program may send a great deal and lose nothing by it, if it computes
# meanwhile; and it may send little and stall for long. So far you have counted bytes, which
# are the same in every run. From here on you look at clocks, and they are not.
#
# There are three ways to stall less: communicate less often, communicate while computing,
# and begin earlier than needed. You will try each of them. And there is one loss that none of them
# helps against. Watch how gathering and computing go on side by side.

# %%
lab.replay("overlap/stage-3", at="forward compute blocks.1")

# %% [markdown]
# ## Less often, by accumulating
#
# A step may be made of several micro-steps, each a forward and a backward on a small batch; their
# gradients are added up, and there is one update in the end. It looks as if the communication of a
# step were now paid once for several batches.
#
# That depends on what a rank is able to keep between two micro-steps. Adding up needs room for the
# sum. Who has room for a whole gradient, and who has room for a share only? And who has to gather
# the parameters anew each time? Count for ZeRO-2, in payload.

# %%
lab.ask("accumulate")

# %%
lab.show("traffic", "accumulate/stage-2", "accumulate/stage-3")
lab.reveal("accumulate")

# %% [markdown]
# ## Earlier, by prefetching
#
# In ZeRO-3 a block cannot compute before it is gathered. If its gather begins when the block's
# turn has come, everybody stalls for all of it. But the order of the blocks is known since
# the first iteration. So the next gather can begin while the present block computes.
#
# Like everything that is begun early, it takes up room for longer. `--prefetch` says how many units
# are gathered ahead of the one that computes, and you can vary it. Predict what is gathered at the
# fullest moment; the runs of the next step will tell.

# %%
lab.ask("ahead")

# %% [markdown]
# ## Meanwhile, by overlapping
#
# Now both runs: one communicates in a thread of its own while the program computes, the other one
# with `--no-overlap` waits for each collective. Everything else is the same, and so are the
# losses, to the last bit.
#
# Say what you expect of the bytes, and of the time for which the ranks are stalled. Then compare.
# Exposed is communication during which the program is stalled, hidden is the rest of it. Look
# at the time of the whole step last: is it shorter by as much as was hidden?

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
# ## The one who waits
#
# Here is the loss that no overlap hides. In this run one rank is slow: before each layer of its
# forward it sleeps for a moment, as it would if others used its processor as well. The run is real
# and was recorded beforehand, with `torchrun` and `lessons/programs/slow_rank.py`.
#
# The figure has the time for which each rank computes, sleep and all. Nothing is said of waiting
# yet. Ranks meet in every collective, and none of them can leave before all have come. So click
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
# What should you make faster, then? Go back from the end of the step to what it was ready last
# for, and from there to what that was ready last for, until you are at the beginning. This chain
# is the critical path: the only time whose saving makes the step shorter. Everything beside it has
# slack.
#
# A rank that waits for another is never on the path; the other one is. Scheduling is no such wait:
# one thread was done, and the next had not yet started. Compare the causes: in which of the three
# runs would a faster network help, and in which would it not?

# %%
lab.show("path", "overlap/stage-3", "serial/stage-3", "slow/stage-3")

# %% [markdown]
# A faster network shortens the part that is called communication, and nothing else. For the slow
# run ask what its rank computes; the others will be in time anyway.

# %%
lab.end()
