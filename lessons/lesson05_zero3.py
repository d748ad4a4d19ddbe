# A lesson of zerosim in percent format: `python lessons/lesson05_zero3.py` runs it, an editor opens
# it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from lessons.lab import Lab

lab = Lab("lesson05_zero3")

# %% [markdown]
# # ZeRO-3: gather when needed
#
# Until now every rank held all the parameters. In stage 3 it holds its own share of each layer,
# and nothing else. So before a block can compute, its shards must come together: an all-gather. As
# soon as the output is there, the shards of the others are dropped again.
#
# Backward needs the same weights once more, and they are gone. They are gathered a second time;
# then the gradient is reduced to its owner, as in stage 2.

# %%
lab.replay("ring/stage-3", at="forward gather blocks.2")

# %% [markdown]
# ## What does it cost?
#
# Three collectives touch each parameter in one step. Predict before you run: count the pieces
# that one rank sends.

# %%
lab.ask("sent")

# %%
lab.record("ring/stage-3")

# %%
lab.show("traffic", "ring/stage-3")
lab.reveal("sent")

# %%
lab.end()
