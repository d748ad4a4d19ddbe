# A lesson of zerosim in percent format: `python lessons/lesson19_fault_lab.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson19_fault_lab")

# %% [markdown]
# # The fault lab
#
# Five runs, each with something wrong on one of its ranks. On a cluster you would have a log for
# each rank, and most of them would say that they were waiting. Who was it?
#
# Of each case you see what every rank called last and how its file ended. Say who is at fault. Then
# the run is recorded anew, with the fault in its command, and `zerosim diagnose` says what it
# thinks. It reads the trace and not the command.

# %% [markdown]
# ## Case A: an abort
#
# ZeRO-2. The run ended in backward, with an error on some ranks, and one rank's file stops without
# a last row. An abort comes from the library when a message has another size than it expected. That
# can be the rank that is at fault, or one that met it.
#
# Compare the calls: all ranks of a group make the same ones, in the same order. Who is elsewhere?

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
# ZeRO-1. Two ranks have the same error: a connection was lost while they waited, in the update. It
# is in both logs, with a long stack. The third log has nothing at all.
#
# Who broke the run?

# %%
lab.show("endings", "case-b/stage-1")
lab.ask("b")

# %%
lab.record("case-b/stage-1")

# %%
lab.show("verdict", "case-b/stage-1")
lab.reveal("b")

# %% [markdown]
# ## Case C: it ended, and learned nothing
#
# ZeRO-3. No rank failed, and the command ended with success. All messages had the right size. But
# from the second iteration on the loss is not what it should be.
#
# Each rank made every call as often as it should. And yet they differ. Which calls a rank makes
# first in forward follows from its model, and the model is the same on all. Here are those of
# the second iteration.

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
# ZeRO-3 again. All is right, but each step takes far longer than it should. The figure shows where
# the time of each rank went in the last one.
#
# Two ranks have spent most of it in collectives. So the network is slow, says a colleague. What do
# you say?

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
# ZeRO-1. Nothing failed, nothing is slow, the loss falls as it should, and all claims about its
# traffic hold. One bit in one parameter has flipped on one rank.
#
# Nobody can guess this one from calls and endings. The ranks were told to write down checksums of
# what they hold. Where must such a run be looked at to find it?

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
