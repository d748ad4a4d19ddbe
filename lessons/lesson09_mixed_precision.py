# A lesson of zerosim in percent format: `python lessons/lesson09_mixed_precision.py` runs it, an
# editor opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson09_mixed_precision")

# %% [markdown]
# # Mixed precision and loss scaling
#
# Forward and backward do not need many digits: half precision is enough for them, halves the
# traffic and speeds up the arithmetic. The update is another matter, and so are very small and very
# large gradients. Mixed precision solves both problems, and the ZeRO stages partition and
# communicate the tensors that it needs.
#
# Watch a step of a small model in fp16, on two ranks with ZeRO-2. Go to the update: before anything
# is updated, the ranks exchange one small message. By the end of this lesson you will know its
# content, and why no rank may decide alone.

# %%
lab.replay("fp16/stage-2", at="update")

# %% [markdown]
# ## Half the memory?
#
# Parameters and gradients are now in half precision, so each takes half the memory. You might
# conclude that training takes half the memory, and many texts say so.
#
# But recall the first lesson: the sixteen bytes of a parameter. Which of them exist only because of
# mixed precision, and would not exist if everything were kept in fp32? Count both sides, with Adam,
# on a single rank.

# %%
lab.ask("half")

# %%
lab.show("precisions")
lab.reveal("half")

# %% [markdown]
# ## Why a master copy
#
# The optimizer keeps its own fp32 copy of each weight and updates that; the weights that forward
# and backward use are rounded from it. Why not update the half-precision weight directly, and save
# the copy?
#
# Because an update is small compared with its weight. Between one and two, bf16 has only as many
# values as seven bits can distinguish, and a number between two of them is rounded to the nearer
# one. Try it with the learning rate that the lessons train with, for a weight of one. What is left
# of the update?

# %%
lab.ask("rounded")
lab.reveal("rounded")

# %% [markdown]
# ## Too small, too large
#
# fp16 has more digits than bf16, but less range. Gradients are often so small that they would
# become zero, so the loss is first multiplied by a large number, the loss scale, and the gradients
# are divided by it before the update. If the scale is too large, some gradient becomes infinite
# instead: an overflow.
#
# The right scale is unknown beforehand, and it changes during training. So it is found by trial.
# The run that you are about to start has a learning rate that is deliberately much too high, so
# that its gradients grow. Predict how its scale changes.

# %%
lab.ask("scale")

# %% [markdown]
# ## All or none
#
# Overflowed gradients are useless, and the step is skipped. But in ZeRO-2 each rank sees only its
# own shards of the sum. It is quite possible that a single rank finds an infinite value while all
# the others see nothing unusual. The ranks must decide now, because otherwise each of them would
# update its shard.
#
# Predict what the ranks do, and what such a step sends. Then run it, and read the table line by
# line.

# %%
lab.ask("who")
lab.ask("sent")

# %%
lab.record("fp16/stage-2")

# %%
lab.show("scaling", "fp16/stage-2")
lab.reveal("scale")
lab.reveal("who")
lab.reveal("sent")

# %%
lab.end()
