# A lesson of zerosim in percent format: `python lessons/lesson19_fault_lab.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson19_fault_lab")

# %% [markdown]
# # The fault lab
#
# Here are five runs, each with a fault on one of its ranks. On a cluster you would have a log for
# each rank, and most of these logs would say only that their rank was waiting. Which rank is at
# fault?
#
# For each case you see evidence from every rank, such as what it called last and how its file
# ended. Name the faulty rank. Then record the run again, with the fault injected by its command,
# and let `zerosim diagnose` give its own answer. It reads the trace, not the command.

# %% [markdown]
# ## Case A: an abort
#
# This run uses ZeRO-2. It ended in backward with an error on some ranks, and the file of one rank
# has no final row. The library aborts when a message does not have the expected size. The rank
# that aborts can be the one at fault, or a rank that communicated with it.
#
# Compare the calls: all ranks of a group should make the same calls in the same order. Which rank
# deviates?

# %%
lab.show("endings", "case-a/stage-2")
lab.ask("a")

# %%
lab.record("case-a/stage-2")

# %%
lab.show("verdict", "case-a/stage-2")
lab.reveal("a")

# %% [markdown]
# ## Case B: errors everywhere but here
#
# This run uses ZeRO-1. Two ranks report the same error: a connection was lost while they waited in
# the update. Both logs have a long stack trace. The third log contains no error at all.
#
# Which rank broke the run?

# %%
lab.show("endings", "case-b/stage-1")
lab.ask("b")

# %%
lab.record("case-b/stage-1")

# %%
lab.show("verdict", "case-b/stage-1")
lab.reveal("b")

# %% [markdown]
# ## Case C: a run that learns nothing
#
# This run uses ZeRO-3. No rank failed, and the command succeeded. All messages had the right size.
# But from the second iteration on, the loss is not what it should be.
#
# Each rank made every call the right number of times. And yet the ranks differ. The model
# determines which calls a rank makes first in forward, and the model is the same on all ranks.
# Here are the first calls of the second iteration.

# %%
lab.show("orders", "case-c/stage-3")
lab.ask("c")

# %%
lab.record("case-c/stage-3")

# %%
lab.show("verdict", "case-c/stage-3")
lab.reveal("c")

# %% [markdown]
# ## Case D: only slow
#
# ZeRO-3 again. All results are right, but each step takes far longer than it should. The figure
# shows where the time of each rank went in the last step.
#
# Two ranks spent most of it in collectives. So the network is slow, says a colleague. Is that
# right?

# %%
lab.show("budget", "case-d/stage-3")
lab.ask("d")

# %%
lab.record("case-d/stage-3")

# %%
lab.show("verdict", "case-d/stage-3")
lab.reveal("d")

# %% [markdown]
# ## Case E: nothing to see
#
# This run uses ZeRO-1. Nothing failed, nothing is slow, the loss falls as it should, and all
# claims about the traffic hold. But one bit of one parameter has flipped on one rank.
#
# Calls and endings do not reveal this fault. But the ranks recorded checksums of their tensors.
# What must you examine in such a run to find the fault?

# %%
lab.show("endings", "case-e/stage-1")
lab.ask("e")

# %%
lab.record("case-e/stage-1")

# %%
lab.show("verdict", "case-e/stage-1")
lab.reveal("e")

# %%
lab.end()
